/**
 * Server-sent events over `fetch`: reads a stream, reconnects with backoff, and goes on after the last number it has. A stream that sends
 * nothing for 40 s counts as broken. `EventSource` is not used: it hides the status of an answer.
 */

import { send, Fault } from './api.js';

const SILENCE = 40_000;
const LONGEST_WAIT = 5_000;

/**
 * @typedef {object} Listener
 * @property {(name: string, data: any) => void} onEvent
 * @property {(state: 'connecting' | 'live' | 'waiting' | 'ended', fault?: Fault) => void} onState
 */

/** A stream that lives until it is closed. */
export class Stream {
  /**
   * @param {(last: string) => string} where the path to request, given the id of the last event
   * @param {Listener} listener
   * @param {string} [last]
   */
  constructor(where, listener, last = '') {
    this.where = where;
    this.listener = listener;
    this.last = last;
    this.closed = false;
    this.control = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    void this.run();
  }

  close() {
    this.closed = true;
    this.control.abort();
    clearTimeout(this.timer);
  }

  async run() {
    let wait = 250;
    while (!this.closed) {
      this.listener.onState('connecting');
      this.control = new AbortController();
      try {
        const response = await send('GET', this.where(this.last), { signal: this.control.signal });
        this.listener.onState('live');
        wait = 250;
        await this.read(response);
      } catch (error) {
        if (error instanceof Fault && error.status >= 400 && error.status < 500 && error.status !== 429) {
          if (!this.closed) this.listener.onState('ended', error);
          return;
        }
      }
      clearTimeout(this.timer);
      if (this.closed) return;
      this.listener.onState('waiting');
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, LONGEST_WAIT);
    }
  }

  /** @param {Response} response */
  async read(response) {
    if (!response.body) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser((name, data, id) => {
      this.listener.onEvent(name, data);
      // Only what was taken counts as read.
      if (id) this.last = id;
    });
    for (;;) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.control.abort(), SILENCE);
      const { done, value } = await reader.read();
      if (done || this.closed) return;
      parser.take(value);
    }
  }
}

/** A parser of `text/event-stream`. */
export class Parser {
  /** @param {(name: string, data: any, id: string) => void} onEvent */
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = '';
  }

  /** @param {string} text */
  take(text) {
    this.rest += text;
    let from = 0;
    for (;;) {
      const end = this.rest.indexOf('\n\n', from);
      if (end < 0) break;
      this.event(this.rest.slice(from, end));
      from = end + 2;
    }
    this.rest = this.rest.slice(from);
  }

  /** @param {string} text */
  event(text) {
    let name = 'message';
    let data = '';
    let id = '';
    for (const line of text.split('\n')) {
      const cut = line.indexOf(':');
      if (cut <= 0) continue;
      const value = line.slice(line[cut + 1] === ' ' ? cut + 2 : cut + 1).replace(/\r$/, '');
      const field = line.slice(0, cut);
      if (field === 'event') name = value;
      else if (field === 'id') id = value;
      else if (field === 'data') data += data ? `\n${value}` : value;
    }
    if (data) this.onEvent(name, JSON.parse(data), id);
  }
}
