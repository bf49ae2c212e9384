// The shorter list, in Firefox by WebDriver BiDi: signs in, streams, approves, undoes from a diff, uploads, reconnects.
// `firefox.py` runs it, starts the servers for it, and kills them: each line of JSON on standard output is a request, each on standard input its answer.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [tools, room, ...names] = process.argv.slice(2);
const puppeteer = createRequire(`${tools}/`)('puppeteer-core');
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function ask(request) {
  process.stdout.write(`${JSON.stringify(request)}\n`);
  return JSON.parse((await answers.next()).value);
}

const say = (text) => process.stdout.write(`${JSON.stringify({ say: text })}\n`);

const LONG = `A long answer with \`code\` and **weight**, äöü 漢字 🙂. ${Array.from({ length: 300 }, (_, n) => `word${n}`).join(' ')}\n\n- one\n- two`;

/** The page in a browser context of its own, with the errors that the browser reports. */
class Page {
  static async open(browser, address) {
    const it = new Page();
    it.context = await browser.createBrowserContext();
    it.page = await it.context.newPage();
    it.errors = [];
    it.page.on('pageerror', (error) => it.errors.push(String(error)));
    await it.page.setViewport({ width: 1440, height: 900 });
    await it.page.evaluateOnNewDocument(() => {
      window.refused = [];
      addEventListener('securitypolicyviolation', (event) => window.refused.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
    });
    await it.page.goto(address);
    await it.see('nav[aria-label="Sessions"]');
    return it;
  }

  see(selector) {
    return this.page.waitForSelector(selector, { visible: true, timeout: 20_000 });
  }

  until(check, ...given) {
    return this.page.waitForFunction(check, { timeout: 30_000 }, ...given);
  }

  async press(selector) {
    await (await this.see(selector)).click();
  }

  async write(words) {
    const field = await this.see('#composer');
    await field.type(words);
    await field.press('Enter');
  }

  /** Begins a session by the page, and returns its id. */
  async newSession(words) {
    await this.page.evaluate(() => { location.hash = '#/new'; });
    await this.see('.start #composer');
    await this.write(words);
    await this.until(() => location.hash.startsWith('#/session/'));
    return this.page.evaluate(() => location.hash.split('/')[2]);
  }

  waitForEnd(turns = 1) {
    return this.until((n) => document.querySelectorAll('.entry.end').length >= n, turns);
  }

  texts(selector) {
    return this.page.$$eval(selector, (all) => all.map((it) => it.textContent));
  }

  api(path) {
    return this.page.evaluate(async (it) => (await fetch(`/api/v1/${it}`)).json(), path);
  }

  async checkClean() {
    assert.deepEqual(this.errors, []);
    assert.deepEqual(await this.page.evaluate(() => window.refused), []);
  }
}

const parts = {
  async 'signs in by a code that is good once'(open) {
    const server = await ask({ serve: 'sign-in', script: [{ say: 'Hello.' }] });
    const it = await open(server.address);
    assert.ok(!it.page.url().includes('code'), it.page.url());
    assert.equal(await it.page.evaluate(() => document.cookie), '', 'a script reads the cookie');
    const second = await (await it.context.browser().createBrowserContext()).newPage();
    await second.goto(server.address);
    await second.waitForSelector('[role=alert]', { visible: true });
    await second.browserContext().close();
    await it.page.reload();
    await it.see('nav[aria-label="Sessions"]');
    await it.checkClean();
  },

  async 'streams an answer and shows its calls'(open) {
    const script = [{ think: 'The file first.', say: LONG, chunks: 40, chunk_ms: 25, calls: [{ tool: 'read', arguments: { path: 'a.txt' } }] }, { say: 'It says *one*.' }];
    const server = await ask({ serve: 'stream', script, files: { 'a.txt': 'one\ntwo\n' } });
    const it = await open(server.address);
    await it.newSession('What does a.txt say?');
    // Each look waits for a text that is longer than the last.
    let seen = 0;
    for (let looks = 0; looks < 5; looks += 1) {
      const grown = await it.until((least) => {
        const length = document.querySelector('.entry.text')?.textContent.length ?? 0;
        return length > least && length;
      }, seen);
      seen = await grown.jsonValue();
    }
    await it.waitForEnd();
    assert.deepEqual(await it.texts('.entry.text strong'), ['weight']);
    assert.deepEqual(await it.texts('.entry.text em'), ['one']);
    await it.press('.entry.call:not(.reasoning) button');
    await it.until(() => document.querySelector('.entry.call:not(.reasoning) .output')?.textContent.includes('two'));
    await it.press('.reasoning button');
    await it.until(() => document.querySelector('.thought')?.textContent === 'The file first.');
    await it.checkClean();
  },

  async 'shows what a call would do, and runs it when it is approved'(open) {
    const script = [{ say: 'I change the hook.', calls: [{ tool: 'write', arguments: { path: '.git/hooks/pre-commit', content: '#!/bin/sh\n' } }] }, { say: 'Done.' }];
    const server = await ask({ serve: 'approve', script, files: { '.git/hooks/other': '' } });
    const it = await open(server.address);
    await it.newSession('Make a hook.');
    const card = await it.see('.asks .approval');
    assert.match(await card.evaluate((node) => node.textContent), /pre-commit/);
    await it.press('.asks .approval .primary');
    await it.waitForEnd();
    assert.equal(await readFile(`${server.folder}/.git/hooks/pre-commit`, 'utf8'), '#!/bin/sh\n');
    assert.equal((await it.texts('.entry.note')).filter((line) => line.includes('allowed by')).length, 1);
    await it.until(() => !document.querySelector('.asks .approval'));
    await it.checkClean();
  },

  async 'undoes a change from its diff'(open) {
    const script = [{ say: 'I change it.', calls: [{ tool: 'edit', arguments: { path: 'a.txt', edits: [{ old: 'two', new: '2' }] } }] }, { say: 'Done.' }];
    const server = await ask({ serve: 'undo', script, files: { 'a.txt': 'one\ntwo\nthree\n' } });
    const it = await open(server.address);
    await it.newSession('Change it.');
    await it.waitForEnd();
    assert.deepEqual(await it.texts('.entry .diff .l.plus .code'), ['2']);
    assert.deepEqual(await it.texts('.entry .diff .l.minus .code'), ['two']);
    const file = () => readFile(`${server.folder}/a.txt`, 'utf8');
    assert.equal(await file(), 'one\n2\nthree\n');
    await it.press('.entry .diff ::-p-text(Undo)');
    await it.press('::-p-text(Undo the undo)');
    await it.until(async (session) => (await (await fetch(`/api/v1/sessions/${session}/rows?limit=1000`)).json()).rows.filter((row) => row.event.event === 'undone').length === 2, await it.page.evaluate(() => location.hash.split('/')[2]));
    assert.equal(await file(), 'one\n2\nthree\n');
    await it.checkClean();
  },

  async 'uploads by button, drop and paste'(open) {
    const server = await ask({ serve: 'upload', script: [{ expect: ['a.txt', 'first file', 'b.txt', 'second file'], say: 'Three files.' }] });
    const it = await open(server.address);
    await it.page.evaluate(() => { location.hash = '#/new'; });
    await it.see('.start .composer');
    await writeFile(`${room}/a.txt`, 'first file');
    await (await it.page.$('input[type=file]')).uploadFile(`${room}/a.txt`);
    const give = (kind, target, name, bytes) => it.page.evaluate((how, where, called, content) => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(content)], called));
      const event = how === 'paste' ? new ClipboardEvent('paste', { bubbles: true, cancelable: true }) : new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
      // Firefox drops files that a script gives to the constructor of a paste.
      if (how === 'paste') Object.defineProperty(event, 'clipboardData', { value: data });
      document.querySelector(where).dispatchEvent(event);
    }, kind, target, name, bytes);
    await give('drop', 'main', 'b.txt', [...Buffer.from('second file')]);
    await give('paste', '#composer', 'c.bin', Array.from({ length: 20 }, () => [0xff, 0xfe, 0x00, 0xc3, 0x28]).flat());
    await it.until(() => document.querySelectorAll('.chips .there').length === 3);
    await it.write('Read them.');
    await it.waitForEnd();
    assert.match((await it.texts('.entry.text')).at(-1), /Three files\./);
    assert.equal((await it.texts('.attached li')).length, 3);
    await it.checkClean();
  },

  async 'shows the transcript byte for byte after the server was killed in mid-stream'(open) {
    const slow = { think: 'Slowly, as asked.', say: LONG, chunks: 200, chunk_ms: 20 };
    const server = await ask({ serve: 'reconnect', script: [slow, slow, { say: 'The end.' }] });
    const it = await open(server.address);
    const session = await it.newSession('Go.');
    for (let turn = 0; turn < 2; turn += 1) {
      await it.until((at) => (document.querySelectorAll('.entry.text')[at]?.textContent.length ?? 0) > 200, turn);
      await ask({ kill: 'reconnect' });
      await it.see('.connection:not([hidden])');
      await ask({ start: 'reconnect' });
      await it.until(() => document.querySelector('.connection').hidden);
      await it.write('Go on.');
    }
    await it.until(() => document.querySelectorAll('.entry.prompt').length === 3 && document.querySelector('.stop').hidden);
    await it.press('button[aria-label="Session menu"]');
    await it.press('::-p-text(Show text as it was written)');
    const texts = new Map();
    for (const row of (await it.api(`sessions/${session}/rows?limit=10000`)).rows) {
      if (row.event.event === 'text') texts.set(row.item, row.whole ? row.event.text : (texts.get(row.item) ?? '') + row.event.text);
    }
    assert.deepEqual(await it.texts('.entry.text .prose'), [...texts.values()]);
    assert.ok([...texts.values()].join('').length > 500);
    // Firefox reports a fetch that the killed server broke as an error of the page only if nothing caught it.
    await it.checkClean();
  },
};

const browser = await puppeteer.launch({ browser: 'firefox', executablePath: process.env.FIREFOX ?? '/usr/bin/firefox-esr', headless: true });
say(`in ${await browser.version()}`);
let failed = 0;
for (const [name, part] of Object.entries(parts)) {
  if (names.length && !names.some((it) => name.includes(it))) continue;
  const opened = [];
  const began = Date.now();
  let how = 'passed';
  try {
    await part(async (address) => {
      const it = await Page.open(browser, address);
      opened.push(it);
      return it;
    });
  } catch (error) {
    // A part that fails does not hide the others.
    failed += 1;
    how = `FAILED: ${error.stack}`;
  }
  for (const it of opened) {
    if (how !== 'passed') await it.page.screenshot({ path: `${tools}/firefox-failed-${failed}.png` }).catch(() => {});
    await it.context.close().catch(() => {});
  }
  await ask({ stop: true });
  say(`${name}: ${how} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
}
await browser.close();
process.exit(failed ? 1 : 0);
