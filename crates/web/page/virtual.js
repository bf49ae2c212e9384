/**
 * A long list of entries: only the chunks near the visible part are in the page, all others keep their height. A list that is scrolled
 * to its end stays there as it grows, until the person scrolls up.
 */

import { h } from './dom.js';

/** @typedef {import('./fold.js').Entry} Entry */
/**
 * The nodes of an entry.
 * @typedef {object} View
 * @property {HTMLElement} node
 * @property {() => void} update
 * @property {() => void} [drop]
 */
/**
 * @typedef {object} Chunk
 * @property {HTMLElement} node
 * @property {Entry[]} entries
 * @property {Map<Entry, View> | null} views
 */

const CHUNK = 20;
/** Height of an entry that was never shown, in pixels. */
const GUESS = 48;
/** A list that is so near to its end counts as there. */
const NEAR = 48;

export class VirtualList {
  /**
   * @param {HTMLElement} scroller
   * @param {(entry: Entry) => View} render
   * @param {() => void} onScroll
   */
  constructor(scroller, render, onScroll) {
    this.scroller = scroller;
    this.render = render;
    this.onScroll = onScroll;
    this.node = h('div', { class: 'entries' });
    /** @type {Chunk[]} */
    this.chunks = [];
    /** @type {Map<Element, Chunk>} */
    this.byNode = new Map();
    this.atEnd = true;
    this.watch = new IntersectionObserver((seen) => this.look(seen), { root: scroller, rootMargin: '1200px 0px' });
    // A picture that loads or a card that opens makes the list longer.
    this.sizes = new ResizeObserver(() => this.atEnd && this.toEnd());
    this.sizes.observe(this.node);
    this.sizes.observe(scroller);
    /** The place of the last scroll event, or the one that `toEnd` chose. */
    this.last = 0;
    scroller.addEventListener('scroll', () => this.scrolled(), { passive: true });
    // Leaves the end before the first event of a scroll: that may come only after the list has grown.
    scroller.addEventListener('wheel', (event) => event.deltaY < 0 && this.leaveEnd(), { passive: true });
    scroller.addEventListener('keydown', (event) => this.key(event));
  }

  scrolled() {
    const at = this.scroller.scrollTop;
    // The end may move away before the event comes. A scroll up leaves the end even if its first step is short.
    if (at > this.last) this.atEnd ||= this.fromEnd() < NEAR;
    else if (at < this.last) this.atEnd = this.fromEnd() < 1;
    this.last = at;
    this.onScroll();
  }

  /** How far the visible part is from the end, in pixels. */
  fromEnd() {
    const it = this.scroller;
    return it.scrollHeight - it.scrollTop - it.clientHeight;
  }

  toEnd() {
    this.atEnd = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.last = this.scroller.scrollTop;
  }

  leaveEnd() {
    // Also at the beginning: a long list that was just put into the page is not at its end yet.
    if (this.scroller.scrollHeight > this.scroller.clientHeight) this.atEnd = false;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || target.closest('input, textarea, select, pre')) return;
    if (event.key === 'Enter' && target.matches('.entry')) /** @type {HTMLElement | null} */ (target.querySelector('[aria-expanded]'))?.click();
    const isSpaceUp = event.key === ' ' && event.shiftKey && target === this.scroller;
    if (isSpaceUp || event.key === 'PageUp' || event.key === 'ArrowUp') this.leaveEnd();
    if (event.shiftKey || (event.key !== 'Home' && event.key !== 'End')) return;
    // At once: entries that are measured on the way would end a smooth scroll.
    event.preventDefault();
    if (event.key === 'End') this.toEnd();
    else {
      this.leaveEnd();
      this.scroller.scrollTop = 0;
    }
  }

  /**
   * Shows these entries; chunks that did not change stay as they are.
   * @param {Entry[]} entries
   */
  sync(entries) {
    let same = 0;
    let at = 0;
    for (const chunk of this.chunks) {
      if (!chunk.entries.every((it, n) => it === entries[at + n])) break;
      at += chunk.entries.length;
      same += 1;
    }
    for (const chunk of this.chunks.splice(same)) this.remove(chunk);
    const last = this.chunks.at(-1);
    if (last && last.entries.length < CHUNK) {
      const more = entries.slice(at, at + CHUNK - last.entries.length);
      last.entries.push(...more);
      for (const entry of more) if (last.views) this.mount(last, entry);
      at += more.length;
    }
    while (at < entries.length) {
      this.append(entries.slice(at, at + CHUNK));
      at += CHUNK;
    }
    for (const chunk of this.chunks.slice(-2)) this.fill(chunk);
    if (this.atEnd) this.toEnd();
  }

  /**
   * Draws entries anew that changed.
   * @param {Iterable<Entry>} changed
   */
  refresh(changed) {
    const set = new Set(changed);
    for (const chunk of this.chunks) {
      if (!chunk.views) continue;
      for (const [entry, view] of chunk.views) if (set.has(entry)) view.update();
    }
    if (this.atEnd) this.toEnd();
  }

  /** @param {Entry[]} entries */
  append(entries) {
    const node = h('div', { class: 'chunk' });
    node.style.height = `${entries.length * GUESS}px`;
    /** @type {Chunk} */
    const chunk = { node, entries, views: null };
    this.chunks.push(chunk);
    this.byNode.set(node, chunk);
    this.node.append(node);
    this.watch.observe(node);
  }

  /** @param {Chunk} chunk */
  remove(chunk) {
    this.watch.unobserve(chunk.node);
    this.byNode.delete(chunk.node);
    for (const view of chunk.views?.values() ?? []) view.drop?.();
    chunk.node.remove();
  }

  /** @param {IntersectionObserverEntry[]} seen */
  look(seen) {
    for (const it of seen) {
      const chunk = this.byNode.get(it.target);
      if (!chunk) continue;
      if (it.isIntersecting) this.fill(chunk);
      else this.empty(chunk);
    }
  }

  /** @param {Chunk} chunk */
  fill(chunk) {
    if (chunk.views) return;
    const isAbove = chunk.node.getBoundingClientRect().bottom <= this.scroller.getBoundingClientRect().top;
    const before = chunk.node.offsetHeight;
    chunk.views = new Map();
    for (const entry of chunk.entries) this.mount(chunk, entry);
    chunk.node.style.height = '';
    if (isAbove && !this.atEnd) this.scroller.scrollTop += chunk.node.offsetHeight - before;
  }

  /** @param {Chunk} chunk */
  empty(chunk) {
    const selected = getSelection();
    const isUsed = chunk.node.contains(document.activeElement) || (selected && !selected.isCollapsed && selected.containsNode(chunk.node, true));
    if (!chunk.views || isUsed || this.chunks.slice(-2).includes(chunk)) return;
    chunk.node.style.height = `${chunk.node.offsetHeight}px`;
    for (const view of chunk.views.values()) view.drop?.();
    chunk.views = null;
    chunk.node.replaceChildren();
  }

  /**
   * @param {Chunk} chunk
   * @param {Entry} entry
   */
  mount(chunk, entry) {
    const view = this.render(entry);
    chunk.views?.set(entry, view);
    chunk.node.append(view.node);
  }

  /**
   * Brings an entry into sight and returns its node.
   * @param {Entry} entry
   */
  reveal(entry) {
    const chunk = this.chunks.find((it) => it.entries.includes(entry));
    if (!chunk) return null;
    this.fill(chunk);
    const node = chunk.views?.get(entry)?.node ?? null;
    this.atEnd = false;
    node?.scrollIntoView({ block: 'center' });
    return node;
  }

  close() {
    this.watch.disconnect();
    this.sizes.disconnect();
    for (const chunk of this.chunks) for (const view of chunk.views?.values() ?? []) view.drop?.();
  }
}
