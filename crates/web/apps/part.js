/** A part to print in 3D, from the STL file that a call made or drew. */

import { h, fill } from '../page/dom.js';
import { stlView } from '../page/stl.js';
import { outputBox } from '../page/terminal.js';
import { Host, textOf } from './host.js';

/** @typedef {import('./host.js').Result} Result */

const main = h('div', null, h('p', { class: 'muted' }, 'The call is running.'));
const host = new Host();
let drop = () => {};
host.onCancelled = () => fill(main, h('p', { class: 'muted' }, 'The call was stopped.'));
host.onEnd = () => drop();
host.onResult = async (result) => {
  const name = result.isError ? '' : fileOf(host.input);
  try {
    if (!name || !host.callsTools) throw new Error('');
    const shared = await host.call('share_file', { path: name });
    const link = shared.content?.find((it) => it.type === 'resource_link');
    if (!link?.uri) throw new Error(textOf(shared));
    const view = stlView(await host.read(link.uri), name.split('/').pop() ?? name);
    drop = view.drop;
    fill(main, view.node);
  } catch (error) {
    // The result says what there is to say, also of a failure.
    const why = error instanceof Error ? error.message : String(error);
    fill(main, pictures(result), outputBox('Result', textOf(result)), why && h('p', { role: 'status' }, why));
  }
};

/**
 * Returns the STL file that a call with these arguments reads or writes.
 * @param {Record<string, unknown>} args
 */
function fileOf(args) {
  const named = [args.output, args.path].find((it) => typeof it === 'string' && it);
  return typeof named === 'string' && /\.(stl|scad)$/i.test(named) ? named.replace(/\.scad$/i, '.stl') : '';
}

/** @param {Result} result */
function pictures(result) {
  const images = (result.content ?? []).filter((it) => it.type === 'image' && it.data);
  return images.filter((it) => /^image\//.test(it.mimeType ?? '')).map((it) => {
    const image = h('img', { alt: 'Picture of the part' });
    // Hosts let views have pictures from data, and from nowhere else.
    image.src = `data:${it.mimeType};base64,${it.data}`;
    return image;
  });
}

document.body.append(h('main', { class: 'view' }, h('h1', { class: 'sr' }, 'Part'), main));
void host.connect();
