/** Switches of a session: the model, the profile; and the sandbox, which the workspace's configuration decides. */

import { h } from './dom.js';
import { me } from './api.js';
import { openMenu } from './menu.js';
import { line } from './format.js';

/**
 * Makes the buttons under the field.
 * @param {import('./room.js').Room} room
 */
export function chooser(room) {
  const workspace = me.workspace(room.workspace);
  const model = room.fold.model || room.session?.model || workspace?.model || 'model';
  const profile = room.fold.profile || room.session?.profile || '';
  const button = h('button', { type: 'button', class: 'quiet small', 'aria-haspopup': 'menu', title: 'Model and profile', disabled: !me.may('say'), onclick: () => openMenu(button, [
    ...(workspace?.models ?? []).map((it) => ({ label: it.name, hint: it.about, run: () => change({ model: it.name }, it.name) })),
    ...(workspace?.profiles ?? []).map((it) => ({ label: `Profile ${it}`, run: () => change({ profile: it }, it) })),
    !!profile && { label: 'No profile', run: () => change({ profile: null }, '') },
  ]) }, shortName(model), profile && ` · ${profile}`);
  const change = async (/** @type {{model?: string, profile?: string | null}} */ what, /** @type {string} */ name) => {
    if (await room.patch(what)) button.textContent = 'model' in what ? shortName(name) : `${shortName(model)}${name && ` · ${name}`}`;
  };
  return [button, workspace?.sandbox && h('span', { class: 'muted small only-wide', title: 'The sandbox of commands; haft.toml decides it' }, sandboxWords(workspace.sandbox))];
}

/** @param {string} model */
function shortName(model) {
  return line(model.replace(/^[a-z-]+:/, '').split('/').pop() ?? model, 28);
}

/** @param {string} sandbox */
export function sandboxWords(sandbox) {
  return { 'workspace-write': 'may change the workspace', 'read-only': 'reads only', full: 'no sandbox' }[sandbox] ?? `sandbox: ${sandbox}`;
}
