/** Groups of agents: who may send to whom as a graph, what each one does, messages, pause and stop. */

import { h, iconButton, fill, svg } from './dom.js';
import { Fault, get, me, path, post } from './api.js';
import { ago } from './format.js';
import { attempt, empty, faultBox } from './notice.js';
import { go } from './router.js';

/**
 * @typedef {{name: string, session: string, state: string, waiting: number, turns?: number, parent?: string}} Member
 * @typedef {{from: string, to: string, channel?: string}} Edge
 * @typedef {{id: string, name: string, state: string, agents: Member[], edges: Edge[], messages?: {at_ms: number, from: string, to: string, text: string}[]}} Group
 */

const EVERY = 1_500;

export function groupsPage() {
  const body = h('div', { class: 'page-body' }, h('p', { class: 'muted' }, 'Reading…'));
  let closed = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let drawn = '';
  const load = async () => {
    clearTimeout(timer);
    try {
      const { groups } = /** @type {{groups: Group[]}} */ (await get('groups'));
      if (closed) return;
      const now = JSON.stringify(groups);
      if (now !== drawn) fill(body, groups.length ? groups.map((it) => groupView(it, load)) : empty('No groups.', '`haft group run` starts several agents that work together; they are shown here.'));
      drawn = now;
      if (groups.some((it) => it.state === 'running')) timer = setTimeout(() => void load(), EVERY);
    } catch (error) {
      if (!closed) fill(body, error instanceof Fault && error.status === 404 ? empty('This server does not show groups yet.', 'In a terminal, `haft group watch` does.') : faultBox(error, load));
    }
  };
  void load();
  return { node: h('main', { class: 'page', id: 'main' }, h('header', { class: 'top' }, iconButton('back', 'All sessions', () => go(), { class: 'icon-button only-narrow' }), h('h1', null, 'Groups')), body), focus: () => {}, close: () => { closed = true; clearTimeout(timer); } };
}

/**
 * @param {Group} it
 * @param {() => Promise<void>} again
 */
function groupView(it, again) {
  const act = (/** @type {string} */ what, /** @type {string} */ agent) => attempt(async () => {
    await post(path(['groups', it.id, what]), agent ? { agent } : {});
    await again();
  });
  const controls = (/** @type {string} */ state, /** @type {string} */ agent) => me.may('approve') && [
    h('button', { type: 'button', class: 'quiet small', onclick: () => act(state === 'paused' ? 'resume' : 'pause', agent) }, state === 'paused' ? 'Resume' : 'Pause'),
    h('button', { type: 'button', class: 'quiet small', onclick: () => act('stop', agent) }, 'Stop')];
  return h('section', { class: 'card group' }, h('header', null, h('h2', { class: 'grow' }, it.name), h('span', { class: 'muted small' }, it.state), controls(it.state, '')),
    graph(it),
    h('ul', { class: 'rows' }, it.agents.map((one) => h('li', null, h('span', { class: `dot ${one.state}` }), h('a', { class: 'grow', href: `#/session/${encodeURIComponent(one.session)}` }, one.name), h('span', { class: 'muted small' }, one.state, one.waiting > 0 && ` · ${one.waiting} in the inbox`), controls(one.state, one.name)))),
    it.messages?.length ? h('ul', { class: 'rows small messages' }, it.messages.map((one) => h('li', null, h('strong', null, `${one.from} → ${one.to}`), h('span', { class: 'grow' }, one.text), h('span', { class: 'muted' }, ago(one.at_ms))))) : null);
}

/**
 * Draws agents on a circle, and an arrow for each edge.
 * @param {Group} it
 */
function graph(it) {
  const [width, height] = [640, 60 + Math.min(it.agents.length, 8) * 40];
  /** @type {Map<string, [number, number]>} */
  const places = new Map(it.agents.map((one, n) => {
    const angle = (n / it.agents.length) * 2 * Math.PI - Math.PI / 2;
    return [one.name, [width / 2 + Math.cos(angle) * (width / 2 - 90), height / 2 + Math.sin(angle) * (height / 2 - 32)]];
  }));
  const edges = it.edges.flatMap((edge) => {
    const [from, to] = [places.get(edge.from), places.get(edge.to)];
    if (!from || !to || from === to) return [];
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const far = Math.hypot(dx, dy) || 1;
    const [ux, uy] = [dx / far, dy / far];
    const [x, y] = [to[0] - ux * 34, to[1] - uy * 22];
    return [svg('path', { class: 'edge', d: `M${from[0] + ux * 34} ${from[1] + uy * 22}L${x} ${y}M${x - ux * 8 - uy * 5} ${y - uy * 8 + ux * 5}L${x} ${y}L${x - ux * 8 + uy * 5} ${y - uy * 8 - ux * 5}` })];
  });
  const nodes = it.agents.map((one) => {
    const [x, y] = /** @type {[number, number]} */ (places.get(one.name));
    const label = svg('text', { x, y: y + 5, 'text-anchor': 'middle' });
    label.textContent = one.waiting > 0 ? `${one.name} (${one.waiting})` : one.name;
    const half = Math.min(84, 18 + (label.textContent?.length ?? 0) * 4);
    return svg('g', { class: `node ${one.state}` }, svg('rect', { x: x - half, y: y - 16, width: half * 2, height: 32, rx: 16 }), label);
  });
  const names = it.edges.map((edge) => `${edge.from} sends to ${edge.to}`).join(', ');
  return svg('svg', { viewBox: `0 0 ${width} ${height}`, class: 'graph', role: 'img', 'aria-label': `Graph of ${it.name}: ${names || 'no edges'}` }, ...edges, ...nodes);
}
