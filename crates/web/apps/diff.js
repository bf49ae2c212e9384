/** The changes of a call as diffs, with their undo. */

import { h, fill } from '../page/dom.js';
import { changeView } from '../page/diff.js';
import { outputBox } from '../page/terminal.js';
import { Host, dataOf, textOf } from './host.js';

/** @typedef {import('../page/types').Change} Change */

const main = h('div', null, h('p', { class: 'muted' }, 'The call is running.'));
const host = new Host();
host.onCancelled = () => fill(main, h('p', { class: 'muted' }, 'The call was stopped.'));
host.onResult = (result) => {
  const { call, changes = [] } = /** @type {{call?: string, changes?: Change[]}} */ (dataOf(result));
  if (!call || !changes.length) fill(main, outputBox('Result', textOf(result)));
  else draw(call, changes);
};

/**
 * @param {string} call
 * @param {Change[]} changes
 */
function draw(call, changes) {
  const said = h('p', { role: 'status', hidden: true });
  let newest = call;
  let undone = false;
  const toggle = async (/** @type {HTMLButtonElement} */ button) => {
    button.disabled = true;
    try {
      // An undo is a call itself, by which it is undone.
      newest = dataOf(await host.call('undo', { call: newest })).call ?? newest;
      undone = !undone;
      button.textContent = undone ? 'Undo the undo' : label;
      said.textContent = undone ? 'The files are as they were before the call.' : '';
      figures.classList.toggle('undone', undone);
    } catch (error) {
      said.textContent = error instanceof Error ? error.message : String(error);
    }
    said.hidden = !said.textContent;
    button.disabled = false;
  };
  const label = changes.length > 1 ? `Undo all ${changes.length}` : 'Undo';
  const figures = h('div', { class: 'call-changes' }, changes.map((it, at) => changeView(it, { undo: at === 0 && host.callsTools ? (button) => void toggle(button) : undefined, undoLabel: label })));
  fill(main, figures, said);
}

document.body.append(h('main', { class: 'view' }, h('h1', { class: 'sr' }, 'Changes'), main));
void host.connect();
