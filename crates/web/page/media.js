/** Files shown by their kind: pictures, PDF, audio, video, 3D parts, tables, notebooks, text. */

import { h, fill } from './dom.js';
import { address, send, path as apiPath } from './api.js';
import { csvTable } from './csv.js';
import { size } from './format.js';
import { notebookView } from './notebook.js';
import { empty, faultBox } from './notice.js';
import { stlView } from './stl.js';

/** @typedef {import('./room.js').Room} Room */

const KINDS = /** @type {[RegExp, Kind][]} */ ([
  [/\.(png|jpe?g|gif|webp|avif|bmp|ico)$/i, 'picture'], [/\.(mp3|wav|ogg|oga|flac|m4a|opus)$/i, 'audio'], [/\.(mp4|webm|mov|ogv|m4v)$/i, 'video'],
  [/\.pdf$/i, 'pdf'], [/\.stl$/i, 'stl'], [/\.(csv|tsv)$/i, 'csv'], [/\.ipynb$/i, 'notebook'],
]);
/** @typedef {'picture' | 'audio' | 'video' | 'pdf' | 'stl' | 'csv' | 'notebook' | 'text'} Kind */

/** Largest file that is shown as text, a table or a part, in bytes. */
const LARGEST = 100 * 1024 * 1024;
const LARGEST_TEXT = 512 * 1024;

/**
 * @param {string} path
 * @returns {Kind}
 */
export function kindOf(path) {
  return KINDS.find(([pattern]) => pattern.test(path))?.[1] ?? 'text';
}

/**
 * Makes the view of a file of a workspace. It loads when it comes near the visible part.
 * @param {string | undefined} workspace
 * @param {string} path
 * @param {(() => void)[]} drops functions to call when the view is no longer shown
 */
export function fileView(workspace, path, drops) {
  const src = address(['files', 'raw'], { workspace, path });
  const name = path.split('/').pop() ?? path;
  const kind = kindOf(path);
  if (kind === 'picture') return h('a', { class: 'picture', href: src, target: '_blank', rel: 'noopener' }, h('img', { src, alt: name, loading: 'lazy' }));
  if (kind === 'audio') return h('audio', { src, controls: true, preload: 'metadata', 'aria-label': name });
  if (kind === 'video') return h('video', { src, controls: true, preload: 'metadata', 'aria-label': name });
  const box = h('div', { class: `file-view is-${kind}` }, h('p', { class: 'muted small' }, `Loading ${name}…`));
  const seen = new IntersectionObserver((all) => {
    if (!all.some((it) => it.isIntersecting)) return;
    seen.disconnect();
    void load();
  }, { rootMargin: '300px' });
  const load = async () => {
    try {
      const response = await send('GET', apiPath(['files', 'raw'], { workspace, path }));
      const bytes = Number(response.headers.get('Content-Length') ?? 0);
      if (bytes > LARGEST) throw new Error(`${name} has ${size(bytes)}, which is too much to show; download it`);
      await show(response);
    } catch (error) {
      fill(box, faultBox(error, load));
    }
  };
  const show = async (/** @type {Response} */ response) => {
    if (kind === 'stl') {
      const view = stlView(await response.arrayBuffer(), name);
      drops.push(view.drop);
      fill(box, view.node);
    } else if (kind === 'pdf') {
      const blob = URL.createObjectURL(new Blob([await response.arrayBuffer()], { type: 'application/pdf' }));
      drops.push(() => URL.revokeObjectURL(blob));
      fill(box, h('iframe', { src: blob, title: name }), h('p', { class: 'small' }, h('a', { href: src, target: '_blank', rel: 'noopener' }, `Open ${name} alone`)));
    } else if (kind === 'csv') fill(box, csvTable(await response.text()));
    else if (kind === 'notebook') fill(box, notebookView(await response.text()));
    else fill(box, textView(new Uint8Array(await response.arrayBuffer())));
  };
  seen.observe(box);
  drops.push(() => seen.disconnect());
  return box;
}

/** @param {Uint8Array} bytes */
function textView(bytes) {
  if (!bytes.length) return empty('The file is empty.');
  if (bytes.subarray(0, 8192).includes(0)) return empty(`This is no text: ${size(bytes.length)} of binary data.`, 'Download it to open it elsewhere.');
  const text = new TextDecoder().decode(bytes.subarray(0, LARGEST_TEXT));
  return h('div', null, h('pre', { class: 'source numbered', tabindex: 0, role: 'group', 'aria-label': 'Content' }, text.replace(/\n$/, '').split('\n').map((it) => h('span', { class: 'src-line' }, `${it}\n`))),
    bytes.length > LARGEST_TEXT && h('p', { class: 'muted small' }, `The first ${size(LARGEST_TEXT)} of ${size(bytes.length)} are shown.`));
}

/**
 * Makes views of the files that a call made, where they are more than text.
 * @param {import('./fold.js').Call} call
 * @param {NonNullable<import('./fold.js').Call['answer']>} answer
 * @param {Room} room
 * @param {(() => void)[]} drops
 */
export function previews(call, answer, room, drops) {
  const args = call.arguments && typeof call.arguments === 'object' ? /** @type {Record<string, unknown>} */ (call.arguments) : {};
  const named = /^(share_file|content_publish|render_3d|openscad|cad|write|create)/.test(call.tool) ? [args.path, args.output, args.file_path] : [];
  const paths = [...(answer.changes ?? []).filter((it) => it.kind !== 'deleted').map((it) => it.path), ...named.filter((it) => typeof it === 'string')];
  const shown = [...new Set(paths)].filter((it) => kindOf(it) !== 'text').slice(0, 4);
  if (!shown.length || room.readOnly) return null;
  const hasPictures = (answer.pictures ?? []).length > 0;
  return h('div', { class: 'previews' }, shown.filter((it) => !(hasPictures && kindOf(it) === 'picture')).map((it) => fileView(room.workspace, it, drops)));
}
