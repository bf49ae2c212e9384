/** A small box at a button, with anything in it. Escape and a click outside close it. */

import { h } from './dom.js';

/**
 * @param {HTMLElement} button
 * @param {string} title
 * @param {(body: HTMLElement, close: () => void) => void} build
 */
export function openPopover(button, title, build) {
  const body = h('div', { class: 'popover-body' });
  const node = h('dialog', { class: 'popover', 'aria-label': title, onclose: () => { node.remove(); button.focus(); }, onclick: (/** @type {Event} */ event) => { if (event.target === node) node.close(); } },
    h('h2', null, title), body);
  document.body.append(node);
  build(body, () => node.close());
  node.showModal();
  const box = button.getBoundingClientRect();
  if (innerWidth > 640) {
    node.style.left = `${Math.max(8, Math.min(box.left, innerWidth - node.offsetWidth - 8))}px`;
    const below = box.bottom + 6 + node.offsetHeight < innerHeight;
    node.style.top = `${below ? box.bottom + 6 : Math.max(8, box.top - node.offsetHeight - 6)}px`;
  }
}
