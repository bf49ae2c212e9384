/** Signing in: by the code of the address that `haft serve` printed, or with a token. */

import { h, fill } from './dom.js';
import { send } from './api.js';
import { sentence } from './notice.js';
import { Fault } from './api.js';

/** Trades the one-use code of the address for a cookie. Returns the fault, if the code is not good. */
export async function signInByAddress() {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (!code) return null;
  history.replaceState(null, '', `${location.pathname}#/`);
  return signIn({ code: decodeURIComponent(code) });
}

/**
 * @param {{code: string} | {token: string}} by
 * @returns {Promise<Fault | null>}
 */
async function signIn(by) {
  try {
    await send('POST', 'sign-in', { body: by, quiet: true });
    return null;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}

/**
 * Shows the form.
 * @param {Fault | null} first what went wrong before
 * @param {() => void} then
 */
export function signInPage(first, then) {
  const said = h('p', { class: 'fault', role: 'alert', hidden: true });
  const token = h('input', { type: 'password', id: 'token', autocomplete: 'current-password', required: true });
  const show = (/** @type {Fault | null} */ fault) => {
    said.hidden = !fault;
    fill(said, fault && sentence(fault.message), fault?.next && ` ${fault.next}`);
  };
  show(first);
  return h('main', { class: 'start sign-in', id: 'main' }, h('div', { class: 'start-middle' }, h('h1', null, 'haft'), said,
    h('p', null, 'Open the address that ', h('code', null, 'haft serve'), ' prints: it has a code that signs this browser in. A code is good for one sign-in and ten minutes; start haft again, or use another device, for a new one.'),
    h('form', { onsubmit: async (/** @type {Event} */ event) => {
      event.preventDefault();
      const fault = await signIn({ token: token.value.trim() });
      show(fault);
      if (!fault) then();
    } }, h('label', { for: 'token' }, 'Or sign in with a token'), h('div', { class: 'inline' }, token, h('button', { class: 'primary' }, 'Sign in')))));
}
