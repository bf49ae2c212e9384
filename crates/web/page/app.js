/** The page: signs in, shows the list and what the address names, and listens to the keyboard. */

import { h, fill, set } from './dom.js';
import { get, me, whenSignedOut } from './api.js';
import { live } from './live.js';
import { failed, faultBox, mountNotices } from './notice.js';
import { applyTheme } from './preferences.js';
import { go, onRoute, route } from './router.js';
import { sessionsSide } from './sessions.js';
import { signInByAddress, signInPage } from './signin.js';
import { newPage, startPage } from './start.js';

/**
 * @typedef {object} Page
 * @property {HTMLElement} node
 * @property {() => void} focus
 * @property {() => void} close
 * @property {Record<string, () => void>} [keys]
 * @property {() => import('./palette.js').Command[]} [commands]
 */

const root = /** @type {HTMLElement} */ (document.getElementById('app'));
/** Views that the first screen does not need: they come once they are shown, or the page has nothing else to do. */
const views = {
  session: async (/** @type {string} */ id, /** @type {string | undefined} */ tab) => (await import('./conversation.js')).conversationPage(id, tab),
  approvals: async () => (await import('./waiting.js')).waitingPage(),
  settings: async () => (await import('./settings.js')).settingsPage(() => showSignIn(null)),
  triggers: async () => (await import('./triggers.js')).triggersPage(),
  groups: async () => (await import('./groups.js')).groupsPage(),
};

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
    fill(root, (await import('./share.js')).sharedPage(decodeURIComponent(share)));
    return;
  }
  // Beside the requests that come before the view itself.
  if (location.hash.startsWith('#/session/')) void import('./conversation.js');
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
  await show();
  // Opening a session then waits for no more files.
  (globalThis.requestIdleCallback ?? setTimeout)(() => void import('./conversation.js'));
}

function close() {
  page?.close();
  page = null;
  shown = '';
}

/** Shows what the address names. */
async function show() {
  if (!side || location.hash.startsWith('#code=')) {
    if (location.hash.startsWith('#code=')) location.reload();
    return;
  }
  const { parts, query } = route();
  const [name = '', id = '', tab] = parts;
  const key = name === 'session' ? `session ${id}` : parts.join('/');
  if (key === shown) return;
  const wasShown = shown !== '';
  close();
  shown = key;
  document.title = 'haft';
  document.body.dataset.at = name || 'list';
  asMain();
  if (name === 'new' && me.may('say')) page = newPage(query.get('workspace') ?? undefined);
  else if (name in views && (name !== 'session' || id)) {
    const made = await viewOf(/** @type {keyof typeof views} */ (name), id, tab);
    // Something else was asked for meanwhile.
    if (shown !== key) {
      made?.close();
      return;
    }
    page = made;
  } else page = startPage();
  if (!page) return;
  fill(place, page.node);
  if (wasShown || name === 'session' || name === 'new') page.focus();
}

/**
 * @param {keyof typeof views} name
 * @param {string} id
 * @param {string | undefined} tab
 * @returns {Promise<Page | null>}
 */
async function viewOf(name, id, tab) {
  try {
    return await views[name](id, tab);
  } catch (error) {
    fill(place, h('main', { class: 'start', id: 'main' }, h('div', { class: 'start-middle' }, faultBox(error, () => location.reload()))));
    return null;
  }
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

async function palette() {
  const { openPalette } = await import('./palette.js');
  if (!document.querySelector('dialog[open]')) openPalette(page?.commands?.() ?? []);
}

async function keys() {
  const { openKeys } = await import('./palette.js');
  if (!document.querySelector('dialog[open]')) openKeys();
}

let after = '';

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (!side) return;
  const mod = event.ctrlKey || event.metaKey;
  if (mod && event.key.toLowerCase() === 'k') {
    event.preventDefault();
    void palette();
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
    '/': () => { if (!side?.search.offsetParent) go(); side?.search.focus(); }, n: () => me.may('say') && go('new'), '?': () => void keys(), 'g a': () => go('approvals'), 'g s': () => go('settings'),
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

onRoute(() => void show());
document.addEventListener('keydown', onKey);
live.watch(titleCount);
addEventListener('error', (event) => failed(event.error ?? event.message));
addEventListener('unhandledrejection', (event) => failed(event.reason));
void begin();
