/** Types of the API, for the checker alone. */

export type Role = 'view' | 'say' | 'approve' | 'own';
export type Usage = { input?: number; cached?: number; kept?: number; output?: number; reasoning?: number };
export type Inline =
  | string
  | { t: 'em' | 'strong' | 'del'; c: Inline[] }
  | { t: 'code' | 'raw'; s: string }
  | { t: 'a'; href?: string; title?: string; c: Inline[] }
  | { t: 'img'; href?: string; alt: string }
  | { t: 'br' };
export type Block =
  | string
  | { t: 'p'; c: Inline[] }
  | { t: 'h'; n: number; c: Inline[] }
  | { t: 'quote'; c: Block[] }
  | { t: 'code'; lang?: string; s: string }
  | { t: 'ul'; c: Item[] }
  | { t: 'ol'; start?: number; c: Item[] }
  | Item
  | { t: 'table'; align: string[]; head: Inline[][]; rows: Inline[][][] }
  | { t: 'hr' }
  | { t: 'raw'; s: string };
export type Item = { t: 'item'; check?: boolean; c: Block[] };
export type Color = number | string;
export type Span = { s: string; fg?: Color; bg?: Color; b?: 1; d?: 1; i?: 1; u?: 1; inv?: 1 };
export type Line = Span[];
export type Hunk = { old: number; new: number; head?: string; lines: [string, string][] };
export type Change = { path: string; kind: 'created' | 'changed' | 'deleted'; added: number; removed: number; hunks?: Hunk[]; more?: number; note?: string | null };
export type Picture = { handle: string; mime: string; bytes: number };
export type Failure = { kind: string; what: string; next?: string };
export type Approval = {
  id: string; hash: string; call?: string; agent?: string; tool: string; rule: string; about: string; says: string;
  arguments: string; effects: string[]; changes?: Change[]; offers?: string[];
};
export type Question = { id: string; text: string; options?: string[]; seconds?: number };
export type JobEvent = { job: string; tool: string; title: string; state: string; exit?: number; tail: string; ms: number };
export type Job = { id: string; tool: string; title: string; state: string; ms: number; lines?: Line[] };
export type Decision = 'once' | 'session' | 'project' | 'no' | 'expired' | 'nobody';

export type SessionEvent =
  | { event: 'opened'; epoch: number; pid: number; by: string }
  | { event: 'closed'; by: string }
  | { event: 'turn_began'; key?: string; by: string; text: string; attached?: string[]; messages: number; md_text?: Block[] }
  | { event: 'turn_ended'; key?: string; ended: string; text: string; steps: number; usage: Usage; cost?: number | null; error?: Failure }
  | { event: 'asked'; step: number }
  | { event: 'text'; text: string }
  | { event: 'reasoning'; text: string }
  | { event: 'writing'; index: number; call: string; tool: string; bytes: number }
  | { event: 'called'; call: string; tool: string; arguments: unknown }
  | { event: 'progress'; call: string; line: string }
  | Answered
  | { event: 'picture'; tool: string; picture: Picture }
  | { event: 'again'; why: string; seconds: number }
  | { event: 'note'; text: string }
  | { event: 'told'; text: string; md?: Block[] }
  | { event: 'message_arrived'; id: number; message: string; source: string; from: string; channel?: string; text: string }
  | { event: 'message_shown'; message: string; source: string; from: string; channel?: string; text: string }
  | { event: 'waits'; jobs: { id: string; name: string }[]; seconds: number }
  | ({ event: 'used'; cost?: number | null } & Usage)
  | ({ event: 'approval_opened' } & Approval)
  | { event: 'approval_closed'; id: string; decision: Decision; by?: string; words?: string }
  | ({ event: 'question_opened' } & Question)
  | { event: 'question_closed'; id: string; answer?: string; by?: string }
  | ({ event: 'job_ended' } & JobEvent)
  | ({ event: 'job_waits' } & JobEvent)
  | { event: 'configured'; model?: string; profile?: string }
  | { event: 'sandbox_chosen'; sandbox: string; by: string }
  | { event: 'renamed'; title: string }
  | { event: 'archived'; archived: boolean }
  | { event: 'command'; key?: string; by: string; command: string }
  | { event: 'compacted'; key?: string; before: number; after: number; cost?: number }
  | { event: 'rewound'; key?: string; turns: number; said: string }
  | { event: 'forked'; key?: string; into: string }
  | { event: 'undone'; key?: string; call?: string; text: string };

export type Answered = {
  event: 'answered'; call: string; tool: string; ok: boolean; fault?: string; exit?: number; ms: number; text: string;
  pictures?: Picture[]; changes?: Change[]; links?: string[]; lines?: Line[];
};
export type TurnEnd = Extract<SessionEvent, { event: 'turn_ended' }>;
export type Row = {
  seq: number; from?: number; at: number; agent?: string; event: SessionEvent;
  item?: number; whole?: boolean; md?: { keep: number; blocks: Block[] };
};

export type Session = {
  id: string; workspace: string; title: string; first?: string; turns: number; begun_ms: number; used_ms: number;
  archived: boolean; forked_from?: string | null; found?: string | null; state: 'idle' | 'running' | 'waiting' | 'asleep';
  head?: number; model?: string; profile?: string | null; sandbox?: string; approvals?: number; questions?: number; by?: string;
  turn?: { key?: string; by: string; text: string } | null;
};
export type Workspace = {
  id: string; name: string; path: string; models?: { name: string; about: string }[]; model?: string; profiles?: string[];
  sandbox?: string; opened?: boolean; approve?: string;
};
export type Info = { version: string; name: string; role: Role; by_cookie?: boolean; workspaces: Workspace[]; features: string[] };
/** `client` is the name of the MCP client that asks, and `by` whose token it has; without them a session asks. */
export type OpenApproval = { session: string; workspace: string; title: string; approval: Approval; client?: string; by?: string | null };
export type OpenQuestion = { session: string; workspace: string; title: string; question: Question };
export type ChangingCall = { call: string; tool: string; at_ms: number; undone: boolean; undoes?: string | null; files: Change[] };
export type HeadDiff = { against: 'head'; commit: string; branch?: string | null; files: Change[]; others: { path: string; kind: string }[]; more?: boolean };
export type FileEntry = { name: string; kind: 'file' | 'folder' | 'link' | 'other'; bytes: number; modified_ms: number };
export type Attachment = { text: { name: string; text: string } } | { picture: { name: string; data: string } } | { upload: string };
export type Share = { id: string; session: string; from?: number; to?: number; expires_ms?: number; address: string };
export type Grant = { id: number; workspace: string; effect: string; session?: string | null; made_ms: number };
export type SignIn = { id: string; name: string; role: Role; by: 'token' | 'code'; made_ms: number; expires_ms: number; is_own: boolean };
export type Token = { name: string; role: Role; made_ms?: number; from: string; token?: string };
