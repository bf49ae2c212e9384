/** Sub-agents: a card in the conversation that opens to all that the agent did, with its own sub-agents inside. */

import { h, icon, fill } from './dom.js';
import { line, plural } from './format.js';
import { entryView } from './message.js';

/**
 * @typedef {import('./fold.js').Entry} Entry
 * @typedef {import('./fold.js').AgentState} AgentState
 * @typedef {import('./room.js').Room} Room
 * @typedef {import('./virtual.js').View} View
 */

/** Entries of an agent that are shown at once; the rest by a button. */
const AT_ONCE = 100;

/**
 * @param {Entry} entry
 * @param {Room} room
 * @returns {View}
 */
export function agentView(entry, room) {
  const agent = /** @type {AgentState} */ (entry.agent);
  const gist = h('span', { class: 'gist' });
  const meta = h('span', { class: 'meta' });
  const mark = h('span', { class: 'mark', role: 'img' });
  const head = h('button', { type: 'button', class: 'call-head', 'aria-expanded': 'false', onclick: () => { if (!room.opened.delete(entry.id)) room.opened.add(entry.id); update(); } },
    mark, h('span', { class: 'tool' }, entry.text), gist, meta, h('span', { class: 'chevron' }, icon('open')));
  const body = h('div', { class: 'agent-body' });
  const node = h('article', { class: 'entry call agent', tabindex: -1, 'data-id': entry.id }, head, body);
  /** @type {Map<Entry, {view: View, version: number}>} */
  let shown = new Map();
  let from = 0;
  const drop = () => {
    for (const it of shown.values()) it.view.drop?.();
    shown = new Map();
    fill(body);
  };
  const update = () => {
    const open = room.opened.has(entry.id);
    const last = agent.entries.findLast((it) => it.kind === 'text' || it.kind === 'call');
    node.classList.toggle('open', open);
    node.classList.toggle('running', agent.running);
    mark.textContent = agent.running ? '…' : '✓';
    mark.setAttribute('aria-label', agent.running ? 'at work' : 'done');
    gist.textContent = line(last?.kind === 'call' ? `runs ${last.call?.tool}` : last?.text ?? 'begins', 120);
    meta.textContent = agent.steps ? plural(agent.steps, 'step') : '';
    head.setAttribute('aria-expanded', String(open));
    body.hidden = !open;
    if (open) draw();
    else if (shown.size) drop();
  };
  const draw = () => {
    if (!shown.size) from = Math.max(0, agent.entries.length - AT_ONCE);
    const entries = agent.entries.slice(from);
    for (const [it, known] of shown) {
      if (!entries.includes(it)) {
        known.view.node.remove();
        shown.delete(it);
      }
    }
    for (const it of entries) {
      const known = shown.get(it);
      if (!known) {
        const view = entryView(it, room);
        shown.set(it, { view, version: it.version });
        body.append(view.node);
      } else if (known.version !== it.version) {
        known.version = it.version;
        known.view.update();
      }
    }
    if (from > 0 && !body.querySelector('.earlier')) {
      body.prepend(h('button', { type: 'button', class: 'quiet small earlier', onclick: () => { drop(); from = 0; shown.set(entry, { view: { node: h('span'), update: () => {} }, version: 0 }); draw(); } }, `Show ${plural(from, 'earlier entry', 'earlier entries')}`));
    }
  };
  update();
  return { node, update, drop };
}

/**
 * The sub-agents of a session as a tree, for the panel.
 * @param {Room} room
 * @param {(entry: Entry) => void} show
 */
export function agentTree(room, show) {
  const all = [...room.fold.agents.values()].filter((it) => it.path);
  if (!all.length) return null;
  return h('ul', { class: 'rows agent-tree' }, all.map((it) => {
    const node = h('li', null, h('button', { type: 'button', class: 'row-button', onclick: () => it.shown && show(it.shown) },
      h('span', { class: it.running ? 'dot running' : 'dot' }), h('span', { class: 'grow' }, it.path.split('/').pop()),
      h('span', { class: 'muted' }, it.running ? 'at work' : 'done', it.steps ? ` · ${plural(it.steps, 'step')}` : '')));
    node.style.setProperty('--depth', String(it.path.split('/').length - 1));
    return node;
  }));
}
