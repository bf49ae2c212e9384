//! One call, from start to finish.
//!
//! Parses and repairs the arguments, decides, waits for the locks, writes "begun", runs with a deadline,
//! redacts secrets, truncates the output, writes "ended", answers. Every call gives exactly one answer,
//! whatever the tool does; a call that becomes a job answers before it is over.

mod between;
mod changes;
mod confirm;
mod deletions;
mod folder_check;
pub(crate) mod hooks;
mod manual;
mod missing;
mod model_output;
mod overlaps;
mod questions;
mod review;
mod run;
mod tools;
mod unkept;
mod waiting;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use kit::{
    Address, Fault, Kinds, Origin, Output, Prepared, Touch, Touches, effect,
    files::{Access, Grant},
    model_tools::{OWN, own_files},
    services::Progress,
    spans,
};
use policy::{Approve, COMPOSED, Decision, Rule, Want};
use sandbox::SandboxMode;
use serde_json::{Map, Value};
use store::changes::Versions;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    approval_time::AskedTime,
    jobs::ThisCall,
    options::{self, Options},
    repair::{self, Arguments, Repaired},
    schedule::{Hold, Key, Who, as_command},
    session_state::{CallHosts, SessionState},
    session_triggers,
};
pub(crate) use missing::why_missing;
pub(crate) use questions::denied;
use questions::{About, Asking};
pub(crate) use review::Reviewing;
use run::Work;

/// A call of a tool by its name.
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// The arguments, unchanged.
    pub arguments: Arguments,
    /// Stops the call, unless it has become a job.
    pub cancel: CancellationToken,
    /// Receives its progress.
    pub progress: Option<Arc<dyn Progress>>,
    /// Its id, from [`Session::new_call_id`](crate::Session::new_call_id), for a caller that needs it
    /// beforehand to [`promote`](crate::Session::promote) the call. Each id must be used only once.
    pub id: Option<String>,
    /// Whether the person makes the call, not a model: rules that would ask them allow it.
    pub by_person: bool,
}

/// The call for which a tool makes another one.
#[derive(Clone)]
pub(crate) struct Within {
    /// The id of the client's call.
    pub(crate) whose: String,
    /// The time that a person was asked about the outer call.
    pub(crate) asked: Arc<AskedTime>,
}

/// The result of a call: exactly one for each call.
#[derive(Debug)]
pub struct Answer {
    /// The call's id in the journal.
    pub id: String,
    /// The output, or the fault. For a call that has become a job, its output so far.
    pub result: Result<Output, Fault>,
    /// Notes for the model on changes that haft made to the call, such as a repaired argument.
    pub notes: Vec<String>,
    /// The files that it changed, before and after. For a call that has become a job, the changes so far.
    pub changes: Vec<Versions>,
    /// The time from the request to the answer, without the time that a person was asked and that it waited
    /// for other calls.
    pub took: Duration,
}

impl Call {
    /// Creates a call with parsed arguments, without cancellation and progress.
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        Self {
            tool: tool.into(),
            arguments: Arguments::Json(arguments),
            cancel: CancellationToken::new(),
            progress: None,
            id: None,
            by_person: false,
        }
    }
}

impl Answer {
    /// Renders the answer for the model.
    pub fn as_text(&self) -> String {
        let mut text = match &self.result {
            Ok(output) => output.as_text(),
            Err(fault) => fault.as_text(),
        };
        for note in &self.notes {
            text.push_str("\nnote: ");
            text.push_str(note);
        }
        text
    }
}

/// A call that is parsed and allowed, and has not begun.
struct Plan {
    prepared: Box<dyn Prepared>,
    grants: Vec<Grant>,
    locks: Vec<(Key, Hold)>,
    /// The paths that are locked against other processes.
    writes: Vec<PathBuf>,
    read_only: bool,
    /// The sandbox by which it was decided.
    sandbox: SandboxMode,
    /// Whether it touches only files: such work is short, and keeps its locks even in the background.
    only_files: bool,
    options: Options,
    /// The hosts that it names, and how it may reach them.
    hosts: CallHosts,
    /// The files that it may write as those of one of the workspace's own tools.
    own: Vec<(PathBuf, String)>,
    /// Whether a person is asked once the content to write is known.
    asks_later: bool,
    /// Whether it changes files only through `kit`.
    is_program: bool,
    by_person: bool,
    /// The text of the command that it runs beside other calls.
    command: Option<Arc<str>>,
}

/// The journal's data on a call, as far as it is known.
#[derive(Default)]
struct JournalEntry {
    arguments: String,
    touches: Touches,
    decision: String,
    notes: Vec<String>,
    /// The call for the hooks after it, if there are any.
    seen_by_hooks: Option<Box<hooks::Seen>>,
    /// The questions to a person within the call, and the answers: for the journal only.
    asked: Vec<String>,
}

/// The rules whose question can wait until the content to write is known.
const ABOUT_CONTENT: [&str; 2] = ["control_files", "own_tools"];

/// Runs a call; `within` is the client's call for which a tool makes it.
pub(crate) async fn run(session: &Arc<SessionState>, mut call: Call, within: Option<&Within>) -> Answer {
    let offered = call.id.is_some();
    let id = call.id.take().unwrap_or_else(|| session.store().call_id());
    let span = spans::Call::begin(session.name(), &id, &call.tool);
    let entered = span.span();
    Box::pin(answer(session, call, within, (id, offered), span)).instrument(entered).await
}

/// Runs a call in its span. `offered` says whether others may know its id.
async fn answer(
    session: &Arc<SessionState>,
    mut call: Call,
    within: Option<&Within>,
    (id, offered): (String, bool),
    span: spans::Call,
) -> Answer {
    let began = Instant::now();
    let whose = within.map_or_else(|| id.clone(), |it| it.whose.clone());
    let asked = AskedTime::within(within.map_or(session.asked(), |it| &it.asked));
    let cancel = call.cancel.child_token();
    // Dropping this call's future stops the call; it still ends like any other.
    let stop_with_us = cancel.clone().drop_guard();
    let tool = call.tool.clone();
    let progress = call.progress.clone();
    let mut entry = JournalEntry::default();
    let outside = session.runtime().plugins();
    // A file that was saved since then is the one that this call means. Most calls don't wait here.
    if outside.wants_a_look(&tool) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            _ = outside.look_for(&tool) => {}
        }
    }
    if !session.catalog().has(&tool) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = session.look_for_server_of(&tool) => {}
        }
    }
    let gate = match session.runtime().hooks() {
        None => hooks::Gate::default(),
        // Boxed: most calls have no hooks.
        Some(hooks) => Box::pin(hooks::before(session, hooks, &mut call, &id, &cancel)).await,
    };
    let planned = gate.over(plan(session, call, &whose, &mut entry), session, &mut entry);
    let planned = match planned {
        Ok((plan, Decision::Allow)) => Ok(plan),
        Ok((plan, Decision::Deny(rule))) => {
            entry.decision = format!("denied: {}", rule.name);
            drop(plan);
            session.was_refused(&tool, &rule);
            Err(denied(session, &rule, why_not(session.policy_of(&whose).approve, &rule)))
        }
        Ok((plan, Decision::Ask(rule))) if plan.by_person && !rule.firm => Ok(plan),
        Ok((plan, Decision::Ask(rule))) if plan.can_ask_later(session, &whose, &rule) => {
            entry.decision = "not reached".to_owned();
            Ok(Plan { asks_later: true, ..plan })
        }
        Ok((plan, Decision::Ask(rule))) => {
            let asking = Asking { session, whose: &whose, tool: &tool, asked: &asked, cancel: &cancel };
            let mut effects = questions::effects(&entry.touches);
            if rule.name == COMPOSED {
                effects.push(plan.sends(session, &entry.arguments));
            }
            let about = About { rule: &rule, arguments: &entry.arguments, effects, changes: Vec::new() };
            let answered = asking.ask(about).await;
            answered.and_then(|answered| {
                entry.decision = answered.decision;
                answered.allowed.map(|()| plan.approved())
            })
        }
        Err(fault) => Err(fault),
    };
    span.decided(&entry.decision);
    span.touches(entry.touches.kinds());
    let title = planned.as_ref().map_or_else(|_| String::new(), |plan| plan.prepared.title());
    let call_tool = tool.clone();
    let this = ThisCall::new(tool, model_output::title(session, title), began, asked.clone(), session.jobs());
    let title = if this.name() == call_tool { call_tool } else { format!("{call_tool} {}", this.name()) };
    let command = planned.as_ref().ok().and_then(|plan| plan.command.clone());
    let process = planned.as_ref().ok().and_then(|plan| plan.prepared.shared_process());
    let who = Who { call: id.clone(), session: session.name().to_owned(), title, command, process };
    if offered {
        session.jobs().offer(&id, &this);
    }
    let (reply, answered) = oneshot::channel();
    let entered = span.span();
    let work = Work::new(session, id.clone(), whose, this, entry, cancel, progress, reply, span);
    // The call enters the queue here, so that calls run in the order in which they arrived.
    let planned = planned.map(|plan| {
        let locks = session.schedule().lock_for(who, plan.locks.clone());
        (plan, locks)
    });
    // Boxed first: a task moves its future several times before it runs.
    tokio::spawn(Box::pin(work.finish(planned)).instrument(entered));
    let answer = answered.await.unwrap_or_else(|_| Answer {
        id: id.clone(),
        result: Err(Fault::bug("the call was lost")),
        notes: Vec::new(),
        changes: Vec::new(),
        took: began.elapsed().saturating_sub(asked.total()),
    });
    if offered {
        session.jobs().withdraw(&id);
    }
    drop(stop_with_us.disarm());
    answer
}

/// Explains why a forbidden call does not run, also to a person who approved everything.
fn why_not(approve: Approve, rule: &Rule) -> &'static str {
    let is_configured = ["not_allowed", "command_deny"].contains(&rule.name);
    match approve {
        Approve::Auto if rule.firm && !is_configured => "`--approve auto` does not cover this",
        _ => "it was not done",
    }
}

/// Writes a value as JSON, at a third of the cost of its `Display`.
fn json(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| value.to_string())
}

/// Parses a call and decides on it; touches nothing.
fn plan(
    session: &Arc<SessionState>,
    call: Call,
    whose: &str,
    entry: &mut JournalEntry,
) -> Result<(Plan, Decision), Fault> {
    if let Arguments::Json(value) = &call.arguments {
        entry.arguments = json(value);
    } else if let Arguments::Raw(text) = &call.arguments {
        entry.arguments.clone_from(text);
    }
    entry.decision = "not reached".to_owned();
    let catalog = session.catalog();
    let Some(tool) = catalog.get(&call.tool) else { return Err(missing::fault(session, &call.tool)) };
    let spec = tool.spec();
    manual::check(session, &catalog, spec)?;
    let raw = matches!(call.arguments, Arguments::Raw(_));
    let (by_person, is_program) = (call.by_person, spec.origin == Origin::Program);
    let mut options = Options::of(spec);
    let prepared = repair::repair(spec, call.arguments).and_then(|Repaired { mut arguments, notes }| {
        entry.notes = notes;
        if raw {
            // The parsed form: an escape in the text must not hide anything.
            entry.arguments = json(&arguments);
        }
        options.take(spec, &mut arguments)?;
        let fault = |fault| if catalog.has("read_job") { options::among_known(fault, spec) } else { fault };
        tool.prepare(arguments).map_err(fault).map_err(|fault| match fault.next {
            Some(_) => fault,
            None => {
                let example = repair::example(spec);
                // An example without required arguments has no information.
                let look = match example.as_object().is_some_and(Map::is_empty) {
                    true => String::new(),
                    false => format!("Arguments look like {example}. "),
                };
                let next = format!("{look}{}", spec.choices());
                if next.is_empty() { fault } else { fault.next(next.trim_end().to_owned()) }
            }
        })
    });
    let prepared =
        prepared.map_err(|fault| session.with_schema_at_second_time(fault, spec, &entry.arguments))?;
    let touches = prepared.touches_with(&session.runtime().preferences());
    let only_files = Kinds::WRITE.covers(touches.kinds());
    if !spec.at_most.covers(touches.kinds()) {
        return Err(Fault::bug(format!("`{}` touches more than it declared", spec.name)));
    }
    let read_only = touches.kinds().is_read_only();
    if !read_only && let Some(placeholder) = session.secrets().placeholder(&entry.arguments) {
        return Err(Fault::bad_args(format!(
            "the arguments contain `{placeholder}`, which stands for a secret that was not shown; writing it would lose the secret"
        ))
        .next("Change only the lines around it, by anchor.".to_owned()));
    }
    let (policy, address) = (session.policy_of(whose), prepared.address());
    let mut plan = Plan {
        prepared,
        grants: Vec::new(),
        locks: Vec::new(),
        writes: Vec::new(),
        read_only,
        sandbox: policy.sandbox,
        only_files,
        options,
        hosts: CallHosts {
            wants: Vec::new(),
            session_ports: Vec::new(),
            web: policy.web.unwrap_or_default(),
            address,
            approved: false,
        },
        own: Vec::new(),
        asks_later: false,
        is_program,
        by_person,
        command: None,
    };
    let mut wants = Vec::new();
    for touch in touches.iter() {
        entry.touches = std::mem::take(&mut entry.touches).and(plan.add(touch, session, &mut wants)?);
    }
    plan.share(&touches, session);
    let (mut decision, by) = session.grants().decide(&policy, &wants);
    entry.notes.extend(session.open_web_note(&wants, &policy));
    entry.decision = by;
    // A grant to what a file runs would outlast the file's content.
    if let (Decision::Ask(rule), Origin::File(_)) = (&mut decision, &spec.origin)
        && rule.name != "net"
    {
        rule.offers.clear();
    }
    Ok((plan, decision))
}

impl Plan {
    /// Returns the call with a person's approval.
    fn approved(mut self) -> Self {
        self.hosts.approved = true;
        self
    }

    /// Lets an exclusive call that runs a command of a known effect run beside others.
    fn share(&mut self, touches: &Touches, session: &Arc<SessionState>) {
        let texts: Vec<&str> = touches
            .iter()
            .filter_map(|it| if let Touch::Run(command) = it { Some(command.as_str()) } else { None })
            .collect();
        let runs_alone = touches.kinds().covers(Kinds::RUN.with(Kinds::EXCLUSIVE)) && !texts.is_empty();
        let free = self.options.allow_concurrent;
        if runs_alone && (free || self.is_program && session.execution().tracks(touches)) {
            let text = texts.join("\n");
            as_command(&mut self.locks, &text, free);
            if let Some(process) = self.prepared.shared_process().filter(|_| !free) {
                self.locks.push((Key::Session(format!("{}/process {process}", session.name())), Hold::Alone));
            }
            self.command = Some(text.into());
        } else if free {
            self.locks.retain(|(key, _)| *key != Key::World);
        }
    }

    /// Describes all that a request to a composed address sends, for the person.
    fn sends(&self, session: &Arc<SessionState>, arguments: &str) -> String {
        match &self.hosts.address {
            Address::Plain(url) => format!("request {}", session.secrets().mask(url.as_str())),
            Address::Composed | Address::Configured => {
                format!("request with {}", session.secrets().mask(arguments))
            }
        }
    }

    /// Returns whether the question can wait until the content to write is known, so that the person sees it.
    fn can_ask_later(&self, session: &Arc<SessionState>, whose: &str, rule: &Rule) -> bool {
        self.only_files
            && self.is_program
            && !rule.firm
            && ABOUT_CONTENT.contains(&rule.name)
            && session.approver().is_attended(whose)
    }

    /// Records a touch's needs for grants, locks and policy; returns the touch with its path resolved.
    fn add(
        &mut self,
        touch: &Touch,
        session: &Arc<SessionState>,
        wants: &mut Vec<Want>,
    ) -> Result<Touch, Fault> {
        let place = |path: &str| session.roots().locate(path);
        Ok(match touch {
            Touch::Read(path) => {
                let location = place(path)?;
                let absolute = location.absolute();
                session.recall(&absolute);
                self.locks.push((Key::Path(absolute.clone()), Hold::Shared));
                wants.push(Want::Place(location.clone(), Access::Read));
                self.grants.push(Grant { location, access: Access::Read });
                Touch::Read(absolute.display().to_string())
            }
            Touch::Write(path) => {
                let location = place(path)?;
                let absolute = location.absolute();
                session.recall(&absolute);
                self.locks.push((Key::Path(absolute.clone()), Hold::Alone));
                self.locks.push((Key::World, Hold::Shared));
                self.writes.push(absolute.clone());
                wants.push(Want::Place(location.clone(), Access::Write));
                self.grants.push(Grant { location, access: Access::Write });
                Touch::Write(absolute.display().to_string())
            }
            Touch::WriteTree { path, like } => {
                let below = folder_check::places(session, path, like.as_deref())?;
                for location in below {
                    self.locks.push((Key::Path(location.absolute()), Hold::Alone));
                    self.grants.push(Grant { location, access: Access::Write });
                }
                return self.add(&Touch::Write(path.clone()), session, wants);
            }
            Touch::Run(command) => {
                wants.push(Want::Run(command.clone()));
                touch.clone()
            }
            Touch::Unconfined => {
                wants.push(Want::Unconfined);
                Touch::Unconfined
            }
            Touch::Net(host) | Touch::Web(host) => {
                if !effect::is_host(host) {
                    return Err(Fault::bad_args(format!("`{host}` is not a host"))
                        .next("Name the host alone: `example.org`, `example.org:8443`, `*.example.org`."));
                }
                let host = host.clone();
                let want = match touch {
                    Touch::Web(_) => Want::Web { host, known: session.knows(&self.hosts.address) },
                    _ => Want::Net(host),
                };
                self.hosts.wants.push(want.clone());
                match want.host().filter(|host| self.is_program && session.listens(host)) {
                    Some(host) => self.hosts.session_ports.push(host.to_owned()),
                    None => wants.push(want),
                }
                touch.clone()
            }
            Touch::Server { name, .. } => {
                wants.extend(session.question_of_server(name));
                touch.clone()
            }
            Touch::Session(key) => {
                self.locks.push((Key::Session(format!("{}/{key}", session.name())), Hold::Alone));
                touch.clone()
            }
            Touch::Tool(name) => {
                let workspace = session.runtime().roots().workspace();
                for path in own_files(name)? {
                    let location = place(&path)?;
                    let absolute = location.absolute();
                    if absolute != workspace.join(&path) {
                        let what = format!(
                            "`{path}` is a link or lies behind one, to {}; it was not changed",
                            absolute.display()
                        );
                        return Err(Fault::denied(what).next("A person can put a file in place of the link."));
                    }
                    self.locks.push((Key::Path(absolute.clone()), Hold::Alone));
                    self.own.push((absolute.clone(), name.clone()));
                    self.writes.push(absolute);
                    self.grants.push(Grant { location, access: Access::Write });
                }
                self.grants.push(Grant { location: place(OWN)?, access: Access::Read });
                self.locks.push((Key::World, Hold::Shared));
                wants.push(Want::Tool(name.clone()));
                touch.clone()
            }
            Touch::Trigger(new) => {
                let (about, effects, grants) = session_triggers::planned(session, new)?;
                wants.push(Want::Trigger { about, grants });
                Touch::Trigger(effects)
            }
            Touch::Exclusive => {
                self.locks.push((Key::World, Hold::Alone));
                Touch::Exclusive
            }
        })
    }
}
