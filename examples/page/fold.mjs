/**
 * Checks the fold of the page with made-up logs: whoever watched a session, whoever comes late, and whoever comes back in the
 * midst of it see the same, at every row.
 */

import assert from 'node:assert/strict';
import { Fold } from '../../crates/web/page/fold.js';

const ROUNDS = Number(process.env.ROUNDS ?? 60);

/** A generator of numbers below 1 that has the same ones for the same seed. */
function randomOf(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let it = Math.imul(state ^ (state >>> 15), 1 | state);
    it = (it + Math.imul(it ^ (it >>> 7), 61 | it)) ^ it;
    return ((it ^ (it >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The log of one session: turns that end, or are cut by a kill at any row and settled by the next process. */
function makeLog(seed) {
  const random = randomOf(seed);
  const below = (n) => Math.floor(random() * n);
  const rows = [];
  const add = (event, agent = '') => rows.push({ agent, event });
  let calls = 0;
  const step = (agent, number) => {
    add({ event: 'asked', step: number }, agent);
    const written = [];
    const running = [];
    let open = null;
    for (let left = 4 + below(24); left > 0; left -= 1) {
      const what = below(13);
      if (what < 2) add({ event: 'text', text: `t${rows.length} ` }, agent);
      else if (what === 2) add({ event: 'reasoning', text: `r${rows.length} ` }, agent);
      else if (what === 3) {
        calls += 1;
        const it = { index: written.length, call: `c_${calls}`, tool: ['write', 'shell'][below(2)], bytes: 0, made: false };
        written.push(it);
        add({ event: 'writing', index: it.index, call: it.call, tool: it.tool, bytes: 0 }, agent);
      } else if (what < 7) {
        const it = written.filter((one) => !one.made).at(below(3) - 3) ?? written.find((one) => !one.made);
        if (!it) continue;
        it.bytes += 1 + below(50);
        add({ event: 'writing', index: it.index, call: it.call, tool: it.tool, bytes: it.bytes }, agent);
      } else if (what === 7) {
        const it = written.find((one) => !one.made);
        if (!it) continue;
        it.made = true;
        if (below(8) === 0) {
          add({ event: 'answered', call: it.call, tool: it.tool, ok: false, ms: 0, text: 'not run' }, agent);
          continue;
        }
        add({ event: 'called', call: it.call, tool: it.tool, arguments: { n: it.bytes } }, agent);
        running.push(it);
      } else if (what === 8 && running.length) add({ event: 'progress', call: running[0].call, line: `l${rows.length}` }, agent);
      else if (what === 9 && running.length) {
        const it = running.shift();
        add({ event: 'answered', call: it.call, tool: it.tool, ok: below(3) > 0, ms: 5, text: `o${rows.length}` }, agent);
      } else if (what === 10) {
        if (open) {
          add({ event: 'approval_closed', id: open, decision: ['once', 'no', 'nobody'][below(3)], by: 'anna' });
          open = null;
        } else if (running.length) {
          open = `a${rows.length}`;
          add({ event: 'approval_opened', id: open, hash: 'h', tool: running[0].tool, about: 'x', rule: '', says: '', arguments: '', effects: [] });
        }
      } else if (what === 11 && agent.length < 8 && below(2)) step(agent ? `${agent}/b` : ['a', 'c'][below(2)], 1);
      else if (what === 12 && below(6) === 0) add({ event: 'again', why: 'it broke', seconds: 1 }, agent);
    }
    if (open) add({ event: 'approval_closed', id: open, decision: 'expired' });
    if (below(12) > 0) add({ event: 'used', input: 10, output: 2 }, agent);
    for (const it of written.filter((one) => !one.made)) {
      if (below(4) === 0) continue;
      add({ event: 'called', call: it.call, tool: it.tool, arguments: {} }, agent);
      running.push(it);
    }
    for (const it of running) if (below(10) > 0) add({ event: 'answered', call: it.call, tool: it.tool, ok: true, ms: 5, text: 'o' }, agent);
  };
  add({ event: 'opened', epoch: 1, pid: 1, by: 'anna' });
  for (let turn = 0; turn < 2; turn += 1) {
    add({ event: 'turn_began', by: 'anna', text: `turn ${turn}`, messages: turn });
    const began = rows.length;
    for (let n = 1; n < 2 + below(3); n += 1) step('', n);
    if (below(2)) {
      // Killed: the next process settles what was left open.
      rows.length = began + below(rows.length - began);
      add({ event: 'opened', epoch: 2, pid: 2, by: 'anna' });
      const open = new Set();
      for (const { event } of rows) {
        if (event.event === 'approval_opened') open.add(event.id);
        if (event.event === 'approval_closed') open.delete(event.id);
      }
      for (const id of open) add({ event: 'approval_closed', id, decision: 'expired' });
      if (below(2)) step('', 1);
    }
    add({ event: 'turn_ended', ended: 'done', text: '', steps: 1, usage: {} });
  }
  return rows.map((it, at) => ({ seq: at + 1, first: at + 1, at: 1000 + at, ...it }));
}

const PIECES = ['text', 'reasoning', 'writing', 'progress'];
const isText = (kind) => kind === 'text' || kind === 'reasoning';
const isOwn = (event) => !['opened', 'turn_began', 'turn_ended', 'approval_opened', 'approval_closed'].includes(event.event);

/** The rows as the server keeps them: pieces of a step that is over are one row. As `compaction.rs` of `sessions`. */
function compact(rows) {
  const kept = new Map(rows.map((it) => [it.seq, it]));
  let runs = [];
  const write = (which) => {
    for (const run of runs.filter((it) => which(it) && it.pieces.length > 1)) {
      const last = run.pieces.at(-1);
      for (const it of run.pieces) kept.delete(it.seq);
      const event = isText(run.kind) ? { event: run.kind, text: run.pieces.map((it) => it.event.text).join('') } : last.event;
      kept.set(last.seq, { ...last, first: run.pieces[0].seq, event });
    }
    runs = runs.filter((it) => !which(it));
  };
  const endTexts = (agent, but = '') => {
    for (const it of runs) if (it.agent === agent && isText(it.kind) && it.kind !== but) it.over = true;
  };
  for (const row of rows) {
    const { agent, event } = row;
    if (!PIECES.includes(event.event)) {
      endTexts(agent);
      if (event.event === 'turn_ended') write(() => true);
      if (event.event === 'used' || event.event === 'again') write((it) => it.agent === agent && it.kind !== 'progress');
      if (event.event === 'answered') write((it) => it.agent === agent && it.kind === 'progress' && it.call === event.call);
      continue;
    }
    if (isText(event.event)) endTexts(agent, event.event);
    let run = runs.find((it) => it.agent === agent && it.kind === event.event && it.call === event.call && !it.over);
    if (!run) runs.push(run = { agent, kind: event.event, call: event.call, pieces: [], over: false });
    run.pieces.push(row);
  }
  return [...kept.values()].sort((a, b) => a.seq - b.seq);
}

/** The rows as a watcher that has all up to `after` gets them. As `rows.rs` of `web`. */
function sent(rows, before, after) {
  const growing = new Map();
  const grow = ({ agent, event, first, seq }) => {
    let it = growing.get(agent);
    if (!it || it.kind !== event.event || !it.pieces.length) growing.set(agent, it = { kind: event.event, pieces: [], item: first, shown: false });
    it.pieces = it.pieces.filter((one) => one.seq < first);
    if (!it.pieces.length) it.item = first;
    it.pieces.push({ seq, text: event.text });
    return it;
  };
  for (const row of before.filter((it) => it.seq <= after)) {
    if (isText(row.event.event)) grow(row);
    else if (!PIECES.includes(row.event.event)) growing.delete(row.agent);
  }
  return rows.filter((it) => it.seq > after).map((row) => {
    const { agent, event, first, seq, at } = row;
    const made = { seq, at, event, ...(first < seq && { from: first }), ...(agent && { agent }) };
    if (!isText(event.event)) {
      if (!PIECES.includes(event.event)) growing.delete(agent);
      return made;
    }
    const it = grow(row);
    const whole = !it.shown || first < seq;
    it.shown = true;
    return { ...made, item: it.item, ...(whole && { whole, event: { ...event, text: it.pieces.map((one) => one.text).join('') } }) };
  });
}

function folded(rows, into = new Fold()) {
  for (const it of rows) into.add(structuredClone(it));
  return into;
}

/** What a person sees. */
function shown(fold) {
  const entry = (it) => ({
    kind: it.kind, text: it.text, item: it.item,
    call: it.call && { ...it.call, begun: it.call.state === 'writing' ? 0 : it.call.begun },
    agent: it.agent && { steps: it.agent.steps, running: it.agent.running, entries: it.agent.entries.map(entry) },
  });
  return {
    entries: fold.entries.map(entry), approvals: [...fold.approvals.keys()], turn: fold.turn, usage: fold.usage, open: fold.open,
    files: [...fold.files], plain: fold.plainText(),
  };
}

/** Entries have names of their own, and stand in the order of their places. */
function checkOrder(fold) {
  for (const { entries } of fold.agents.values()) {
    assert.equal(new Set(entries.map((it) => it.id)).size, entries.length, 'two entries have one id');
    assert.deepEqual(entries, entries.toSorted((a, b) => a.seq - b.seq));
  }
}

let compared = 0;
for (let seed = 1; seed <= ROUNDS; seed += 1) {
  const log = makeLog(seed);
  const all = sent(log, [], 0);
  const live = new Fold();
  for (let cut = 1; cut <= log.length; cut += 1) {
    const now = log.slice(0, cut);
    folded([all[cut - 1]], live);
    const kept = compact(now);
    const what = `seed ${seed}, row ${cut}, ${JSON.stringify(now.at(-1).event)}`;
    assert.deepEqual(shown(folded(sent(kept, [], 0))), shown(live), `whoever comes late, ${what}`);
    checkOrder(live);
    compared += 1;
    if (seed % 10) continue;
    // Whoever had the rows up to this one, and goes on with what is kept of the others.
    for (let had = 1; had < cut; had += 1) {
      const first = folded(sent(log.slice(0, had), [], 0));
      const back = folded(sent(kept, kept.filter((it) => it.seq <= had), had), first);
      assert.deepEqual(shown(back), shown(live), `whoever comes back after ${had}, ${what}`);
      compared += 1;
    }
  }
}

console.log(`the fold: ${compared} comparisons of ${ROUNDS} logs, all the same`);
