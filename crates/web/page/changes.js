/** The changes of a session: its whole effect as a diff, each call with its own undo, and the diff against the newest commit. */

import { h, fill } from './dom.js';
import { get, me, post } from './api.js';
import { changeView, counts } from './diff.js';
import { ago, plural } from './format.js';
import { attempt, empty, faultBox, notice } from './notice.js';

/**
 * @typedef {import('./types').Change} Change
 * @typedef {import('./types').ChangingCall} ChangingCall
 * @typedef {import('./types').HeadDiff} HeadDiff
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
  /** @type {'files' | 'calls' | 'head'} */
  let shown = 'files';
  const load = async () => {
    try {
      const [{ files }, { calls }] = await Promise.all([
        /** @type {Promise<{files: Change[]}>} */ (get(room.at('diff'))), /** @type {Promise<{calls: ChangingCall[]}>} */ (get(room.at('changes'))),
      ]);
      // A note without a file is last.
      if (!closed && shown === 'head') await head();
      else if (!closed) draw(files.toSorted((a, b) => Number(!a.path) - Number(!b.path)), calls);
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
    fill(body, bar(plural(files.filter((it) => it.path).length, 'file'), plural(calls.length, 'call'), counts(added, removed)),
      shown === 'calls' ? calls.map((it) => callChanges(it, room)) : files.length
        ? files.map((it) => changeView(it, { undo: me.may('approve') ? (button) => room.undo({ file: it.path }, button) : undefined, undoLabel: 'Undo newest', most: 400, onOpen: room.openFile }))
        : empty('All changes were put back.', 'Under calls you can redo one.'));
  };
  const words = { files: '', calls: '' };
  /**
   * @param {string} files
   * @param {string} calls
   * @param {import('./dom.js').Child} beside
   */
  const bar = (files, calls, beside) => {
    Object.assign(words, { files, calls });
    const tab = (/** @type {typeof shown} */ value, /** @type {string} */ label) => h('button', { type: 'button', 'aria-pressed': String(shown === value), onclick: () => { shown = value; void load(); } }, label);
    return h('div', { class: 'panel-bar' }, h('div', { class: 'segments', role: 'group', 'aria-label': 'Group changes' }, tab('files', files), tab('calls', calls), tab('head', 'Against HEAD')), beside);
  };
  /** Shows the difference to the newest commit. */
  const head = async () => {
    try {
      const it = /** @type {HeadDiff} */ (await get(`${room.at('diff')}${room.at('diff').includes('?') ? '&' : '?'}against=head`));
      if (!closed) fill(body, bar(words.files || 'Files', words.calls || 'Calls', h('span', { class: 'muted small' }, it.branch ? `${it.branch} · ` : '', h('code', null, it.commit.slice(0, 8)))), headView(it, room, load));
    } catch (error) {
      if (!closed) fill(body, bar(words.files || 'Files', words.calls || 'Calls', null), faultBox(error));
    }
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
 * The difference to the newest commit, with a form that commits files: those of the session are chosen at first.
 * @param {HeadDiff} it
 * @param {Room} room
 * @param {() => Promise<void>} again
 */
function headView(it, room, again) {
  if (!it.files.length && !it.others.length) return empty('Nothing differs from the newest commit.');
  const chosen = new Set(it.files.map((one) => one.path));
  const button = h('button', { class: 'primary' });
  const count = () => {
    button.disabled = !chosen.size;
    button.textContent = `Commit ${plural(chosen.size, 'file')}`;
  };
  count();
  const box = (/** @type {{path: string, kind: string}} */ one) => h('li', null, h('label', null,
    h('input', { type: 'checkbox', checked: chosen.has(one.path), onchange: (/** @type {Event} */ event) => {
      if (/** @type {HTMLInputElement} */ (event.currentTarget).checked) chosen.add(one.path);
      else chosen.delete(one.path);
      count();
    } }), h('span', { class: 'path' }, one.path), one.kind !== 'changed' && h('span', { class: 'tag' }, one.kind === 'created' ? 'new' : one.kind)));
  const message = h('textarea', { id: 'commit-message', rows: 2, required: true }, room.fold.title || room.session?.title || '');
  const form = h('form', { class: 'commit', onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    void attempt(async () => {
      const done = /** @type {{commit: string, text: string}} */ (await post(room.at('commit'), { message: message.value.trim(), paths: [...chosen] }));
      notice(`Committed as ${done.commit.slice(0, 8)}`);
      await again();
    }, button);
  } }, h('label', { for: 'commit-message' }, 'Message of the commit'), message, h('ul', { class: 'choices', 'aria-label': 'Files to commit' }, it.files.filter((one) => one.path).map(box)),
    it.others.length > 0 && h('details', null, h('summary', null, `${plural(it.others.length, 'other file')} that differ${it.others.length === 1 ? 's' : ''}`), h('ul', { class: 'choices', 'aria-label': 'Other files' }, it.others.map(box))), button);
  return [me.may('approve') && form, it.files.map((one) => changeView(one, { most: 400, onOpen: room.openFile }))];
}
