/** Addresses within the page: the fragment after `#/`, as a list of names. */

/** @typedef {{parts: string[], query: URLSearchParams}} Route */

/** @returns {Route} */
export function route() {
  const text = location.hash.replace(/^#\/?/, '');
  const cut = text.indexOf('?');
  const where = cut < 0 ? text : text.slice(0, cut);
  const parts = where.split('/').filter(Boolean).map((it) => {
    try {
      return decodeURIComponent(it);
    } catch {
      return it;
    }
  });
  return { parts, query: new URLSearchParams(cut < 0 ? '' : text.slice(cut + 1)) };
}

/**
 * Goes to a place in the page.
 * @param {...string} parts
 */
export function go(...parts) {
  location.hash = `#/${parts.map(encodeURIComponent).join('/')}`;
}

/** @param {() => void} then */
export function onRoute(then) {
  addEventListener('hashchange', then);
}
