// Runs before the page is drawn, so that a chosen theme doesn't flash.
(() => {
  try {
    const theme = localStorage.getItem("recollect.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // A browser that keeps nothing for this site has no chosen theme either: the system's is used.
  }
})();
