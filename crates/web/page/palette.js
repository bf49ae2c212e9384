/** The command palette: finds sessions and commands by a few letters. And the list of keys. */

import { h, fill } from './dom.js';
import { me } from './api.js';
import { ago } from './format.js';
import { live } from './live.js';
import { applyTheme, prefer } from './preferences.js';
import { go } from './router.js';

/** @typedef {{label: string, hint?: string, keys?: string, run: () => unknown}} Command */

const MOST = 60;

/** @returns {Command[]} */
function ownCommands() {
  return [
    ...(me.may('say') ? [{ label: 'New session', keys: 'n', run: () => go('new') }] : []),
    { label: 'What waits for you', keys: 'g a', run: () => go('approvals') }, { label: 'Triggers', run: () => go('triggers') }, { label: 'Groups of agents', run: () => go('groups') },
    { label: 'Settings', keys: 'g s', run: () => go('settings') }, { label: 'Keys', keys: '?', run: openKeys },
    ...[['light', 'Light colors'], ['dark', 'Dark colors'], ['', 'Colors as the system']].map(([value, label]) => ({ label: /** @type {string} */ (label), run: () => { prefer('theme', value ?? ''); applyTheme(); } })),
  ];
}

/**
 * Opens the palette.
 * @param {Command[]} more commands of what is on the screen
 */
export function openPalette(more) {
  const commands = [...more, ...ownCommands()];
  let at = 0;
  /** @type {Command[]} */
  let shown = [];
  const input = h('input', { type: 'text', role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'palette-list', 'aria-autocomplete': 'list', 'aria-label': 'Find a session or a command', placeholder: 'Find a session or a command', autocomplete: 'off', oninput: () => { at = 0; draw(); } });
  const list = h('ul', { id: 'palette-list', role: 'listbox', 'aria-label': 'Found' });
  const dialog = h('dialog', { class: 'palette', 'aria-label': 'Commands', onclose: () => dialog.remove(), onclick: (/** @type {Event} */ event) => { if (event.target === dialog) dialog.close(); }, onkeydown: (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) at = (at + by + shown.length) % Math.max(1, shown.length);
    else if (event.key === 'Enter') run(shown[at]);
    else return;
    event.preventDefault();
    draw();
  } }, input, list);
  const run = (/** @type {Command | undefined} */ it) => {
    if (!it) return;
    dialog.close();
    it.run();
  };
  const draw = () => {
    const words = input.value.toLowerCase().trim();
    const sessions = [...live.sessions.values()].sort((a, b) => b.used_ms - a.used_ms).map((it) => ({ label: it.title || it.first || 'New session', hint: ago(it.used_ms), run: () => go('session', it.id) }));
    const all = words ? [...commands, ...sessions] : [...commands.slice(0, 8), ...sessions.slice(0, 12)];
    shown = all.map((it) => ({ it, score: score(it.label.toLowerCase(), words) })).filter((it) => it.score > 0).sort((a, b) => b.score - a.score).map(({ it }) => /** @type {Command} */ (it)).slice(0, MOST);
    fill(list, shown.map((it, n) => h('li', { role: 'option', id: `found-${n}`, 'aria-selected': String(n === at), onclick: () => run(it) }, h('span', { class: 'grow' }, it.label), it.hint && h('span', { class: 'muted small' }, it.hint), it.keys && h('kbd', null, it.keys))));
    if (!shown.length) fill(list, h('li', { role: 'option', 'aria-selected': 'false', 'aria-disabled': 'true', class: 'muted' }, 'Nothing is found.'));
    input.setAttribute('aria-activedescendant', shown.length ? `found-${at}` : '');
    list.children[at]?.scrollIntoView({ block: 'nearest' });
  };
  document.body.append(dialog);
  dialog.showModal();
  draw();
}

/**
 * Returns how well a label fits: 0 where letters are missing.
 * @param {string} label
 * @param {string} words
 */
function score(label, words) {
  if (!words) return 1;
  const at = label.indexOf(words);
  if (at >= 0) return 1000 - at - label.length / 100 + (at === 0 ? 100 : 0);
  let from = 0;
  for (const letter of words) {
    from = label.indexOf(letter, from) + 1;
    if (from === 0) return 0;
  }
  return 100 - from;
}

const KEYS = [
  ['Everywhere', [['Ctrl K', 'find a session or a command'], ['/', 'search sessions'], ['n', 'new session'], ['g a', 'what waits for you'], ['g s', 'settings'], ['?', 'these keys']]],
  ['In a session', [['c', 'write'], ['Enter', 'send; open a card'], ['Shift Enter', 'a new line'], ['Ctrl .', 'stop the turn'], ['j k', 'next and previous entry'], ['Shift g', 'to the newest'], ['p', 'panel'], ['u', 'undo the newest change'], ['a', 'to what waits for you'], ['Esc', 'out of the field']]],
  ['An approval in focus', [['1', 'allow once'], ['2', 'for this session'], ['3', 'for this workspace'], ['0', 'refuse']]],
];

/** Shows the list of keys. */
export function openKeys() {
  const dialog = h('dialog', { class: 'sheet', 'aria-labelledby': 'keys-title', onclose: () => dialog.remove(), onclick: (/** @type {Event} */ event) => { if (event.target === dialog) dialog.close(); } },
    h('header', null, h('h2', { id: 'keys-title' }, 'Keys'), h('button', { type: 'button', class: 'quiet', onclick: () => dialog.close() }, 'Close')),
    h('div', { class: 'keys' }, KEYS.map(([title, rows]) => h('section', null, h('h3', null, String(title)), h('dl', null, /** @type {string[][]} */ (rows).map(([key, what]) => [h('dt', null, key?.split(' ').map((it) => [h('kbd', null, it), ' '])), h('dd', null, what)]))))));
  document.body.append(dialog);
  dialog.showModal();
}
