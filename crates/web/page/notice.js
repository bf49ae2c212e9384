/** Notices: short lines at the edge of the page, also read by screen readers; and buttons that copy. */

import { h, icon } from './dom.js';
import { Fault } from './api.js';

const polite = h('div', { class: 'notices', role: 'status', 'aria-live': 'polite' });

/** Puts the place for notices into the page. */
export function mountNotices() {
  document.body.append(polite);
}

/**
 * Shows a line for some seconds.
 * @param {string} text
 * @param {{bad?: boolean, next?: string, action?: {label: string, run: () => void}}} [options]
 */
export function notice(text, options = {}) {
  const close = () => node.remove();
  const node = h('div', { class: options.bad ? 'notice bad' : 'notice' },
    h('div', null, text, options.next && h('div', { class: 'next' }, options.next)),
    options.action && h('button', { type: 'button', class: 'quiet', onclick: () => { options.action?.run(); close(); } }, options.action.label),
    h('button', { type: 'button', class: 'icon-button', 'aria-label': 'Dismiss', onclick: close }, icon('close')));
  // Over an open dialog, notices belong into it: all else is inert then.
  const dialog = [...document.querySelectorAll('dialog[open]')].pop();
  (dialog ?? document.body).append(polite);
  polite.append(node);
  while (polite.children.length > 4) polite.firstChild?.remove();
  setTimeout(close, options.bad ? 15_000 : 5_000);
}

/**
 * Shows an error: what happened, and what to do next.
 * @param {unknown} error
 */
export function failed(error) {
  if (error instanceof DOMException && error.name === 'AbortError') return;
  if (error instanceof Fault) {
    if (error.status !== 401) notice(sentence(error.message), { bad: true, next: error.next });
    return;
  }
  console.error(error);
  notice(`The page failed: ${error instanceof Error ? error.message : String(error)}`, { bad: true, next: 'Reload it. If that does not help, please report this line.' });
}

/**
 * Returns the text with a capital, as a sentence begins.
 * @param {string} text
 */
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * Runs something that may fail, and shows the failure. The button that began it can't be pressed meanwhile.
 * @param {() => Promise<unknown>} work
 * @param {HTMLButtonElement | null} [button]
 */
export async function attempt(work, button) {
  if (button) button.disabled = true;
  try {
    await work();
    return true;
  } catch (error) {
    failed(error);
    return false;
  } finally {
    if (button) button.disabled = false;
  }
}

/**
 * Makes a button that copies a text.
 * @param {string} label
 * @param {() => string} text
 */
export function copyButton(label, text) {
  return h('button', { type: 'button', class: 'icon-button copy', 'aria-label': label, title: label, onclick: () => copy(text()) }, icon('copy'));
}

/** @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    notice('Copied');
  } catch {
    notice('The browser does not let this page copy', { bad: true, next: 'Select the text and copy it with the keyboard.' });
  }
}

/**
 * Makes the sentence for an empty or failed place.
 * @param {string} what
 * @param {string} [next]
 */
export function empty(what, next) {
  return h('div', { class: 'empty' }, h('p', null, what), next && h('p', { class: 'muted' }, next));
}

/**
 * Makes the box for an error in place.
 * @param {unknown} error
 * @param {() => void} [again]
 */
export function faultBox(error, again) {
  const fault = error instanceof Fault ? error : new Fault(0, { what: error instanceof Error ? error.message : String(error) });
  return h('div', { class: 'fault', role: 'alert' }, h('p', null, sentence(fault.message)), fault.next && h('p', { class: 'next' }, fault.next),
    again && h('button', { type: 'button', onclick: again }, 'Try again'));
}
