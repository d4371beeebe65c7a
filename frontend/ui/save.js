// Saving what was fetched as a file of the reader: a link alone would send no key.

/** What a name of a file may not hold is left out. */
export function saveAs(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[\s\\/:*?"<>|\p{Cc}]+/gu, " ").trim();
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
