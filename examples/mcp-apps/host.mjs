/** A host of MCP Apps without its page: a client of `haft mcp` or of `haft serve`, a server of the page, and one of another origin for the views. */

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const [haft, folder, bundle, announces, transport] = process.argv.slice(2);
const EXTENSION = 'io.modelcontextprotocol/ui';
const MIME = 'text/html;profile=mcp-app';

// The policy of a view that declares no domains, as the extension prescribes it.
const POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; connect-src 'none'";

const begin = (...words) => spawn(haft, ['--dir', folder, '--sandbox', 'full', '--approve', 'auto', ...words], { stdio: ['pipe', 'pipe', 'inherit'] });
let sent = 0;

/** A client of `haft mcp`. */
function overStdio() {
  const child = begin('mcp');
  const open = new Map();
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line);
    open.get(message.id)?.(message);
    open.delete(message.id);
  });
  const write = async (message) => child.stdin.write(`${JSON.stringify(message)}\n`);
  const ask = (message) => new Promise((done) => {
    open.set(message.id, done);
    write(message);
  });
  return { child, write, ask };
}

/** A client of `/mcp` of `haft serve`. */
async function overHttp() {
  const place = mkdtempSync(join(tmpdir(), 'host-'));
  const [tokens, script, token] = [join(place, 'tokens'), join(place, 'script'), randomUUID()];
  writeFileSync(tokens, `host approve ${token}\n`, { mode: 0o600 });
  writeFileSync(script, '{"say": "unused"}\n');
  const child = begin('serve', '--addr', '127.0.0.1:0', '--tokens', tokens, '--model', `script:${script}`);
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  const address = new URL('/mcp', line);
  let session;
  const write = async (message) => {
    const answer = await fetch(address, { method: 'POST', body: JSON.stringify(message), headers: {
      Authorization: `Bearer ${token}`, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...(session && { 'Mcp-Session-Id': session }),
    } });
    session ??= answer.headers.get('mcp-session-id');
    return answer;
  };
  const ask = async (message) => {
    const text = await (await write(message)).text();
    const all = text.startsWith('{') ? [text] : text.split('\n').filter((it) => it.startsWith('data: {')).map((it) => it.slice(6));
    return all.map((it) => JSON.parse(it)).find((it) => it.id === message.id);
  };
  return { child, write, ask };
}

const { child, write: post, ask } = transport === 'http' ? await overHttp() : overStdio();
const write = (message) => post({ jsonrpc: '2.0', ...message });
const request = async (method, params) => {
  sent += 1;
  const { result, error } = await ask({ jsonrpc: '2.0', id: sent, method, params });
  if (error) throw new Error(error.message);
  return result;
};

await request('initialize', {
  protocolVersion: '2025-11-25', clientInfo: { name: 'host', version: '1' },
  capabilities: announces === 'yes' ? { extensions: { [EXTENSION]: { mimeTypes: [MIME] } } } : {},
});
await write({ method: 'notifications/initialized' });

const views = createServer(async (asked, answer) => {
  const { contents } = await request('resources/read', { uri: `ui:/${asked.url}` });
  answer.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8', 'Content-Security-Policy': POLICY });
  answer.end(contents[0].text);
});

const pages = createServer(async (asked, answer) => {
  if (asked.url === '/rpc') {
    let body = '';
    for await (const piece of asked) body += piece;
    const { method, params } = JSON.parse(body);
    const said = await request(method, params).then((result) => ({ result }), (error) => ({ error: error.message }));
    answer.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(said));
  } else if (asked.url === '/page.mjs') answer.writeHead(200, { 'Content-Type': 'text/javascript' }).end(readFileSync(bundle));
  else answer.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><html lang="en"><title>A host</title><link rel="icon" href="data:,"><body><script type="module" src="/page.mjs"></script></body></html>');
});

const listen = (server) => new Promise((done) => { server.listen(0, '127.0.0.1', () => done(`http://127.0.0.1:${server.address().port}`)); });
console.log(JSON.stringify({ page: await listen(pages), views: await listen(views) }));
process.on('SIGTERM', () => {
  child.kill();
  process.exit(0);
});
