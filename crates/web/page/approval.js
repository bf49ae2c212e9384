/** Approvals: what a call would do, in plain words, and the person's decision, bound to the call's hash. */

import { h, fill } from './dom.js';
import { Fault, me, path, post } from './api.js';
import { argumentsView } from './call.js';
import { changeView } from './diff.js';
import { failed, notice, sentence } from './notice.js';

/**
 * @typedef {import('./types').Approval} Approval
 * @typedef {import('./types').Decision} Decision
 */

/** The first word of an effect, and how it is said: to the person who decides now, and to one who allows more. */
const EFFECTS = /** @type {Record<string, [string, string]>} */ ({
  write: ['Change', 'Change files at'], edit: ['Change', 'Change files at, without a question each time'],
  net: ['Send requests to', 'Send requests to'], web: ['Read pages of', 'Read pages of'], server: ['Start the server', 'Start the server'],
  run: ['Run', 'Run commands that begin with'], 'run-exactly': ['Run', 'Run exactly'],
  unconfined: ['Run outside the sandbox', 'Run outside the sandbox commands that begin with'], 'unconfined-exactly': ['Run outside the sandbox', 'Run outside the sandbox exactly'],
});

/**
 * Makes the line of an effect.
 * @param {string} effect `net crates.io`
 * @param {boolean} [lasting] it is what a longer permission would allow
 */
export function effectLine(effect, lasting = false) {
  const cut = effect.indexOf(' ');
  const words = EFFECTS[cut > 0 ? effect.slice(0, cut) : effect];
  return words ? [`${words[lasting ? 1 : 0]} `, h('code', null, cut > 0 ? effect.slice(cut + 1) : '')] : [sentence(effect)];
}

/**
 * Says in one sentence what is asked.
 * @param {Approval} it
 * @param {string} [client] the MCP client that asks
 */
function question(it, client) {
  const first = it.effects[0]?.split(' ')[0] ?? '';
  const what = { run: 'run a command', 'run-exactly': 'run a command', unconfined: 'run a command outside the sandbox', 'unconfined-exactly': 'run a command outside the sandbox', net: 'use the network', web: 'read a page', write: 'change a file', edit: 'change a file', server: 'start a server' }[first];
  return `${client ?? (it.agent ? `The agent ${it.agent}` : 'The agent')} wants to ${what ?? `call ${it.tool}`}`;
}

/**
 * Makes the card of an open approval.
 * @param {Approval} it
 * @param {{session: string, workspace?: string, title?: string, client?: string, by?: string | null}} where
 * @param {() => void} onSettled called when it no longer waits, by whoever's decision
 */
export function approvalCard(it, where, onSettled) {
  const may = me.may('approve');
  const words = h('input', { type: 'text', id: `words-${it.id}`, placeholder: 'optional: what to do instead', autocomplete: 'off' });
  const said = h('p', { class: 'winner', role: 'status' });
  const offers = it.offers ?? [];
  const buttons = h('div', { class: 'buttons' });
  const decide = async (/** @type {Decision} */ decision) => {
    for (const one of buttons.querySelectorAll('button')) one.disabled = true;
    try {
      await post(path(['sessions', where.session, 'approvals', it.id], { workspace: where.workspace }), {
        decision, hash: it.hash, words: decision === 'no' && words.value.trim() ? words.value.trim() : undefined,
      });
      onSettled();
    } catch (error) {
      if (error instanceof Fault && error.status === 409 && error.winner) {
        said.textContent = `${sentence(error.winner)}, before you.`;
        notice(`${sentence(error.winner)}, before you`);
        setTimeout(onSettled, 4_000);
        return;
      }
      if (error instanceof Fault && error.status === 409) said.textContent = `${sentence(error.message)}. ${error.next}`;
      failed(error);
      for (const one of buttons.querySelectorAll('button')) one.disabled = false;
    }
  };
  /**
   * @param {Decision} decision
   * @param {string} label
   * @param {string} key
   * @param {string} [name]
   */
  const button = (decision, label, key, name) => h('button', { type: 'button', class: name, 'aria-keyshortcuts': key, onclick: () => decide(decision) }, label, h('kbd', { 'aria-hidden': 'true' }, key));
  fill(buttons, may && [
    button('once', 'Allow once', '1', 'primary'), offers.length > 0 && button('session', 'For this session', '2'),
    offers.length > 0 && button('project', 'For this workspace', '3'), button('no', 'Refuse', '0', 'danger'),
  ]);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
    const decision = /** @type {Record<string, Decision>} */ ({ 1: 'once', 2: 'session', 3: 'project', 0: 'no' })[event.key];
    const known = decision && buttons.querySelector(`[aria-keyshortcuts="${event.key}"]`);
    if (known && may) {
      event.preventDefault();
      void decide(decision);
    }
  };
  // An effect that is only what is asked about is not shown twice.
  const effects = it.effects.filter((one) => one.slice(one.indexOf(' ') + 1) !== it.about);
  const titleId = `ask-${where.session}-${it.id}`;
  return h('section', { class: 'ask approval', 'aria-labelledby': titleId, tabindex: -1, onkeydown: keys },
    h('h2', { id: titleId }, question(it, where.client)),
    where.client !== undefined ? h('p', { class: 'muted small' }, `a program, by MCP${where.by ? `, with the token of ${where.by}` : ''}`)
      : where.title !== undefined && h('p', { class: 'muted small' }, 'in ', h('a', { href: `#/session/${encodeURIComponent(where.session)}` }, where.title || 'a session without words')),
    it.about && h('pre', { class: 'about', tabindex: 0, role: 'group', 'aria-label': 'What is asked about' }, it.about),
    h('p', null, sentence(it.says)),
    effects.length > 0 && h('ul', { class: 'effects' }, effects.map((one) => h('li', null, effectLine(one)))),
    (it.changes ?? []).map((one) => changeView(one, { most: 200 })),
    h('details', null, h('summary', null, `All arguments of ${it.tool}`), argumentsView(parsed(it.arguments))),
    offers.length > 0 && h('details', null, h('summary', null, 'What a longer permission allows'), h('ul', { class: 'effects' }, offers.map((one) => h('li', null, effectLine(one, true))))),
    may ? h('div', { class: 'words' }, h('label', { for: words.id }, 'If you refuse'), words) : h('p', { class: 'muted' }, `Your role, ${me.info?.role ?? 'view'}, can’t decide this.`),
    buttons, said);
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
