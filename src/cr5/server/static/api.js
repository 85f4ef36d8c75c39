// The server's API: requests, cached responses, errors and the API key.

import { pointerReleased } from "./pointer.js";

export const TIMEOUT = 35_000; // milliseconds to wait for a response
const CACHE_LIFETIME = 300_000; // milliseconds; makes Back instant
const CACHE_SIZE = 200; // responses
const KEY_NAME = "cr5-key"; // in the session storage

export class ApiError extends Error {
  /** `status` is 0 if the server cannot be reached; `retryAfter` are seconds. */
  constructor(message, status = 0, retryAfter = 0) {
    super(message);
    Object.assign(this, { status, retryAfter });
  }
}

/** What the index contains, once `loadInfo` has fetched it. */
export let info = { documents: {}, languages: [], measures: ["csls", "cosine"], examples: [] };

export async function loadInfo() {
  info = { ...info, ...(await fetchJson("info")) };
}

export const documentCount = () => Object.values(info.documents).reduce((sum, count) => sum + count, 0);

/** A path with its parameters; empty ones are left out. */
export function withParameters(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => ![undefined, null, ""].includes(value));
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

const cache = new Map(); // path -> {time, content}

/** The content of a response, or an `ApiError`.
 *
 * Waits until no pointer button is down, because the result changes the page.
 */
export async function fetchJson(path, signal) {
  try {
    return await fetchNow(path, signal);
  } finally {
    await pointerReleased();
  }
}

async function fetchNow(path, signal) {
  const cached = cache.get(path);
  if (cached && Date.now() - cached.time < CACHE_LIFETIME) return cached.content;
  const timeout = AbortSignal.timeout(TIMEOUT);
  let response, content;
  try {
    response = await fetch(path, {
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      headers: { Accept: "application/json", ...(apiKey() ? { "X-API-Key": apiKey() } : {}) },
    });
    content = await response.json().catch((error) => {
      if (error instanceof SyntaxError) return null;
      throw error;
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    if (error.name === "TimeoutError") throw new ApiError("The server took too long to answer.", 504);
    throw new ApiError("The server cannot be reached. Is it still running? This page keeps trying.");
  }
  if (!response.ok || content === null) {
    const message = typeof content?.error === "string" ? content.error : null;
    const text = message ?? `The server answered with status ${response.status}.`;
    throw new ApiError(text, response.status, Number(response.headers.get("Retry-After")) || 0);
  }
  cache.set(path, { time: Date.now(), content });
  if (cache.size > CACHE_SIZE) cache.delete(cache.keys().next().value);
  return content;
}

/** Whether the server responds at all, even with an error. */
export async function isReachable() {
  try {
    await fetch("health", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) });
    return true;
  } catch {
    return false;
  }
}

// The session storage may be forbidden; then the page asks for the key again.

export function apiKey() {
  try {
    return sessionStorage.getItem(KEY_NAME);
  } catch {
    return null;
  }
}

export function storeApiKey(key) {
  try {
    sessionStorage.setItem(KEY_NAME, key);
  } catch {
    /* the page works without */
  }
}
