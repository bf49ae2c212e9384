//! One call, start to finish.
//!
//! Parse and repair the arguments, decide, wait for the locks, write "begun", run with
//! a deadline, hide secrets, cut the output to size, write "ended", answer. Every call
//! that comes in gives exactly one answer, whatever the tool does.

use std::{
    borrow::Cow,
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use kit::{
    Cx, Fault, Files, Kind, Output, Part, Prepared, Touch, Touches,
    files::{Access, Grant},
    services::{Progress, Services},
};
use serde_json::Value;
use tokio::time::{Instant as Clock, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{
    Session,
    approve::{Request, Verdict},
    beside,
    bound::{self, Limits},
    commands::quote,
    grants::Effect,
    jobs,
    journal::{Begun, Durability, Ended, Outcome},
    policy::{Decision, Rule, Want},
    repair::{self, Repaired},
    schedule::{Hold, Key, Locks},
    visible::visible,
};

/// How long a tool that was told to stop may take to say what it had.
const GRACE: Duration = Duration::from_millis(180);

/// How long a change that is under way is waited for after that.
const LAST_CHANGE: Duration = Duration::from_secs(8);

/// A tool that a model asks for by name.
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// Its arguments, as they came.
    pub arguments: Arguments,
    /// Stops the call.
    pub cancel: CancellationToken,
    /// Hears how far it has come.
    pub progress: Option<Arc<dyn Progress>>,
}

/// The arguments of a call, as they came through the door.
pub enum Arguments {
    /// Parsed already.
    Json(Value),
    /// As the model wrote them. Broken JSON is a fault, never an empty object.
    Raw(String),
}

/// What came of a call: exactly one for each call.
#[derive(Debug)]
pub struct Answer {
    /// The call's id, as the journal has it.
    pub id: String,
    /// The output, or why there is none.
    pub result: Result<Output, Fault>,
    /// What the runtime did to the call that the model should know of, such as a repaired argument.
    pub notes: Vec<String>,
    /// From the door to the answer.
    pub took: Duration,
}

impl Call {
    /// A call with parsed arguments, which nothing stops and nobody watches.
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        Self {
            tool: tool.into(),
            arguments: Arguments::Json(arguments),
            cancel: CancellationToken::new(),
            progress: None,
        }
    }
}

impl Answer {
    /// What the model reads.
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

/// A call that was understood and allowed, and has not begun.
struct Plan {
    prepared: Box<dyn Prepared>,
    grants: Vec<Grant>,
    locks: Vec<(Key, Hold)>,
    /// What other processes must keep off.
    writes: Vec<PathBuf>,
    read_only: bool,
}

/// What the journal is told of a call, as far as it is known.
#[derive(Default)]
struct Told {
    arguments: String,
    touches: Touches,
    decision: String,
    notes: Vec<String>,
}

pub(crate) async fn run(session: &Session, call: Call) -> Answer {
    let began = Instant::now();
    let id = session.store().call_id();
    let cancel = call.cancel.child_token();
    // Whoever drops this call's future stops the call; it still ends as any other.
    let stop_with_us = cancel.clone().drop_guard();
    let tool = call.tool.clone();
    let progress = call.progress.clone();
    let mut told = Told::default();
    let planned = match plan(session, call, &mut told) {
        Ok((plan, Decision::Allow)) => Ok(plan),
        Ok((plan, Decision::Deny(rule))) => {
            told.decision = format!("denied: {}", rule.name);
            drop(plan);
            Err(denied(&rule, "it was not done"))
        }
        Ok((plan, Decision::Ask(rule))) => {
            ask(session, &tool, &rule, &mut told, &cancel).await.map(|()| plan)
        }
        Err(fault) => Err(fault),
    };
    let work = Work { session: session.clone(), id: id.clone(), tool, began, told, cancel, progress };
    // Queued here and now, so that calls are served in the order in which they came.
    let planned = planned.map(|plan| {
        let locks = session.schedule().lock(plan.locks.clone());
        (plan, locks)
    });
    let task = tokio::spawn(work.finish(planned));
    let answer = task.await.unwrap_or_else(|error| Answer {
        id,
        result: Err(Fault::bug(format!("the call was lost: {error}"))),
        notes: Vec::new(),
        took: began.elapsed(),
    });
    drop(stop_with_us.disarm());
    answer
}

/// Understands a call and decides on it; touches nothing.
fn plan(session: &Session, call: Call, told: &mut Told) -> Result<(Plan, Decision), Fault> {
    if let Arguments::Json(value) = &call.arguments {
        told.arguments = value.to_string();
    } else if let Arguments::Raw(text) = &call.arguments {
        told.arguments.clone_from(text);
    }
    told.decision = "not reached".to_owned();
    let Some(tool) = session.catalog().get(&call.tool) else { return Err(unknown(session, &call.tool)) };
    let spec = tool.spec();
    let raw = matches!(call.arguments, Arguments::Raw(_));
    let prepared = repair::repair(spec, call.arguments).and_then(|Repaired { arguments, notes }| {
        told.notes = notes;
        if raw {
            // As they were understood: an escape in the text must not hide what it says.
            told.arguments = arguments.to_string();
        }
        tool.prepare(arguments).map_err(|fault| match fault.next {
            Some(_) => fault,
            None => fault.next(format!("Arguments look like {}.", repair::example(spec))),
        })
    });
    let prepared =
        prepared.map_err(|fault| session.with_schema_at_second_time(fault, spec, &told.arguments))?;
    let touches = prepared.touches();
    if !spec.at_most.covers(touches.kinds()) {
        return Err(Fault::bug(format!(
            "`{}` wants to touch more than it declared it ever would",
            spec.name
        )));
    }
    let read_only = touches.kinds().is_read_only();
    if !read_only && let Some(placeholder) = session.secrets().placeholder(&told.arguments) {
        return Err(Fault::bad_args(format!(
            "the arguments contain `{placeholder}`, which stands for a secret that was not shown; writing it would lose the secret"
        ))
        .next("Change only the lines around it, by anchor.".to_owned()));
    }
    let mut plan = Plan { prepared, grants: Vec::new(), locks: Vec::new(), writes: Vec::new(), read_only };
    let mut wants = Vec::new();
    for touch in touches.iter() {
        told.touches = std::mem::take(&mut told.touches).and(plan.add(touch, session, &mut wants)?);
    }
    let (decision, by) = session.decide(&wants);
    told.decision = by;
    Ok((plan, decision))
}

impl Plan {
    /// Works out what a touch means for grants, locks and policy; gives it with its path resolved.
    fn add(&mut self, touch: &Touch, session: &Session, wants: &mut Vec<Want>) -> Result<Touch, Fault> {
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
            Touch::Run(command) => {
                wants.push(Want::Run(command.clone()));
                touch.clone()
            }
            Touch::Unconfined => {
                wants.push(Want::Unconfined);
                Touch::Unconfined
            }
            Touch::Net(host) => {
                wants.push(Want::Net(host.clone()));
                touch.clone()
            }
            Touch::Session(key) => {
                self.locks.push((Key::Session(format!("{}/{key}", session.name())), Hold::Alone));
                touch.clone()
            }
            Touch::Exclusive => {
                self.locks.push((Key::World, Hold::Alone));
                Touch::Exclusive
            }
        })
    }
}

/// Asks the person; an answer is bound to this very call, and to what it was said to cover.
async fn ask(
    session: &Session,
    tool: &str,
    rule: &Rule,
    told: &mut Told,
    cancel: &CancellationToken,
) -> Result<(), Fault> {
    let asking = async {
        // One question at a time: the answer to this one may be the answer to the next.
        let _turn = session.turn_to_ask().await;
        if let Some(by) = session.granted_meanwhile(&rule.offers) {
            return Err(by);
        }
        // What names a secret must not be kept.
        let open = |it: &&Effect| matches!(session.secrets().mask(&it.to_string()), Cow::Borrowed(_));
        let offers: Vec<Effect> = rule.offers.iter().filter(open).cloned().collect();
        let request = Request {
            tool: tool.to_owned(),
            rule: rule.clone(),
            arguments: told.arguments.clone(),
            effects: told.touches.iter().filter_map(effect).collect(),
            offers: if offers.len() == rule.offers.len() { offers } else { Vec::new() },
        };
        let offers = request.offers.clone();
        let verdict = session.approver().approve(request).await;
        if let Verdict::Yes(scope) = verdict
            && let Err(fault) = session.grant(&offers, scope).await
        {
            tracing::warn!("what was allowed is not kept: {fault}");
        }
        Ok(verdict)
    };
    let verdict = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(Fault::new(Kind::Cancelled, "the call was stopped before it was approved")),
        verdict = asking => verdict,
    };
    let verdict = match verdict {
        Ok(verdict) => verdict,
        Err(by) => {
            told.decision = by;
            return Ok(());
        }
    };
    told.decision = format!("{}: {}", verdict.name(), rule.name);
    match verdict {
        Verdict::Yes(_) => Ok(()),
        Verdict::No => Err(denied(rule, "the person said no")),
        Verdict::NobodyThere => Err(denied(rule, "there was nobody to ask")),
    }
}

/// What a person reads of a touch; reading is never asked about.
fn effect(touch: &Touch) -> Option<String> {
    match touch {
        Touch::Write(path) => Some(format!("write {path}")),
        Touch::Run(command) => Some(format!("run {command}")),
        Touch::Unconfined => Some("outside the sandbox".to_owned()),
        Touch::Net(host) => Some(format!("net {host}")),
        Touch::Read(_) | Touch::Session(_) | Touch::Exclusive => None,
    }
}

fn denied(rule: &Rule, why: &str) -> Fault {
    let next = match rule.name {
        "sandbox" => "A person can start haft with `--sandbox workspace`.".to_owned(),
        "read_only_root" => "A person can add the root without `:ro`.".to_owned(),
        "command_deny" => "haft.toml denies it; find another way, or ask the person.".to_owned(),
        "not_allowed" => {
            "Use a command of the list, or ask the person to add to `only` in haft.toml.".to_owned()
        }
        _ if rule.firm => {
            "Write the command so that each of its programs can be seen, one command to a call.".to_owned()
        }
        _ => {
            let grants: Vec<String> = rule
                .offers
                .iter()
                .map(|it| format!("`haft grants add {}`", quote(&it.to_string())))
                .collect();
            match grants.as_slice() {
                [] => "A person can do it, or start haft with `--approve auto`.".to_owned(),
                grants => format!(
                    "A person can allow it with {}, or start haft with `--approve auto`.",
                    grants.join(" and ")
                ),
            }
        }
    };
    Fault::denied(format!("{rule}; {why}")).next(next)
}

fn unknown(session: &Session, name: &str) -> Fault {
    let near = session.catalog().nearest(name);
    let next = if near.is_empty() {
        let all: Vec<&str> = session.catalog().specs().map(|spec| spec.name.as_str()).collect();
        format!("The tools here are: {}.", all.join(", "))
    } else {
        format!("Did you mean `{}`?", near.join("` or `"))
    };
    Fault::not_found(format!("there is no tool `{name}` in this session")).next(next)
}

/// A call on its way, apart from whoever waits for it.
struct Work {
    session: Session,
    id: String,
    tool: String,
    began: Instant,
    told: Told,
    cancel: CancellationToken,
    progress: Option<Arc<dyn Progress>>,
}

impl Work {
    async fn finish(mut self, planned: Result<(Plan, impl Future<Output = Locks>), Fault>) -> Answer {
        let (result, read_only) = match planned {
            Ok((plan, locks)) => {
                let read_only = plan.read_only;
                (self.run_locked(plan, locks).await, read_only)
            }
            Err(fault) => {
                // What was refused is in the journal too; what a rule forbade, for sure.
                let forbidden = fault.kind == Kind::Denied;
                let _ = self.begin(if forbidden { Durability::Wait } else { Durability::Later }).await;
                (Err(fault), !forbidden)
            }
        };
        let bytes_out = match &result {
            Ok(output) => size(output),
            Err(fault) => fault.what.len() + fault.seen.as_deref().map_or(0, size),
        };
        // Masked before it is cut: a secret that is cut in two is found no more.
        let result = self.shown(result);
        let result = self.bounded(result);
        let notes = std::mem::take(&mut self.told.notes);
        let ended = Ended {
            call: self.id.clone(),
            session: self.session.name().to_owned(),
            outcome: result.as_ref().map_or_else(|fault| Outcome::Fault(fault.kind), |_| Outcome::Ok),
            said: result.as_ref().err().map(|fault| fault.what.clone()),
            notes: notes.clone(),
            took: self.began.elapsed(),
            bytes_out: bytes_out as u64,
        };
        // An answer that was given must not be called "interrupted" after a crash.
        let durability = if read_only { Durability::Later } else { Durability::Wait };
        if let Err(fault) = self.session.store().journal().end(ended, durability).await {
            tracing::warn!(call = self.id, "the end of a call is not in the journal: {fault}");
        }
        Answer { id: self.id, result, notes, took: self.began.elapsed() }
    }

    async fn begin(&mut self, durability: Durability) -> Result<(), Fault> {
        let begun = Begun {
            call: self.id.clone(),
            session: self.session.name().to_owned(),
            tool: self.tool.clone(),
            arguments: std::mem::take(&mut self.told.arguments),
            touches: std::mem::take(&mut self.told.touches),
            decision: std::mem::take(&mut self.told.decision),
        };
        self.session.store().journal().begin(begun, durability).await
    }

    /// Runs the tool once it has its locks; they are given back when this is over.
    async fn run_locked(&mut self, plan: Plan, locks: impl Future<Output = Locks>) -> Result<Output, Fault> {
        let deadline = Clock::from_std(self.began) + self.session.deadline();
        let waiting = async {
            let locks = locks.await;
            let beside = beside::lock(&self.session.store().locks(), &plan.writes).await;
            (locks, beside)
        };
        let got = tokio::select! {
            biased;
            () = self.cancel.cancelled() => {
                let _ = self.begin(Durability::Later).await;
                return Err(Fault::new(Kind::Cancelled, "the call was stopped before it began; it did nothing"));
            }
            got = timeout_at(deadline, waiting) => got,
        };
        let Ok((locks, beside)) = got else {
            let _ = self.begin(Durability::Later).await;
            return Err(Fault::new(
                Kind::Timeout,
                format!(
                    "the call waited {} s for others on the same files; it did nothing",
                    self.session.deadline().as_secs()
                ),
            )
            .next("Try again.".to_owned()));
        };
        if locks.waited > Duration::from_secs(1) {
            self.told.notes.push(format!(
                "waited {:.1} s for other calls on the same files",
                locks.waited.as_secs_f32()
            ));
        }
        let begun = self.begin(if plan.read_only { Durability::Later } else { Durability::Wait }).await;
        let _beside = match (plan.read_only, begun, beside) {
            // What changes nothing may go on without a record.
            (true, begun, beside) => {
                if let Err(fault) = begun {
                    tracing::warn!(call = self.id, "a call is not in the journal: {fault}");
                }
                beside.ok()
            }
            (false, Ok(()), Ok(beside)) => Some(beside),
            (false, Err(fault), _) | (false, Ok(()), Err(fault)) => {
                return Err(Fault { what: format!("nothing was changed: {}", fault.what), ..fault });
            }
        };
        self.run_tool(plan, deadline).await
    }

    async fn run_tool(&self, plan: Plan, deadline: Clock) -> Result<Output, Fault> {
        let history = Arc::new(self.session.store().history(self.session.name(), &self.id));
        let files = Files::new(self.session.roots(), plan.grants, history.clone());
        let services = Services {
            procs: self.session.procs(),
            caller: Arc::new(jobs::ThisCall::default()),
            jobs: self.session.jobs().clone(),
            shelf: self.session.shelf().clone(),
            history,
            undo: self.session.undo(&self.id, plan.writes),
            progress: self.progress.clone().unwrap_or_else(|| Arc::new(Nobody)),
            mask: self.session.secrets().clone(),
        };
        let stop = self.cancel.child_token();
        let cx = Cx::new(files.clone(), self.session.views().clone(), services, stop.clone());
        // Making the future is the tool's code as well.
        let running = AssertUnwindSafe(async move { plan.prepared.run(cx).await }).catch_unwind();
        tokio::pin!(running);
        let stopped = tokio::select! {
            biased;
            done = &mut running => return settle(done),
            () = self.cancel.cancelled() => Kind::Cancelled,
            () = tokio::time::sleep_until(deadline) => Kind::Timeout,
        };
        stop.cancel();
        let done = match timeout(GRACE, &mut running).await {
            Ok(done) => Some(done),
            // Nothing can land any more, so the tool can be left behind.
            Err(_) if files.close_gate() => None,
            Err(_) => timeout(LAST_CHANGE, &mut running).await.ok(),
        };
        match done.map(settle) {
            Some(Ok(output)) => Ok(output),
            Some(Err(fault)) if fault.kind != Kind::Cancelled => Err(fault),
            Some(Err(fault)) => Err(self.stopped(stopped, fault.seen)),
            None => Err(self.stopped(stopped, None)),
        }
    }

    fn stopped(&self, kind: Kind, seen: Option<Box<Output>>) -> Fault {
        let after = self.began.elapsed().as_secs_f32();
        let fault = if kind == Kind::Timeout {
            Fault::new(kind, format!("`{}` was stopped at its deadline, after {after:.1} s", self.tool))
                .next("Ask for less: a smaller folder, a narrower pattern, a shorter range.".to_owned())
        } else {
            Fault::new(kind, format!("`{}` was stopped after {after:.1} s", self.tool))
        };
        Fault { seen, ..fault }
    }

    fn bounded(&self, result: Result<Output, Fault>) -> Result<Output, Fault> {
        let keep = |bytes: &[u8]| self.session.spill(bytes);
        match result {
            Ok(output) => Ok(bound::bound(output, &Limits::default(), &keep)),
            Err(fault) => Err(bound::bound_fault(fault, &Limits::default(), &keep)),
        }
    }

    /// What the model may see of a result: no secret, and nothing that hides or acts.
    fn shown(&mut self, mut result: Result<Output, Fault>) -> Result<Output, Fault> {
        let secrets = self.session.secrets().clone();
        let mut spelled = 0;
        let mut show = |text: &mut String| {
            if let Cow::Owned(masked) = secrets.mask(text) {
                *text = masked;
            }
            let (visible, count) = visible(text);
            spelled += count;
            if let Cow::Owned(visible) = visible {
                *text = visible;
            }
        };
        match &mut result {
            Ok(output) => texts(output).for_each(&mut show),
            Err(fault) => {
                show(&mut fault.what);
                fault.next.as_mut().map(&mut show);
                fault.seen.as_deref_mut().into_iter().flat_map(texts).for_each(&mut show);
            }
        }
        if spelled > 0 {
            let what = if spelled == 1 { "1 character".to_owned() } else { format!("{spelled} characters") };
            self.told.notes.push(format!("{what} that can't be seen: spelled out as \\u{{…}} above"));
        }
        result
    }
}

/// The texts of an output.
fn texts(output: &mut Output) -> impl Iterator<Item = &mut String> {
    output.parts.iter_mut().flat_map(|part| match part {
        Part::Text { text } => vec![text],
        Part::Link { uri, name } => vec![uri, name],
        Part::Image { .. } => Vec::new(),
    })
}

/// A panic becomes a fault of the tool's, and everything else goes on.
fn settle(done: Result<Result<Output, Fault>, Box<dyn std::any::Any + Send>>) -> Result<Output, Fault> {
    done.unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(Fault::bug(format!("the tool panicked: {what}")))
    })
}

fn size(output: &Output) -> usize {
    let parts = output.parts.iter().map(|part| match part {
        Part::Text { text } => text.len(),
        Part::Image { data, .. } => data.len(),
        Part::Link { uri, name } => uri.len() + name.len(),
    });
    parts.sum()
}

/// Where nobody watches.
struct Nobody;

impl Progress for Nobody {
    fn report(&self, _: f64, _: Option<f64>, _: &str) {}
}
