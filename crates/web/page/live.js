/** All sessions, live: the list, and the approvals and questions that wait, as the server says them. */

import { get } from './api.js';
import { Stream } from './stream.js';

/** A page that nobody sees gives its connection back after so many milliseconds: a browser has six to a server, for all its tabs. */
const HIDDEN = 20_000;
/** It asks so often what waits, for the count in its title. */
const ASKS = 15_000;

/**
 * @typedef {import('./types').Session} Session
 * @typedef {import('./types').OpenApproval} OpenApproval
 * @typedef {import('./types').OpenQuestion} OpenQuestion
 */

class Live {
  constructor() {
    /** @type {Map<string, Session>} */
    this.sessions = new Map();
    /** @type {OpenApproval[]} */
    this.approvals = [];
    /** @type {OpenQuestion[]} */
    this.questions = [];
    this.loaded = false;
    this.state = 'connecting';
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    /** @type {Stream | null} */
    this.stream = null;
  }

  start() {
    this.watched ||= (document.addEventListener('visibilitychange', () => this.onVisibility()), true);
    this.stream?.close();
    this.stream = new Stream(() => 'events', {
      onEvent: (name, data) => this.take(name, data),
      onState: (state) => {
        this.state = state;
        if (state === 'connecting') this.fresh = true;
        this.tell();
      },
    });
  }

  onVisibility() {
    clearTimeout(this.hiding);
    if (!this.loaded) return;
    if (document.hidden) this.hiding = setTimeout(() => void this.ask(), HIDDEN);
    else if (!this.stream) this.start();
  }

  /** Asks what waits, in place of the stream. */
  async ask() {
    this.stream?.close();
    this.stream = null;
    this.hiding = setTimeout(() => void this.ask(), ASKS);
    try {
      const [approvals, questions] = await Promise.all([get('approvals'), get('questions')]);
      this.take('approvals', { .../** @type {object} */ (approvals), .../** @type {object} */ (questions) });
    } catch {
      // The next time will do.
    }
  }

  stop() {
    clearTimeout(this.hiding);
    this.stream?.close();
    this.stream = null;
    this.sessions.clear();
    this.loaded = false;
  }

  /**
   * @param {string} name
   * @param {any} data
   */
  take(name, data) {
    if (name === 'sessions') {
      // The first event of a connection has all of them.
      if (this.fresh) this.sessions.clear();
      this.fresh = false;
      for (const it of data.changed ?? []) this.sessions.set(it.id, it);
      for (const it of data.removed ?? []) this.sessions.delete(it);
      this.loaded = true;
    } else if (name === 'approvals') {
      this.approvals = data.approvals ?? [];
      this.questions = data.questions ?? [];
    } else return;
    this.tell();
  }

  /** How many calls and questions wait for a person. */
  get waiting() {
    return this.approvals.length + this.questions.length;
  }

  /**
   * Calls this whenever something changed; returns the function that ends it.
   * @param {() => void} listener
   */
  watch(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  tell() {
    if (this.told) return;
    this.told = true;
    setTimeout(() => {
      this.told = false;
      for (const it of this.listeners) it();
    }, 16);
  }

  watched = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  hiding = undefined;
  told = false;
  fresh = true;
}

export const live = new Live();
