/** The page of a host of MCP Apps: shows the view of a call in a frame, and passes what it asks for on to the server. */

import { AppBridge, PostMessageTransport, RESOURCE_MIME_TYPE, getToolUiResourceUri, isToolVisibilityAppOnly, McpUiResourceMetaSchema, McpUiToolMetaSchema } from '@modelcontextprotocol/ext-apps/app-bridge';

async function rpc(method, params) {
  const answer = await fetch('/rpc', { method: 'POST', body: JSON.stringify({ method, params }) });
  const { result, error } = await answer.json();
  if (error) throw new Error(error);
  return result;
}

window.rpc = rpc;
window.log = { sizes: [], calls: [], reads: [], errors: [] };

/** Returns what the server offers, as the extension's own functions and schemas read it. */
window.offered = async () => {
  const { tools } = await rpc('tools/list', {});
  const { resources } = await rpc('resources/list', {});
  const views = resources.filter((it) => it.uri.startsWith('ui://'));
  const read = [];
  for (const it of views) {
    const { contents: [one] } = await rpc('resources/read', { uri: it.uri });
    read.push({ uri: one.uri, mime: one.mimeType, isRight: one.mimeType === RESOURCE_MIME_TYPE, meta: McpUiResourceMetaSchema.parse(one._meta.ui), bytes: one.text.length });
  }
  const linked = tools.filter((it) => it._meta?.ui?.resourceUri).map((it) => [it.name, getToolUiResourceUri(it), !!McpUiToolMetaSchema.parse(it._meta.ui)]);
  return { views, read, linked, forViews: tools.filter(isToolVisibilityAppOnly).map((it) => it.name) };
};

/** Calls a tool as the model would, and shows its view. */
window.show = async (views, name, args, { theme = 'light', tools = true } = {}) => {
  const { tools: all } = await rpc('tools/list', {});
  const tool = all.find((it) => it.name === name);
  const uri = getToolUiResourceUri(tool);
  const frame = document.createElement('iframe');
  frame.title = `View of ${name}`;
  frame.setAttribute('sandbox', 'allow-scripts');
  frame.style.cssText = 'width: min(100%, 760px); border: 1px solid #ccc; display: block';
  document.body.replaceChildren(frame);
  const bridge = new AppBridge(null, { name: 'host', version: '1' }, tools ? { serverTools: {}, serverResources: {} } : {}, { hostContext: { theme, displayMode: 'inline', toolInfo: { tool } } });
  const ready = new Promise((done) => { bridge.oninitialized = done; });
  bridge.onsizechange = ({ height }) => {
    window.log.sizes.push(height);
    frame.style.height = `${height}px`;
  };
  bridge.oncalltool = async (params) => {
    window.log.calls.push(params);
    return rpc('tools/call', params);
  };
  bridge.onreadresource = async (params) => {
    window.log.reads.push(params.uri);
    return rpc('resources/read', params);
  };
  bridge.onerror = (error) => window.log.errors.push(String(error));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = `${views}${uri.slice('ui:/'.length)}`;
  await ready;
  const result = await rpc('tools/call', { name, arguments: args });
  await bridge.sendToolInput({ arguments: args });
  await bridge.sendToolResult(result);
  window.bridge = bridge;
  return { view: bridge.getAppVersion(), capabilities: bridge.getAppCapabilities(), result };
};
