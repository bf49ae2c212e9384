/** The person's terminal: commands in the session's sandbox, with their output, newest at the end. */

import { h, fill } from './dom.js';
import { me, post } from './api.js';
import { duration } from './format.js';
import { attempt, empty } from './notice.js';
import { lineNodes } from './terminal.js';

/** Commands that are shown. */
const MOST = 50;

/**
 * @param {import('./room.js').Room} room
 * @param {HTMLElement} body
 */
export function shellPanel(room, body) {
  const output = h('div', { class: 'shell-output', tabindex: 0, role: 'log', 'aria-label': 'Terminal' });
  const input = h('input', { type: 'text', class: 'mono', 'aria-label': 'Command', placeholder: 'git status', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', disabled: !me.may('approve') });
  /** @type {string[]} */
  const past = [];
  let at = 0;
  const form = h('form', { class: 'shell-input', onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const command = input.value.trim();
    if (!command) return;
    past.push(command);
    at = past.length;
    input.value = '';
    void attempt(() => post(room.at('command'), { command }));
  }, onkeydown: (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'ArrowUp' && event.key !== 'ArrowDown') return;
    at = Math.max(0, Math.min(past.length, at + (event.key === 'ArrowUp' ? -1 : 1)));
    input.value = past[at] ?? '';
    event.preventDefault();
  } }, h('span', { class: 'mono', 'aria-hidden': 'true' }, '$'), input);
  fill(body, output, form, h('p', { class: 'muted small' }, me.may('approve') ? 'Commands run in the session’s sandbox. The agent reads their output with your next message.' : 'Your role may not run commands.'));
  let drawn = '';
  const update = () => {
    const commands = ownCommands(room.fold.entries).slice(-MOST);
    const now = commands.map(({ line, call }) => `${line.id} ${call?.version}`).join();
    if (now === drawn && output.childNodes.length) return;
    drawn = now;
    fill(output, commands.length ? commands.map(({ line, call }) => {
      const answer = call?.call?.answer;
      const text = line.event?.event === 'command' ? line.event.command : line.text;
      return h('div', { class: 'shell-command' }, h('div', { class: 'mono' }, h('span', { class: 'muted' }, '$ '), h('strong', null, text)),
        answer ? h('pre', { class: 'output' }, answer.lines?.length ? lineNodes(answer.lines) : answer.text) : h('p', { class: 'muted small' }, call?.call?.progress || 'running…'),
        answer && h('p', { class: 'muted small' }, answer.exit ? `exit ${answer.exit} · ` : '', duration(answer.ms)));
    }) : empty('A terminal in the session’s sandbox.', 'Type a command below. In the conversation, a message that begins with ! does the same.'));
    output.scrollTop = output.scrollHeight;
  };
  return { update, close: () => {} };
}

/**
 * Returns the person's commands, each with its call.
 * @param {import('./fold.js').Entry[]} entries
 */
function ownCommands(entries) {
  return entries.flatMap((line, at) => (line.event?.event === 'command' ? [{ line, call: entries.slice(at + 1, at + 6).find((it) => it.kind === 'call') }] : []));
}
