/** What this browser remembers: appearance, how much is shown, what was read. */

const PREFIX = 'haft.';

/**
 * @param {string} name
 * @returns {string}
 */
export function preference(name) {
  try {
    return localStorage.getItem(PREFIX + name) ?? '';
  } catch {
    return '';
  }
}

/**
 * @param {string} name
 * @param {string} value
 */
export function prefer(name, value) {
  try {
    if (value) localStorage.setItem(PREFIX + name, value);
    else localStorage.removeItem(PREFIX + name);
  } catch {
    // A browser that stores nothing forgets.
  }
}

/** Applies the choice of light or dark. */
export function applyTheme() {
  const theme = preference('theme');
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

/** The newest row of each session that was on the screen. @type {Record<string, number>} */
let seen = {};
try {
  seen = JSON.parse(preference('seen') || '{}');
} catch {
  seen = {};
}

/**
 * @param {string} session
 * @param {number} head
 */
export function markSeen(session, head) {
  if ((seen[session] ?? -1) >= head) return;
  seen[session] = head;
  const names = Object.keys(seen);
  if (names.length > 2000) for (const name of names.slice(0, 500)) delete seen[name];
  prefer('seen', JSON.stringify(seen));
}

/**
 * Returns whether there is something in a session that this browser has not shown. A session that it never showed counts as read.
 * @param {string} session
 * @param {number | undefined} head
 */
export function isUnread(session, head) {
  const known = seen[session];
  return known !== undefined && head !== undefined && head > known;
}
