/**
 * The fold of a session's rows: entries in the order in which a person reads them.
 *
 * The server numbers the texts: a piece names the text that it belongs to, so a row that comes after a reconnection finds its place.
 */

import { sandboxWords } from './format.js';

/**
 * @typedef {import('./types').Row} Row
 * @typedef {import('./types').SessionEvent} SessionEvent
 * @typedef {import('./types').Approval} Approval
 * @typedef {import('./types').Question} Question
 * @typedef {import('./types').TurnEnd} TurnEnd
 * @typedef {import('./types').Usage} Usage
 */

/**
 * A call of a tool, from its first byte to its answer.
 * @typedef {object} Call
 * @property {string} call
 * @property {string} tool
 * @property {'writing' | 'running' | 'ok' | 'failed' | 'lost'} state
 * @property {number} bytes
 * @property {unknown} arguments
 * @property {string} progress
 * @property {Extract<SessionEvent, {event: 'answered'}> | null} answer
 * @property {number} begun when it was called, in milliseconds since 1970
 * @property {boolean} byPerson
 */

/**
 * Something that has a place in the conversation. `version` grows with each change.
 * @typedef {object} Entry
 * @property {string} id
 * @property {number} seq
 * @property {number} at
 * @property {number} version
 * @property {'prompt' | 'text' | 'reasoning' | 'call' | 'end' | 'line' | 'agent' | 'removed' | 'picture' | 'message'} kind
 * @property {string} text the words of it, as they were written
 * @property {number} [item] the number of the text
 * @property {import('./types').Block[]} [blocks] the text as the server parsed it
 * @property {number} [kept] how many of the blocks are as they were when the entry was shown last
 * @property {Call} [call]
 * @property {SessionEvent} [event]
 * @property {AgentState} [agent]
 * @property {Entry[]} [removed]
 */

/** Calls that the model still writes stand after all that happened: their place is at least this. */
const PENDING = 2 ** 52;

/** Entries and progress of one agent. */
export class AgentState {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
    /** @type {Entry[]} */
    this.entries = [];
    /** @type {Map<string, Entry>} */
    this.calls = new Map();
    /** The entry of this agent in the one above. @type {Entry | null} */
    this.shown = null;
    /** Texts of the answer that the model writes, by their numbers. @type {Map<number, Entry>} */
    this.texts = new Map();
    /** Where the answer that the model writes began, among the entries. */
    this.answerFrom = 0;
    this.steps = 0;
    this.running = false;
  }
}

/** The state of a session. */
export class Fold {
  constructor() {
    this.head = 0;
    /** The place of the row that is taken: a piece of a text has that of the text's first, also where it stands for all of them. */
    this.place = 0;
    this.title = '';
    this.archived = false;
    this.model = '';
    this.profile = '';
    this.sandbox = '';
    this.open = false;
    /** @type {{key?: string, by: string, messages: number, at: number} | null} */
    this.turn = null;
    /** @type {Map<string, Approval>} */
    this.approvals = new Map();
    /** @type {Map<string, Question>} */
    this.questions = new Map();
    /** @type {Map<string, AgentState>} */
    this.agents = new Map([['', new AgentState('')]]);
    /** @type {Required<Usage> & {cost: number, costKnown: boolean}} */
    this.usage = { input: 0, cached: 0, kept: 0, output: 0, reasoning: 0, cost: 0, costKnown: false };
    /** The tokens of the newest request of the session's own agent. */
    this.contextTokens = 0;
    /** The state of the activity, in words. */
    this.doing = '';
    /** Entries that changed since they were taken. @type {Set<Entry>} */
    this.changed = new Set();
    /** Counts insertions and removals of entries of the session's own agent. */
    this.shape = 0;
    /** Files that changed, by path. @type {Set<string>} */
    this.files = new Set();
    /** Ends of calls and jobs, and undos: panels load again. */
    this.ends = 0;
    /** @type {{content: string, status: string}[] | null} */
    this.todo = null;
  }

  /** @returns {AgentState} */
  get main() {
    return this.agent('');
  }

  /** @returns {Entry[]} */
  get entries() {
    return this.main.entries;
  }

  /**
   * Returns the agent at a path, and makes it known above if it is new.
   * @param {string} path
   * @returns {AgentState}
   */
  agent(path) {
    const known = this.agents.get(path);
    if (known) return known;
    const made = new AgentState(path);
    this.agents.set(path, made);
    const cut = path.lastIndexOf('/');
    const above = this.agent(cut < 0 ? '' : path.slice(0, cut));
    made.shown = this.push(above, { kind: 'agent', text: path.slice(cut + 1), seq: this.place, at: Date.now(), agent: made });
    return made;
  }

  /**
   * Takes the next row. A row that was taken before is ignored.
   * @param {Row} row
   */
  add(row) {
    if (row.seq <= this.head) return;
    this.head = row.seq;
    this.place = row.item ?? row.seq;
    const agent = this.agent(row.agent ?? '');
    if (agent.path) this.touch(agent);
    if (!this.stream(agent, row, row.event)) this.stand(agent, row, row.event);
  }

  /**
   * Takes a piece of a stream; returns false if the event is not one.
   * @param {AgentState} agent
   * @param {Row} row
   * @param {SessionEvent} event
   */
  stream(agent, row, event) {
    switch (event.event) {
      case 'text':
      case 'reasoning':
        this.grow(agent, row, event.event, event.text);
        return true;
      case 'writing': {
        const entry = this.callEntry(agent, row, event.call || `w${event.index}`, event.tool, event.index);
        if (entry.call?.state === 'writing') entry.call.bytes = event.bytes;
        this.mark(entry);
        if (!agent.path) this.doing = `writing a call of ${event.tool}`;
        return true;
      }
      case 'progress': {
        const entry = agent.calls.get(event.call);
        if (entry?.call) {
          entry.call.progress = event.line;
          this.mark(entry);
        }
        return true;
      }
      default:
        return false;
    }
  }

  /**
   * @param {AgentState} agent
   * @param {Row} row
   * @param {'text' | 'reasoning'} kind
   * @param {string} text
   */
  grow(agent, row, kind, text) {
    const item = row.item ?? row.seq;
    let entry = agent.texts.get(item);
    if (!entry) {
      entry = this.push(agent, { kind, text: '', seq: this.place, at: row.at, item, blocks: [], kept: 0 });
      agent.texts.set(item, entry);
    }
    entry.text = row.whole ? text : entry.text + text;
    this.show(entry, row.md);
    if (!agent.path) this.doing = kind === 'text' ? 'answering' : 'thinking';
  }

  /**
   * Takes the Markdown of the end of a text, of which no more came for a moment.
   * @param {{agent: string, item: number, md: Row['md']}} rest
   */
  markdown(rest) {
    const entry = this.agents.get(rest.agent)?.texts.get(rest.item);
    if (entry) this.show(entry, rest.md);
  }

  /**
   * Shows a change of a text's blocks.
   * @param {Entry} entry
   * @param {Row['md']} md
   */
  show(entry, md) {
    if (md && entry.blocks) {
      entry.blocks.length = Math.min(entry.blocks.length, md.keep);
      entry.kept = Math.min(entry.kept ?? 0, md.keep);
      entry.blocks.push(...md.blocks);
    }
    this.mark(entry);
  }

  /**
   * Takes an event that has a place of its own.
   * @param {AgentState} agent
   * @param {Row} row
   * @param {SessionEvent} event
   */
  stand(agent, row, event) {
    const own = agent.path === '';
    /** @param {string} text */
    const say = (text) => this.push(agent, { kind: 'line', text, seq: row.seq, at: row.at, event });
    switch (event.event) {
      case 'opened':
        this.open = true;
        // Another process runs it now: calls of the one before have ended with it.
        this.loseCalls();
        break;
      case 'closed':
        this.open = false;
        break;
      case 'turn_began':
        this.turn = { key: event.key, by: event.by, messages: event.messages, at: row.at };
        this.doing = 'beginning';
        this.push(agent, { kind: 'prompt', text: event.text, seq: row.seq, at: row.at, event });
        break;
      case 'turn_ended':
        this.endTurn(agent, row, event);
        break;
      case 'asked':
        agent.steps = event.step;
        this.dropWritten(agent);
        agent.answerFrom = agent.entries.length;
        agent.texts.clear();
        agent.running = true;
        if (own) this.doing = 'waiting for the model';
        break;
      case 'called':
        this.called(agent, row, event);
        break;
      case 'answered':
        this.answered(agent, row, event);
        break;
      case 'picture':
        this.push(agent, { kind: 'picture', text: '', seq: row.seq, at: row.at, event });
        break;
      case 'again':
        this.discard(agent);
        say(`The answer so far is discarded; asking again in ${Math.round(event.seconds)} s: ${event.why}`);
        break;
      case 'used':
        this.used(agent, event);
        break;
      case 'note':
      case 'told':
        say(event.text);
        break;
      case 'message_shown':
        this.push(agent, { kind: 'message', text: event.text, seq: row.seq, at: row.at, event });
        break;
      case 'message_arrived':
        this.ends += 1;
        break;
      case 'waits':
        if (own) this.doing = 'waiting for jobs';
        say(`Waiting for ${event.jobs.map((it) => it.name).join(', ')}`);
        break;
      case 'approval_opened':
        this.approvals.set(event.id, event);
        if (own) this.doing = 'waiting for your approval';
        break;
      case 'approval_closed':
        this.closeApproval(agent, row, event);
        break;
      case 'question_opened':
        this.questions.set(event.id, event);
        if (own) this.doing = 'waiting for your answer';
        break;
      case 'question_closed':
        this.closeQuestion(agent, row, event);
        break;
      case 'job_ended':
      case 'job_waits':
        this.ends += 1;
        say(event.event === 'job_ended' ? `${event.job} ended: ${event.title}, ${event.state}` : `${event.job} waits for input: ${event.title}`);
        break;
      case 'configured':
        if (event.model) this.model = event.model;
        if (event.profile) this.profile = event.profile;
        say([event.model && `${event.model} answers from here on`, event.profile && `profile: ${event.profile}`].filter(Boolean).join('; '));
        break;
      case 'sandbox_chosen':
        this.sandbox = event.sandbox;
        say(`${event.by} switched the sandbox: ${sandboxWords(event.sandbox)}`);
        break;
      case 'renamed':
        this.title = event.title;
        break;
      case 'archived':
        this.archived = event.archived;
        break;
      case 'command':
        say(`${event.by} runs a command: ${event.command}`);
        break;
      case 'compacted':
        say(`A summary took the place of the conversation above: about ${event.before.toLocaleString()} → ${event.after.toLocaleString()} tokens`);
        break;
      case 'rewound':
        this.rewind(agent, row, event.turns);
        break;
      case 'forked':
        say(`Another session goes on from here: ${event.into}`);
        break;
      case 'undone':
        this.ends += 1;
        say(event.text.split('\n')[0] ?? '');
        break;
      default:
        break;
    }
  }

  /** Calls that run have no answer any more. */
  loseCalls() {
    for (const it of this.agents.values()) {
      for (const entry of it.calls.values()) {
        if (entry.call?.state !== 'running') continue;
        entry.call.state = 'lost';
        this.mark(entry);
      }
    }
  }

  /**
   * @param {AgentState} agent
   * @param {Row} row
   * @param {TurnEnd} event
   */
  endTurn(agent, row, event) {
    this.turn = null;
    this.doing = '';
    for (const it of this.agents.values()) {
      it.running = false;
      it.texts.clear();
      this.dropWritten(it);
      if (it.shown) this.mark(it.shown);
    }
    this.loseCalls();
    for (const it of this.agents.values()) it.calls.clear();
    this.push(agent, { kind: 'end', text: '', seq: row.seq, at: row.at, event });
  }

  /**
   * @param {AgentState} agent
   * @param {Row} row
   * @param {Extract<SessionEvent, {event: 'called'}>} event
   */
  called(agent, row, event) {
    const entry = this.callEntry(agent, row, event.call, event.tool);
    if (!entry.call) return;
    entry.call.state = 'running';
    entry.call.arguments = event.arguments;
    entry.call.begun = row.at;
    this.moveHere(agent, row, entry);
    this.mark(entry);
    if (!agent.path) this.doing = `running ${event.tool}`;
  }

  /**
   * Gives a call its place: where it was called, or where it ended without that. The rows of its writing become one, so whoever
   * comes later does not know when it was begun.
   * @param {AgentState} agent
   * @param {Row} row
   * @param {Entry} entry
   */
  moveHere(agent, row, entry) {
    const from = agent.entries.indexOf(entry);
    agent.entries.splice(from, 1);
    entry.seq = row.seq;
    if (insert(agent, entry) !== from && !agent.path) this.shape += 1;
  }

  /**
   * Drops calls that were written and never made: the answer that they belong to is over.
   * @param {AgentState} agent
   */
  dropWritten(agent) {
    const made = agent.entries.filter((it) => it.call?.state !== 'writing');
    if (made.length === agent.entries.length) return;
    for (const [id, it] of agent.calls) if (it.call?.state === 'writing') agent.calls.delete(id);
    agent.entries = made;
    if (!agent.path) this.shape += 1;
  }

  /**
   * @param {AgentState} agent
   * @param {Row} row
   * @param {Extract<SessionEvent, {event: 'answered'}>} event
   */
  answered(agent, row, event) {
    const entry = this.callEntry(agent, row, event.call, event.tool);
    if (!entry.call) return;
    if (entry.call.state === 'writing') {
      entry.call.begun = row.at;
      this.moveHere(agent, row, entry);
    }
    entry.call.state = event.ok ? 'ok' : 'failed';
    entry.call.answer = event;
    entry.call.progress = '';
    agent.calls.delete(event.call);
    for (const change of event.changes ?? []) this.files.add(change.path);
    if (!agent.path && event.tool.startsWith('todo')) this.todo = null;
    this.ends += 1;
    this.mark(entry);
  }

  /**
   * @param {AgentState} agent
   * @param {Extract<SessionEvent, {event: 'used'}>} event
   */
  used(agent, event) {
    const sum = this.usage;
    sum.input += event.input ?? 0;
    sum.cached += event.cached ?? 0;
    sum.kept += event.kept ?? 0;
    sum.output += event.output ?? 0;
    sum.reasoning += event.reasoning ?? 0;
    if (typeof event.cost === 'number') {
      sum.cost += event.cost;
      sum.costKnown = true;
    }
    if (!agent.path) this.contextTokens = (event.input ?? 0) + (event.cached ?? 0) + (event.kept ?? 0) + (event.output ?? 0);
    if (agent.shown) this.mark(agent.shown);
  }

  /**
   * @param {AgentState} agent
   * @param {Row} row
   * @param {Extract<SessionEvent, {event: 'approval_closed'}>} event
   */
  closeApproval(agent, row, event) {
    const asked = this.approvals.get(event.id);
    this.approvals.delete(event.id);
    const how = {
      once: 'allowed', session: 'allowed for the session', project: 'allowed for this workspace', no: 'refused',
      expired: 'no longer asked', nobody: 'refused: there was nobody to ask',
    }[event.decision] ?? event.decision;
    const what = asked ? `${asked.tool} ${asked.about}` : 'A call';
    const text = `${what}: ${how}${event.by ? ` by ${event.by}` : ''}${event.words ? `: “${event.words}”` : ''}`;
    this.push(agent, { kind: 'line', text, seq: row.seq, at: row.at, event });
  }

  /**
   * @param {AgentState} agent
   * @param {Row} row
   * @param {Extract<SessionEvent, {event: 'question_closed'}>} event
   */
  closeQuestion(agent, row, event) {
    const asked = this.questions.get(event.id);
    this.questions.delete(event.id);
    const answer = event.answer === undefined || event.answer === null ? 'no answer' : `“${event.answer}”`;
    this.push(agent, { kind: 'line', text: `${asked?.text ?? 'A question'} — ${answer}${event.by ? ` (${event.by})` : ''}`, seq: row.seq, at: row.at, event });
  }

  /**
   * Drops the pieces of the answer that the model began.
   * @param {AgentState} agent
   */
  discard(agent) {
    this.dropWritten(agent);
    const kept = agent.entries.slice(agent.answerFrom).filter((it) => it.kind !== 'text' && it.kind !== 'reasoning');
    agent.entries.length = agent.answerFrom;
    agent.entries.push(...kept);
    this.shape += 1;
  }

  /**
   * @param {AgentState} agent
   * @param {Row} row
   * @param {number} turns
   */
  rewind(agent, row, turns) {
    let at = agent.entries.length;
    for (let left = turns; left > 0 && at > 0;) {
      at -= 1;
      if (agent.entries[at]?.kind === 'prompt') left -= 1;
    }
    const removed = agent.entries.splice(at);
    this.shape += 1;
    this.push(agent, { kind: 'removed', text: `${turns === 1 ? 'The newest turn was' : `${turns} turns were`} taken back here`, seq: row.seq, at: row.at, removed });
  }

  /**
   * @param {AgentState} agent
   * @param {Row} row
   * @param {string} call
   * @param {string} tool
   * @param {number} [index] its place among the calls of the answer
   */
  callEntry(agent, row, call, tool, index = 0) {
    const known = agent.calls.get(call);
    if (known) return known;
    const entry = this.push(agent, {
      kind: 'call', text: tool, seq: PENDING + index, at: row.at,
      call: { call, tool, state: 'writing', bytes: 0, arguments: null, progress: '', answer: null, begun: row.at, byPerson: false },
    });
    agent.calls.set(call, entry);
    return entry;
  }

  /**
   * @param {AgentState} agent
   * @param {Omit<Entry, 'id' | 'version'>} entry
   * @returns {Entry}
   */
  push(agent, entry) {
    const made = { ...entry, id: `${agent.path}#${this.place}${entry.kind === 'agent' ? `a${this.agents.size}` : ''}`, version: 0 };
    insert(agent, made);
    if (agent.path) this.touch(agent);
    else this.shape += 1;
    this.changed.add(made);
    return made;
  }

  /** @param {Entry} entry */
  mark(entry) {
    entry.version += 1;
    this.changed.add(entry);
  }

  /**
   * Marks the entries of this agent and of those above it as changed.
   * @param {AgentState} agent
   */
  touch(agent) {
    for (let it = agent.shown; it?.agent; it = this.above(it.agent)?.shown ?? null) this.mark(it);
  }

  /**
   * @param {AgentState} agent
   * @returns {AgentState | undefined}
   */
  above(agent) {
    const cut = agent.path.lastIndexOf('/');
    return cut < 0 ? undefined : this.agents.get(agent.path.slice(0, cut));
  }

  /** Returns the whole conversation as text: prompts, answers, calls with their results, as they were written. */
  plainText() {
    return plainText(this.entries, '');
  }
}

/**
 * Puts an entry into its place, and returns that.
 * @param {AgentState} agent
 * @param {Entry} entry
 */
function insert(agent, entry) {
  let at = agent.entries.length;
  while (at > 0 && (agent.entries[at - 1]?.seq ?? 0) > entry.seq) at -= 1;
  agent.entries.splice(at, 0, entry);
  return at;
}

/**
 * @param {Entry[]} entries
 * @param {string} indent
 * @returns {string}
 */
function plainText(entries, indent) {
  const parts = [];
  for (const it of entries) {
    if (it.kind === 'prompt') parts.push(`${indent}> ${it.text}`);
    else if (it.kind === 'call' && it.call) parts.push(`${indent}[${it.call.tool}] ${JSON.stringify(it.call.arguments)}\n${it.call.answer?.text ?? ''}`);
    else if (it.kind === 'agent' && it.agent) parts.push(`${indent}[agent ${it.text}]\n${plainText(it.agent.entries, `${indent}  `)}`);
    else if (it.text) parts.push(indent + it.text);
  }
  return parts.join('\n\n');
}
