/** Triggers: what begins turns by itself, its next time and its history; pause, fire and remove. */

import { h, iconButton, fill } from './dom.js';
import { Fault, get, me, path, post, send } from './api.js';
import { clock, plural, until } from './format.js';
import { confirm } from './menu.js';
import { attempt, empty, faultBox, sentence } from './notice.js';
import { go } from './router.js';

/**
 * @typedef {{workspace: string, session: string, id: string, kind: string, what: string, state: string, next_fire_ms?: number | null, fires: number, origin: string, body?: Record<string, unknown>}} Trigger
 * @typedef {{at_ms: number, event: string, fire?: number, text?: string}} Past
 */

/** The list is asked for so often, in milliseconds. */
const EVERY = 2_000;

export function triggersPage() {
  const body = h('div', { class: 'page-body' }, h('p', { class: 'muted' }, 'Reading…'));
  let closed = false;
  let drawn = '';
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const load = async () => {
    clearTimeout(timer);
    timer = setTimeout(() => void load(), EVERY);
    try {
      const { triggers } = /** @type {{triggers: Trigger[]}} */ (await get('triggers'));
      const now = JSON.stringify([triggers, triggers.map((it) => it.next_fire_ms && until(it.next_fire_ms))]);
      if (closed || now === drawn) return;
      drawn = now;
      const open = [...body.querySelectorAll('details[open]')].map((it) => /** @type {HTMLElement} */ (it).dataset.of);
      const at = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.act;
      fill(body, triggers.length ? triggers.map((it) => card(it, load)) : empty('No triggers.', 'An agent makes one when you ask for it: at a time, when a file changes, or at a signed request. haft.toml can have some, too.'));
      for (const it of body.querySelectorAll('details')) it.open = open.includes(it.dataset.of);
      if (at) /** @type {HTMLElement | null} */ (body.querySelector(`[data-act="${CSS.escape(at)}"]`))?.focus();
    } catch (error) {
      if (!closed) fill(body, error instanceof Fault && error.status === 404 ? empty('This server does not show triggers.', 'In a terminal, `haft triggers` lists them.') : faultBox(error, load));
    }
  };
  void load();
  return { node: h('main', { class: 'page', id: 'main' }, h('header', { class: 'top' }, iconButton('back', 'All sessions', () => go(), { class: 'icon-button only-narrow' }), h('h1', null, 'Triggers')), body), focus: () => {}, close: () => { closed = true; clearTimeout(timer); } };
}

/**
 * @param {Trigger} it
 * @param {() => Promise<void>} again
 */
function card(it, again) {
  const at = (/** @type {string[]} */ ...more) => path(['sessions', it.session, 'triggers', it.id, ...more], { workspace: it.workspace });
  const act = (/** @type {string} */ what) => attempt(async () => {
    await post(at(what));
    await again();
  });
  const remove = async () => {
    if (await confirm(`Remove the trigger ${it.id}?`, 'Its history goes, too.', 'Remove it')) {
      await attempt(async () => {
        await send('DELETE', at());
        await again();
      });
    }
  };
  const paused = it.state === 'paused';
  const past = h('div');
  const prompt = it.body?.prompt;
  return h('section', { class: it.state === 'armed' ? 'card' : 'card paused' },
    h('header', null, h('h2', { class: 'grow' }, it.id), h('span', { class: 'muted small' }, it.state === 'armed' && it.next_fire_ms ? until(it.next_fire_ms) : it.state),
      me.may('approve') && [it.state !== 'done' && h('button', { type: 'button', class: 'quiet small', 'data-act': `pause ${it.session} ${it.id}`, onclick: () => act(paused ? 'resume' : 'pause') }, paused ? 'Resume' : 'Pause'),
        h('button', { type: 'button', class: 'quiet small', 'data-act': `fire ${it.session} ${it.id}`, onclick: () => act('fire') }, 'Fire now'), h('button', { type: 'button', class: 'quiet small', onclick: remove }, 'Remove')]),
    h('p', { class: 'small' }, `${sentence(it.what)}, in `, h('a', { href: `#/session/${encodeURIComponent(it.session)}` }, it.session), `; ${plural(it.fires, 'fire')}`),
    typeof prompt === 'string' && h('p', null, prompt),
    h('details', { class: 'small', 'data-of': `${it.session} ${it.id}`, ontoggle: () => void history(at(), past) }, h('summary', { class: 'muted' }, 'History'), past));
}

/**
 * @param {string} where
 * @param {HTMLElement} into
 */
async function history(where, into) {
  try {
    const all = /** @type {{history?: Past[]}} */ (await get(where)).history ?? [];
    fill(into, all.length ? h('ul', { class: 'rows' }, all.toReversed().map((it) => h('li', null, h('span', { class: 'grow' }, sentence(it.event), it.text && `: ${it.text}`), h('span', { class: 'muted' }, clock(it.at_ms))))) : empty('It has not fired.'));
  } catch (error) {
    fill(into, faultBox(error));
  }
}
