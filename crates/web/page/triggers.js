/** Triggers: what begins turns by itself, its next time and its history, pause and fire. */

import { h, iconButton, fill } from './dom.js';
import { Fault, get, me, path, post } from './api.js';
import { ago, until } from './format.js';
import { attempt, empty, faultBox } from './notice.js';
import { go } from './router.js';

/** @typedef {{id: string, session: string, name?: string, kind: string, when?: string, prompt?: string, next_ms?: number | null, paused?: boolean, grants?: string[], history?: {at_ms: number, what: string}[]}} Trigger */

export function triggersPage() {
  const body = h('div', { class: 'page-body' }, h('p', { class: 'muted' }, 'Reading…'));
  const load = async () => {
    try {
      const { triggers } = /** @type {{triggers: Trigger[]}} */ (await get('triggers'));
      fill(body, triggers.length ? triggers.map((it) => card(it, load)) : empty('No triggers.', 'An agent makes one when you ask for it: at a time, when a file changes, or at a signed request. haft.toml can have some, too.'));
    } catch (error) {
      fill(body, error instanceof Fault && error.status === 404 ? empty('This server does not show triggers yet.', 'In a terminal, `haft triggers` lists them.') : faultBox(error, load));
    }
  };
  void load();
  return { node: h('main', { class: 'page', id: 'main' }, h('header', { class: 'top' }, iconButton('back', 'All sessions', () => go(), { class: 'icon-button only-narrow' }), h('h1', null, 'Triggers')), body), focus: () => {}, close: () => {} };
}

/**
 * @param {Trigger} it
 * @param {() => Promise<void>} again
 */
function card(it, again) {
  const act = (/** @type {string} */ what) => attempt(async () => {
    await post(path(['triggers', it.id, what]));
    await again();
  });
  return h('section', { class: it.paused ? 'card paused' : 'card' },
    h('header', null, h('strong', { class: 'grow' }, it.name ?? it.id), h('span', { class: 'muted small' }, it.paused ? 'paused' : it.next_ms ? until(it.next_ms) : ''),
      me.may('approve') && [h('button', { type: 'button', class: 'quiet small', onclick: () => act(it.paused ? 'resume' : 'pause') }, it.paused ? 'Resume' : 'Pause'), h('button', { type: 'button', class: 'quiet small', onclick: () => act('fire') }, 'Fire now')]),
    h('p', { class: 'small' }, h('span', { class: 'tag' }, it.kind), ' ', it.when ?? '', ' in ', h('a', { href: `#/session/${encodeURIComponent(it.session)}` }, it.session)),
    it.prompt && h('p', null, it.prompt), it.grants?.length ? h('p', { class: 'muted small' }, `May: ${it.grants.join(', ')}`) : null,
    it.history?.length ? h('ul', { class: 'rows small' }, it.history.map((one) => h('li', null, h('span', { class: 'grow' }, one.what), h('span', { class: 'muted' }, ago(one.at_ms))))) : null);
}
