/** The field in which a person writes to the agent: words, files by drag, paste or button, send and stop. */

import { h, icon, fill } from './dom.js';
import { size } from './format.js';
import { failed, notice } from './notice.js';
import { prefer, preference } from './preferences.js';

/** @typedef {import('./types').Attachment} Attachment */
/** @typedef {{file: File, state: 'loading' | 'there' | 'failed', attachment: Attachment | null}} Attached */

const LARGEST = 64 * 1024 * 1024;
const SHORT_TEXT = 128 * 1024;
const SHORT_PICTURE = 4 * 1024 * 1024;

/**
 * @typedef {object} ComposerOptions
 * @property {string} draft the name under which unsent words are remembered
 * @property {(file: File) => Promise<Attachment>} upload
 * @property {(prompt: {text: string, attachments: Attachment[]}) => Promise<unknown>} send
 * @property {() => unknown} stop
 * @property {import('./dom.js').Child} [beside] shown under the field, at the left
 * @property {string} [placeholder]
 */

/**
 * Makes the attachment of a file: short texts and pictures go with the prompt, under their names; all else is uploaded before.
 * @param {File} file
 * @param {(file: File) => Promise<Attachment>} upload
 * @returns {Promise<Attachment>}
 */
async function attachmentOf(file, upload) {
  const { name, size: bytes } = file;
  if (/^image\/(png|jpeg|gif|webp)$/.test(file.type) && bytes <= SHORT_PICTURE) {
    const address = await new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(String(reader.result));
      reader.onerror = () => reject(reader.error);
      reader.readAsDataURL(file);
    });
    return { picture: { name, data: address.slice(address.indexOf(',') + 1) } };
  }
  if (bytes <= SHORT_TEXT) {
    try {
      return { text: { name, text: new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer()) } };
    } catch {
      // It is no text.
    }
  }
  return upload(file);
}

export class Composer {
  /** @param {ComposerOptions} options */
  constructor(options) {
    this.options = options;
    /** @type {Attached[]} */
    this.attached = [];
    this.running = false;
    this.input = h('textarea', {
      id: 'composer', rows: 1, placeholder: options.placeholder ?? 'Write to the agent', 'aria-label': 'Message',
      oninput: () => this.grow(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event), onpaste: (/** @type {ClipboardEvent} */ event) => this.paste(event),
    });
    this.input.value = preference(`draft.${options.draft}`);
    this.chips = h('ul', { class: 'chips' });
    this.picker = h('input', { type: 'file', multiple: true, hidden: true, 'aria-label': 'Files to attach', onchange: () => { this.addFiles(this.picker.files); this.picker.value = ''; } });
    this.sendButton = h('button', { type: 'submit', class: 'primary round', 'aria-label': 'Send', title: 'Send (Enter)' }, icon('send'));
    this.stopButton = h('button', { type: 'button', class: 'stop', hidden: true, title: 'Stop the turn (Ctrl .)', onclick: () => this.options.stop() }, icon('stop'), h('span', null, 'Stop'));
    this.state = h('span', { class: 'composer-state muted' });
    this.node = h('form', { class: 'composer', onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void this.send(); } },
      this.chips, this.input,
      h('div', { class: 'composer-row' },
        h('button', { type: 'button', class: 'icon-button', 'aria-label': 'Attach files', title: 'Attach files; they can be dropped and pasted, too', onclick: () => this.picker.click() }, icon('paper')),
        this.picker, options.beside, this.state, h('span', { class: 'grow' }), this.stopButton, this.sendButton));
    queueMicrotask(() => this.grow());
  }

  /**
   * Takes files that are dropped on this part of the page.
   * @param {HTMLElement} area
   */
  takeDrops(area) {
    const has = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes('Files');
    area.addEventListener('dragover', (event) => {
      if (!has(event)) return;
      event.preventDefault();
      area.classList.add('drop');
    });
    area.addEventListener('dragleave', (event) => {
      if (!area.contains(/** @type {Node | null} */ (event.relatedTarget))) area.classList.remove('drop');
    });
    area.addEventListener('drop', (event) => {
      if (!has(event)) return;
      event.preventDefault();
      area.classList.remove('drop');
      this.addFiles(event.dataTransfer?.files ?? null);
    });
  }

  grow() {
    const it = this.input;
    it.style.height = 'auto';
    it.style.height = `${Math.min(it.scrollHeight + 2, innerHeight * 0.4)}px`;
    prefer(`draft.${this.options.draft}`, it.value);
  }

  /** @param {string} text */
  write(text) {
    this.input.value = text;
    this.grow();
    this.input.focus();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const coarse = matchMedia('(pointer: coarse)').matches;
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && (!coarse || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void this.send();
    }
  }

  /** @param {ClipboardEvent} event */
  paste(event) {
    if (event.clipboardData?.files.length) {
      event.preventDefault();
      this.addFiles(event.clipboardData.files);
    }
  }

  /** @param {FileList | null} files */
  addFiles(files) {
    for (const file of files ?? []) {
      if (file.size > LARGEST) {
        notice(`${file.name} has ${size(file.size)}; at most ${size(LARGEST)} can be sent`, { bad: true, next: 'Put it into the workspace’s folder, and name it to the agent.' });
        continue;
      }
      /** @type {Attached} */
      const it = { file, state: 'loading', attachment: null };
      this.attached.push(it);
      attachmentOf(file, this.options.upload).then(
        (attachment) => Object.assign(it, { state: 'there', attachment }),
        (error) => { it.state = 'failed'; failed(error); },
      ).finally(() => this.draw());
    }
    this.draw();
  }

  draw() {
    fill(this.chips, this.attached.map((it) => h('li', { class: it.state },
      icon('paper'), h('span', null, it.file.name), h('span', { class: 'muted' }, { loading: 'sending…', there: size(it.file.size), failed: 'not sent' }[it.state]),
      h('button', { type: 'button', class: 'icon-button', 'aria-label': `Remove ${it.file.name}`, onclick: () => { this.attached = this.attached.filter((other) => other !== it); this.draw(); } }, icon('close')))));
  }

  /**
   * @param {boolean} running a turn goes on
   * @param {string} state what goes on, in words
   */
  show(running, state) {
    this.running = running;
    this.stopButton.hidden = !running;
    if (this.state.textContent !== state) this.state.textContent = state;
  }

  async send() {
    const text = this.input.value.trim();
    if (this.attached.some((it) => it.state === 'loading')) {
      notice('A file is still on its way');
      return;
    }
    const attachments = /** @type {Attachment[]} */ (this.attached.map((it) => it.attachment).filter(Boolean));
    if (!text && !attachments.length) return;
    this.sendButton.disabled = true;
    const before = this.input.value;
    this.input.value = '';
    this.grow();
    try {
      await this.options.send({ text, attachments });
      this.attached = [];
      this.draw();
    } catch (error) {
      // Words that did not arrive are not lost.
      if (!this.input.value) this.input.value = before;
      this.grow();
      failed(error);
    } finally {
      this.sendButton.disabled = false;
    }
  }
}
