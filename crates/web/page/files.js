/** The workspace's files: a tree that loads folder by folder, and the view of one file. */

import { h, icon, fill } from './dom.js';
import { address, get, path as apiPath } from './api.js';
import { ago, size } from './format.js';
import { fileView } from './media.js';
import { empty, faultBox } from './notice.js';

/** @typedef {import('./types').FileEntry} FileEntry */

/**
 * Shows the files of a workspace.
 * @param {string | undefined} workspace
 * @param {HTMLElement} body
 * @param {string} [first] a file to show at once
 */
export function filesPanel(workspace, body, first) {
  /** @type {(() => void)[]} */
  let drops = [];
  const drop = () => {
    for (const it of drops.splice(0)) it();
  };
  const tree = h('div', { class: 'tree' });
  /** @param {string} path */
  const show = (path) => {
    drop();
    fill(body, h('div', { class: 'panel-bar' }, h('button', { type: 'button', class: 'quiet small', onclick: back }, icon('back'), 'Files'), h('span', { class: 'path grow' }, path),
      h('a', { class: 'small', href: address(['files', 'raw'], { workspace, path, download: 1 }), download: path.split('/').pop() }, 'Download')), fileView(workspace, path, drops));
  };
  const back = () => {
    drop();
    fill(body, tree);
    if (!tree.childNodes.length) void folder(workspace, '', tree, show);
  };
  if (first) show(first);
  else back();
  return { update: () => {}, close: drop, show };
}

/**
 * Lists a folder.
 * @param {string | undefined} workspace
 * @param {string} path
 * @param {HTMLElement} into
 * @param {(path: string) => void} show
 */
async function folder(workspace, path, into, show) {
  try {
    const { entries } = /** @type {{entries: FileEntry[]}} */ (await get(apiPath(['files'], { workspace, path })));
    fill(into, entries.length ? h('ul', null, entries.map((it) => row(workspace, path ? `${path}/${it.name}` : it.name, it, show))) : empty('This folder is empty.'));
  } catch (error) {
    fill(into, faultBox(error, () => void folder(workspace, path, into, show)));
  }
}

/**
 * @param {string | undefined} workspace
 * @param {string} path
 * @param {FileEntry} it
 * @param {(path: string) => void} show
 */
function row(workspace, path, it, show) {
  if (it.kind !== 'folder') {
    return h('li', null, h('button', { type: 'button', class: 'row-button', disabled: it.kind === 'other', onclick: () => show(path) },
      icon('file'), h('span', { class: 'grow' }, it.name), h('span', { class: 'muted small' }, it.kind === 'link' ? 'link' : size(it.bytes), ' · ', ago(it.modified_ms))));
  }
  const inside = h('div', { class: 'inside', hidden: true });
  const button = h('button', { type: 'button', class: 'row-button', 'aria-expanded': 'false', onclick: () => {
    inside.hidden = !inside.hidden;
    button.setAttribute('aria-expanded', String(!inside.hidden));
    if (!inside.hidden) void folder(workspace, path, inside, show);
  } }, h('span', { class: 'chevron' }, icon('open')), icon('folder'), h('span', { class: 'grow' }, it.name));
  return h('li', null, button, inside);
}
