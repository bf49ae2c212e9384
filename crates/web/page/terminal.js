/** Output of commands: lines of styled spans. */

import { h } from './dom.js';

/**
 * @typedef {import('./types').Line} Line
 * @typedef {import('./types').Color} Color
 */

/**
 * Makes the nodes of lines.
 * @param {Line[]} lines
 * @returns {Node[]}
 */
export function lineNodes(lines) {
  return lines.map((line) => h('span', { class: 'term-line' }, line.map(span), '\n'));
}

/** @param {import('./types').Span} it */
function span(it) {
  const plain = it.fg === undefined && it.bg === undefined && !it.b && !it.d && !it.i && !it.u && !it.inv;
  if (plain) return document.createTextNode(it.s);
  const names = [it.b && 'bold', it.d && 'dim', it.i && 'italic', it.u && 'underline', it.inv && 'inverse'].filter(Boolean);
  const node = h('span', { class: names.join(' ') || null }, it.s);
  paint(node, 'color', it.fg);
  paint(node, 'background-color', it.bg);
  return node;
}

/**
 * @param {HTMLElement} node
 * @param {string} property
 * @param {Color | undefined | null} color
 */
function paint(node, property, color) {
  if (color === undefined || color === null) return;
  node.style.setProperty(property, typeof color === 'number' ? palette(color) : color);
}

/**
 * Returns a color of the palette of 256. The first 16 follow the theme.
 * @param {number} index
 */
function palette(index) {
  if (index < 16) return `var(--term-${index})`;
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return `rgb(${grey} ${grey} ${grey})`;
  }
  const at = index - 16;
  const part = (/** @type {number} */ value) => (value ? 55 + value * 40 : 0);
  return `rgb(${part(Math.floor(at / 36))} ${part(Math.floor(at / 6) % 6)} ${part(at % 6)})`;
}

/**
 * Makes the box of an output; it can be scrolled by keyboard.
 * @param {string} label
 * @param {...import('./dom.js').Child} children
 */
export function outputBox(label, ...children) {
  return h('pre', { class: 'output', tabindex: 0, role: 'group', 'aria-label': label }, children);
}
