/** One session as this browser follows it: its rows, folded, and the operations on it. */

import { path, post, send, address, me } from './api.js';
import { Fold } from './fold.js';
import { attempt, notice, sentence } from './notice.js';
import { Stream } from './stream.js';

/**
 * @typedef {import('./types').Session} Session
 * @typedef {import('./types').Row} Row
 * @typedef {import('./api.js').Fault} Fault
 */

/** A page that nobody sees ends its stream after so many milliseconds: browsers allow six connections to a server. */
const HIDDEN = 20_000;

export class Room {
  /**
   * @param {string} id
   * @param {string | undefined} workspace
   */
  constructor(id, workspace) {
    this.id = id;
    this.workspace = workspace;
    /** @type {Session | null} */
    this.session = null;
    this.fold = new Fold();
    /** Cards that are open, by the ids of their entries. @type {Set<string>} */
    this.opened = new Set();
    this.state = 'connecting';
    /** @type {Fault | null} */
    this.fault = null;
    this.ready = false;
    /** Rows that exist, as far as the server said so. */
    this.known = 0;
    /** Nothing changes in what is shown here: a share. */
    this.readOnly = false;
    /** @type {() => void} */
    this.onChange = () => {};
    /** Shows a file. @type {((path: string) => void) | undefined} */
    this.openFile = undefined;
    /** @type {Stream | null} */
    this.stream = null;
    this.queued = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.hiding = undefined;
    this.onVisibility = () => {
      clearTimeout(this.hiding);
      if (document.hidden) this.hiding = setTimeout(() => this.pause(), HIDDEN);
      else this.follow();
    };
  }

  /** Follows the session until it is closed. */
  open() {
    document.addEventListener('visibilitychange', this.onVisibility);
    this.follow();
  }

  close() {
    document.removeEventListener('visibilitychange', this.onVisibility);
    clearTimeout(this.hiding);
    this.pause();
    this.onChange = () => {};
  }

  pause() {
    this.stream?.close();
    this.stream = null;
  }

  follow() {
    if (this.stream || this.readOnly) return;
    this.stream = new Stream(
      () => path(['sessions', this.id, 'events'], { after: this.fold.head || undefined, workspace: this.workspace }),
      {
        onEvent: (name, data) => this.take(name, data),
        onState: (state, fault) => {
          this.state = state;
          this.fault = fault ?? null;
          this.changed();
        },
      },
    );
  }

  /**
   * @param {string} name
   * @param {any} data
   */
  take(name, data) {
    if (name === 'message') {
      this.fold.add(data);
      if (!this.ready) return;
    } else if (name === 'md') {
      this.fold.markdown(data);
    } else if (name === 'ready') {
      this.ready = true;
      this.known = data.head;
    } else if (name === 'gone') {
      this.state = 'gone';
      this.pause();
    }
    this.changed();
  }

  /** Has the views drawn anew, at most once for each frame. */
  changed() {
    if (this.queued) return;
    this.queued = true;
    // A page in the background gets no frames.
    const later = document.hidden ? (/** @type {() => void} */ it) => setTimeout(it, 100) : requestAnimationFrame;
    later(() => {
      this.queued = false;
      this.onChange();
    });
  }

  /** @param {string} handle */
  outputAddress(handle) {
    return address(['sessions', this.id, 'outputs', handle], { workspace: this.workspace });
  }

  /**
   * The path of an operation on this session.
   * @param {...string} parts
   */
  at(...parts) {
    return path(['sessions', this.id, ...parts], { workspace: this.workspace });
  }

  /** @param {{text: string, attachments?: import('./types').Attachment[]}} prompt */
  prompt(prompt) {
    return post(this.at('prompt'), prompt);
  }

  /** Has a summary take the place of the conversation. */
  compactNow() {
    return post(this.at('compact'));
  }

  cancel() {
    return attempt(() => post(this.at('cancel')));
  }

  /**
   * Puts changes back: of a call, a turn, a file, or the newest.
   * @param {{call?: string, turn?: number, file?: string}} which
   * @param {HTMLButtonElement} [button]
   */
  undo(which, button) {
    return attempt(async () => {
      const done = await post(this.at('undo'), which);
      // The undo is a call itself, by which it is undone.
      const call = /undo the call (c_\w+)/.exec(done.text)?.[1];
      notice(sentence(done.text.split('\n')[0] ?? 'Put back'), call ? { action: { label: 'Undo the undo', run: () => void this.undo({ call }) } } : {});
    }, button);
  }

  /** @param {number} without how many of the newest turns the new session does not have */
  branch(without) {
    return attempt(async () => {
      const made = await post(this.at('fork'), { without });
      location.hash = `#/session/${encodeURIComponent(made.id)}`;
      notice('This is a new session that goes on from there');
    });
  }

  /** @param {number} turns */
  rewind(turns) {
    return attempt(async () => {
      const done = await post(this.at('rewind'), { turns });
      if (done.changed?.length) {
        notice(`${done.changed.length === 1 ? 'A call' : `${done.changed.length} calls`} of these turns changed files, which are as they were left`, { next: 'Changes has an undo for each.' });
      }
      this.onRewound(done.said ?? '');
    });
  }

  /** Called with the person's words of the first turn that was taken back. @type {(said: string) => void} */
  onRewound = () => {};

  /** @param {Partial<{title: string, archived: boolean, model: string, profile: string | null, sandbox: string}>} change */
  patch(change) {
    return attempt(async () => {
      this.session = await post(this.at(), change, 'PATCH');
      this.changed();
    });
  }

  /** @param {File} file */
  async upload(file) {
    const where = path(['sessions', this.id, 'uploads'], { name: file.name, workspace: this.workspace });
    return /** @type {{upload: string, name: string, bytes: number, mime: string}} */ (await (await send('POST', where, { raw: file })).json());
  }

  get canSay() {
    return !this.readOnly && me.may('say');
  }
}
