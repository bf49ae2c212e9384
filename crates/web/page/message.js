/** Entries of a conversation: the person's words, the model's text and thoughts, ends of turns, notes. */

import { h, icon, fill } from './dom.js';
import { me } from './api.js';
import { agentView } from './agents.js';
import { callView, picture } from './call.js';
import { clock, line, money, plural, short } from './format.js';
import { blockNodes } from './markdown.js';
import { openMenu } from './menu.js';
import { copy, sentence } from './notice.js';
import { preference } from './preferences.js';

/**
 * @typedef {import('./fold.js').Entry} Entry
 * @typedef {import('./room.js').Room} Room
 * @typedef {import('./virtual.js').View} View
 */

/**
 * Makes the view of an entry.
 * @param {Entry} entry
 * @param {Room} room
 * @returns {View}
 */
export function entryView(entry, room) {
  switch (entry.kind) {
    case 'call':
      return callView(entry, room);
    case 'text':
      return textView(entry);
    case 'reasoning':
      return reasoningView(entry, room);
    case 'agent':
      return agentView(entry, room);
    case 'prompt':
      return still(promptNode(entry, room));
    case 'end':
      return still(endNode(entry));
    case 'removed':
      return removedView(entry, room);
    case 'picture': {
      const event = entry.event?.event === 'picture' ? entry.event : null;
      return still(h('article', { class: 'entry' }, event && picture(event.picture, room, `Picture of ${event.tool}`)));
    }
    case 'message': {
      const event = entry.event?.event === 'message_shown' ? entry.event : null;
      return still(h('article', { class: 'entry note message', tabindex: -1 },
        h('span', { class: 'tag' }, event?.source ?? 'message'), h('strong', null, event?.from), event?.channel && ` on ${event.channel}`, ': ', entry.text));
    }
    default:
      return still(lineNode(entry));
  }
}

/**
 * @param {HTMLElement} node
 * @returns {View}
 */
function still(node) {
  return { node, update: () => {} };
}

/** @param {Entry} entry */
function lineNode(entry) {
  const told = entry.event?.event === 'told' ? entry.event : null;
  return h('article', { class: told ? 'entry told prose' : 'entry note', tabindex: -1 }, told?.md ? blockNodes(told.md) : entry.text);
}

/**
 * @param {Entry} entry
 * @param {Room} room
 */
function promptNode(entry, room) {
  const event = entry.event?.event === 'turn_began' ? entry.event : null;
  const words = event?.text.trim() ? (event.md_text ? blockNodes(event.md_text) : h('p', null, event.text)) : h('p', { class: 'muted' }, 'The conversation goes on');
  const who = event && me.info && event.by !== me.info.name ? event.by : 'You';
  const menu = !room.readOnly && h('button', {
    type: 'button', class: 'icon-button', 'aria-label': 'What to do from here', 'aria-haspopup': 'menu', title: 'Copy, branch, rewind, undo',
    onclick: (/** @type {Event} */ it) => promptMenu(/** @type {HTMLElement} */ (it.currentTarget), entry, room),
  }, icon('more'));
  return h('article', { class: 'entry prompt', tabindex: -1, 'data-id': entry.id },
    h('header', null, h('h2', null, who), h('time', { datetime: new Date(entry.at).toISOString() }, clock(entry.at)), h('span', { class: 'grow' }), menu),
    h('div', { class: 'prose' }, words),
    event?.attached?.length ? h('ul', { class: 'attached' }, event.attached.map((it) => h('li', null, icon('paper'), it))) : null);
}

/**
 * @param {HTMLElement} button
 * @param {Entry} entry
 * @param {Room} room
 */
function promptMenu(button, entry, room) {
  const prompts = room.fold.entries.filter((it) => it.kind === 'prompt');
  const at = prompts.indexOf(entry);
  const after = at < 0 ? 0 : prompts.length - at;
  const say = me.may('say') && at >= 0;
  openMenu(button, [
    { label: 'Copy', run: () => copy(entry.text) },
    say && at > 0 && { label: 'Branch before this message', hint: 'a new session', run: () => room.branch(after) },
    say && after > 1 && { label: 'Branch after this turn', hint: 'a new session', run: () => room.branch(after - 1) },
    say && !room.fold.turn && { label: 'Rewind to before this', hint: plural(after, 'turn'), run: () => room.rewind(after) },
    me.may('approve') && { label: 'Undo the files of this turn', run: () => room.undo({ turn: entry.seq }) },
  ]);
}

/**
 * @param {Entry} entry
 * @returns {View}
 */
function textView(entry) {
  const body = h('div', { class: 'prose' });
  const node = h('article', { class: 'entry text', tabindex: -1, 'data-id': entry.id }, body);
  let asSource = false;
  let shown = 0;
  const update = () => {
    const source = preference('source') === 'yes' || !entry.blocks?.length;
    if (source !== asSource) {
      body.replaceChildren();
      shown = 0;
    }
    asSource = source;
    body.classList.toggle('source', source);
    if (source) {
      body.textContent = entry.text;
      return;
    }
    const blocks = entry.blocks ?? [];
    const kept = Math.min(entry.kept ?? 0, shown, body.childNodes.length);
    while (body.childNodes.length > kept) body.lastChild?.remove();
    body.append(...blockNodes(blocks.slice(kept)));
    shown = blocks.length;
    entry.kept = shown;
  };
  update();
  return { node, update };
}

/**
 * @param {Entry} entry
 * @param {Room} room
 * @returns {View}
 */
function reasoningView(entry, room) {
  const body = h('div', { class: 'thought' });
  const label = h('span', { class: 'gist' });
  const head = h('button', { type: 'button', class: 'call-head', onclick: () => { if (!room.opened.delete(entry.id)) room.opened.add(entry.id); update(); } },
    h('span', { class: 'mark', 'aria-hidden': 'true' }, '∴'), h('span', { class: 'tool' }, 'thought'), label, h('span', { class: 'chevron' }, icon('open')));
  const node = h('article', { class: 'entry call reasoning', tabindex: -1 }, head, body);
  const update = () => {
    const open = room.opened.has(entry.id) || preference('thoughts') === 'open';
    head.setAttribute('aria-expanded', String(open));
    node.classList.toggle('open', open);
    body.hidden = !open;
    label.textContent = open ? '' : line(entry.text, 140);
    body.textContent = open ? entry.text : '';
  };
  update();
  return { node, update };
}

/** @param {Entry} entry */
function endNode(entry) {
  const event = entry.event?.event === 'turn_ended' ? entry.event : null;
  if (!event) return h('article', { class: 'entry' });
  const usage = event.usage ?? {};
  const tokens = (usage.input ?? 0) + (usage.cached ?? 0) + (usage.kept ?? 0) + (usage.output ?? 0);
  const facts = [
    event.steps > 0 && plural(event.steps, 'step'), tokens > 0 && `${short(tokens)} tokens`,
    typeof event.cost === 'number' && event.cost > 0 && money(event.cost),
  ].filter(Boolean);
  const how = { done: 'Done', cancelled: 'Stopped', limit: 'Stopped at a limit; say “go on” to continue', refused: 'The provider refused to go on', error: 'The turn failed', interrupted: 'Interrupted: haft’s process ended here' }[event.ended] ?? event.ended;
  const bad = event.ended === 'error' || event.ended === 'refused';
  return h('article', { class: 'entry end', tabindex: -1 },
    h('div', { class: 'rule' }, h('span', { class: bad ? 'bad' : null }, how), facts.map((it) => h('span', null, String(it))), h('time', null, clock(entry.at))),
    event.error && h('div', { class: 'fault', role: 'alert' }, h('p', null, sentence(event.error.what)), event.error.next && h('p', { class: 'next' }, event.error.next)));
}

/**
 * Turns that were taken back, folded away.
 * @param {Entry} entry
 * @param {Room} room
 * @returns {View}
 */
function removedView(entry, room) {
  const body = h('div', { class: 'removed-body' });
  const head = h('button', { type: 'button', class: 'quiet small', 'aria-expanded': 'false', onclick: () => {
    const open = body.hidden;
    body.hidden = !open;
    head.setAttribute('aria-expanded', String(open));
    fill(body, open ? (entry.removed ?? []).map((it) => entryView(it, room).node) : null);
  } }, entry.text);
  body.hidden = true;
  return still(h('article', { class: 'entry note removed', tabindex: -1 }, head, body));
}

