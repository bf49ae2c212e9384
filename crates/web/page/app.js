/** The page: signs in, shows the list and what the address names, and listens to the keyboard. */

import { h, fill, set } from './dom.js';
import { get, me, whenSignedOut } from './api.js';
import { conversationPage } from './conversation.js';
import { groupsPage } from './groups.js';
import { live } from './live.js';
import { failed, faultBox, mountNotices } from './notice.js';
import { openKeys, openPalette } from './palette.js';
import { applyTheme } from './preferences.js';
import { go, onRoute, route } from './router.js';
import { sessionsSide } from './sessions.js';
import { settingsPage } from './settings.js';
import { sharedPage } from './share.js';
import { signInByAddress, signInPage } from './signin.js';
import { newPage, startPage } from './start.js';
import { triggersPage } from './triggers.js';
import { waitingPage } from './waiting.js';

/**
 * @typedef {object} Page
 * @property {HTMLElement} node
 * @property {() => void} focus
 * @property {() => void} close
 * @property {Record<string, () => void>} [keys]
 * @property {() => import('./palette.js').Command[]} [commands]
 */

const root = /** @type {HTMLElement} */ (document.getElementById('app'));
/** @type {Page | null} */
let page = null;
let shown = '';
/** @type {ReturnType<typeof sessionsSide> | null} */
let side = null;
const place = h('div', { class: 'place' });

async function begin() {
  applyTheme();
  mountNotices();
  const share = /^\/s\/([^/]+)$/.exec(location.pathname)?.[1];
  if (share) {
    fill(root, sharedPage(decodeURIComponent(share)));
    return;
  }
  whenSignedOut(() => showSignIn(null));
  const fault = await signInByAddress();
  if (fault) showSignIn(fault);
  else await enter();
}

/** @param {import('./api.js').Fault | null} fault */
function showSignIn(fault) {
  live.stop();
  close();
  side = null;
  document.title = 'haft';
  fill(root, signInPage(fault, () => void enter()));
  root.querySelector('input')?.focus();
}

async function enter() {
  try {
    me.info = /** @type {import('./types').Info} */ (await get('info'));
  } catch (error) {
    if (error instanceof Error && 'status' in error && error.status === 401) return;
    fill(root, h('main', { class: 'start' }, h('div', { class: 'start-middle' }, faultBox(error, () => location.reload()))));
    return;
  }
  live.start();
  side = sessionsSide(palette);
  fill(root, h('a', { class: 'skip', href: '#main', onclick: (/** @type {Event} */ event) => { event.preventDefault(); page?.focus(); } }, 'To the content'), h('div', { class: 'shell' }, side.node, place));
  show();
}

function close() {
  page?.close();
  page = null;
  shown = '';
}

/** Shows what the address names. */
function show() {
  if (!side || location.hash.startsWith('#code=')) {
    if (location.hash.startsWith('#code=')) location.reload();
    return;
  }
  const { parts, query } = route();
  const [name = '', id = '', tab] = parts;
  const key = name === 'session' ? `session ${id}` : parts.join('/');
  if (key === shown && page) return;
  const wasShown = shown !== '';
  close();
  shown = key;
  document.title = 'haft';
  document.body.dataset.at = name || 'list';
  asMain();
  if (name === 'session' && id) page = conversationPage(id, tab);
  else if (name === 'new' && me.may('say')) page = newPage(query.get('workspace') ?? undefined);
  else if (name === 'approvals') page = waitingPage();
  else if (name === 'settings') page = settingsPage(() => showSignIn(null));
  else if (name === 'triggers') page = triggersPage();
  else if (name === 'groups') page = groupsPage();
  else page = startPage();
  fill(place, page.node);
  if (wasShown || name === 'session' || name === 'new') page.focus();
}

const narrow = matchMedia('(max-width: 860px)');
narrow.addEventListener('change', asMain);

/** On a narrow screen the list is a page of its own. */
function asMain() {
  const alone = narrow.matches && document.body.dataset.at === 'list';
  side?.node.setAttribute('role', alone ? 'main' : 'complementary');
  const brand = side?.node.querySelector('.brand-name');
  if (brand) for (const [name, value] of [['role', 'heading'], ['aria-level', '1']]) set(brand, /** @type {string} */ (name), alone && value);
}

function palette() {
  if (!document.querySelector('dialog[open]')) openPalette(page?.commands?.() ?? []);
}

let after = '';

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (!side) return;
  const mod = event.ctrlKey || event.metaKey;
  if (mod && event.key.toLowerCase() === 'k') {
    event.preventDefault();
    palette();
    return;
  }
  if (mod && event.key === '.') {
    event.preventDefault();
    page?.keys?.['.']?.();
    return;
  }
  if (mod || event.altKey || event.defaultPrevented || document.querySelector('dialog[open]')) return;
  const target = /** @type {HTMLElement} */ (event.target);
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
    if (event.key === 'Escape') target.blur();
    return;
  }
  const chord = after ? `${after} ${event.key}` : event.key;
  after = '';
  const run = {
    '/': () => { if (!side?.search.offsetParent) go(); side?.search.focus(); }, n: () => me.may('say') && go('new'), '?': openKeys, 'g a': () => go('approvals'), 'g s': () => go('settings'),
  }[chord] ?? page?.keys?.[chord];
  if (run) {
    event.preventDefault();
    run();
  } else if (event.key === 'g') after = 'g';
}

function titleCount() {
  const n = live.waiting;
  const plain = document.title.replace(/^\(\d+\) /, '');
  const wanted = n > 0 ? `(${n}) ${plain}` : plain;
  if (document.title !== wanted) document.title = wanted;
}

onRoute(show);
document.addEventListener('keydown', onKey);
live.watch(titleCount);
addEventListener('error', (event) => failed(event.error ?? event.message));
addEventListener('unhandledrejection', (event) => failed(event.reason));
void begin();
