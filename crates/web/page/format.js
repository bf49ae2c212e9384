/** Times, sizes and counts in words. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * Returns how long something took: `340 ms`, `2.4 s`, `3 min 5 s`.
 * @param {number} ms
 */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < MINUTE) return `${Math.round(ms / 1000)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ${Math.round((ms % MINUTE) / 1000)} s`;
  return `${Math.floor(ms / HOUR)} h ${Math.round((ms % HOUR) / MINUTE)} min`;
}

/**
 * Returns when something was, seen from now: `now`, `4 min`, `2 h`, `Tue`, `3 Nov`.
 * @param {number} at in milliseconds since 1970
 */
export function ago(at) {
  const past = Date.now() - at;
  if (past < MINUTE) return 'now';
  if (past < HOUR) return `${Math.floor(past / MINUTE)} min`;
  if (past < DAY) return `${Math.floor(past / HOUR)} h`;
  const date = new Date(at);
  if (past < 6 * DAY) return date.toLocaleDateString(undefined, { weekday: 'short' });
  return date.toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
}

/**
 * Returns the time of day, with the date if that is not today.
 * @param {number} at in milliseconds since 1970
 */
export function clock(at) {
  const date = new Date(at);
  const time = date.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.toLocaleDateString(undefined, { day: 'numeric', month: 'short' })}, ${time}`;
}

/**
 * Returns when something will be: `in 4 min`, `in 2 h`, else the date and time.
 * @param {number} at in milliseconds since 1970
 */
export function until(at) {
  const left = at - Date.now();
  if (left <= 0) return 'due';
  if (left < MINUTE) return `in ${Math.ceil(left / 1000)} s`;
  if (left < HOUR) return `in ${Math.ceil(left / MINUTE)} min`;
  if (left < DAY) return `in ${Math.round(left / HOUR)} h`;
  return clock(at);
}

/**
 * Returns a size: `12 bytes`, `3.4 kB`, `2.0 MB`.
 * @param {number} bytes
 */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} ${bytes === 1 ? 'byte' : 'bytes'}`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let value = bytes / 1000;
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

/**
 * Returns a count in short: `820`, `12.3k`, `1.2M`.
 * @param {number} count
 */
export function short(count) {
  if (count < 1000) return String(count);
  if (count < 1e6) return `${count < 1e5 ? (count / 1000).toFixed(1) : Math.round(count / 1000)}k`;
  return `${(count / 1e6).toFixed(1)}M`;
}

/**
 * Returns dollars, with more digits where there is little: `$0.0042`, `$1.27`.
 * @param {number} dollars
 */
export function money(dollars) {
  if (dollars === 0) return '$0';
  return dollars < 0.01 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
}

/**
 * Returns a count with its noun: `1 file`, `3 files`.
 * @param {number} count
 * @param {string} noun
 * @param {string} [many]
 */
export function plural(count, noun, many) {
  return `${count.toLocaleString()} ${count === 1 ? noun : many ?? `${noun}s`}`;
}

/**
 * Returns the text cut to some characters, in one line.
 * @param {string} text
 * @param {number} most
 */
export function line(text, most) {
  const flat = text.replace(/\s+/g, ' ').trim();
  return flat.length > most ? `${flat.slice(0, most - 1)}…` : flat;
}

/**
 * Returns the name of a file without its folders.
 * @param {string} path
 */
export function baseName(path) {
  return path.replace(/\/+$/, '').split('/').pop() ?? path;
}

/** @param {string} sandbox */
export function sandboxWords(sandbox) {
  return { workspace: 'sandboxed', 'read-only': 'reads only', full: 'no sandbox' }[sandbox] ?? `sandbox: ${sandbox}`;
}

/**
 * Returns the sandboxes up to the widest, the narrowest first.
 * @param {string} [widest]
 */
export function sandboxes(widest) {
  const all = ['read-only', 'workspace', 'full'];
  return all.slice(0, all.indexOf(widest ?? '') + 1);
}
