/** The agent's list of tasks, as a plan: read from its newest calls of a tool that keeps one. */

import { h } from './dom.js';

/** @typedef {{text: string, status: string}} Task */

/** What tools of the toolsets call the list. */
const LISTS = ['tasks', 'todos', 'plan', 'items'];
const DONE = /^(done|completed|complete)$/;

/**
 * Returns the plan as the newest calls left it; null where there is none.
 * @param {import('./fold.js').Entry[]} entries
 * @returns {Task[] | null}
 */
export function planOf(entries) {
  /** @type {Task[] | null} */
  let plan = null;
  for (const { call } of entries) {
    if (!call || call.state === 'failed' || !/todo|plan/i.test(call.tool) || typeof call.arguments !== 'object' || !call.arguments) continue;
    const args = /** @type {Record<string, any>} */ (call.arguments);
    const list = LISTS.map((it) => args[it]).find(Array.isArray);
    if (list) plan = list.map(task);
    else if (args.action === 'clear') plan = null;
    else if (args.action === 'update' && plan) {
      const known = plan[Number(args.task ?? args.index) - 1];
      if (known && args.status) known.status = String(args.status);
    }
  }
  return plan;
}

/**
 * @param {any} it
 * @returns {Task}
 */
function task(it) {
  if (typeof it === 'string') return { text: it, status: 'pending' };
  return { text: String(it?.text ?? it?.content ?? it?.step ?? it?.title ?? it?.task ?? it?.description ?? ''), status: String(it?.status ?? 'pending') };
}

/** @param {Task[]} plan */
export function planSummary(plan) {
  return `${plan.filter((it) => DONE.test(it.status)).length} of ${plan.length}`;
}

/** @param {Task[]} plan */
export function planView(plan) {
  return h('ol', { class: 'plan' }, plan.map((it) => {
    const state = DONE.test(it.status) ? 'done' : it.status === 'in_progress' ? 'now' : it.status === 'pending' ? 'later' : 'off';
    return h('li', { class: state }, h('span', { class: 'mark', role: 'img', 'aria-label': it.status.replace('_', ' ') }, { done: '✓', now: '→', later: '○', off: '–' }[state]), h('span', null, it.text));
  }));
}
