/** A host of MCP Apps without its page: a client of `haft mcp`, a server of the page, and one of another origin for the views. */

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const [haft, folder, bundle, announces] = process.argv.slice(2);
const EXTENSION = 'io.modelcontextprotocol/ui';
const MIME = 'text/html;profile=mcp-app';

// The policy of a view that declares no domains, as the extension prescribes it.
const POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; connect-src 'none'";

const child = spawn(haft, ['--dir', folder, '--sandbox', 'full', '--approve', 'auto', 'mcp'], { stdio: ['pipe', 'pipe', 'inherit'] });
const open = new Map();
let sent = 0;
createInterface({ input: child.stdout }).on('line', (line) => {
  const message = JSON.parse(line);
  const asked = open.get(message.id);
  open.delete(message.id);
  if (message.error) asked?.failed(new Error(message.error.message));
  else asked?.done(message.result);
});
const write = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const request = (method, params) => new Promise((done, failed) => {
  sent += 1;
  open.set(sent, { done, failed });
  write({ id: sent, method, params });
});

await request('initialize', {
  protocolVersion: '2025-11-25', clientInfo: { name: 'host', version: '1' },
  capabilities: announces === 'yes' ? { extensions: { [EXTENSION]: { mimeTypes: [MIME] } } } : {},
});
write({ method: 'notifications/initialized' });

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
