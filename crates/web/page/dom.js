/** DOM nodes: makes elements from names, properties and children. No function here takes HTML. */

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */
/** @typedef {Record<string, unknown>} Props */

/** Attributes that could run a program or style the page from data. */
const REFUSED = /^(on|style$|srcdoc$|formaction$)/i;

/**
 * Makes an element. A function under `onNAME` listens for that event, `true` sets an attribute without value,
 * `false`, `null` and `undefined` leave it out. `class`, `text` and `value` mean the properties.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Props | null} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) set(node, name, value);
  add(node, children);
  return node;
}

/**
 * Sets one property as `h` does.
 * @param {Element} node
 * @param {string} name
 * @param {unknown} value
 */
export function set(node, name, value) {
  if (typeof value === 'function') {
    node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
  } else if (value === false || value === null || value === undefined) {
    node.removeAttribute(name);
  } else if (name === 'text') {
    node.textContent = String(value);
  } else if (name === 'value' && 'value' in node) {
    node.value = String(value);
  } else if (REFUSED.test(name)) {
    throw new Error(`the attribute \`${name}\` is never set from data`);
  } else if (name === 'href' || name === 'src' || name === 'data') {
    node.setAttribute(name, safeAddress(String(value)));
  } else {
    node.setAttribute(name, value === true ? '' : String(value));
  }
}

/**
 * Appends children; nothing is appended for an empty one.
 * @param {Node} node
 * @param {Child[]} children
 */
export function add(node, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(node, child);
    else if (child instanceof Node) node.appendChild(child);
    else if (child !== null && child !== undefined && child !== false) node.appendChild(document.createTextNode(String(child)));
  }
}

/**
 * Replaces all children.
 * @param {Element} node
 * @param {...Child} children
 */
export function fill(node, ...children) {
  node.replaceChildren();
  add(node, children);
}

/**
 * Returns the address if following it runs nothing: http, https, mailto, or a path of this server; otherwise an empty one.
 * @param {string} address
 */
export function safeAddress(address) {
  try {
    const url = new URL(address, location.href);
    return ['http:', 'https:', 'mailto:', 'blob:'].includes(url.protocol) ? address : '#';
  } catch {
    return '#';
  }
}

const SVG = 'http://www.w3.org/2000/svg';

/**
 * Makes an element of a drawing.
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...Element} children
 */
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (!REFUSED.test(name)) node.setAttribute(name, String(value));
  }
  node.append(...children);
  return node;
}

/** Paths of icons on a grid of 16. */
const ICONS = {
  back: 'M10 3 5 8l5 5',
  bell: 'M4 11V7a4 4 0 0 1 8 0v4l1 1H3zM7 14h2',
  branch: 'M5 3v10M5 9c4 0 6-1 6-4M5 1.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 1 0 0-3M11 2a1.5 1.5 0 1 0 0 3 1.5 1.5 0 1 0 0-3M5 11.500a1.500 1.500 0 1 0 0 3 1.500 1.500 0 1 0 0-3',
  close: 'm4 4 8 8M12 4l-8 8',
  copy: 'M6 6h7v7H6zM3 10V3h7',
  file: 'M4 2h5l3 3v9H4zM9 2v3h3',
  folder: 'M2 4h4l2 2h6v7H2z',
  gear: 'M8 5.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 1 0 0-5M8 1.500v2M8 12.500v2M1.500 8h2M12.500 8h2M3.400 3.400l1.400 1.400M11.200 11.200l1.400 1.400M12.600 3.400l-1.400 1.400M4.800 11.200l-1.400 1.400',
  menu: 'M2 4h12M2 8h12M2 12h12',
  more: 'M3 7.600a.4.4 0 1 0 0 .8.4.4 0 1 0 0-.8M8 7.600a.4.4 0 1 0 0 .8.4.4 0 1 0 0-.8M13 7.600a.4.4 0 1 0 0 .8.4.4 0 1 0 0-.8',
  open: 'm6 4 4 4-4 4',
  panel: 'M2 3h12v10H2zM10 3v10',
  paper: 'M12 6.500 7 11.500a2 2 0 0 1-3-3l5.500-5.500a3 3 0 0 1 4 4L8 12.500',
  pen: 'm3 13 1-3 7-7 2 2-7 7z',
  plus: 'M8 3v10M3 8h10',
  search: 'M7 2.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 1 0 0-9M10.500 10.500 14 14',
  send: 'M8 13V3M4 7l4-4 4 4',
  stop: 'M4.500 4.500h7v7h-7z',
  undo: 'M3 7h7a3 3 0 0 1 0 6H6M6 4 3 7l3 3',
};

/**
 * Makes an icon; it says nothing to a screen reader.
 * @param {keyof typeof ICONS} name
 */
export function icon(name) {
  return svg('svg', { viewBox: '0 0 16 16', class: 'icon', 'aria-hidden': 'true' }, svg('path', { d: ICONS[name] }));
}

/**
 * Makes a button that shows only an icon, with its name for screen readers and as a tooltip.
 * @param {keyof typeof ICONS} name
 * @param {string} label
 * @param {(event: MouseEvent) => void} onclick
 * @param {Props} [props]
 */
export function iconButton(name, label, onclick, props) {
  return h('button', { type: 'button', class: 'icon-button', 'aria-label': label, title: label, onclick, ...props }, icon(name));
}
