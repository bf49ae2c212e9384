/** Markdown: makes nodes from the tree that the server parsed. */

import { h } from './dom.js';
import { copyButton } from './notice.js';

/**
 * @typedef {import('./types').Block} Block
 * @typedef {import('./types').Inline} Inline
 */

/**
 * Makes the nodes of blocks.
 * @param {Block[]} blocks
 * @returns {Node[]}
 */
export function blockNodes(blocks) {
  return blocks.map(block);
}

/**
 * @param {Block} it
 * @returns {Node}
 */
function block(it) {
  if (typeof it === 'string') return document.createTextNode(it);
  switch (it.t) {
    case 'p':
      return h('p', null, inlines(it.c));
    case 'h':
      // In the outline they are below the person's words, whichever level the model began with.
      return h('h3', { class: `md-h${it.n}` }, inlines(it.c));
    case 'quote':
      return h('blockquote', null, blockNodes(it.c));
    case 'code':
      return code(it.s, it.lang);
    case 'ul':
      return h('ul', null, it.c.map(item));
    case 'ol':
      return h('ol', { start: it.start ?? 1 }, it.c.map(item));
    case 'item':
      return h('ul', null, item(it));
    case 'table':
      return table(it);
    case 'hr':
      return h('hr');
    case 'raw':
      return h('pre', { class: 'raw' }, it.s);
    default:
      // A newer server's kind of block is a kind of text, too.
      return inline(/** @type {any} */ (it));
  }
}

/** @param {import('./types').Item} it */
function item(it) {
  const isTask = it.check !== undefined && it.check !== null;
  return h('li', { class: isTask ? 'task' : null },
    isTask && h('span', { class: 'check', role: 'img', 'aria-label': it.check ? 'done' : 'to do' }, it.check ? '☑' : '☐'), it.c.map(inItem));
}

/**
 * An item of a tight list has its text without a paragraph: a `code` without line breaks is a part of that text.
 * @param {Block} it
 */
function inItem(it) {
  const isInline = typeof it !== 'string' && (it.t === 'code' || it.t === 'raw') && !('lang' in it && it.lang) && !it.s.includes('\n');
  return isInline ? inline(/** @type {Inline} */ (it)) : block(it);
}

/**
 * @param {string} text
 * @param {string} [language]
 */
function code(text, language) {
  return h('figure', { class: 'code' },
    h('figcaption', null, h('span', null, language ?? ''), copyButton('Copy code', () => text)),
    h('pre', { tabindex: 0, 'aria-label': language ? `Code, ${language}` : 'Code', role: 'group' }, h('code', null, text)));
}

/** @param {Extract<Block, {t: 'table'}>} it */
function table(it) {
  /** @param {number} at */
  const align = (at) => (it.align[at] ? `align-${it.align[at]}` : null);
  return h('div', { class: 'table-scroll', tabindex: 0, role: 'group', 'aria-label': 'Table' }, h('table', null,
    h('thead', null, h('tr', null, it.head.map((cell, at) => h('th', { class: align(at), scope: 'col' }, inlines(cell))))),
    h('tbody', null, it.rows.map((row) => h('tr', null, row.map((cell, at) => h('td', { class: align(at) }, inlines(cell))))))));
}

/**
 * @param {Inline[]} all
 * @returns {Node[]}
 */
function inlines(all) {
  return all.map(inline);
}

/**
 * @param {Inline} it
 * @returns {Node}
 */
function inline(it) {
  if (typeof it === 'string') return document.createTextNode(it);
  switch (it.t) {
    case 'em':
    case 'strong':
    case 'del':
      return h(it.t, null, inlines(it.c));
    case 'code':
      return h('code', null, it.s);
    case 'a':
      return it.href ? outside(it.href, inlines(it.c), it.title) : h('span', null, inlines(it.c));
    case 'img':
      return it.href ? outside(it.href, [it.alt || it.href]) : document.createTextNode(it.alt);
    case 'br':
      return h('br');
    case 'raw':
      return document.createTextNode(it.s);
    default: {
      const other = /** @type {{c?: Inline[], s?: string}} */ (it);
      return h('span', null, other.s ?? inlines(other.c ?? []));
    }
  }
}

/**
 * Makes a link that leads elsewhere.
 * @param {string} href
 * @param {import('./dom.js').Child[]} children
 * @param {string} [title]
 */
export function outside(href, children, title) {
  return h('a', { href, title: title || href, target: '_blank', rel: 'noopener noreferrer' }, children);
}
