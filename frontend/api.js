// The public API: JSON calls, and answers as server-sent events. Pages speak to the server through this file alone.
import { lostConnection } from "./connection.js";
import { kept } from "./kept.js";
import { readEvents } from "./sse.js";

/** What the server said in place of an answer. `message` is for people. */
export class ApiError extends Error {
  constructor(status, { code = "http_error", message, field = null, id = null } = {}) {
    super(message || `The server answered ${status}.`);
    this.status = status;
    this.code = code;
    this.field = field;
    this.id = id;
  }
}

let whenKeyIsWanted = () => {};

/** `listener` is called whenever a request is refused for want of a key. */
export function onKeyWanted(listener) {
  whenKeyIsWanted = listener;
}

/** A path of the API; each part is encoded, so that an id may hold anything. */
export function apiPath(...parts) {
  return `api/v1/${parts.map(encoded).join("/")}`;
}

/** Browsers take "." and ".." out of an address however they are written: such a path is marked, and refused by `send`. */
const encoded = (part) => (part === "." || part === ".." ? part.replaceAll(".", "%2E") : encodeURIComponent(part));
const NO_ADDRESS = /\/(%2E){1,2}(\/|$)/;

/** `get(apiPath("threads"), {limit: 10})`. Parameters that are null, undefined or "" are left out. */
export const get = (path, query, options) => call("GET", path, { query, ...options });
export const post = (path, body, options) => call("POST", path, { body, ...options });
export const patch = (path, body, options) => call("PATCH", path, { body, ...options });
export const put = (path, body, options) => call("PUT", path, { body, ...options });
export const remove = (path, query, options) => call("DELETE", path, { query, ...options });

/** An answer that is a file. */
export async function getBlob(path, query, options) {
  return (await send("GET", path, { query, ...options })).blob();
}

async function call(method, path, options = {}) {
  const response = await send(method, path, options);
  if (response.headers.get("content-type")?.startsWith("application/json")) return response.json();
  return response.text();
}

/** The events of an answer as `{id, event, data}`; `options` as of a call, with `method`. */
export async function* events(path, { method = "GET", ...options } = {}) {
  const response = await send(method, path, options);
  try {
    yield* readEvents(response.body);
  } catch (error) {
    if (!options.signal?.aborted) lostConnection();
    throw error;
  }
}

/** The lines of an answer, each parsed from JSON. `options` as of a call, or with a `file`, which is sent as it is. */
export async function* lines(path, options) {
  const response = await send("POST", path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let ended = false; !ended; ) {
    const { done, value = "" } = await reader.read();
    const whole = (text + value).split("\n");
    text = whole.pop();
    for (const line of whole) yield JSON.parse(line);
    ended = done;
  }
}

async function send(method, path, { query, body, file, headers, signal } = {}) {
  if (NO_ADDRESS.test(path)) throw new ApiError(0, { code: "no_address", message: "This chat is from before ids like “.” and “..” were refused: no address can hold it. It can be read and deleted with curl --path-as-is." });
  const request = { method, signal, cache: "no-store", headers: { ...headers } };
  const key = kept("key");
  if (key) request.headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) {
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  if (file) {
    request.headers["Content-Type"] = "application/octet-stream";
    request.body = file;
  }
  let response;
  try {
    response = await fetch(withQuery(path, query), request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    lostConnection();
    throw new ApiError(0, { code: "unreachable", message: "The server doesn't answer. Is it running?" });
  }
  if (response.ok) return response;
  if (response.status === 401) whenKeyIsWanted();
  throw await refusal(response);
}

function withQuery(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  if (!given.length) return path;
  const pairs = new URLSearchParams();
  for (const [name, value] of given) for (const each of [value].flat()) pairs.append(name, each);
  return `${path}?${pairs}`;
}

async function refusal(response) {
  try {
    const { error } = await response.json();
    return new ApiError(response.status, error);
  } catch {
    return new ApiError(response.status);
  }
}
