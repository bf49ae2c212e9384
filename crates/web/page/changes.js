/** What a session changed: its whole effect as a diff, and each call with its own undo. */

import { h, fill } from './dom.js';
import { get, me, post } from './api.js';
import { changeView, counts } from './diff.js';
import { ago, plural } from './format.js';
import { prompt } from './menu.js';
import { attempt, empty, faultBox, notice } from './notice.js';

/**
 * @typedef {import('./types').Change} Change
 * @typedef {import('./types').ChangingCall} ChangingCall
 * @typedef {import('./room.js').Room} Room
 */

/**
 * Shows the changes of a session in a panel.
 * @param {Room} room
 * @param {HTMLElement} body
 */
export function changesPanel(room, body) {
  let seen = -1;
  let closed = false;
  let byCall = false;
  const load = async () => {
    try {
      const [{ files }, { calls }] = await Promise.all([
        /** @type {Promise<{files: Change[]}>} */ (get(room.at('diff'))), /** @type {Promise<{calls: ChangingCall[]}>} */ (get(room.at('changes'))),
      ]);
      // A note without a file is last.
      if (!closed) draw(files.toSorted((a, b) => Number(!a.path) - Number(!b.path)), calls);
    } catch (error) {
      if (!closed) fill(body, faultBox(error, load));
    }
  };
  /**
   * @param {Change[]} files
   * @param {ChangingCall[]} calls
   */
  const draw = (files, calls) => {
    if (!calls.length && !files.length) {
      fill(body, empty('Nothing is changed.', 'Files that the agent or its commands change are shown here, each with an undo.'));
      return;
    }
    const added = files.reduce((sum, it) => sum + it.added, 0);
    const removed = files.reduce((sum, it) => sum + it.removed, 0);
    const tab = (/** @type {boolean} */ value, /** @type {string} */ label) => h('button', { type: 'button', 'aria-pressed': String(byCall === value), onclick: () => { byCall = value; draw(files, calls); } }, label);
    fill(body,
      h('div', { class: 'panel-bar' }, h('div', { class: 'segments', role: 'group', 'aria-label': 'Group changes' }, tab(false, plural(files.filter((it) => it.path).length, 'file')), tab(true, plural(calls.length, 'call'))),
        counts(added, removed), h('span', { class: 'grow' }), me.may('approve') && files.length > 0 && !byCall && h('button', { type: 'button', class: 'small', onclick: () => commit(room, files.filter((it) => it.path)) }, 'Commit…')),
      byCall ? calls.map((it) => callChanges(it, room)) : files.length
        ? files.map((it) => changeView(it, { undo: me.may('approve') ? (button) => room.undo({ file: it.path }, button) : undefined, undoLabel: 'Undo newest', most: 400, onOpen: room.openFile }))
        : empty('All changes were put back.', 'Under calls you can redo one.'));
  };
  return {
    update: () => {
      if (seen === room.fold.ends) return;
      seen = room.fold.ends;
      void load();
    },
    close: () => {
      closed = true;
    },
  };
}

/**
 * @param {ChangingCall} it
 * @param {Room} room
 */
function callChanges(it, room) {
  const undo = me.may('approve') && h('button', { type: 'button', class: 'quiet small', onclick: (/** @type {Event} */ event) => room.undo({ call: it.call }, /** @type {HTMLButtonElement} */ (event.currentTarget)) }, it.undoes ? 'Redo' : 'Undo');
  return h('section', { class: it.undone ? 'call-changes undone' : 'call-changes' },
    h('header', null, h('strong', null, it.tool), h('span', { class: 'muted' }, ago(it.at_ms)), it.undone && h('span', { class: 'tag' }, 'put back'), it.undoes && h('span', { class: 'tag' }, 'an undo'), h('span', { class: 'grow' }), !it.undone && undo),
    it.files.map((file) => changeView(file, { most: 40, onOpen: room.openFile })));
}

/**
 * Commits the files of a session by a command in its sandbox, which a person approves as any other.
 * @param {Room} room
 * @param {Change[]} files
 */
async function commit(room, files) {
  const message = await prompt(`Commit ${plural(files.length, 'file')} with this message`, room.fold.title || room.session?.title || '', 'Commit');
  if (!message?.trim()) return;
  const quoted = (/** @type {string} */ text) => `'${text.replaceAll("'", "'\\''")}'`;
  const paths = files.map((it) => quoted(it.path)).join(' ');
  await attempt(async () => {
    await post(room.at('command'), { command: `git add -A -- ${paths} && git commit -m ${quoted(message.trim())} -- ${paths}` });
    notice('The commit runs; the conversation shows how it ends');
  });
}
