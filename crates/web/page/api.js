/** The client of the API: requests, errors, and who is signed in. */

/**
 * @typedef {import('./types').Role} Role
 * @typedef {import('./types').Info} Info
 * @typedef {import('./types').Session} Session
 * @typedef {import('./types').Row} Row
 */

const BASE = '/api/v1/';

/** An answer that is not a success: what happened, and what to do next. */
export class Fault extends Error {
  /**
   * @param {number} status the HTTP status; 0 where the server could not be reached
   * @param {{kind?: string, what?: string, next?: string, winner?: string}} body
   */
  constructor(status, body) {
    super(body.what ?? `the server answered ${status}`);
    this.status = status;
    this.kind = body.kind ?? 'failed';
    this.next = body.next ?? '';
    this.winner = body.winner ?? '';
  }
}

/** Called when a request finds that nobody is signed in. @type {() => void} */
let onSignedOut = () => {};

/** @param {() => void} then */
export function whenSignedOut(then) {
  onSignedOut = then;
}

/**
 * Sends a request and returns the answer.
 * @param {string} method
 * @param {string} path below `/api/v1/`
 * @param {{body?: unknown, raw?: Blob, key?: string, signal?: AbortSignal, quiet?: boolean}} [options]
 * @returns {Promise<Response>}
 */
export async function send(method, path, options = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (method !== 'GET') headers['X-Haft'] = '1';
  if (options.key) headers['Idempotency-Key'] = options.key;
  /** @type {BodyInit | undefined} */
  let body = options.raw;
  // Of any type: a JSON file is not a JSON request.
  if (options.raw) headers['Content-Type'] = 'application/octet-stream';
  else if (method !== 'GET' && method !== 'DELETE') {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(options.body ?? {});
  }
  let response;
  try {
    response = await fetch(BASE + path, { method, headers, body, signal: options.signal, credentials: 'same-origin' });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Fault(0, { kind: 'unavailable', what: 'haft does not answer', next: 'Check that `haft serve` runs; this page goes on when it does.' });
  }
  if (response.ok) return response;
  if (response.status === 401 && !options.quiet) onSignedOut();
  const text = await response.text();
  let said;
  try {
    said = JSON.parse(text).error;
  } catch {
    said = undefined;
  }
  throw new Fault(response.status, said ?? { what: text.slice(0, 300) || `the server answered ${response.status}` });
}

/**
 * Requests JSON.
 * @template T
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export async function get(path, signal) {
  return (await send('GET', path, { signal })).json();
}

/**
 * Sends JSON and returns the JSON of the answer. A request that got no answer is repeated with the same idempotency key: it is done once.
 * @template T
 * @param {string} path
 * @param {unknown} [body]
 * @param {string} [method]
 * @returns {Promise<T>}
 */
export async function post(path, body, method = 'POST') {
  const key = newKey();
  for (let tries = 0; ; tries += 1) {
    try {
      const response = await send(method, path, { body, key });
      return response.status === 204 ? /** @type {T} */ (null) : await response.json();
    } catch (error) {
      if (!(error instanceof Fault) || error.status !== 0 || tries === 4) throw error;
      await new Promise((resolve) => setTimeout(resolve, 300 * 2 ** tries));
    }
  }
}

/** Returns a new idempotency key. `randomUUID` is missing where the page came without TLS from another machine. */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (it) => it.toString(16).padStart(2, '0')).join('');
}

/**
 * Returns a path made of parts that are escaped, with a query.
 * @param {string[]} parts
 * @param {Record<string, string | number | boolean | undefined>} [query]
 */
export function path(parts, query) {
  const where = parts.map(encodeURIComponent).join('/');
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined && value !== '') search.set(name, String(value));
  return search.size ? `${where}?${search}` : where;
}

/**
 * Returns the address of something of this server, for a picture or a link.
 * @param {string[]} parts
 * @param {Record<string, string | number | boolean | undefined>} [query]
 */
export function address(parts, query) {
  return BASE + path(parts, query);
}

const ROLES = ['view', 'say', 'approve', 'own'];

/** The person at this browser, and what this server has. */
class Me {
  constructor() {
    /** @type {Info | null} */
    this.info = null;
  }

  /**
   * Returns whether the person may do what needs this role.
   * @param {Role} role
   */
  may(role) {
    return !!this.info && ROLES.indexOf(this.info.role) >= ROLES.indexOf(role);
  }

  /** @param {string | undefined} id */
  workspace(id) {
    const all = this.info?.workspaces ?? [];
    return all.find((it) => it.id === id) ?? all[0];
  }

  /** @param {string} feature */
  has(feature) {
    return !!this.info?.features.includes(feature);
  }
}

export const me = new Me();
