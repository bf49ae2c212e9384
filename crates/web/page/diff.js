/** Diffs: the change of a file as hunks, with the changed part of a line marked. */

import { h, icon } from './dom.js';
import { sentence } from './notice.js';

/**
 * @typedef {import('./types').Change} Change
 * @typedef {import('./types').Hunk} Hunk
 */

/** Longest line whose changed part is marked, in characters. */
const LONGEST = 500;

/**
 * Makes the view of a change.
 * @param {Change} change
 * @param {{undo?: (button: HTMLButtonElement) => void, undoLabel?: string, open?: boolean, most?: number, onOpen?: (path: string) => void}} [options]
 */
export function changeView(change, options = {}) {
  // A command that ran outside of the sandbox: nobody knows what it changed.
  if (!change.path) return h('p', { class: 'muted small note' }, sentence(change.note ?? ''));
  const kind = { created: 'new', deleted: 'deleted', changed: '' }[change.kind] ?? change.kind;
  const name = options.onOpen && change.kind !== 'deleted'
    ? h('button', { type: 'button', class: 'path link', onclick: () => options.onOpen?.(change.path) }, change.path)
    : h('span', { class: 'path' }, change.path);
  const undo = options.undo && h('button', {
    type: 'button', class: 'quiet small', title: 'Put the file back as it was before',
    onclick: (/** @type {Event} */ event) => options.undo?.(/** @type {HTMLButtonElement} */ (event.currentTarget)),
  }, icon('undo'), options.undoLabel ?? 'Undo');
  return h('figure', { class: 'diff' },
    h('figcaption', null, name, kind && h('span', { class: 'tag' }, kind), counts(change.added, change.removed), h('span', { class: 'grow' }), undo),
    hunks(change, options.most ?? Infinity));
}

/**
 * Makes `+3 −1`.
 * @param {number} added
 * @param {number} removed
 */
export function counts(added, removed) {
  return h('span', { class: 'counts' },
    added > 0 && h('span', { class: 'plus' }, `+${added}`), added > 0 && removed > 0 && ' ', removed > 0 && h('span', { class: 'minus' }, `−${removed}`));
}

/**
 * @param {Change} change
 * @param {number} most
 */
function hunks(change, most) {
  const box = h('div', { class: 'hunks', tabindex: 0, role: 'group', 'aria-label': `Changes of ${change.path}` });
  let left = most;
  let hidden = change.more ?? 0;
  for (const [at, hunk] of (change.hunks ?? []).entries()) {
    const shown = hunk.lines.slice(0, Math.max(0, left));
    hidden += hunk.lines.length - shown.length;
    left -= shown.length;
    if (!shown.length) continue;
    if (at > 0 || hunk.head) box.append(h('div', { class: 'hunk-head' }, hunk.head ?? '⋯'));
    addLines(box, { ...hunk, lines: shown });
  }
  if (change.note) box.append(h('div', { class: 'hunk-head' }, change.note));
  if (hidden > 0) box.append(h('div', { class: 'hunk-head' }, `… ${hidden} more lines`));
  return box.childNodes.length ? box : null;
}

/**
 * @param {HTMLElement} box
 * @param {Hunk} hunk
 */
function addLines(box, hunk) {
  let before = hunk.old;
  let after = hunk.new;
  const lines = hunk.lines;
  for (let at = 0; at < lines.length; at += 1) {
    const [sign, text] = /** @type {[string, string]} */ (lines[at]);
    const number = sign === '-' ? before : after;
    const other = partner(lines, at);
    const words = other === undefined ? [text] : marked(text, other);
    box.append(h('div', { class: sign === '+' ? 'l plus' : sign === '-' ? 'l minus' : 'l' },
      h('span', { class: 'no', 'aria-hidden': 'true' }, number), h('span', { class: 'sign' }, sign), h('span', { class: 'code' }, words)));
    if (sign !== '+') before += 1;
    if (sign !== '-') after += 1;
  }
}

/**
 * Returns the line that this one was changed into or from: in a run of as many removed as added lines, the one at the same place.
 * @param {[string, string][]} lines
 * @param {number} at
 */
function partner(lines, at) {
  const sign = lines[at]?.[0];
  if (sign !== '+' && sign !== '-') return undefined;
  let from = at;
  while (from > 0 && lines[from - 1]?.[0] !== ' ') from -= 1;
  let minus = from;
  while (lines[minus]?.[0] === '-') minus += 1;
  let plus = minus;
  while (lines[plus]?.[0] === '+') plus += 1;
  if (minus - from !== plus - minus) return undefined;
  return lines[sign === '-' ? at + (minus - from) : at - (minus - from)]?.[1];
}

/**
 * @param {string} text
 * @param {string} other
 * @returns {import('./dom.js').Child[]}
 */
function marked(text, other) {
  if (text.length > LONGEST || other.length > LONGEST || text === other) return [text];
  const most = Math.min(text.length, other.length);
  let head = 0;
  while (head < most && text[head] === other[head]) head += 1;
  let tail = 0;
  while (tail < most - head && text.at(-1 - tail) === other.at(-1 - tail)) tail += 1;
  // A line that has nothing in common is marked as a whole by its color.
  if (head + tail < 3) return [text];
  return [text.slice(0, head), h('mark', null, text.slice(head, text.length - tail)), text.slice(text.length - tail)];
}
