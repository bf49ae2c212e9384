/** The meter: how full the model's context is, tokens and cost. */

import { h, fill } from './dom.js';
import { get, me } from './api.js';
import { money, short } from './format.js';
import { openPopover } from './popover.js';
import { faultBox } from './notice.js';

/** @typedef {import('./room.js').Room} Room */

/**
 * Makes the meter of a session.
 * @param {Room} room
 */
export function meter(room) {
  const bar = h('span', { class: 'meter-bar', hidden: true }, h('i'));
  const text = h('span');
  const node = h('button', { type: 'button', class: 'meter quiet small', hidden: true, 'aria-haspopup': 'dialog', onclick: () => openPopover(node, 'Context and cost', (body) => void details(room, body)) }, bar, text);
  const update = () => {
    const { usage, contextTokens } = room.fold;
    const window_ = windowOf(room);
    const used = contextTokens > 0 && (window_ ? `${Math.round((contextTokens / window_) * 100)} % of ${short(window_)}` : `${short(contextTokens)} tokens`);
    const cost = usage.cost > 0 && money(usage.cost);
    const parts = [used, cost].filter(Boolean);
    fill(text, used, cost && h('span', { class: 'cost' }, used ? ` · ${cost}` : cost));
    node.hidden = !parts.length;
    bar.hidden = !window_ || !contextTokens;
    if (window_) /** @type {HTMLElement} */ (bar.firstChild).style.width = `${Math.min(100, (contextTokens / window_) * 100)}%`;
    node.setAttribute('aria-label', `Context and cost: ${parts.join(', ')}`);
  };
  return { node, update };
}

/**
 * Returns the size of the model's context window in tokens, 0 where it is not known. The server says it in words: `200k tokens`.
 * @param {Room} room
 */
function windowOf(room) {
  const workspace = me.workspace(room.workspace);
  const name = room.fold.model || room.session?.model || workspace?.model;
  const [, count, unit] = /([\d.]+) ?([kM])? tokens/.exec(workspace?.models?.find((it) => it.name === name)?.about ?? '') ?? [];
  return count ? Number(count) * (unit === 'M' ? 1e6 : unit === 'k' ? 1e3 : 1) : 0;
}

/**
 * @param {Room} room
 * @param {HTMLElement} body
 */
async function details(room, body) {
  const { usage } = room.fold;
  const rows = [['Read, not from the cache', usage.input], ['Read from the cache', usage.cached], ['Written to the cache', usage.kept], ['Answered', usage.output], ['of it thoughts', usage.reasoning]];
  const report = h('div', null, h('p', { class: 'muted small' }, 'Asking for the parts of the context…'));
  fill(body, h('table', { class: 'facts' }, h('tbody', null, rows.map(([name, count]) => h('tr', null, h('th', { scope: 'row' }, String(name)), h('td', null, `${short(Number(count))} tokens`))),
    h('tr', null, h('th', { scope: 'row' }, 'Cost'), h('td', null, usage.costKnown ? money(usage.cost) : 'not known')))), report);
  try {
    const answer = await get(`${room.at('report')}${room.at('report').includes('?') ? '&' : '?'}kind=context`);
    fill(report, h('pre', { class: 'output', tabindex: 0 }, /** @type {{text: string}} */ (answer).text));
  } catch (error) {
    fill(report, faultBox(error));
  }
}
