/** Menus that open at a button: arrows move, Escape closes, focus returns to the button. */

import { h } from './dom.js';

/** @typedef {{label: string, hint?: string, bad?: boolean, run: () => unknown}} MenuItem */

/** @type {(() => void) | null} */
let closeOpen = null;

/**
 * Opens a menu at a button, or closes the one that is open there.
 * @param {HTMLElement} button
 * @param {(MenuItem | false | null | undefined)[]} items
 */
export function openMenu(button, items) {
  const wasOpen = button.getAttribute('aria-expanded') === 'true';
  closeOpen?.();
  if (wasOpen) return;
  const close = (back = true) => {
    node.remove();
    button.removeAttribute('aria-expanded');
    document.removeEventListener('pointerdown', outside, true);
    closeOpen = null;
    if (back) button.focus();
  };
  const rows = items.filter((it) => !!it).map((it) => h('button', {
    type: 'button', role: 'menuitem', tabindex: -1, class: it.bad ? 'bad' : null, onclick: () => { close(); it.run(); },
  }, h('span', null, it.label), it.hint && h('span', { class: 'hint' }, it.hint)));
  const node = h('div', { class: 'menu', role: 'menu', onkeydown: (/** @type {KeyboardEvent} */ event) => {
    const at = rows.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) rows.at(to % rows.length)?.focus();
    else if (event.key === 'Escape' || event.key === 'Tab') close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  } }, rows);
  /** @param {Event} event */
  const outside = (event) => {
    if (!node.contains(/** @type {Node} */ (event.target)) && !button.contains(/** @type {Node} */ (event.target))) close(false);
  };
  closeOpen = () => close(false);
  document.addEventListener('pointerdown', outside, true);
  button.setAttribute('aria-expanded', 'true');
  // In the landmark of its button.
  (button.closest('dialog, main') ?? document.body).append(node);
  const box = button.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.right - node.offsetWidth, innerWidth - node.offsetWidth - 8));
  const below = box.bottom + 4 + node.offsetHeight < innerHeight - 8;
  node.style.left = `${left}px`;
  node.style.top = `${below ? box.bottom + 4 : Math.max(8, box.top - node.offsetHeight - 4)}px`;
  rows[0]?.focus();
}

/**
 * Asks whether something is to be done that can't be taken back.
 * @param {string} question
 * @param {string} consequence
 * @param {string} action
 * @returns {Promise<boolean>}
 */
export function confirm(question, consequence, action) {
  return new Promise((resolve) => {
    const no = h('button', { type: 'button', onclick: () => dialog.close() }, 'Keep it');
    const dialog = h('dialog', { class: 'small-dialog', 'aria-labelledby': 'confirm-title', onclose: () => { resolve(dialog.returnValue === 'yes'); dialog.remove(); } },
      h('h2', { id: 'confirm-title' }, question), h('p', { class: 'muted' }, consequence),
      h('div', { class: 'buttons' }, no, h('button', { type: 'button', class: 'danger', onclick: () => dialog.close('yes') }, action)));
    document.body.append(dialog);
    dialog.showModal();
    no.focus();
  });
}

/**
 * Asks for a line of text; null if the person does not want to.
 * @param {string} label
 * @param {string} value
 * @param {string} action
 * @returns {Promise<string | null>}
 */
export function prompt(label, value, action) {
  return new Promise((resolve) => {
    const input = h('input', { type: 'text', id: 'prompt-input', value });
    const dialog = h('dialog', { class: 'small-dialog', 'aria-label': label, onclose: () => { resolve(dialog.returnValue === 'yes' ? input.value : null); dialog.remove(); } },
      h('form', { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); dialog.close('yes'); } },
        h('label', { for: 'prompt-input' }, label), input,
        h('div', { class: 'buttons' }, h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'), h('button', { class: 'primary' }, action))));
    document.body.append(dialog);
    dialog.showModal();
    input.select();
  });
}
