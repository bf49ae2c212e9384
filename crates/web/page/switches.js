/** Switches of a session: the model, the profile; and the sandbox, which the workspace's configuration decides. */

import { h } from './dom.js';
import { me } from './api.js';
import { openMenu } from './menu.js';
import { line } from './format.js';

/**
 * Makes the buttons under the field, and the function that shows what others changed.
 * @param {import('./room.js').Room} room
 */
export function chooser(room) {
  const workspace = me.workspace(room.workspace);
  const profile = () => {
    const name = room.fold.profile || room.session?.profile || '';
    return name === 'none' ? '' : name;
  };
  const button = h('button', { type: 'button', class: 'quiet small', 'aria-haspopup': 'menu', title: 'Model and profile', disabled: !me.may('say'), onclick: () => openMenu(button, [
    ...(workspace?.models ?? []).map((it) => ({ label: it.name, hint: it.about, run: () => room.patch({ model: it.name }) })),
    ...(workspace?.profiles ?? []).map((it) => ({ label: `Profile ${it}`, run: () => room.patch({ profile: it }) })),
    !!profile() && { label: 'No profile', run: () => room.patch({ profile: null }) },
  ]) });
  const update = () => {
    const model = shortName(room.fold.model || room.session?.model || workspace?.model || 'model');
    const words = profile() ? `${model} · ${profile()}` : model;
    if (button.textContent !== words) button.textContent = words;
  };
  update();
  return { update, nodes: [button, workspace?.sandbox && h('span', { class: 'muted small only-wide', title: 'The sandbox of commands; haft.toml decides it' }, sandboxWords(workspace.sandbox))] };
}

/** @param {string} model */
function shortName(model) {
  return line(model.replace(/^[a-z-]+:/, '').split('/').pop() ?? model, 28);
}

/** @param {string} sandbox */
export function sandboxWords(sandbox) {
  return { workspace: 'may change the workspace', 'read-only': 'reads only', full: 'no sandbox' }[sandbox] ?? `sandbox: ${sandbox}`;
}
