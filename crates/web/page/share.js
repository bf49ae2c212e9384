/** Shares: a link that shows a part of a session read-only, the page of such a link, and the session as one HTML file. */

import { h, iconButton, fill } from './dom.js';
import { get, post, send, path, Fault } from './api.js';
import { Fold } from './fold.js';
import { line, until } from './format.js';
import { entryView } from './message.js';
import { attempt, copy, empty, faultBox, notice } from './notice.js';
import { Room } from './room.js';
import { VirtualList } from './virtual.js';

/** @typedef {import('./types').Share} Share */

/**
 * Opens the dialog that makes and revokes links.
 * @param {Room} room
 */
export function shareDialog(room) {
  const list = h('div', null);
  const hours = h('select', { id: 'share-hours' }, [[24, 'a day'], [168, 'a week'], [720, 'a month']].map(([value, name]) => h('option', { value }, name)));
  const load = async () => {
    try {
      const { shares } = /** @type {{shares: Share[]}} */ (await get('shares'));
      const own = shares.filter((it) => it.session === room.id);
      fill(list, own.length ? h('ul', { class: 'rows' }, own.map((it) => h('li', null, h('code', { class: 'grow' }, it.address), h('span', { class: 'muted small' }, it.expires_ms ? `ends ${until(it.expires_ms)}` : ''),
        h('button', { type: 'button', class: 'small', onclick: () => copy(it.address) }, 'Copy'),
        h('button', { type: 'button', class: 'quiet small', onclick: () => attempt(async () => { await send('DELETE', path(['shares', it.id])); await load(); }) }, 'Revoke')))) : empty('No links so far.'));
    } catch (error) {
      fill(list, faultBox(error, load));
    }
  };
  const dialog = h('dialog', { class: 'sheet', 'aria-labelledby': 'share-title', onclose: () => dialog.remove() },
    h('header', null, h('h2', { id: 'share-title' }, 'Share this session'), h('button', { type: 'button', class: 'quiet', onclick: () => dialog.close() }, 'Close')),
    h('p', { class: 'muted' }, 'Whoever has the link reads the session as it is now, without signing in. Secrets that haft knows are masked. The link ends by itself, and you can revoke it.'),
    h('form', { class: 'inline', onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      void attempt(async () => {
        const made = /** @type {Share} */ (await post('shares', { session: room.id, to: room.fold.head, hours: Number(hours.value) }));
        await copy(made.address);
        await load();
      });
    } }, h('label', { for: 'share-hours' }, 'It ends after'), hours, h('button', { class: 'primary' }, 'Make a link')), list);
  document.body.append(dialog);
  dialog.showModal();
  void load();
}

/**
 * The page of a share.
 * @param {string} id
 */
export function sharedPage(id) {
  const room = new Room('', undefined);
  room.readOnly = true;
  room.ready = true;
  const title = h('h1', null, 'Shared session');
  const about = h('p', { class: 'muted small' });
  const scroller = h('div', { class: 'scroller', tabindex: 0, role: 'log', 'aria-label': 'Conversation', 'aria-live': 'off' });
  const list = new VirtualList(scroller, (entry) => entryView(entry, room), () => {});
  list.atEnd = false;
  const note = h('div', { class: 'opening muted' }, 'Opening…');
  scroller.append(note, list.node);
  const load = async () => {
    try {
      const it = /** @type {{title: string, rows: import('./types').Row[], expires_ms?: number}} */ (await get(path(['shared', id])));
      title.textContent = it.title;
      document.title = `${it.title} — haft`;
      about.textContent = it.expires_ms ? `Read-only, ends ${until(it.expires_ms)}` : 'Read-only';
      for (const row of it.rows) room.fold.add(row);
      note.hidden = true;
      list.sync(room.fold.entries);
      scroller.scrollTop = 0;
    } catch (error) {
      const fault = error instanceof Fault && (error.status === 404 || error.status === 410);
      fill(note, fault ? empty(error.status === 410 ? 'This link has ended.' : 'There is no such link.', 'Ask whoever sent it for a new one.') : faultBox(error, load));
    }
  };
  void load();
  return h('main', { class: 'conversation shared', id: 'main' }, h('header', { class: 'top' }, title, h('span', { class: 'grow' }), about, iconButton('file', 'Save as one page', () => exportPage(scroller, title.textContent ?? '', room))), scroller);
}

/**
 * Saves the conversation as one HTML file that needs nothing else: text, calls, diffs; no program.
 * @param {HTMLElement} main
 * @param {string} title
 * @param {Room} room
 */
export async function exportPage(main, title, room) {
  await attempt(async () => {
    const shown = room.readOnly ? room.fold : await maskedFold(room);
    const name = room.readOnly ? title : shown.title || line(shown.entries.find((it) => it.kind === 'prompt')?.text ?? title, 80);
    const doc = document.implementation.createHTMLDocument(name);
    const style = [...document.styleSheets].flatMap((it) => [...it.cssRules]).map((it) => it.cssText).join('\n');
    const meta = doc.createElement('meta');
    meta.setAttribute('charset', 'utf-8');
    const rules = doc.createElement('meta');
    rules.setAttribute('http-equiv', 'Content-Security-Policy');
    rules.setAttribute('content', "default-src 'none'; style-src 'unsafe-inline'; img-src data:");
    doc.head.prepend(meta, rules);
    doc.documentElement.lang = 'en';
    doc.body.className = 'export';
    const still = new Room(room.id, room.workspace);
    still.readOnly = true;
    still.fold = shown;
    still.opened = new Set(shown.entries.map((it) => it.id));
    const entries = h('main', { class: 'entries' }, h('h1', null, name), shown.entries.map((it) => entryView(it, still).node));
    doc.body.append(doc.importNode(entries, true));
    await inlinePictures(doc);
    // The style is added to the text of the file: this page's own policy has no inline style.
    const text = doc.documentElement.outerHTML.replace('</head>', () => `<style>${style}</style></head>`);
    const file = new Blob([`<!doctype html>\n${text}`], { type: 'text/html' });
    const link = h('a', { href: URL.createObjectURL(file), download: `${name.replace(/[^\w -]+/g, ' ').trim() || 'session'}.html` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    notice('Saved as one page');
  });
  main.focus();
}

/**
 * Reads the session as a share has it: the server masks the secrets that it knows.
 * @param {Room} room
 */
async function maskedFold(room) {
  const fold = new Fold();
  for (let head = 1; fold.head < head;) {
    const it = /** @type {{rows: import('./types').Row[], head: number}} */ (await get(path(['sessions', room.id, 'rows'], { masked: true, limit: 20_000, after: fold.head || undefined, workspace: room.workspace })));
    for (const row of it.rows) fold.add(row);
    head = it.rows.length ? it.head : 0;
  }
  return fold;
}

/**
 * Puts pictures into the file itself.
 * @param {Document} doc
 */
async function inlinePictures(doc) {
  for (const image of doc.querySelectorAll('img')) {
    const address = image.getAttribute('src') ?? '';
    image.closest('a')?.removeAttribute('href');
    const blob = await fetch(address).then((it) => it.blob());
    image.setAttribute('src', await new Promise((resolve) => {
      const reader = new FileReader();
      reader.onload = () => resolve(String(reader.result));
      reader.readAsDataURL(blob);
    }));
  }
}
