/** The host that shows a view (MCP Apps): JSON-RPC by messages between windows, of the revision 2026-01-26. */

/**
 * @typedef {{content?: {type: string, text?: string, uri?: string, name?: string, data?: string, mimeType?: string}[], isError?: boolean, _meta?: Record<string, any>}} Result
 * @typedef {{jsonrpc: '2.0', id?: number | string, method?: string, params?: any, result?: any, error?: {code: number, message: string}}} Message
 */

const REVISION = '2026-01-26';

export class Host {
  constructor() {
    /** The arguments of the call. @type {Record<string, unknown>} */
    this.input = {};
    /** @type {Record<string, any>} */
    this.capabilities = {};
    /** @type {(result: Result) => void} */
    this.onResult = () => {};
    /** @type {() => void} */
    this.onCancelled = () => {};
    /** @type {() => void} */
    this.onEnd = () => {};
    /** @type {Map<number, {done: (it: any) => void, failed: (it: Error) => void}>} */
    this.open = new Map();
    this.sent = 0;
  }

  /** Introduces the view to its host. From then on it gets the call's arguments and result. */
  async connect() {
    addEventListener('message', (event) => {
      // Only the host speaks to a view.
      if (event.source === parent && event.data?.jsonrpc === '2.0') this.take(event.data);
    });
    const answer = await this.request('ui/initialize', {
      protocolVersion: REVISION, appInfo: { name: 'haft', version: '1' }, appCapabilities: { availableDisplayModes: ['inline', 'fullscreen'] },
    });
    this.capabilities = answer.hostCapabilities ?? {};
    this.context(answer.hostContext ?? {});
    this.tell('ui/notifications/initialized', {});
    new ResizeObserver(() => this.size()).observe(document.body);
  }

  /** Whether the view can call tools of haft. */
  get callsTools() {
    return !!this.capabilities.serverTools;
  }

  size() {
    const { width, height } = document.documentElement.getBoundingClientRect();
    this.tell('ui/notifications/size-changed', { width: Math.ceil(width), height: Math.ceil(height) });
  }

  /** @param {Message} message */
  take(message) {
    const { id, method, params } = message;
    if (!method) {
      const asked = this.open.get(Number(id));
      this.open.delete(Number(id));
      if (message.error) asked?.failed(new Error(message.error.message));
      else asked?.done(message.result);
    } else if (id !== undefined) {
      if (method === 'ui/resource-teardown') this.onEnd();
      const known = method === 'ui/resource-teardown' || method === 'ping';
      this.send(known ? { id, result: {} } : { id, error: { code: -32601, message: `a view has no ${method}` } });
    } else if (method === 'ui/notifications/tool-input') this.input = params?.arguments ?? {};
    else if (method === 'ui/notifications/tool-result') this.onResult(params ?? {});
    else if (method === 'ui/notifications/tool-cancelled') this.onCancelled();
    else if (method === 'ui/notifications/host-context-changed') this.context(params ?? {});
  }

  /** @param {Record<string, any>} context */
  context(context) {
    if (context.theme) document.documentElement.dataset.theme = context.theme === 'dark' ? 'dark' : 'light';
  }

  /** @param {Omit<Message, 'jsonrpc'>} message */
  send(message) {
    // A view does not know where its host is from.
    parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
  }

  /**
   * @param {string} method
   * @param {unknown} params
   */
  tell(method, params) {
    this.send({ method, params });
  }

  /**
   * @param {string} method
   * @param {unknown} params
   * @returns {Promise<any>}
   */
  request(method, params) {
    this.sent += 1;
    const id = this.sent;
    return new Promise((done, failed) => {
      this.open.set(id, { done, failed });
      this.send({ id, method, params });
    });
  }

  /**
   * Calls a tool of haft. What fails there is an error here.
   * @param {string} name
   * @param {Record<string, unknown>} args
   * @returns {Promise<Result>}
   */
  async call(name, args) {
    const result = /** @type {Result} */ (await this.request('tools/call', { name, arguments: args }));
    if (result.isError) throw new Error(textOf(result) || `${name} failed`);
    return result;
  }

  /**
   * Reads a resource of haft as bytes.
   * @param {string} uri
   * @returns {Promise<ArrayBuffer>}
   */
  async read(uri) {
    const { contents } = await this.request('resources/read', { uri });
    const { text, blob } = contents?.[0] ?? {};
    if (typeof text === 'string') return /** @type {ArrayBuffer} */ (new TextEncoder().encode(text).buffer);
    return Uint8Array.from(atob(blob ?? ''), (it) => it.charCodeAt(0)).buffer;
  }
}

/**
 * Returns the text of a result.
 * @param {Result} result
 */
export function textOf(result) {
  return (result.content ?? []).map((it) => it.text ?? '').filter(Boolean).join('\n');
}

/**
 * Returns the data that haft gives a view beside the text for the model.
 * @param {Result} result
 */
export function dataOf(result) {
  return result._meta?.['haft/view'] ?? {};
}
