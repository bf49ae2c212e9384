/** Groups of agents: who may send to whom as a graph, what each one does, messages as they go, pause and stop. */

import { h, iconButton, fill, svg } from './dom.js';
import { Fault, get, me, path, post } from './api.js';
import { clock, line, money, short } from './format.js';
import { attempt, empty, faultBox } from './notice.js';
import { go } from './router.js';

/**
 * @typedef {{id: string, name: string, session: string, status: string, paused: boolean, killed: boolean, turns: number, tokens: number, queued: number, inbox?: Message[]}} Member
 * @typedef {{from: string, to: string, channel?: string | null, state: string, text: string, at_ms: number}} Message
 * @typedef {{seq: number, at_ms: number, kind: string, member?: string, body?: Record<string, unknown>}} GroupEvent
 * @typedef {object} Group
 * @property {string} workspace
 * @property {string} name
 * @property {string} state
 * @property {number} [tokens]
 * @property {number} [cost]
 * @property {Member[]} [members]
 * @property {{channel: string, session: string, listens: boolean}[]} [edges]
 * @property {{source: string, body: Record<string, any>}[]} [wires]
 * @property {GroupEvent[]} [events]
 * @property {Message[]} [messages]
 */

/** While a group runs, it is asked for so often, in milliseconds; and while none does, whether there is one. */
const EVERY = 1_000;
const LOOK = 4_000;
/** Events that are listed. */
const MOST = 60;

export function groupsPage() {
  const body = h('div', { class: 'page-body' }, h('p', { class: 'muted' }, 'Reading…'));
  let closed = false;
  let drawn = '';
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const load = async () => {
    clearTimeout(timer);
    try {
      const { groups } = /** @type {{groups: Group[]}} */ (await get('groups'));
      const whole = await Promise.all(groups.slice(0, 12).map((it) => (it.state === 'running' || it.state === 'paused' || groups.length < 4 ? /** @type {Promise<Group>} */ (get(path(['groups', it.name], { workspace: it.workspace }))) : it)));
      if (closed) return;
      const now = JSON.stringify(whole);
      // Nobody loses the focus for a list that is as it was.
      if (now !== drawn) redraw(body, whole.length ? whole.map((it) => groupView(it, load)) : empty('No groups.', '`haft group run` starts several agents that work together; they are shown here.'));
      drawn = now;
      timer = setTimeout(() => void load(), groups.some((it) => it.state === 'running' || it.state === 'paused') ? EVERY : LOOK);
    } catch (error) {
      if (!closed) fill(body, error instanceof Fault && error.status === 404 ? empty('This server does not show groups.', 'In a terminal, `haft group watch` does.') : faultBox(error, load));
    }
  };
  void load();
  const close = () => {
    closed = true;
    clearTimeout(timer);
  };
  return { node: h('main', { class: 'page', id: 'main' }, h('header', { class: 'top' }, iconButton('back', 'All sessions', () => go(), { class: 'icon-button only-narrow' }), h('h1', null, 'Groups')), body), focus: () => {}, close };
}

/**
 * @param {Group} it
 * @param {() => Promise<void>} again
 */
function groupView(it, again) {
  const act = (/** @type {string} */ what, /** @type {string} */ member) => attempt(async () => {
    await post(path(['groups', it.name, what], { workspace: it.workspace }), member ? { member } : {});
    await again();
  });
  const controls = (/** @type {boolean} */ paused, /** @type {string} */ member) => me.may('approve') && it.state !== 'done' && [
    h('button', { type: 'button', class: 'quiet small', 'data-act': `pause ${it.name} ${member}`, onclick: () => act(paused ? 'resume' : 'pause', member) }, paused ? 'Resume' : 'Pause'),
    h('button', { type: 'button', class: 'quiet small', 'data-act': `stop ${it.name} ${member}`, onclick: () => act('stop', member) }, 'Stop')];
  const members = it.members ?? [];
  const facts = [it.state, it.tokens ? `${short(it.tokens)} tokens` : '', it.cost ? money(it.cost) : ''].filter(Boolean).join(' · ');
  return h('section', { class: 'card group' }, h('header', null, h('h2', { class: 'grow' }, it.name), h('span', { class: 'muted small' }, facts), controls(it.state === 'paused', '')),
    members.length > 0 && graph(it, members),
    h('ul', { class: 'rows' }, members.map((one) => h('li', null, h('span', { class: `dot ${stateOf(one)}` }), h('a', { class: 'grow', href: `#/session/${encodeURIComponent(one.session)}` }, one.name),
      h('span', { class: 'muted small' }, doing(one)), controls(one.paused, one.id), inbox(one)))),
    it.messages?.length ? h('details', { open: true, 'data-of': `messages ${it.name}` }, h('summary', { class: 'muted small' }, 'Messages'), h('ul', { class: 'rows small messages' }, it.messages.toReversed().map((one) => messageRow(one, 'all')))) : null,
    it.events?.length ? h('details', { open: true, 'data-of': `events ${it.name}` }, h('summary', { class: 'muted small' }, 'What happened'), h('ul', { class: 'rows small messages' }, it.events.slice(-MOST).toReversed().map((one) => eventRow(one, members)))) : null);
}

/**
 * Fills the page anew; what was folded open or shut stays so.
 * @param {HTMLElement} body
 * @param {import('./dom.js').Child} nodes
 */
function redraw(body, nodes) {
  /** @type {Map<string | undefined, boolean>} */
  const folds = new Map();
  for (const it of body.querySelectorAll('details')) folds.set(it.dataset.of, it.open);
  const at = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.act;
  fill(body, nodes);
  for (const it of body.querySelectorAll('details')) it.open = folds.get(it.dataset.of) ?? it.open;
  if (at) /** @type {HTMLElement | null} */ (body.querySelector(`[data-act="${CSS.escape(at)}"]`))?.focus();
}

/**
 * The messages that wait for a member.
 * @param {Member} it
 */
function inbox(it) {
  if (!it.queued) return null;
  return h('details', { class: 'small inbox', 'data-of': `inbox ${it.id}` }, h('summary', { class: 'muted' }, `${it.queued} in the inbox`),
    h('ul', { class: 'rows small messages' }, (it.inbox ?? []).map((one) => messageRow(one, 'inbox'))));
}

/**
 * @param {Message} it
 * @param {string} list
 */
function messageRow(it, list) {
  return h('li', null, h('strong', null, `${it.from} → ${it.to}`), it.channel && h('span', { class: 'tag' }, it.channel), words(it.text, `${list} ${it.at_ms} ${it.from} ${it.to} ${it.text.length}`), h('span', { class: 'muted' }, it.state === 'queued' ? 'waits' : clock(it.at_ms)));
}

/**
 * A text in one line; a longer one opens.
 * @param {string} text
 * @param {string} of names it, so that it stays open
 */
function words(text, of) {
  const short = line(text, 200);
  return short === text.trim() ? h('span', { class: 'grow' }, short) : h('details', { class: 'grow', 'data-of': of }, h('summary', null, short), h('p', null, text));
}

/** @param {Member} it */
function doing(it) {
  return it.killed ? 'killed' : it.paused ? 'paused' : it.status.replace('_', ' ');
}

/** @param {Member} it */
function stateOf(it) {
  return it.paused || it.killed ? 'asleep' : it.status === 'busy' ? 'running' : it.status === 'idle' ? 'idle' : 'asleep';
}

/**
 * @param {GroupEvent} it
 * @param {Member[]} members
 */
function eventRow(it, members) {
  const body = it.body ?? {};
  const request = /** @type {{operation?: string} | undefined} */ (body.request);
  const name = request ? body.by : members.find((one) => one.id === it.member)?.name ?? it.member;
  const text = ['text', 'message', 'content', 'why', 'state'].map((key) => body[key]).find((value) => typeof value === 'string');
  const to = ['to', 'channel', 'target'].map((key) => body[key]).find((value) => typeof value === 'string');
  const who = [name, to].filter(Boolean).join(' → ');
  return h('li', null, who && h('strong', null, who), h('span', { class: 'tag' }, (request?.operation ?? it.kind).replace(/^(creature|group)_/, '').replaceAll('_', ' ')), words(String(text ?? ''), String(it.seq)), h('span', { class: 'muted' }, clock(it.at_ms)));
}

/**
 * Returns who sends to whom: over a channel from each sender to each listener, and along the wires.
 * @param {Group} it
 * @param {Member[]} members
 * @returns {[string, string][]}
 */
function arrows(it, members) {
  const byAny = new Map(members.flatMap((one) => [[one.id, one.id], [one.session, one.id], [one.name, one.id]]));
  /** @type {Set<string>} */
  const all = new Set();
  for (const send of it.edges?.filter((one) => !one.listens) ?? []) {
    for (const hear of it.edges?.filter((one) => one.listens && one.channel === send.channel) ?? []) all.add(`${byAny.get(send.session)}\n${byAny.get(hear.session)}`);
  }
  for (const wire of it.wires ?? []) all.add(`${byAny.get(wire.source)}\n${byAny.get(String(wire.body.to ?? wire.body.target))}`);
  return [...all].map((one) => /** @type {[string, string]} */ (one.split('\n')));
}

/**
 * Draws members on an ellipse, and an arrow for each way.
 * @param {Group} it
 * @param {Member[]} members
 */
function graph(it, members) {
  // A narrow page gets a narrow drawing, not a small one.
  const [width, height] = [Math.max(300, Math.min(640, innerWidth - 60)), 60 + Math.min(members.length, 8) * 40];
  /** @type {Map<string, [number, number]>} */
  const places = new Map(members.map((one, n) => {
    const angle = (n / members.length) * 2 * Math.PI - Math.PI / 2;
    return [one.id, [width / 2 + Math.cos(angle) * (width / 2 - 90), height / 2 + Math.sin(angle) * (height / 2 - 32)]];
  }));
  const labels = new Map(members.map((one) => [one.id, line(one.queued > 0 ? `${one.name} (${one.queued})` : one.name, 18)]));
  const halfWidth = (/** @type {string} */ id) => Math.min(88, 18 + (labels.get(id)?.length ?? 0) * 4);
  /** How far the edge of a box is from its middle, in this direction. */
  const reach = (/** @type {string} */ id, /** @type {number} */ ux, /** @type {number} */ uy) => Math.min(halfWidth(id) / Math.max(Math.abs(ux), 0.001), 16 / Math.max(Math.abs(uy), 0.001)) + 3;
  const ways = arrows(it, members);
  const edges = ways.flatMap(([a, b]) => {
    const [from, to] = [places.get(a), places.get(b)];
    if (!from || !to || from === to) return [];
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const far = Math.hypot(dx, dy) || 1;
    const [ux, uy] = [dx / far, dy / far];
    const [x, y] = [to[0] - ux * reach(b, ux, uy), to[1] - uy * reach(b, ux, uy)];
    return [svg('path', { class: 'edge', d: `M${from[0]} ${from[1]}L${x} ${y}M${x - ux * 8 - uy * 5} ${y - uy * 8 + ux * 5}L${x} ${y}L${x - ux * 8 + uy * 5} ${y - uy * 8 - ux * 5}` })];
  });
  const nodes = members.map((one) => {
    const [x, y] = /** @type {[number, number]} */ (places.get(one.id));
    const label = svg('text', { x, y: y + 5, 'text-anchor': 'middle' });
    label.textContent = labels.get(one.id) ?? '';
    const half = halfWidth(one.id);
    return svg('g', { class: `node ${stateOf(one)}` }, svg('rect', { x: x - half, y: y - 16, width: half * 2, height: 32, rx: 16 }), label);
  });
  const name = (/** @type {string} */ id) => members.find((one) => one.id === id)?.name ?? id;
  return svg('svg', { viewBox: `0 0 ${width} ${height}`, class: 'graph', role: 'img', 'aria-label': `Graph of ${it.name}: ${ways.map(([a, b]) => `${name(a)} sends to ${name(b)}`).join(', ') || 'nobody sends'}` }, ...edges, ...nodes);
}
