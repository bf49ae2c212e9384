//! Running a call: an own task, independent of its caller.

mod check;

use std::{
    collections::VecDeque,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use kit::{
    Cx, Fault, Files, Kind, Output, Part, Services,
    services::{Progress, Review, State},
    spans,
};
use policy::{Approve, Policy};
use store::{
    changes::Landed,
    journal::{Begun, Durability, Ended},
};
use tokio::{
    sync::oneshot,
    time::{Instant as Clock, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Answer, JournalEntry, Plan, Reviewing, Within, confirm::Confirming, hooks, model_output, overlaps,
    questions, tools::ToolsOf, waiting,
};
use crate::{
    deadline::LONGEST,
    file_locks::{self, FileLocks},
    jobs::{Jobs, ThisCall, Wish},
    mcp_client::ServersOf,
    schedule::Locks,
    session_state::SessionState,
    session_triggers::TriggersOf,
};

/// Time that a stopped tool has to return its partial result.
const GRACE: Duration = Duration::from_millis(180);

/// The same for a job: no caller waits for a quick answer, and its command may have to clean up.
const JOB_GRACE: Duration = Duration::from_secs(5);

/// Time that haft then waits for a change under way.
const LAST_CHANGE: Duration = Duration::from_secs(8);

/// Time added to a call's own limit, so that the call ends itself, with its own message.
const MARGIN: Duration = Duration::from_secs(10);

/// A wait for locks of at least this time is noted for the model.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// Limit of the arguments in a question about what a command changes, in bytes.
const ARGUMENTS: usize = 4096;

/// A call under way.
pub(super) struct Work {
    session: Arc<SessionState>,
    id: String,
    /// The id of the client's call: this one, or the one for which it is made.
    whose: String,
    this: Arc<ThisCall>,
    /// The time at which it was allowed, by the clock of deadlines: the time of a person's decision does not
    /// count.
    allowed: Clock,
    /// The time that the person of the session had been asked until then.
    asked_before: Duration,
    entry: JournalEntry,
    cancel: CancellationToken,
    progress: Option<Arc<dyn Progress>>,
    /// Receives the answer. After the answer, the call is a job.
    reply: Option<oneshot::Sender<Answer>>,
    /// The time that it waited for its locks.
    waited: Duration,
    /// The part of its wait during which a person was asked about other calls.
    others_asked: Duration,
    /// Its changes so far.
    landed: Arc<Landed>,
    /// Asks about its changes before they are made.
    review: Option<Arc<Reviewing>>,
    /// Checks what its commands change, if it may change something.
    checked: Option<check::Checked>,
    span: spans::Call,
    /// The span of the job, once it is one.
    job_span: Option<spans::Job>,
    _lost: Lost,
}

/// The locks of a call.
type HeldLocks = (Locks, Option<FileLocks>);

impl Work {
    #[expect(clippy::too_many_arguments, reason = "it is made in one place, of what was found out there")]
    pub(super) fn new(
        session: &Arc<SessionState>,
        id: String,
        whose: String,
        this: Arc<ThisCall>,
        entry: JournalEntry,
        cancel: CancellationToken,
        progress: Option<Arc<dyn Progress>>,
        reply: oneshot::Sender<Answer>,
        span: spans::Call,
    ) -> Self {
        // A task does not keep its session from ending.
        let session = session.clone();
        let lost = Lost { jobs: session.jobs().clone(), this: this.clone() };
        let (reply, waited, allowed) = (Some(reply), Duration::ZERO, Clock::now());
        let asked_before = session.asked().total();
        let (landed, others_asked, review) = (Arc::default(), Duration::ZERO, None);
        Self {
            session,
            id,
            whose,
            this,
            allowed,
            asked_before,
            entry,
            cancel,
            progress,
            reply,
            waited,
            others_asked,
            landed,
            review,
            checked: None,
            span,
            job_span: None,
            _lost: lost,
        }
    }

    /// Runs the call to its end.
    pub(super) async fn finish(mut self, planned: Result<(Plan, impl Future<Output = Locks> + Send), Fault>) {
        let (result, read_only) = match planned {
            Ok((plan, locks)) => {
                let room = if plan.options.run_in_background { self.room_for_job() } else { Ok(()) };
                if plan.options.run_in_background && room.is_ok() {
                    self.this.owes_its_result();
                    self.grant(Wish::Background);
                }
                let read_only = plan.read_only;
                let result = match room {
                    Ok(()) => self.run_locked(plan, locks).await,
                    Err(fault) => {
                        let _ = self.begin(Durability::Later).await;
                        Err(fault)
                    }
                };
                (self.after_hooks(result).await, read_only)
            }
            Err(fault) => {
                // A refused call is in the journal too; one that a rule forbade is written for certain.
                let forbidden = fault.kind == Kind::Denied;
                let _ = self.begin(if forbidden { Durability::Wait } else { Durability::Later }).await;
                (Err(fault), !forbidden)
            }
        };
        let was_stopped = self.this.stop.is_cancelled();
        self.end_review().await;
        let bytes_out = model_output::size(&result) as u64;
        let result = self.shown(result);
        let ended = Ended {
            notes: self.entry.notes.iter().chain(&self.entry.asked).cloned().collect(),
            waited: self.waited,
            job: self.is_job().then(|| self.this.id()),
            bytes_out,
            ..Ended::of(&self.id, self.session.name(), &result, self.took())
        };
        self.span.ended(result.as_ref().err().map(|fault| fault.kind), bytes_out);
        self.span.waited(self.waited, self.this.asked.total());
        // A call that has answered must not count as interrupted after a crash.
        let durability = if read_only { Durability::Later } else { Durability::Wait };
        if let Err(fault) = self.session.store().journal().end(ended, durability).await {
            tracing::warn!(call = self.id, "the end of a call is not in the journal: {fault}");
        }
        if self.reply.is_some() {
            return self.answer(result);
        }
        let state = match &result {
            _ if was_stopped => State::Cancelled,
            Ok(_) => State::Done,
            Err(_) => State::Error,
        };
        if let Some(span) = &self.job_span {
            span.ended(state.name());
        }
        self.session.jobs().end(&self.this, state, result);
    }

    /// Runs the hooks after the call, which see its result and may add to it.
    async fn after_hooks(&mut self, result: Result<Output, Fault>) -> Result<Output, Fault> {
        match self.entry.seen_by_hooks.take() {
            None => result,
            Some(seen) => {
                let stop = if self.is_job() { self.this.stop.clone() } else { self.cancel.clone() };
                hooks::after(&self.session, &self.id, *seen, result, &mut self.entry, &stop).await
            }
        }
    }

    fn room_for_job(&self) -> Result<(), Fault> {
        self.session.jobs().room(self.session.execution().limits().jobs)
    }

    fn is_job(&self) -> bool {
        self.reply.is_none()
    }

    /// Returns the time since the request, without the time that a person was asked.
    fn took(&self) -> Duration {
        self.this.elapsed().saturating_sub(self.others_asked)
    }

    /// Writes the "begun" record, if no change did, and adds the decisions on changes.
    async fn end_review(&mut self) {
        let Some(review) = &self.review else { return };
        self.entry.asked.extend(review.take_decisions());
        if let Some(begun) = review.unwritten()
            && let Err(fault) = self.session.store().journal().begin(begun, Durability::Later).await
        {
            tracing::warn!(call = self.id, "a call is not in the journal: {fault}");
        }
    }

    async fn begin(&mut self, durability: Durability) -> Result<(), Fault> {
        let begun = self.begun();
        self.session.store().journal().begin(begun, durability).await
    }

    fn begun(&mut self) -> Begun {
        Begun {
            call: self.id.clone(),
            session: self.session.name().to_owned(),
            tool: self.this.tool.clone(),
            arguments: std::mem::take(&mut self.entry.arguments),
            touches: std::mem::take(&mut self.entry.touches),
            decision: std::mem::take(&mut self.entry.decision),
        }
    }

    /// Returns the review of this call's changes, if a person is asked at all.
    fn reviewing(&self, plan: &mut Plan) -> Option<Arc<Reviewing>> {
        let asks = self.session.policy().approve.asks() && !plan.by_person && !plan.read_only;
        asks.then(|| {
            let own = std::mem::take(&mut plan.own);
            Reviewing::new(&self.session, self.whose.clone(), &self.this, &self.entry, own)
        })
    }

    /// Runs the tool once it has its locks; releases them at the end, or when the call becomes a job.
    async fn run_locked(
        &mut self,
        mut plan: Plan,
        locks: impl Future<Output = Locks> + Send,
    ) -> Result<Output, Fault> {
        let deadline = self.allowed + self.session.deadline();
        let got = {
            let session = self.session.clone();
            let waiting = async {
                let mut locks = locks.await;
                let tracks = session.runtime().tracks();
                locks.wait_for_commands(&plan.writes, |call, path| tracks.has_changed(call, path)).await;
                let beside = match plan.writes.as_slice() {
                    [] => Ok(FileLocks::default()),
                    writes => file_locks::lock(&session.store().locks(), writes).await,
                };
                (locks, beside)
            };
            let (session, id, progress) = (self.session.clone(), self.id.clone(), self.progress.clone());
            let waiting = pin!(waiting::reported(&session, &id, progress.as_deref(), waiting));
            let got = self.attend(waiting, deadline, &mut None).await;
            let stop = if self.is_job() { &self.this.stop } else { &self.cancel };
            if stop.is_cancelled() { Err(Kind::Cancelled) } else { got }
        };
        let (locks, beside) = match got {
            Ok(got) => got,
            Err(why) => {
                let _ = self.begin(Durability::Later).await;
                self.waited = self.this.elapsed();
                return Err(self.never_began(why));
            }
        };
        // The time of a decision on another call does not count as waiting.
        let asked = self.session.asked().total().saturating_sub(self.asked_before);
        self.others_asked = asked.min(locks.waited);
        self.waited = locks.waited.saturating_sub(self.others_asked);
        if self.waited > LONG_WAIT {
            self.entry.notes.push(format!(
                "waited {:.1} s for other calls on the same things",
                self.waited.as_secs_f32()
            ));
        }
        // It was decided, or approved, in a sandbox that is gone.
        if !plan.read_only && self.session.policy().sandbox < plan.sandbox {
            let _ = self.begin(Durability::Later).await;
            return Err(questions::narrowed());
        }
        self.review = self.reviewing(&mut plan);
        // A program's own changes of files lose nothing that is not kept, and no process makes them.
        let is_own_edit = plan.only_files && plan.is_program;
        let arguments = (!plan.read_only && !is_own_edit).then(|| {
            let end = self.entry.arguments.floor_char_boundary(ARGUMENTS);
            self.entry.arguments.get(..end).unwrap_or_default().to_owned()
        });
        let begun = match &self.review {
            // The person's decision is part of the record that is written before any change.
            Some(review) if self.asks_first(&plan) => {
                let review = review.clone();
                review.hold(self.begun());
                Ok(())
            }
            _ => {
                let durability = if plan.read_only { Durability::Later } else { Durability::Wait };
                let execution = self.session.execution().clone();
                let runs = plan.command.is_some() && !plan.options.preview;
                // The first command of a session needs both, and neither needs the other.
                let (begun, ()) = tokio::join!(self.begin(durability), execution.warm(runs));
                begun
            }
        };
        let beside = match (plan.read_only, begun, beside) {
            // A call that changes nothing may continue without a record.
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
        // A job may run for hours, so it gives up its locks.
        let mut held = (!self.is_job() || plan.only_files).then_some((locks, beside));
        if let Some(arguments) = arguments {
            self.begin_check(arguments, plan.by_person);
        }
        let done = self.run_tool(plan, &mut held).await;
        let done = self.end_check(done).await;
        if let Some((locks, _)) = &held {
            self.entry.notes.extend(overlaps::notes(&self.session, locks, &self.landed, &done));
        }
        done
    }

    /// Returns whether no change is made before a person has decided.
    fn asks_first(&self, plan: &Plan) -> bool {
        plan.only_files
            && plan.is_program
            && (plan.asks_later || self.session.policy().approve == Approve::AskEdits)
    }

    async fn run_tool(&mut self, plan: Plan, held: &mut Option<HeldLocks>) -> Result<Output, Fault> {
        let time_limit = plan.prepared.time_limit().map(|it| it.min(LONGEST) + MARGIN);
        let deadline = self.allowed + self.session.deadline();
        let deadline = time_limit.map_or(deadline, |time_limit| deadline.max(Clock::now() + time_limit));
        let history = self.session.store().history(self.session.name(), &self.id);
        self.landed = history.landed().clone();
        let (net, procs) = {
            let reach = self.session.reach(plan.hosts.web);
            (reach.net(&plan.hosts), reach.procs(&plan.prepared.touches(), &plan.hosts, &self.id))
        };
        // A continued shell starts no process, so newly granted ports have to be forwarded here.
        self.session.execution().forward_loopback().await;
        let asked_on_the_web = plan.hosts.names_addresses().then(|| plan.prepared.title());
        let web = net.clone();
        let policy = self.session.policy();
        let asks = plan.asks_later || policy.approve == Approve::AskEdits;
        let review = || self.review.clone().map(|it| it as Arc<dyn Review>);
        // A person's own undo needs no further approval.
        let of_undo = if plan.by_person { Policy { approve: Approve::Auto, ..policy } } else { policy };
        let undo = self.session.undo(history.clone(), plan.writes, of_undo, review());
        let review = if asks { review() } else { None };
        let history = Arc::new(history);
        let files = Files::reviewed(self.session.roots(), plan.grants, history.clone(), review);
        let stop = self.this.stop.clone();
        let confirm = Confirming::new(&self.session, self.whose.clone(), &self.this);
        let within = Within { whose: self.whose.clone(), asked: self.this.asked.clone() };
        let services = Services {
            procs,
            net,
            decoders: self.session.decoders().clone(),
            vault: self.session.runtime().vault(),
            preferences: self.session.runtime().preferences(),
            confirm: confirm.clone(),
            caller: self.this.clone(),
            jobs: self.session.jobs().clone(),
            tools: Arc::new(ToolsOf::new(
                &self.session,
                within,
                stop.clone(),
                self.progress.clone(),
                self.landed.clone(),
            )),
            agents: self.session.agents(),
            groups: self.session.groups(),
            messages: self.session.messages().clone(),
            servers: Arc::new(ServersOf::new(self.session.clone())),
            notes: self.session.notes().clone(),
            shares: self.session.files().clone(),
            triggers: Arc::new(TriggersOf::new(&self.session)),
            shelf: self.session.shelf().clone(),
            history,
            undo,
            progress: self.progress.clone().unwrap_or_else(|| Arc::new(Nobody)),
            mask: self.session.secrets().clone(),
        };
        let cx = Cx::new(files.clone(), self.session.views().clone(), services, stop.clone());
        self.this.runs();
        // Creating the future runs the tool's code too.
        let running = AssertUnwindSafe(async move { plan.prepared.run(cx).await }).catch_unwind();
        let mut running = pin!(running);
        let attended = self.attend(running.as_mut(), deadline, held).await;
        // The tool's answer itself reports the outcome.
        self.entry.asked.extend(confirm.take_decisions());
        let stopped = match attended {
            Ok(done) => {
                let done = settle(done);
                // A private host may return the workspace's own text, so its answer names no known addresses.
                if let Ok(output) = &done
                    && let Some(asked) = asked_on_the_web
                    && !web.was_private()
                {
                    self.session.read_on_the_web(output, &asked);
                }
                return done;
            }
            Err(stopped) => stopped,
        };
        stop.cancel();
        let grace = if self.is_job() { JOB_GRACE } else { GRACE };
        let done = match timeout(grace, &mut running).await {
            Ok(done) => Some(done),
            // No change can be made any more, so the tool can be abandoned.
            Err(_) if files.close_gate() => None,
            Err(_) => timeout(LAST_CHANGE, &mut running).await.ok(),
        };
        match done.map(settle) {
            Some(Ok(output)) => Ok(output),
            Some(Err(fault)) if fault.kind != Kind::Cancelled => Err(fault),
            Some(Err(fault)) => Err(self.stopped(stopped, deadline, fault.seen)),
            None => Err(self.stopped(stopped, deadline, None)),
        }
    }

    /// Waits for `work`, and grants the call's wishes meanwhile. Fails with the reason why the call is to
    /// stop.
    ///
    /// Invariant: once the call is a job, neither its caller nor the deadline stops it.
    async fn attend<T>(
        &mut self,
        mut work: Pin<&mut (impl Future<Output = T> + Send)>,
        deadline: Clock,
        held: &mut Option<HeldLocks>,
    ) -> Result<T, Kind> {
        let asked = self.session.asked().clone();
        loop {
            let is_call = !self.is_job();
            let wish = tokio::select! {
                biased;
                done = work.as_mut() => {
                    while let Some(wish) = self.this.take_wish() {
                        self.grant(wish);
                    }
                    return Ok(done);
                }
                wish = self.this.wished() => wish,
                () = self.this.stop.cancelled() => return Err(Kind::Cancelled),
                () = self.cancel.cancelled(), if is_call => return Err(Kind::Cancelled),
                () = asked.passed(deadline, self.asked_before), if is_call => return Err(Kind::Timeout),
            };
            *held = None;
            let wish = match wish {
                Wish::HandOver(output) => Wish::HandOver(self.handed_over(output).await),
                wish => wish,
            };
            self.grant(wish);
        }
    }

    /// Answers the caller, if that was not done yet; from then on the call is a job.
    fn grant(&mut self, wish: Wish) {
        let id = self.this.id();
        let (mut output, waits) = match wish {
            Wish::GoOn(output) => (output, false),
            Wish::HandOver(output) => (output, true),
            Wish::Background => (Output::text(self.in_background(&id)), false),
        };
        if waits {
            let next = if self.has("continue_job") { ": continue_job" } else { "" };
            output.parts.push(Part::Text { text: format!("{id} waits for input{next}") });
        } else if !output.as_text().contains(&id) {
            output.parts.push(Part::Text { text: format!("{id} goes on in the background") });
        }
        let is_answer = self.reply.is_some();
        let is_heard = self.reply.as_ref().is_some_and(|reply| !reply.is_closed());
        if !is_answer && !waits {
            return;
        }
        let output = self.shown(Ok(output));
        if is_answer {
            self.session.jobs().add(&self.this);
            self.job_span = Some(spans::Job::begin(&id));
        }
        if waits {
            let said = output.as_ref().map_or_else(|fault| Output::text(fault.as_text()), Clone::clone);
            self.session.jobs().waits(&self.this, said, is_heard);
        }
        if is_answer {
            self.answer(output);
        }
    }

    fn in_background(&self, id: &str) -> String {
        let mut text = format!("{id} runs in the background: {}", self.this.name());
        let next: Vec<&str> = [
            ("read_job", "read_job shows its output"),
            ("wait", "wait waits for it"),
            ("stop_task", "stop_task ends it"),
        ]
        .iter()
        .filter(|(tool, _)| self.has(tool))
        .map(|(_, what)| *what)
        .collect();
        if !next.is_empty() {
            text.push_str("\nA later answer will say that it has ended; ");
            text.push_str(&next.join(", "));
            text.push('.');
        }
        text
    }

    fn has(&self, tool: &str) -> bool {
        self.session.catalog().has(tool)
    }

    /// Gives the answer, with notifications about jobs.
    fn answer(&mut self, result: Result<Output, Fault>) {
        let Some(reply) = self.reply.take() else { return };
        self.span.answered();
        let mut notes = self.entry.notes.clone();
        // An answer that nobody reads delivers no notifications.
        let read = !reply.is_closed() && !self.cancel.is_cancelled();
        let notifications = if read { self.session.jobs().take_notifications() } else { VecDeque::new() };
        if !notifications.is_empty() {
            notes.extend(Jobs::notes(&notifications, self.has("read_job")));
        }
        if read {
            notes.extend(self.session.take_notes_between_calls());
        }
        let changed = if read { self.session.tool_changes() } else { None };
        notes.extend(changed.iter().filter_map(|(note, _)| note.clone()));
        let (id, changes) = (self.id.clone(), self.landed.take());
        let answer = Answer { id, result, notes, changes, took: self.took().saturating_sub(self.waited) };
        if reply.send(answer).is_ok() {
            if let Some((_, as_of)) = changed {
                self.session.knows_tools(as_of);
            }
        } else if !notifications.is_empty() {
            self.session.jobs().give_back(notifications);
        }
    }

    /// Returns the result for the model.
    fn shown(&mut self, result: Result<Output, Fault>) -> Result<Output, Fault> {
        let (result, spelled) = model_output::shown(&self.session, result);
        if spelled > 0 {
            let what = if spelled == 1 { "1 character".to_owned() } else { format!("{spelled} characters") };
            self.entry.notes.push(format!("{what} that can't be seen: spelled out as \\u{{…}} above"));
        }
        result
    }

    fn never_began(&self, why: Kind) -> Fault {
        if why == Kind::Timeout {
            let waited = self.session.deadline().as_secs();
            return Fault::new(
                why,
                format!("the call waited {waited} s for others on the same files; it did nothing"),
            )
            .next("Try again, or with `allow_concurrent` where that is safe.".to_owned());
        }
        Fault::new(why, "the call was stopped before it began; it did nothing")
    }

    fn stopped(&self, kind: Kind, deadline: Clock, seen: Option<Box<Output>>) -> Fault {
        let after = self.took().as_secs_f32();
        let tool = &self.this.tool;
        let fault = if kind == Kind::Timeout {
            let allowed = deadline.duration_since(self.allowed).as_secs();
            Fault::new(
                kind,
                format!("`{tool}` was stopped at its deadline of {allowed} s, after {after:.1} s"),
            )
            .next("Ask for less: a smaller folder, a narrower pattern, a shorter range.".to_owned())
        } else {
            Fault::new(kind, format!("`{tool}` was stopped after {after:.1} s"))
        };
        Fault { seen, ..fault }
    }
}

/// Ends the job when the task that runs it is dropped or panics.
struct Lost {
    jobs: Arc<Jobs>,
    this: Arc<ThisCall>,
}

impl Drop for Lost {
    fn drop(&mut self) {
        self.jobs.lost(&self.this);
    }
}

/// Converts a panic to a fault of the tool.
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

/// Progress without a receiver.
struct Nobody;

impl Progress for Nobody {
    fn report(&self, _: f64, _: Option<f64>, _: &str) {}
}
