/** Questions of the agent, as forms: options as buttons, and always room for other words. */

import { h } from './dom.js';
import { Fault, me, path, post } from './api.js';
import { attempt, notice, sentence } from './notice.js';

/**
 * Makes the form of an open question.
 * @param {import('./types').Question} it
 * @param {{session: string, workspace?: string, title?: string}} where
 * @param {() => void} onSettled
 */
export function questionForm(it, where, onSettled) {
  const may = me.may('say');
  const titleId = `question-${where.session}-${it.id}`;
  const input = h('textarea', { rows: 2, id: `answer-${it.id}`, placeholder: it.options?.length ? 'or in your words' : 'Your answer' });
  const answer = (/** @type {string | null} */ text, /** @type {HTMLButtonElement | null} */ button) => attempt(async () => {
    try {
      await post(path(['sessions', where.session, 'questions', it.id], { workspace: where.workspace }), { text });
    } catch (error) {
      if (!(error instanceof Fault && error.status === 409)) throw error;
      notice(sentence(error.winner || error.message), { next: error.next });
    }
    onSettled();
  }, button);
  const own = () => input.value.trim() && answer(input.value.trim(), null);
  return h('form', { class: 'ask question', 'aria-labelledby': titleId, tabindex: -1, onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void own(); } },
    h('h2', { id: titleId }, it.text),
    where.title !== undefined && h('p', { class: 'muted small' }, 'in ', h('a', { href: `#/session/${encodeURIComponent(where.session)}` }, where.title || 'a session without words')),
    may ? [
      h('div', { class: 'options' }, (it.options ?? []).map((one) => h('button', { type: 'button', onclick: (/** @type {Event} */ event) => answer(one, /** @type {HTMLButtonElement} */ (event.currentTarget)) }, one))),
      h('label', { class: 'sr', for: input.id }, 'Answer'), input,
      h('div', { class: 'buttons' }, h('button', { class: it.options?.length ? null : 'primary' }, 'Answer'),
        h('button', { type: 'button', class: 'quiet', onclick: () => answer(null, null) }, 'I would rather not answer')),
      it.seconds && h('p', { class: 'muted small' }, `It is taken back after ${it.seconds} s.`),
    ] : h('p', { class: 'muted' }, `Your role, ${me.info?.role ?? 'view'}, can’t answer.`));
}
