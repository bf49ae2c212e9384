/** Background jobs of a session: their state, live output, input and stop. */

import { h, fill } from './dom.js';
import { get, me, post } from './api.js';
import { duration } from './format.js';
import { attempt, empty, faultBox, notice } from './notice.js';
import { lineNodes } from './terminal.js';

/**
 * @typedef {import('./types').Job} Job
 * @typedef {import('./room.js').Room} Room
 */

/** While a job runs, its output is asked for so often, in milliseconds. */
const EVERY = 1_000;

/** @param {string} state */
function isOver(state) {
  return ['done', 'error', 'cancelled', 'failed'].includes(state);
}

/**
 * Shows the jobs of a session in a panel.
 * @param {Room} room
 * @param {HTMLElement} body
 */
export function jobsPanel(room, body) {
  /** @type {Map<string, ReturnType<typeof jobCard>>} */
  const cards = new Map();
  const list = h('div', { class: 'job-list' });
  let seen = -1;
  let closed = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const load = async () => {
    clearTimeout(timer);
    try {
      const { jobs } = /** @type {{jobs: Job[]}} */ (await get(room.at('jobs')));
      if (closed) return;
      if (!jobs.length) {
        cards.clear();
        fill(body, empty('No jobs.', 'The agent starts one for what takes long: a server, a build, a test run. It is shown here with its output.'));
      } else {
        if (!list.isConnected) fill(body, list);
        for (const job of jobs) {
          const known = cards.get(job.id) ?? jobCard(job, room);
          if (!cards.has(job.id)) {
            cards.set(job.id, known);
            list.prepend(known.node);
          }
          known.update(job);
        }
        await Promise.all([...cards.values()].map((it) => it.load()));
      }
      if (!closed && jobs.some((it) => !isOver(it.state)) && !document.hidden) timer = setTimeout(load, EVERY);
    } catch (error) {
      if (!closed) fill(body, faultBox(error, load));
    }
  };
  return {
    update: () => {
      if (seen === room.fold.ends) return;
      seen = room.fold.ends;
      void load();
    },
    close: () => {
      closed = true;
      clearTimeout(timer);
    },
  };
}

/**
 * @param {Job} first
 * @param {Room} room
 */
function jobCard(first, room) {
  let job = first;
  let loaded = '';
  const state = h('span', { class: 'muted' });
  const output = h('pre', { class: 'output', tabindex: 0, role: 'group', 'aria-label': `Output of ${first.id}` });
  const details = h('details', { ontoggle: () => void load() }, h('summary', null, 'Output'), output);
  const input = h('input', { type: 'text', 'aria-label': `Input for ${first.id}`, placeholder: 'Type a line and press Enter', autocomplete: 'off' });
  const form = h('form', { class: 'job-input', hidden: true, onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const text = input.value;
    void attempt(async () => {
      await post(room.at('jobs', job.id, 'input'), { input: `${text}\n` });
      input.value = '';
      loaded = '';
      await load();
    });
  } }, input);
  const stop = h('button', { type: 'button', class: 'quiet small', onclick: () => attempt(async () => {
    update(await post(room.at('jobs', job.id, 'stop')));
    notice(`${job.id} is stopped`);
  }, stop) }, 'Stop');
  const node = h('section', { class: 'job', 'aria-label': first.title },
    h('header', null, h('span', { class: 'dot' }), h('strong', { class: 'grow' }, first.title || first.tool), stop), h('p', { class: 'small' }, h('code', null, first.id), ' ', state), form, details);
  const load = async () => {
    const version = `${job.state} ${isOver(job.state) ? '' : Math.floor(job.ms / EVERY)}`;
    if (!details.open || version === loaded) return;
    loaded = version;
    const whole = /** @type {Job} */ (await get(room.at('jobs', job.id)));
    const atEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 30;
    fill(output, whole.lines?.length ? lineNodes(whole.lines) : h('span', { class: 'muted' }, 'Nothing so far'));
    if (atEnd) output.scrollTop = output.scrollHeight;
  };
  /** @param {Job} now */
  function update(now) {
    job = now;
    state.textContent = `${now.state} · ${duration(now.ms)}`;
    node.classList.toggle('running', !isOver(now.state));
    stop.hidden = isOver(now.state) || !me.may('say');
    form.hidden = isOver(now.state) || !me.may('approve');
    if (now.state === 'waiting for input') details.open = true;
  }
  return { node, update, load };
}
