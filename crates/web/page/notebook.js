/** Jupyter notebooks: cells with their outputs. HTML outputs are never shown as HTML; their text is. */

import { h } from './dom.js';

/**
 * Makes the view of a notebook.
 * @param {string} text the file
 */
export function notebookView(text) {
  const book = JSON.parse(text);
  const cells = Array.isArray(book.cells) ? book.cells : [];
  return h('div', { class: 'notebook' }, cells.map((/** @type {any} */ it) => {
    const source = joined(it.source);
    const outputs = Array.isArray(it.outputs) ? it.outputs : [];
    const count = typeof it.execution_count === 'number' ? it.execution_count : ' ';
    return h('section', { class: `cell ${it.cell_type === 'code' ? 'code' : 'words'}` },
      h('span', { class: 'no muted' }, it.cell_type === 'code' ? `[${count}]` : ''),
      h('div', null, h('pre', { class: 'source' }, source), outputs.map(output)));
  }));
}

/** @param {any} it */
function output(it) {
  if (it.output_type === 'stream') return h('pre', { class: 'output' }, joined(it.text));
  if (it.output_type === 'error') return h('pre', { class: 'output bad' }, `${it.ename}: ${it.evalue}`);
  const data = it.data ?? {};
  for (const mime of ['image/png', 'image/jpeg']) {
    if (data[mime]) return h('img', { src: blobAddress(joined(data[mime]), mime), alt: joined(data['text/plain'] ?? 'Picture'), loading: 'lazy' });
  }
  const text = data['text/plain'] ?? data['text/markdown'] ?? data['text/html'];
  return text === undefined ? null : h('pre', { class: 'output' }, joined(text));
}

/** @param {unknown} text */
function joined(text) {
  return Array.isArray(text) ? text.join('') : String(text ?? '');
}

/**
 * @param {string} base64
 * @param {string} mime
 */
function blobAddress(base64, mime) {
  try {
    const bytes = Uint8Array.from(atob(base64.trim()), (it) => it.charCodeAt(0));
    return URL.createObjectURL(new Blob([bytes], { type: mime }));
  } catch {
    return '';
  }
}
