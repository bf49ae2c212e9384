/** A session on the screen: its head, the conversation, what waits for the person, the field to write in, the panel beside. */

import { h, icon, iconButton, fill } from './dom.js';
import { get, me, send } from './api.js';
import { approvalCard } from './approval.js';
import { Composer } from './composer.js';
import { plural } from './format.js';
import { confirm, openMenu, prompt } from './menu.js';
import { entryView } from './message.js';
import { meter } from './meter.js';
import { attempt, copy, empty, faultBox, notice } from './notice.js';
import { Panel } from './panel.js';
import { markSeen, prefer, preference } from './preferences.js';
import { questionForm } from './question.js';
import { Room } from './room.js';
import { go } from './router.js';
import { exportPage, shareDialog } from './share.js';
import { chooser } from './switches.js';
import { planOf, planSummary } from './todo.js';
import { VirtualList } from './virtual.js';

/**
 * Shows a session. Returns what the page needs of it.
 * @param {string} id
 * @param {string} [tab] the panel that is open at once
 */
export function conversationPage(id, tab) {
  const room = new Room(id, undefined);
  const title = h('h1', null, 'Session');
  const status = h('p', { class: 'connection', role: 'status', hidden: true });
  const scroller = h('div', { class: 'scroller', tabindex: 0, role: 'log', 'aria-label': 'Conversation', 'aria-live': 'off' });
  const older = h('div', { class: 'opening muted' }, 'Opening the session…');
  const list = new VirtualList(scroller, (entry) => entryView(entry, room), () => jump.classList.toggle('shown', !list.atEnd));
  const jump = h('button', { type: 'button', class: 'jump', onclick: () => { list.toEnd(); jump.classList.remove('shown'); } }, 'Newest', icon('open'));
  const asks = h('div', { class: 'asks' });
  const gauge = meter(room);
  const announce = h('div', { class: 'sr', role: 'status' });
  const panel = new Panel(room, (entry) => { list.reveal(entry)?.focus(); }, tab);
  const switches = h('span', { class: 'switches' });
  const composer = new Composer({
    draft: id, beside: switches,
    upload: async (file) => ({ upload: (await room.upload(file)).upload }),
    send: (it) => {
      list.toEnd();
      return it.text.startsWith('!') && me.may('approve') && !it.attachments.length
        ? send('POST', room.at('command'), { body: { command: it.text.slice(1).trim() } })
        : room.prompt(it);
    },
    stop: () => room.cancel(),
  });
  const foot = h('div', { class: 'foot' }, jump, asks, composer.node);
  const planChip = h('button', { type: 'button', class: 'quiet small chip', hidden: true, onclick: () => panel.open('plan') });
  const main = h('main', { class: 'conversation', id: 'main' },
    h('header', { class: 'top' },
      iconButton('back', 'All sessions', () => go(), { class: 'icon-button only-narrow' }), title, h('span', { class: 'grow' }), planChip, gauge.node,
      iconButton('more', 'Session menu', (event) => menu(/** @type {HTMLElement} */ (event.currentTarget)), { 'aria-haspopup': 'menu' }),
      iconButton('panel', 'Panel: changes, files, jobs (P)', () => panel.toggle())),
    status, scroller, foot, announce);
  scroller.append(older, list.node);
  composer.takeDrops(main);
  room.openFile = (path) => panel.showFile(path);
  room.onRewound = (said) => composer.write(said);

  const menu = (/** @type {HTMLElement} */ button) => {
    const session = room.session;
    const say = me.may('say');
    openMenu(button, [
      say && { label: 'Rename…', run: async () => {
        const name = await prompt('Title of the session', title.textContent ?? '', 'Rename');
        if (name?.trim()) await room.patch({ title: name.trim() });
      } },
      say && { label: session?.archived ? 'Take back from the archive' : 'Archive', run: () => room.patch({ archived: !session?.archived }) },
      say && { label: 'Branch from here', hint: 'a new session', run: () => room.branch(0) },
      say && { label: 'Summarize to free the context', run: () => attempt(async () => {
        notice('The model writes a summary; this takes a moment');
        await room.compactNow();
      }) },
      me.may('approve') && { label: 'Undo the newest change', run: () => room.undo({}) },
      { label: 'Copy as text', run: () => copy(room.fold.plainText()) },
      { label: preference('source') === 'yes' ? 'Show text formatted' : 'Show text as it was written', run: () => {
        prefer('source', preference('source') === 'yes' ? '' : 'yes');
        list.refresh(room.fold.entries);
      } },
      { label: 'Save as one page…', hint: 'HTML', run: () => exportPage(main, title.textContent ?? '', room) },
      me.may('own') && { label: 'Share a link…', run: () => shareDialog(room) },
      me.may('own') && { label: 'Delete…', bad: true, run: async () => {
        if (!(await confirm('Delete this session?', 'The conversation is gone for good. Files in the workspace stay.', 'Delete it'))) return;
        await attempt(async () => {
          await send('DELETE', room.at());
          go();
        });
      } },
    ]);
  };

  /** @type {ReturnType<typeof chooser> | null} */
  let chosen = null;
  let shape = -1;
  let wasRunning = false;
  /** @type {Map<string, HTMLElement>} */
  const asked = new Map();
  room.onChange = () => {
    const fold = room.fold;
    const name = fold.title || room.session?.title || firstWords(room) || 'New session';
    if (title.textContent !== name) title.textContent = name;
    document.title = `${name} — haft`;
    showConnection();
    if (!room.ready) {
      if (fold.head) older.textContent = `Reading ${plural(fold.head, 'event')}…`;
      return;
    }
    older.hidden = true;
    if (shape !== fold.shape) {
      shape = fold.shape;
      list.sync(fold.entries);
    }
    if (fold.changed.size) list.refresh(fold.changed);
    fold.changed.clear();
    if (!fold.entries.length) {
      older.hidden = false;
      fill(older, empty('Nothing is said yet.', 'Write what you want done, below. Drop files anywhere here to attach them.'));
    }
    composer.show(!!fold.turn, fold.turn ? `${fold.doing}…` : '');
    composer.node.hidden = !room.canSay;
    showAsks();
    gauge.update();
    chosen?.update();
    panel.update();
    const plan = planOf(fold.entries);
    planChip.hidden = !plan;
    if (plan) planChip.textContent = `Plan ${planSummary(plan)}`;
    if (wasRunning && !fold.turn) announce.textContent = 'The turn has ended';
    wasRunning = !!fold.turn;
    if (!document.hidden) markSeen(id, fold.head);
  };

  const showConnection = () => {
    const text = room.fault ? '' : room.state === 'waiting' || (room.state === 'connecting' && room.ready) ? 'The connection to haft broke; trying again. Nothing is lost: the page goes on where it was.' : room.state === 'gone' ? 'This session was deleted.' : '';
    status.hidden = !text;
    if (status.textContent !== text) status.textContent = text;
    if (room.fault) fill(older, faultBox(room.fault, () => location.reload()));
  };

  const showAsks = () => {
    const { approvals, questions } = room.fold;
    for (const [key, node] of asked) {
      if (!approvals.has(key) && !questions.has(key)) {
        node.remove();
        asked.delete(key);
      }
    }
    const where = { session: id, workspace: room.workspace };
    const settled = (/** @type {string} */ key) => () => {
      asked.get(key)?.remove();
    };
    for (const it of approvals.values()) {
      if (asked.has(it.id)) continue;
      announce.textContent = `The agent asks for approval: ${it.tool} ${it.about}`;
      add(it.id, approvalCard(it, where, settled(it.id)));
    }
    for (const it of questions.values()) {
      if (asked.has(it.id)) continue;
      announce.textContent = `The agent asks: ${it.text}`;
      add(it.id, questionForm(it, where, settled(it.id)));
    }
  };
  const add = (/** @type {string} */ key, /** @type {HTMLElement} */ node) => {
    asked.set(key, node);
    asks.append(node);
    // Whoever writes goes on writing; everybody else can decide by a key at once.
    const at = document.activeElement;
    if (!at || at === document.body || at === scroller || (at === composer.input && !composer.input.value)) node.focus({ preventScroll: true });
  };

  room.open();
  get(room.at()).then((it) => {
    room.session = /** @type {import('./types').Session} */ (it);
    room.workspace ??= room.session.workspace;
    chosen = chooser(room);
    fill(switches, chosen.nodes);
    panel.update();
    room.changed();
  }, () => {});

  return {
    node: h('div', { class: 'session-page' }, main, panel.node),
    focus: () => (matchMedia('(pointer: fine)').matches ? composer.input : scroller).focus(),
    close: () => {
      room.close();
      list.close();
      panel.close();
    },
    keys: /** @type {Record<string, () => void>} */ ({
      j: () => step(scroller, 1), k: () => step(scroller, -1), c: () => composer.input.focus(), p: () => panel.toggle(), G: () => list.toEnd(),
      a: () => /** @type {HTMLElement | null} */ (asks.firstElementChild)?.focus(), u: () => void room.undo({}), '.': () => void room.cancel(),
    }),
    commands: () => [
      ...['changes', 'files', 'jobs', 'plan', 'agents', 'terminal'].map((it) => ({ label: `Show ${it}`, run: () => panel.open(it) })),
      { label: 'Stop the turn', keys: 'Ctrl .', run: () => room.cancel() }, { label: 'Undo the newest change', keys: 'u', run: () => room.undo({}) },
      { label: 'Branch from here', run: () => room.branch(0) }, { label: 'Copy the conversation as text', run: () => copy(room.fold.plainText()) },
    ],
    room,
  };
}

/** @param {Room} room */
function firstWords(room) {
  return room.fold.entries.find((it) => it.kind === 'prompt' && it.text)?.text.split('\n')[0]?.slice(0, 80) ?? '';
}

/**
 * Moves the focus from entry to entry.
 * @param {HTMLElement} scroller
 * @param {1 | -1} by
 */
function step(scroller, by) {
  const all = /** @type {HTMLElement[]} */ ([...scroller.querySelectorAll('.chunk > .entry')]);
  const at = all.findIndex((it) => it.contains(document.activeElement));
  const top = scroller.getBoundingClientRect().top;
  const next = at >= 0 ? all[at + by] : by > 0 ? all.find((it) => it.getBoundingClientRect().top >= top) : all.at(-1);
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: 'nearest' });
}
