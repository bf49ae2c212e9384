/** The list of sessions: search, what each one does, what is unread, and who waits for the person. */

import { h, icon, iconButton, fill } from './dom.js';
import { get, me, path } from './api.js';
import { ago, plural } from './format.js';
import { live } from './live.js';
import { empty, faultBox } from './notice.js';
import { isUnread } from './preferences.js';
import { go, route } from './router.js';

/** @typedef {import('./types').Session} Session */

/** Sessions that are listed before somebody asks for more. */
const MOST = 100;

/**
 * Makes the side with the list.
 * @param {() => void} openPalette
 */
export function sessionsSide(openPalette) {
  /** @type {Session[] | null} */
  let found = null;
  /** @type {unknown} */
  let fault = null;
  let archived = false;
  let most = MOST;
  /** @type {AbortController | null} */
  let asking = null;
  const search = h('input', { type: 'search', id: 'session-search', placeholder: 'Search sessions', 'aria-label': 'Search sessions', oninput: () => later(), onkeydown: (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'ArrowDown') {
      list.querySelector('a')?.focus();
      event.preventDefault();
    }
  } });
  const list = h('nav', { class: 'session-list', 'aria-label': 'Sessions', onkeydown: (/** @type {KeyboardEvent} */ event) => arrows(event, list) });
  const count = h('span', { class: 'badge', hidden: true });
  const waiting = h('a', { href: '#/approvals', class: 'waiting-link' }, icon('bell'), h('span', { class: 'grow' }, 'Waits for you'), count);
  const node = h('div', { class: 'side', role: 'complementary', 'aria-label': 'All sessions' },
    h('div', { class: 'side-head' }, h('span', { class: 'brand-name' }, h('a', { href: '#/', class: 'brand', 'aria-label': 'haft, start' }, 'haft')), h('span', { class: 'grow' }),
      iconButton('search', 'Commands (Ctrl K)', openPalette), iconButton('gear', 'Settings', () => go('settings')),
      me.may('say') && iconButton('plus', 'New session (N)', () => go('new'))),
    waiting, search, list);

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(() => void load(), 150);
  };
  const load = async () => {
    const q = search.value.trim();
    asking?.abort();
    if (!q && !archived) {
      found = null;
      fault = null;
      draw();
      return;
    }
    asking = new AbortController();
    try {
      found = /** @type {{sessions: Session[]}} */ (await get(path(['sessions'], { q, archived: archived || undefined, limit: 200 }), asking.signal)).sessions;
      fault = null;
    } catch (error) {
      if (asking.signal.aborted) return;
      fault = error;
    }
    draw();
  };

  const draw = () => {
    const current = route().parts[0] === 'session' ? route().parts[1] : '';
    const all = found ?? [...live.sessions.values()].filter((it) => !it.archived).sort((a, b) => rank(b) - rank(a) || b.used_ms - a.used_ms);
    const n = live.waiting;
    count.hidden = n === 0;
    count.textContent = String(n);
    waiting.classList.toggle('some', n > 0);
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.session;
    const several = (me.info?.workspaces.length ?? 0) > 1;
    fill(list,
      fault ? faultBox(fault, () => void load()) : null,
      !live.loaded && !found && !fault ? h('p', { class: 'muted small pad' }, live.state === 'waiting' ? 'haft does not answer; trying again…' : 'Reading the list…') : null,
      live.loaded && !all.length && !fault ? (search.value ? empty(`Nothing is found for “${search.value}”.`, 'Search looks at titles and at what was said.') : empty('No sessions yet.', me.may('say') ? 'Begin one with +, or press N.' : '')) : null,
      all.length > 0 && h('ul', null, all.slice(0, most).map((it) => row(it, it.id === current, several))),
      all.length > most && h('button', { type: 'button', class: 'quiet small', onclick: () => { most += MOST; draw(); } }, `Show ${plural(all.length - most, 'older session')}`),
      h('button', { type: 'button', class: 'quiet small archive-switch', 'aria-pressed': String(archived), onclick: () => { archived = !archived; void load(); } }, archived ? 'Hide the archive' : 'Show the archive'));
    if (focused) /** @type {HTMLElement | null} */ (list.querySelector(`[data-session="${CSS.escape(focused)}"]`))?.focus();
  };
  live.watch(() => {
    if (!found) draw();
    else count.textContent = String(live.waiting);
  });
  addEventListener('hashchange', draw);
  draw();
  return { node, search };
}

/**
 * Sessions that wait for a person come first.
 * @param {Session} it
 */
function rank(it) {
  return it.state === 'waiting' ? 1 : 0;
}

/**
 * @param {Session} it
 * @param {boolean} current
 * @param {boolean} several there is more than one workspace
 */
function row(it, current, several) {
  const unread = !current && isUnread(it.id, it.head);
  const state = stateWords(it);
  const workspace = several ? me.info?.workspaces.find((one) => one.id === it.workspace)?.name : '';
  return h('li', null, h('a', { href: `#/session/${encodeURIComponent(it.id)}`, class: `session${unread ? ' unread' : ''}`, 'aria-current': current ? 'page' : null, 'data-session': it.id },
    h('span', { class: `dot ${it.state}` }),
    h('span', { class: 'name' }, it.title || it.first || 'New session', unread && h('span', { class: 'sr' }, ', unread')),
    h('time', null, ago(it.used_ms)),
    h('span', { class: 'about' }, it.found ? it.found : [state, workspace, it.forked_from && 'branch'].filter(Boolean).join(' · '))));
}

/** @param {Session} it */
function stateWords(it) {
  if (it.approvals) return counted(it.approvals, 'call waits for approval', 'calls wait for approval');
  if (it.questions) return 'asks you something';
  if (it.state === 'waiting') return 'waits for you';
  if (it.state === 'running') return 'at work';
  return it.turns ? plural(it.turns, 'turn') : 'new';
}

/**
 * @param {number} count
 * @param {string} one
 * @param {string} many
 */
function counted(count, one, many) {
  return count === 1 ? `a ${one}` : `${count} ${many}`;
}

/**
 * @param {KeyboardEvent} event
 * @param {HTMLElement} list
 */
function arrows(event, list) {
  const by = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
  if (!by) return;
  const all = [...list.querySelectorAll('a')];
  const next = all[all.indexOf(/** @type {HTMLAnchorElement} */ (document.activeElement)) + by];
  next?.focus();
  event.preventDefault();
  event.stopPropagation();
}
