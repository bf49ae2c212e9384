/** Settings: appearance, other devices, sign-ins, tokens, grants, shares, and what this server is. */

import { h, iconButton, fill } from './dom.js';
import { get, me, path, post, send } from './api.js';
import { effectLine } from './approval.js';
import { ago, clock, until } from './format.js';
import { confirm } from './menu.js';
import { attempt, copy, empty, faultBox, notice } from './notice.js';
import { applyTheme, prefer, preference } from './preferences.js';
import { go } from './router.js';

/**
 * @typedef {import('./types').Grant} Grant
 * @typedef {import('./types').Share} Share
 * @typedef {import('./types').SignIn} SignIn
 * @typedef {import('./types').Token} Token
 */

/** @param {() => void} signedOut */
export function settingsPage(signedOut) {
  const info = me.info;
  const own = me.may('own');
  const node = h('main', { class: 'page', id: 'main' },
    h('header', { class: 'top' }, iconButton('back', 'All sessions', () => go(), { class: 'icon-button only-narrow' }), h('h1', null, 'Settings')),
    h('div', { class: 'page-body' },
      section('Appearance', choice('Colors', 'theme', [['', 'As the system'], ['light', 'Light'], ['dark', 'Dark']], applyTheme),
        choice('Text of the model', 'source', [['', 'Formatted'], ['yes', 'As it was written']]), choice('Thoughts', 'thoughts', [['', 'Folded'], ['open', 'Open']])),
      section('This browser', h('p', null, `Signed in as ${info?.name ?? '?'}: ${roleWords(info?.role)}.`), h('button', { type: 'button', onclick: () => attempt(async () => { await post('sign-out'); signedOut(); }) }, 'Sign out')),
      own && section('Another device', h('p', { class: 'muted' }, 'Makes an address that signs one device in, once. It is good for ten minutes.'), deviceForm()),
      own && listSection('Signed in', 'Browsers that are signed in here. One that you end is signed out at once.', 'sign-ins', signIns(signedOut)),
      own && listSection('Tokens', 'Programs sign in with a token. Each has a role.', 'tokens', tokens, tokenForm),
      listSection('Permissions that stay', 'What you allowed for a session or a workspace.', 'grants', grants),
      me.may('say') && listSection('Links to sessions', 'Whoever has one reads the session.', 'shares', shares),
      section('This server', h('dl', { class: 'facts' }, [['haft', info?.version ?? ''], ...(info?.workspaces ?? []).map((it) => [it.name, it.path])].map(([name, value]) => [h('dt', null, name), h('dd', null, h('code', null, value))])))));
  return { node, focus: () => {}, close: () => {} };
}

/**
 * @param {string} title
 * @param {...import('./dom.js').Child} children
 */
function section(title, ...children) {
  return h('section', { class: 'settings' }, h('h2', null, title), children);
}

/**
 * @param {string} label
 * @param {string} name of the preference
 * @param {[string, string][]} values
 * @param {() => void} [then]
 */
function choice(label, name, values, then) {
  return h('fieldset', null, h('legend', null, label), h('div', { class: 'segments' }, values.map(([value, text]) => h('label', null,
    h('input', { type: 'radio', name, value, checked: preference(name) === value, onchange: () => { prefer(name, value); then?.(); } }), h('span', null, text)))));
}

/** @param {string | undefined} role */
export function roleWords(role) {
  return { view: 'you may look', say: 'you may look and write to agents', approve: 'you may write to agents and approve calls', own: 'you own this server' }[role ?? ''] ?? role ?? '';
}

function roleSelect() {
  return h('select', { 'aria-label': 'Role' }, [['view', 'may look'], ['say', 'may write to agents'], ['approve', 'may approve calls'], ['own', 'owns the server']].map(([value, text]) => h('option', { value, selected: value === 'approve' }, text)));
}

function deviceForm() {
  const name = h('input', { type: 'text', 'aria-label': 'Name of the device', placeholder: 'phone', required: true });
  const role = roleSelect();
  const made = h('div', null);
  return h('form', { class: 'inline', onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    void attempt(async () => {
      const it = /** @type {{address: string, expires_ms: number}} */ (await post('codes', { name: name.value.trim(), role: role.value }));
      fill(made, h('p', null, h('code', { class: 'secret' }, it.address), ' ', h('button', { type: 'button', class: 'small', onclick: () => copy(it.address) }, 'Copy')), h('p', { class: 'muted small' }, `Good until ${clock(it.expires_ms)}, for one sign-in.`));
    });
  } }, name, role, h('button', null, 'Make an address'), made);
}

/** @param {() => void} again */
function tokenForm(again) {
  const name = h('input', { type: 'text', 'aria-label': 'Name of the token', placeholder: 'ci', required: true });
  const role = roleSelect();
  const made = h('div', null);
  return h('form', { class: 'inline', onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    void attempt(async () => {
      const it = /** @type {Token} */ (await post('tokens', { name: name.value.trim(), role: role.value }));
      fill(made, h('p', null, h('code', { class: 'secret' }, it.token ?? ''), ' ', h('button', { type: 'button', class: 'small', onclick: () => copy(it.token ?? '') }, 'Copy')), h('p', { class: 'muted small' }, 'It is shown this once.'));
      again();
    });
  } }, name, role, h('button', null, 'Make a token'), made);
}

/**
 * @param {string} title
 * @param {string} about
 * @param {string} where the path of the list, and its name in the answer
 * @param {(all: any[], again: () => void) => import('./dom.js').Child} draw
 * @param {(again: () => void) => import('./dom.js').Child} [form]
 */
function listSection(title, about, where, draw, form) {
  const list = h('div', null, h('p', { class: 'muted small' }, 'Reading…'));
  const load = async () => {
    try {
      const answer = /** @type {Record<string, any[]>} */ (await get(where));
      fill(list, draw(answer[where.replace('-', '_')] ?? [], () => void load()));
    } catch (error) {
      fill(list, faultBox(error, () => void load()));
    }
  };
  void load();
  return section(title, h('p', { class: 'muted' }, about), list, form?.(() => void load()));
}

/**
 * @param {string} label
 * @param {string} where
 * @param {() => void} again
 */
function remover(label, where, again) {
  return me.may('own') && h('button', { type: 'button', class: 'quiet small', onclick: () => attempt(async () => { await send('DELETE', where); notice('Done'); again(); }) }, label);
}

/**
 * Makes the list of sign-ins.
 * @param {() => void} signedOut
 * @returns {(all: SignIn[], again: () => void) => import('./dom.js').Child}
 */
function signIns(signedOut) {
  const end = (/** @type {SignIn} */ it, /** @type {() => void} */ again) => h('button', { type: 'button', class: 'quiet small', 'aria-label': `End the sign-in of ${it.name}`, onclick: () => attempt(async () => {
    if (it.is_own && !(await confirm('End the sign-in of this browser?', 'You need a new address or a token to come back.', 'Sign out'))) return;
    await send('DELETE', path(['sign-ins', it.id]));
    if (it.is_own) signedOut();
    else {
      notice(`${it.name} is signed out`);
      again();
    }
  }) }, 'End');
  return (all, again) => h('ul', { class: 'rows' }, all.toSorted((a, b) => b.made_ms - a.made_ms).map((it) => h('li', null,
    h('strong', { class: 'grow' }, it.name, ' ', it.is_own && h('span', { class: 'tag' }, 'this browser')),
    h('span', { class: 'muted small' }, `${it.role} · by ${it.by === 'token' ? 'a token' : 'an address'} · ${ago(it.made_ms)} · ends ${until(it.expires_ms)}`), end(it, again))));
}

/**
 * @param {Token[]} all
 * @param {() => void} again
 */
function tokens(all, again) {
  return all.length ? h('ul', { class: 'rows' }, all.map((it) => h('li', null, h('strong', { class: 'grow' }, it.name), h('span', { class: 'muted small' }, `${it.role}${it.made_ms ? ` · ${ago(it.made_ms)}` : ''}`), it.from === 'file' ? h('span', { class: 'tag' }, 'file') : remover('Remove', path(['tokens', it.name]), again)))) : empty('No tokens.');
}

/**
 * @param {Grant[]} all
 * @param {() => void} again
 */
function grants(all, again) {
  return all.length ? h('ul', { class: 'rows' }, all.map((it) => h('li', null, h('span', { class: 'grow' }, effectLine(it.effect, true)), h('span', { class: 'muted small' }, it.session ? 'a session' : 'the workspace', ` · ${ago(it.made_ms)}`), remover('Take back', path(['grants', String(it.id)], { workspace: it.workspace }), again)))) : empty('None.');
}

/**
 * @param {Share[]} all
 * @param {() => void} again
 */
function shares(all, again) {
  return all.length ? h('ul', { class: 'rows' }, all.map((it) => h('li', null, h('a', { class: 'grow', href: it.address }, it.address), h('span', { class: 'muted small' }, it.expires_ms ? `ends ${until(it.expires_ms)}` : ''), remover('Revoke', path(['shares', it.id]), again)))) : empty('None.');
}
