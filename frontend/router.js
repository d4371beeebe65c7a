// Where we are: `#/page/part/part?name=value`. The server knows one document, so any address can be reloaded.
import { useEffect, useState } from "./view.js";

/** The address of a page; every part and value may hold anything. */
export function href(page, parts = [], query = {}) {
  const path = [page, ...parts].map(encodeURIComponent).join("/");
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return `#/${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

export function go(page, parts, query, { replace = false } = {}) {
  const address = href(page, parts, query);
  if (replace) {
    history.replaceState(null, "", address);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}

/** `{page, parts, query}` of the address bar, as it changes. */
export function useRoute() {
  const [route, setRoute] = useState(currentRoute);
  useEffect(() => {
    const changed = () => setRoute(currentRoute());
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return route;
}

export function currentRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page = "", ...parts] = path.split("/").map(decoded);
  return { page, parts: parts.filter(Boolean), query: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
