/** CSV files as tables. */

import { h } from './dom.js';
import { plural } from './format.js';

const ROWS = 500;
const COLUMNS = 60;

/**
 * Parses CSV (RFC 4180); the delimiter is the one that the first line has most of.
 * @param {string} text
 * @param {number} most rows
 * @returns {string[][]}
 */
export function parseCsv(text, most) {
  const first = text.slice(0, text.search(/\r?\n|$/));
  const delimiter = [',', ';', '\t', '|'].reduce((best, it) => (first.split(it).length > first.split(best).length ? it : best), ',');
  const rows = [];
  let row = [];
  let cell = '';
  let quoted = false;
  for (let at = 0; at < text.length && rows.length < most; at += 1) {
    const it = text[at];
    if (quoted) {
      if (it !== '"') cell += it;
      else if (text[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else quoted = false;
    } else if (it === '"' && cell === '') quoted = true;
    else if (it === delimiter || it === '\n') {
      row.push(it === '\n' ? cell.replace(/\r$/, '') : cell);
      cell = '';
      if (it === '\n') {
        rows.push(row);
        row = [];
      }
    } else cell += it;
  }
  if (rows.length < most && (cell || row.length)) rows.push([...row, cell]);
  return rows;
}

/** @param {string} text */
export function csvTable(text) {
  const rows = parseCsv(text, ROWS + 1);
  const [head = [], ...body] = rows;
  const isNumber = (/** @type {string} */ it) => it !== '' && !Number.isNaN(Number(it.replace(',', '.')));
  return h('div', null,
    h('div', { class: 'table-scroll', tabindex: 0, role: 'group', 'aria-label': 'Table' }, h('table', { class: 'csv' },
      h('thead', null, h('tr', null, head.slice(0, COLUMNS).map((it) => h('th', { scope: 'col' }, it)))),
      h('tbody', null, body.map((row) => h('tr', null, row.slice(0, COLUMNS).map((it) => h('td', { class: isNumber(it) ? 'align-right' : null }, it))))))),
    rows.length > ROWS && h('p', { class: 'muted small' }, `The first ${plural(ROWS, 'row')} are shown.`));
}
