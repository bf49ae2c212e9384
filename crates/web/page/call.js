/** The card of a call: one line that opens to its arguments, output, pictures and changes. */

import { h, icon, fill } from './dom.js';
import { address, me } from './api.js';
import { changeView, counts } from './diff.js';
import { duration, line, size, plural } from './format.js';
import { outside } from './markdown.js';
import { previews } from './media.js';
import { copyButton } from './notice.js';
import { lineNodes, outputBox } from './terminal.js';

/**
 * @typedef {import('./fold.js').Entry} Entry
 * @typedef {import('./fold.js').Call} Call
 * @typedef {import('./room.js').Room} Room
 * @typedef {import('./virtual.js').View} View
 */

/** Lines of a diff that a closed card shows. */
const PEEK = 12;
/** Characters of an output that are shown at once. */
const MOST = 100_000;

/**
 * @param {Entry} entry
 * @param {Room} room
 * @returns {View}
 */
export function callView(entry, room) {
  const call = /** @type {Call} */ (entry.call);
  const bodyId = `body-${entry.id.replace(/[^\w-]/g, '_')}`;
  const mark = h('span', { class: 'mark' });
  const gist = h('span', { class: 'gist' });
  const meta = h('span', { class: 'meta' });
  const head = h('button', { type: 'button', class: 'call-head', 'aria-expanded': 'false', 'aria-controls': bodyId, onclick: () => toggle() },
    mark, h('span', { class: 'tool' }, call.tool), gist, meta, h('span', { class: 'chevron' }, icon('open')));
  const live = h('div', { class: 'live' });
  const peek = h('div', { class: 'peek' });
  const body = h('div', { class: 'call-body', id: bodyId, hidden: true });
  const node = h('article', { class: 'entry call', tabindex: -1, 'data-id': entry.id }, head, live, body, peek);
  /** @type {(() => void)[]} */
  let drops = [];
  let drawn = '';

  const drop = () => {
    for (const it of drops.splice(0)) it();
  };
  const toggle = () => {
    if (!room.opened.delete(entry.id)) room.opened.add(entry.id);
    drawn = '';
    update();
  };
  const update = () => {
    const open = room.opened.has(entry.id);
    // A command that ends with another code than 0 has run, and did not do what was wanted.
    const state = call.state === 'ok' && call.answer?.exit ? 'failed' : call.state;
    node.className = `entry call ${state}${open ? ' open' : ''}`;
    mark.textContent = { writing: '…', running: '…', ok: '✓', failed: '✕', lost: '–' }[state];
    mark.setAttribute('aria-label', { writing: 'being written', running: 'running', ok: 'done', failed: 'failed', lost: 'interrupted' }[state]);
    mark.setAttribute('role', 'img');
    gist.textContent = gistOf(call);
    fill(meta, ...metaOf(call));
    live.textContent = state === 'running' ? call.progress : '';
    head.setAttribute('aria-expanded', String(open));
    body.hidden = !open;
    const now = `${state} ${open}`;
    if (drawn === now) return;
    drawn = now;
    drop();
    fill(body, ...(open ? bodyOf(call, room) : []));
    fill(peek, ...(call.answer ? peekOf(call, call.answer, room, drops, open) : []));
  };
  update();
  return { node, update, drop };
}

/** Arguments that say best what a call is about. */
const TELLING = ['command', 'pattern', 'query', 'path', 'file_path', 'notebook_path', 'url', 'agent', 'profile', 'job', 'name', 'prompt', 'task', 'question', 'text'];

/** @param {Call} call */
export function gistOf(call) {
  if (call.state === 'writing') return size(call.bytes);
  const args = call.arguments;
  if (typeof args === 'string') return line(args, 160);
  if (!args || typeof args !== 'object') return '';
  const known = /** @type {Record<string, unknown>} */ (args);
  const found = TELLING.filter((it) => typeof known[it] === 'string' && known[it]).slice(0, 2).map((it) => String(known[it]));
  if (found.length) return line(found.join('  '), 160);
  const rest = Object.entries(known).map(([name, it]) => (Array.isArray(it) ? `${it.length} ${name}` : typeof it === 'object' ? '' : String(it)));
  return line(rest.join(' '), 160);
}

/** @param {Call} call */
function metaOf(call) {
  const answer = call.answer;
  if (!answer) return [];
  const added = (answer.changes ?? []).reduce((sum, it) => sum + it.added, 0);
  const removed = (answer.changes ?? []).reduce((sum, it) => sum + it.removed, 0);
  return [
    (added > 0 || removed > 0) && counts(added, removed),
    answer.exit !== undefined && answer.exit !== null && answer.exit !== 0 && h('span', { class: 'bad' }, `exit ${answer.exit}`),
    answer.fault && h('span', { class: 'bad' }, answer.fault.replace('_', ' ')),
    answer.ms >= 100 && h('span', null, duration(answer.ms)),
  ];
}

/**
 * Parts that are shown while the card is closed, too: changes, pictures, 3D parts, the reason of a failure.
 * @param {Call} call
 * @param {NonNullable<Call['answer']>} answer
 * @param {Room} room
 * @param {(() => void)[]} drops
 * @param {boolean} open
 */
function peekOf(call, answer, room, drops, open) {
  const changes = answer.changes ?? [];
  const undo = !room.readOnly && me.may('approve') && answer.ok && changes.length > 0 && call.tool !== 'undo' ? (/** @type {HTMLButtonElement} */ button) => room.undo({ call: call.call }, button) : undefined;
  const shown = open ? changes : changes.slice(0, 4);
  const links = (answer.links ?? []).map(linkOf);
  return [
    !answer.ok && !open && h('p', { class: 'why' }, line(answer.text, 240)),
    links.length > 0 && h('ul', { class: 'links' }, links.map((it) => h('li', null, it))),
    (answer.pictures ?? []).map((it) => picture(it, room, `Picture of ${call.tool}`)),
    shown.map((it, at) => changeView(it, { undo: at === 0 ? undo : undefined, undoLabel: changes.length > 1 ? `Undo all ${changes.length}` : 'Undo', most: open ? Infinity : PEEK, onOpen: room.openFile })),
    shown.length < changes.length && h('p', { class: 'muted small' }, `and ${plural(changes.length - shown.length, 'more file', 'more files')}: open the card to see them`),
    answer.ok && previews(call, answer, room, drops),
  ];
}

/** @param {string} link `name: address` */
function linkOf(link) {
  const cut = link.indexOf(': ');
  const name = cut > 0 ? link.slice(0, cut) : link;
  const where = cut > 0 ? link.slice(cut + 2) : link;
  return /^https?:/.test(where) ? outside(where, [name]) : h('span', null, `${name}: `, h('code', null, where));
}

/**
 * @param {import('./types').Picture} it
 * @param {Room} room
 * @param {string} alt
 */
export function picture(it, room, alt) {
  if (!room.id) return h('p', { class: 'muted small' }, `${alt}: a picture of ${size(it.bytes)}, which a share does not have`);
  const src = room.outputAddress(it.handle);
  return h('a', { class: 'picture', href: src, target: '_blank', rel: 'noopener' }, h('img', { src, alt: `${alt}, ${it.mime}, ${size(it.bytes)}`, loading: 'lazy' }));
}

/**
 * @param {Call} call
 * @param {Room} room
 */
function bodyOf(call, room) {
  const answer = call.answer;
  const text = answer?.text ?? '';
  const rest = text.length > MOST;
  const spill = room.id ? /\bout_\d+\b/.exec(text)?.[0] : undefined;
  return [
    argumentsView(call.arguments),
    answer && text && h('div', { class: 'part' },
      h('div', { class: 'part-head' }, h('span', null, 'Output'),
        spill && h('a', { href: address(['sessions', room.id, 'outputs', spill], { workspace: room.workspace }), target: '_blank', rel: 'noopener' }, `whole output, ${spill}`),
        copyButton('Copy output', () => text)),
      outputBox(`Output of ${call.tool}`, answer.lines?.length ? lineNodes(answer.lines) : rest ? `${text.slice(0, MOST)}\n… cut here; copy has all of it` : text)),
    !answer && call.state === 'lost' && h('p', { class: 'muted' }, 'haft’s process or the turn ended before this call did.'),
  ];
}

/**
 * Makes the view of arguments: one line each, long texts as blocks.
 * @param {unknown} args
 */
export function argumentsView(args) {
  if (args === null || args === undefined) return null;
  if (typeof args !== 'object') return h('pre', { class: 'output', tabindex: 0 }, String(args));
  const all = Object.entries(args);
  if (!all.length) return h('p', { class: 'muted small' }, 'No arguments');
  return h('dl', { class: 'arguments' }, all.map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value, null, 1);
    const long = text.length > 120 || text.includes('\n');
    return [h('dt', null, name), h('dd', null, long ? h('pre', { tabindex: 0, role: 'group', 'aria-label': name }, text) : h('code', null, text))];
  }));
}
