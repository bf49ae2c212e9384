/** The jobs of a session: how each stands, the end of its output, a stop. */

import { h, fill } from '../page/dom.js';
import { duration } from '../page/format.js';
import { outputBox } from '../page/terminal.js';
import { Host, dataOf, textOf } from './host.js';

/** @typedef {{id: string, tool: string, title: string, state: string, ms: number, tail: string, over: boolean}} Job */

/** How often jobs that run are asked for, in milliseconds. */
const EVERY = 2_000;

const list = h('div', { class: 'jobs' }, h('p', { class: 'muted' }, 'The call is running.'));
const said = h('p', { role: 'status', hidden: true });
const main = h('div', null, list, said);
const host = new Host();
/** Jobs whose output is open. @type {Set<string>} */
const opened = new Set();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

host.onEnd = () => clearTimeout(timer);
host.onResult = (result) => {
  const { jobs } = /** @type {{jobs?: Job[]}} */ (dataOf(result));
  if (!jobs) {
    fill(list, outputBox('Result', textOf(result)));
    return;
  }
  draw(jobs);
  clearTimeout(timer);
  if (host.callsTools && jobs.some((it) => !it.over)) timer = setTimeout(() => void attempt('jobs', {}), EVERY);
};

/**
 * @param {string} tool
 * @param {Record<string, unknown>} args
 */
async function attempt(tool, args) {
  try {
    said.hidden = true;
    host.onResult(await host.call(tool, args));
  } catch (error) {
    said.textContent = error instanceof Error ? error.message : String(error);
    said.hidden = false;
  }
}

/** @param {Job[]} jobs */
function draw(jobs) {
  fill(list, jobs.length ? jobs.toReversed().map(card) : h('p', { class: 'muted' }, 'No jobs.'));
}

/** @param {Job} job */
function card(job) {
  const details = h('details', { open: opened.has(job.id), ontoggle: () => { if (details.open) opened.add(job.id); else opened.delete(job.id); } },
    h('summary', null, 'Output'), outputBox(`Output of ${job.id}`, job.tail || 'Nothing so far'));
  const stop = !job.over && host.callsTools && h('button', { type: 'button', class: 'quiet small', onclick: () => attempt('stop_task', { job: job.id }) }, 'Stop');
  return h('section', { class: job.over ? 'job' : 'job running', 'aria-label': job.title || job.tool },
    h('header', null, h('span', { class: 'dot' }), h('strong', { class: 'grow' }, job.title || job.tool), stop),
    h('p', { class: 'small' }, h('code', null, job.id), ' ', h('span', { class: 'muted' }, `${job.state} · ${duration(job.ms)}`)), details);
}

document.body.append(h('main', { class: 'view' }, h('h1', { class: 'sr' }, 'Jobs'), main));
void host.connect();
