/** The panel beside a conversation, in tabs: changes, files, jobs, plan, agents, terminal. */

import { h, iconButton, fill } from './dom.js';
import { agentTree } from './agents.js';
import { changesPanel } from './changes.js';
import { filesPanel } from './files.js';
import { jobsPanel } from './jobs.js';
import { empty } from './notice.js';
import { shellPanel } from './shell.js';
import { planOf, planView } from './todo.js';
import { prefer, preference } from './preferences.js';

/** @typedef {{update: () => void, close: () => void}} Part */

const TABS = ['changes', 'files', 'jobs', 'plan', 'agents', 'terminal'];

export class Panel {
  /**
   * @param {import('./room.js').Room} room
   * @param {(entry: import('./fold.js').Entry) => void} show brings an entry into sight
   * @param {string} [tab]
   */
  constructor(room, show, tab) {
    this.room = room;
    this.show = show;
    this.tab = tab && TABS.includes(tab) ? tab : '';
    /** @type {Part | null} */
    this.part = null;
    this.body = h('div', { class: 'panel-content', role: 'tabpanel', 'aria-labelledby': 'tab-changes', tabindex: -1 });
    this.tabs = TABS.map((it) => h('button', { type: 'button', role: 'tab', id: `tab-${it}`, onclick: () => this.open(it), onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event) }, it.charAt(0).toUpperCase() + it.slice(1)));
    this.node = h('aside', { class: 'panel', 'aria-label': 'Panel', hidden: true },
      h('div', { class: 'panel-head' }, h('div', { role: 'tablist', 'aria-label': 'Panel' }, this.tabs), iconButton('close', 'Close the panel', () => this.hide())), this.body);
    const wide = matchMedia('(min-width: 1180px)').matches;
    const remembered = preference('panel');
    if (this.tab) this.open(this.tab);
    else if (wide && remembered && remembered !== 'closed') this.open(remembered);
  }

  toggle() {
    if (this.node.hidden) {
      const last = preference('panel.last');
      this.open(TABS.includes(last) ? last : 'changes');
      this.tabs.find((it) => it.getAttribute('aria-selected') === 'true')?.focus();
    } else this.hide();
  }

  hide() {
    this.node.hidden = true;
    prefer('panel', 'closed');
    this.part?.close();
    this.part = null;
    this.tab = '';
  }

  /** @param {string} tab */
  open(tab) {
    this.node.hidden = false;
    prefer('panel', tab);
    prefer('panel.last', tab);
    if (tab === this.tab && this.part) return;
    this.tab = tab;
    for (const it of this.tabs) {
      const selected = it.id === `tab-${tab}`;
      it.setAttribute('aria-selected', String(selected));
      it.tabIndex = selected ? 0 : -1;
    }
    this.body.setAttribute('aria-labelledby', `tab-${tab}`);
    this.part?.close();
    fill(this.body);
    this.part = this.build(tab);
    this.part.update();
  }

  /**
   * @param {string} tab
   * @returns {Part}
   */
  build(tab) {
    const { room, body } = this;
    const nothing = () => {};
    switch (tab) {
      case 'changes':
        return changesPanel(room, body);
      case 'files':
        return filesPanel(room.workspace, body);
      case 'jobs':
        return jobsPanel(room, body);
      case 'terminal':
        return shellPanel(room, body);
      case 'plan': {
        const update = () => {
          const plan = planOf(room.fold.entries);
          fill(body, plan ? planView(plan) : empty('There is no plan.', 'When the agent writes a list of tasks, it is shown here.'));
        };
        return { update, close: nothing };
      }
      default: {
        let drawn = '';
        const update = () => {
          const now = [...room.fold.agents.values()].map((it) => `${it.path} ${it.running} ${it.steps}`).join();
          if (now === drawn && body.childNodes.length) return;
          drawn = now;
          fill(body, agentTree(room, this.show) ?? empty('No sub-agents.', 'When the agent gives work to others, they are shown here and in the conversation.'));
        };
        return { update, close: nothing };
      }
    }
  }

  /** @param {string} path */
  showFile(path) {
    this.open('files');
    const part = /** @type {Part & {show?: (path: string) => void}} */ (this.part);
    part?.show?.(path);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const at = this.tabs.findIndex((it) => it === document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 }[event.key];
    if (to === undefined) return;
    const next = this.tabs.at(to % this.tabs.length);
    next?.focus();
    next?.click();
    event.preventDefault();
  }

  update() {
    if (!this.node.hidden) this.part?.update();
  }

  close() {
    this.part?.close();
  }
}
