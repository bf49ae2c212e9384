/** All that waits for a person, of all sessions, made for a phone: approvals and questions, one under another. */

import { h, iconButton } from './dom.js';
import { approvalCard } from './approval.js';
import { live } from './live.js';
import { empty } from './notice.js';
import { questionForm } from './question.js';
import { go } from './router.js';

export function waitingPage() {
  /** @type {Map<string, HTMLElement>} */
  const cards = new Map();
  const list = h('div', { class: 'waiting-list' });
  const nothing = empty('Nothing waits for you.', 'When an agent needs your word, it is shown here at once.');
  const draw = () => {
    /** @type {Map<string, () => HTMLElement>} */
    const wanted = new Map();
    for (const it of live.approvals) {
      const key = `${it.session} ${it.approval.id}`;
      wanted.set(key, () => approvalCard(it.approval, it, () => settled(key)));
    }
    for (const it of live.questions) {
      const key = `${it.session} ${it.question.id}`;
      wanted.set(key, () => questionForm(it.question, it, () => settled(key)));
    }
    for (const [key, node] of cards) {
      if (wanted.has(key)) continue;
      node.remove();
      cards.delete(key);
    }
    for (const [key, make] of wanted) {
      if (cards.has(key)) continue;
      const node = make();
      cards.set(key, node);
      list.append(node);
    }
    nothing.hidden = list.childNodes.length > 0;
  };
  const settled = (/** @type {string} */ key) => {
    cards.get(key)?.remove();
    nothing.hidden = list.childNodes.length > 0;
    /** @type {HTMLElement | null} */ (list.firstElementChild)?.focus();
  };
  draw();
  const end = live.watch(draw);
  return {
    node: h('main', { class: 'page waiting', id: 'main' }, h('header', { class: 'top' }, iconButton('back', 'All sessions', () => go(), { class: 'icon-button only-narrow' }), h('h1', null, 'Waits for you')), h('div', { class: 'page-body' }, nothing, list)),
    focus: () => /** @type {HTMLElement | null} */ (list.firstElementChild)?.focus(),
    close: end,
  };
}
