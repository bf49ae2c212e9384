/** Switches of a session: the model, the profile, and the sandbox up to the widest that the workspace's configuration allows. */

import { h } from './dom.js';
import { me } from './api.js';
import { confirm, openMenu } from './menu.js';
import { line, sandboxes, sandboxWords } from './format.js';

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
  const all = sandboxes(workspace?.sandbox);
  const sandbox = () => {
    const chosen = room.fold.sandbox || room.session?.sandbox || '';
    return all.includes(chosen) ? chosen : workspace?.sandbox ?? '';
  };
  const confined = h('button', { type: 'button', class: 'quiet small', 'aria-haspopup': 'menu', title: me.may('own') ? 'Sandbox' : 'Sandbox: the role own switches it', disabled: !me.may('own') || all.length < 2, onclick: () => openMenu(confined, all.map((to) => ({
    label: sandboxWords(to), hint: to === sandbox() ? 'now' : '', run: () => choose(to),
  }))) });
  /** @param {string} to */
  const choose = async (to) => {
    const wider = all.indexOf(to) > all.indexOf(sandbox());
    if (wider && !(await confirm('Widen the sandbox?', to === 'full' ? 'Commands of this session will run outside the sandbox, each after approval. They reach all that you reach on that machine.'
      : 'This session’s tools and commands will change files of the workspace. Running commands are stopped.', 'Widen it'))) return;
    await room.patch({ sandbox: to });
  };
  const update = () => {
    const now = sandboxWords(sandbox());
    if (confined.textContent !== now) confined.textContent = now;
    const model = shortName(room.fold.model || room.session?.model || workspace?.model || 'model');
    const words = profile() ? `${model} · ${profile()}` : model;
    if (button.textContent !== words) button.textContent = words;
  };
  update();
  return { update, nodes: [button, !!all.length && confined] };
}

/** @param {string} model */
function shortName(model) {
  return line(model.replace(/^[a-z-]+:/, '').split('/').pop() ?? model, 28);
}
