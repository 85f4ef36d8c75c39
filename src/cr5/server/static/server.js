// The server: what it holds, how it is asked, and how it fails.

import { still } from "./still.js";

export const PATIENCE = 35_000; // milliseconds to wait for an answer
const FRESH = 300_000; // milliseconds that an answer is kept for, so that Back is instant
const MANY = 200; // answers that are kept
const KEY = "cr5-key";

export class Failure extends Error {
  constructor(message, status = 0, wait = 0) {
    super(message);
    Object.assign(this, { status, wait });
  }
}

/** What the index holds, once `inquire` has asked. */
export let info = { documents: {}, languages: [], measures: ["csls", "cosine"], examples: [] };

export async function inquire() {
  info = { ...info, ...(await ask("info")) };
}

export const total = () => Object.values(info.documents).reduce((sum, count) => sum + count, 0);

/** A path with those of the values that are given. */
export function address(path, values) {
  const given = Object.entries(values).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

const kept = new Map(); // path -> {time, answer}

/** What the server answers; or a `Failure`. Both change the page, so they wait until nothing is pressed. */
export async function ask(path, signal) {
  try {
    return await answered(path, signal);
  } finally {
    await still();
  }
}

async function answered(path, signal) {
  const known = kept.get(path);
  if (known && Date.now() - known.time < FRESH) return known.answer;
  const limit = AbortSignal.timeout(PATIENCE);
  let response, answer;
  try {
    response = await fetch(path, {
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      headers: { Accept: "application/json", ...(key() ? { "X-API-Key": key() } : {}) },
    });
    answer = await response.json().catch((error) => {
      if (error instanceof SyntaxError) return null;
      throw error;
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    if (error.name === "TimeoutError") throw new Failure("The server took too long to answer.", 504);
    throw new Failure("The server cannot be reached. Is it still running? This page keeps trying.");
  }
  if (!response.ok || answer === null) {
    const said = typeof answer?.error === "string" ? answer.error : `The server answered with status ${response.status}.`;
    throw new Failure(said, response.status, Number(response.headers.get("Retry-After")) || 0);
  }
  kept.set(path, { time: Date.now(), answer });
  if (kept.size > MANY) kept.delete(kept.keys().next().value);
  return answer;
}

/** Whether anything answers, be it a refusal. */
export async function reachable() {
  try {
    await fetch("health", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    return true;
  } catch {
    return false;
  }
}

// Storage may be forbidden: then the key is asked for again.

export function key() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function keepKey(value) {
  try {
    sessionStorage.setItem(KEY, value);
  } catch {
    /* the page works without */
  }
}
