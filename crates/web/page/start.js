/** The start: what waits, and a field to begin a new session in. */

import { h, iconButton, fill } from './dom.js';
import { get, me, path, post, send } from './api.js';
import { Composer } from './composer.js';
import { live } from './live.js';
import { attempt, empty } from './notice.js';
import { go } from './router.js';
import { sandboxes, sandboxWords } from './format.js';

/** @typedef {import('./types').Session} Session */

/** @param {string} [chosen] the workspace that is chosen at first */
export function newPage(chosen) {
  const workspaces = me.info?.workspaces ?? [];
  /** @type {Promise<Session> | null} */
  let made = null;
  const choice = h('select', { 'aria-label': 'Workspace', onchange: () => void chose() }, workspaces.map((it) => h('option', { value: it.id, selected: it.id === chosen }, it.name)));
  const model = h('select', { 'aria-label': 'Model' });
  const profile = h('select', { 'aria-label': 'Profile' });
  const sandbox = h('select', { 'aria-label': 'Sandbox' });
  const about = h('p', { class: 'muted small' });
  const end = h('button', { hidden: true, onclick: () => attempt(async () => { await send('DELETE', `workspaces/${choice.value}`); location.reload(); }) }, 'Close folder');
  const options = () => {
    const it = me.workspace(choice.value);
    fill(model, h('option', { value: '' }, it?.model ? it.model : 'the usual model'), (it?.models ?? []).filter((one) => one.name !== it?.model).map((one) => h('option', { value: one.name }, one.name)));
    fill(profile, h('option', { value: '' }, 'no profile'), (it?.profiles ?? []).map((one) => h('option', { value: one }, one)));
    profile.hidden = !it?.profiles?.length;
    const modes = sandboxes(it?.sandbox).reverse();
    fill(sandbox, modes.map((one) => h('option', { value: one }, sandboxWords(one))));
    sandbox.hidden = !me.may('own') || modes.length < 2;
    end.hidden = !it?.opened || !me.may('own');
    about.textContent = it ? `In ${it.path}${it.sandbox && sandbox.hidden ? ` · ${sandboxWords(it.sandbox)}` : ''}` : '';
  };
  // The owner has folders that are not served yet opened by choosing them.
  const chose = async () => {
    const folder = choice.value;
    if (folder.startsWith('/')) {
      choice.value = workspaces[0]?.id ?? '';
      await attempt(async () => {
        const it = await post('workspaces', { path: folder });
        workspaces.push(it);
        const option = [...choice.options].find((one) => one.value === folder);
        if (option) Object.assign(option, { value: it.id, text: it.name, selected: true });
      });
    }
    options();
  };
  if (me.may('own')) {
    void get('folders').then(({ folders }) => {
      choice.append(...folders.map((/** @type {string} */ it) => h('option', { value: it }, `Open ${it}`)));
      choice.hidden = choice.options.length < 2;
    });
  }
  // The session is made when the first file or word is sent, so that looking at this page makes none.
  const session = () => {
    made ??= post('sessions', { workspace: choice.value || undefined, model: model.value || undefined, profile: profile.value || undefined, sandbox: sandbox.hidden || !sandbox.selectedIndex ? undefined : sandbox.value });
    // One that could not be made is tried again.
    made.catch(() => { made = null; });
    return made;
  };
  const composer = new Composer({
    draft: 'new', placeholder: 'What is to be done?',
    upload: async (file) => {
      const it = await session();
      const where = path(['sessions', it.id, 'uploads'], { name: file.name, workspace: it.workspace });
      return { upload: (await (await send('POST', where, { raw: file })).json()).upload };
    },
    send: async (prompt) => {
      const it = await session();
      await post(path(['sessions', it.id, 'prompt'], { workspace: it.workspace }), prompt);
      go('session', it.id);
    },
    stop: () => {},
  });
  options();
  choice.hidden = workspaces.length < 2;
  const main = h('main', { class: 'start', id: 'main' },
    h('header', { class: 'top only-narrow' }, iconButton('back', 'All sessions', () => go())),
    h('div', { class: 'start-middle' }, h('h1', null, 'New session'),
      workspaces.length ? [h('div', { class: 'start-options' }, choice, end, model, profile, sandbox), composer.node, about]
        : empty('This server has no workspace.', 'Start it with `haft serve --dir FOLDER`.')));
  composer.takeDrops(main);
  return { node: main, focus: () => composer.input.focus(), close: () => {} };
}

/** The page beside the list when no session is open. */
export function startPage() {
  const body = h('div', { class: 'start-middle' });
  const draw = () => {
    fill(body, h('h1', null, 'haft'),
      live.waiting > 0 ? h('p', null, h('a', { href: '#/approvals', class: 'button primary' }, live.waiting === 1 ? 'One thing waits for you' : `${live.waiting} things wait for you`)) : h('p', { class: 'muted' }, 'Nothing waits for you.'),
      h('p', { class: 'start-links' }, me.may('say') && h('a', { href: '#/new', class: 'button' }, 'New session'), h('a', { href: '#/triggers' }, 'Triggers'), h('a', { href: '#/groups' }, 'Groups'), h('a', { href: '#/settings' }, 'Settings')),
      h('p', { class: 'muted small' }, h('kbd', null, 'Ctrl K'), ' finds everything, ', h('kbd', null, '?'), ' lists the keys.'));
  };
  draw();
  const end = live.watch(draw);
  return { node: h('main', { class: 'start', id: 'main' }, body), focus: () => {}, close: end };
}
