//! Runs of subagents: one task, one result.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use kit::{
    Cx, Fault, Kind, Output, counted,
    services::{Report, Task, TaskEnd},
};
use runtime::{
    Limits, Session,
    config::{SUBAGENT_SECONDS, SUBAGENT_STEPS, ToolVisibility, WAKES},
};
use store::{Source, Store, channels::Member};
use tokio_util::sync::CancellationToken;

use super::{
    Crew, DEEPEST, LEADING, listed_here, names, narrowed, on_list,
    watch::{Now, Watch},
};
use crate::{
    driver::{Driver, Driving, Settled},
    input::Input,
    model::Model,
    profiles::Profile,
    turn::{Agent, AgentError, Bounds, Ended, Outcome, Settings},
};

/// Time that a subagent may take to end after its call is cancelled; the caller waits 200 ms.
const GRACE: Duration = Duration::from_millis(100);

/// The instruction to an agent that another agent started.
const ALONE: &str = "Another agent gave you one task. Nobody reads along and nobody answers questions, so work until it is done. \
    Your last answer is all that comes back: make it complete.";

/// The instruction to such an agent that can send messages.
const IN_TOUCH: &str = "Messages may arrive while you work. You can send one to `parent`, who gave you the task[?, with `tool:group_send`?].";

/// The parts of a new subagent.
struct Made {
    name: String,
    session: Session,
    model: Arc<dyn Model>,
    profile: Option<Arc<Profile>>,
    notes: Vec<String>,
    /// The limits of its session, whatever profile it switches to.
    base: Limits,
}

impl Crew {
    /// Runs a task with a subagent, and returns its report.
    pub(super) async fn run(&self, task: Task, cx: &Cx) -> Result<Report, Fault> {
        if !self.may_lead() {
            let what = if self.inner.depth >= DEEPEST {
                format!("agents start agents at most {DEEPEST} deep")
            } else {
                "an agent that another one started may not start agents".to_owned()
            };
            return Err(Fault::denied(what)
                .next("Do it yourself. A person can set `nested` in `[subagent]` of haft.toml."));
        }
        if let Some(on) = task.on.clone() {
            return self.elsewhere(&on, task, cx).await;
        }
        let began = Instant::now();
        let mut made = self.make(&task).await?;
        let section = &self.inner.setup.section;
        let of_profile = made.profile.as_ref().and_then(|it| it.max_turns);
        let steps =
            [task.steps, of_profile, section.max_steps].into_iter().flatten().min().unwrap_or(SUBAGENT_STEPS);
        let time = [task.time, section.seconds.map(Duration::from_secs)].into_iter().flatten().min();
        let time = time.unwrap_or(Duration::from_secs(SUBAGENT_SECONDS));
        let tokens = [task.tokens, section.tokens].into_iter().flatten().min();
        let bounds = Bounds { steps: steps.max(1), tokens, time: Some(time) };
        let stop = CancellationToken::new();
        let watch = Arc::new(Watch::new(self.inner.host.clone(), &made.name));
        let mut agent = self.agent(&mut made, &task, bounds, watch.clone()).await?;
        let stays = self.reachable(&made, cx).await?;
        let turning = Instant::now();
        // All its turns and the waits between them share the time limit of one task.
        let mut driver = Driver::new(Driving { wait: time, wakes: WAKES });
        let ended = {
            let turns = turns(&mut driver, &mut agent, prompt(&task), &stop);
            let mut turn = pin!(tokio::time::timeout(time + GRACE, turns));
            tokio::select! {
                biased;
                () = cx.cancelled() => {
                    stop.cancel();
                    // The agent may close its conversation; after the grace period it is dropped, with all
                    // agents below it.
                    let _ = tokio::time::timeout(GRACE, &mut turn).await;
                    None
                }
                done = &mut turn => Some(done),
            }
        };
        made.notes.extend(stays.end()?);
        let now = watch.now();
        self.inner.steering.add_below(now.usage, now.cost);
        let Some(ended) = ended else {
            return Err(stopped(&made.name, &now));
        };
        let left = agent.session().running_jobs();
        if !left.is_empty() {
            made.notes
                .push(format!("its jobs were still running and were stopped with it: {}", left.join(", ")));
        }
        agent.session().end().await;
        let seen = || Output::text(now.text());
        let name = &made.name;
        // The time limit passed while it waited for others; during a turn, the limit ends the turn.
        let ended = ended.unwrap_or_else(|_| {
            Ok(Settled { outcome: Outcome::limited(), earlier: Vec::new(), late: Vec::new() })
        });
        let outcome = ended.map(|it| it.outcome).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("{name} could not go on: {error}")).seen(seen())
        })?;
        let end = match outcome.ended {
            Ended::Done => Ok(TaskEnd::Completed),
            Ended::Limit if turning.elapsed() >= time => {
                Ok(TaskEnd::Limit(format!("its time of {} s", time.as_secs_f32())))
            }
            Ended::Limit => Ok(TaskEnd::Limit(match tokens {
                Some(most) if now.tokens() >= most => format!("its {most} tokens"),
                _ => format!("its {steps} answers"),
            })),
            Ended::Refused => {
                Err(Fault::new(Kind::Failed, format!("the provider of {name}'s model did not let it go on")))
            }
            Ended::Cancelled => Err(Fault::new(Kind::Cancelled, format!("{name} was stopped"))),
        };
        let ended = end.map_err(|fault| fault.seen(seen()))?;
        let text = if outcome.text.trim().is_empty() { now.text().to_owned() } else { outcome.text };
        Ok(Report {
            agent: made.name,
            profile: made.profile.as_ref().map(|it| it.name.clone()),
            ended,
            text,
            steps: now.steps.max(outcome.steps),
            tokens: now.tokens(),
            cost: now.cost,
            took: began.elapsed(),
            notes: made.notes,
        })
    }

    /// Runs a task on another machine, within the person's limits.
    async fn elsewhere(&self, on: &str, task: Task, cx: &Cx) -> Result<Report, Fault> {
        let Some(elsewhere) = &self.inner.setup.elsewhere else {
            return Err(Fault::new(Kind::Unavailable, "agents here send no tasks to other machines")
                .next("Leave out `on`: it runs here."));
        };
        let section = &self.inner.setup.section;
        let steps = [task.steps, section.max_steps].into_iter().flatten().min();
        let time = [task.time, section.seconds.map(Duration::from_secs)].into_iter().flatten().min();
        let tokens = [task.tokens, section.tokens].into_iter().flatten().min();
        let task = Task {
            steps: Some(steps.unwrap_or(SUBAGENT_STEPS)),
            time: Some(time.unwrap_or(Duration::from_secs(SUBAGENT_SECONDS))),
            tokens,
            ..task
        };
        elsewhere.run(on, task, &self.session()?, cx).await
    }

    /// Lets others send messages to it while it runs: under its name, or the id that its call has as a job.
    async fn reachable(&self, made: &Made, cx: &Cx) -> Result<Reachable, Fault> {
        let (above, store) = (self.session()?, made.session.runtime().store().clone());
        let session = made.session.name().to_owned();
        let member = Member {
            session: session.clone(),
            environment: String::new(),
            id: cx.caller().job(),
            name: made.name.clone(),
            parent: Some(above.name().to_owned()),
            privileged: true,
            running: true,
        };
        store.channels().join(member).await?;
        Ok(Reachable { store, session })
    }

    /// Makes its session, model and tools.
    async fn make(&self, task: &Task) -> Result<Made, Fault> {
        let inner = &self.inner;
        let above = self.session()?;
        let (model_above, profile_above) = (inner.steering.model(), inner.profile.lock().clone());
        let profile = match task.profile.clone() {
            Some(name) => {
                let profiles = inner.setup.profiles.clone();
                let known = tokio::task::spawn_blocking(move || profiles.read()).await;
                Some(
                    known
                        .map_err(|error| Fault::bug(format!("the profiles were not read: {error}")))?
                        .find(&name)?,
                )
            }
            None => profile_above,
        };
        let mut notes: Vec<String> = profile.iter().flat_map(|it| it.notes.clone()).collect();
        let model = match &profile {
            Some(profile) => self.model_of(profile, &model_above, &mut notes)?,
            None => model_above,
        };
        let name = format!("{}_{}", profile.as_ref().map_or("agent", |it| it.name.as_str()), four_digits());
        let session = above.below(&name);
        let has = names(&above);
        let read_only = above.limits().read_only || profile.as_ref().is_some_and(|it| it.read_only);
        let default = inner.setup.section.tools.as_deref();
        let list = listed_here(profile.as_deref(), default, &above, read_only);
        let mut tools = match &profile {
            Some(profile) => narrowed(profile, list.as_deref(), &has, &mut notes),
            None => on_list(&has, list.as_deref()),
        };
        // A default list doesn't limit later profiles of the agent; the list of its own profile does.
        let mut bound = match &profile {
            Some(profile) if profile.tools.is_some() => tools.clone(),
            Some(profile) => has.iter().filter(|it| !profile.without.contains(it)).cloned().collect(),
            None => has.clone(),
        };
        let deeper = inner.setup.section.nested == Some(true) && inner.depth + 1 < DEEPEST;
        if !deeper {
            let catalog = session.catalog();
            let of_program =
                |name: &str| catalog.get(name).is_none_or(|it| it.spec().origin == kit::Origin::Program);
            let stays = |it: &String| !LEADING.contains(&it.as_str()) || !of_program(it);
            tools.retain(stays);
            bound.retain(stays);
        }
        session.limit(Limits { tools: Some(tools), read_only });
        let base = Limits { tools: Some(bound), read_only };
        Ok(Made { name, session, model, profile, notes, base })
    }

    /// Makes the agent, with its own agent service for its tools.
    async fn agent(
        &self,
        made: &mut Made,
        task: &Task,
        bounds: Bounds,
        watch: Arc<Watch>,
    ) -> Result<Agent, Fault> {
        let inner = &self.inner;
        let keeps = task.system.is_none() || task.keep_system;
        let composed = (inner.setup.compose)(&made.session, made.profile.as_deref().filter(|_| keeps));
        let mut system = composed.text().to_string();
        let in_touch = made.session.catalog().has("group_send").then(|| made.session.named(IN_TOUCH));
        for more in [Some(ALONE), in_touch.as_deref(), task.system.as_deref()].into_iter().flatten() {
            system.push_str("\n\n");
            system.push_str(more);
        }
        let (session, model) = (made.session.clone(), made.model.clone());
        let (host, system) = (watch.clone(), system.into());
        // Opening reads the conversation, which is empty, but the store may be slow.
        let visible = ToolVisibility::default();
        let settings = Settings { session, model, system, bounds, visible, host };
        let opened = tokio::task::spawn_blocking(move || Agent::open(settings)).await;
        let agent = opened.map_err(|error| Fault::bug(format!("the agent was not opened: {error}")))??;
        let (base, depth) = (made.base.clone(), inner.depth + 1);
        let crew = Self::new(agent.session(), watch, agent.steering(), inner.setup.clone(), (base, depth));
        crew.inner.profile.lock().clone_from(&made.profile);
        let mut below = inner.below.lock();
        below.retain(|it| it.strong_count() > 0);
        below.push(Arc::downgrade(&crew.inner));
        drop(below);
        // The session may have become read-only meanwhile.
        if self.session()?.limits().read_only {
            agent.session().limit(Limits { read_only: true, ..Limits::clone(&agent.session().limits()) });
        }
        Ok(agent)
    }
}

/// An agent that others can send to, until this is dropped.
struct Reachable {
    store: Store,
    session: String,
}

impl Reachable {
    /// Ends it. Returns a note on the messages that it did not read.
    fn end(self) -> Result<Option<String>, Fault> {
        let queued = self.store.inbox().queued(&self.session)?;
        let unread = queued.iter().filter(|it| it.source != Source::Job).count();
        Ok((unread > 0).then(|| format!("it ended without reading {}", counted(unread, "message"))))
    }
}

impl Drop for Reachable {
    fn drop(&mut self) {
        // It is queued at once; nobody waits for it.
        drop(self.store.channels().leave(&self.session));
    }
}

/// Runs its turns until no message waits for it. From then on nobody can send to it: a message is read, or it is refused.
async fn turns(
    driver: &mut Driver,
    agent: &mut Agent,
    task: String,
    stop: &CancellationToken,
) -> Result<Settled, AgentError> {
    let channels = agent.session().runtime().store().channels();
    let mut settled = driver.settle(agent, Some(Input::new(task)), stop).await?;
    while settled.outcome.ended == Ended::Done && !channels.leave_if_idle(agent.session().name()).await? {
        let more = driver.settle(agent, None, stop).await?;
        settled.earlier.push(std::mem::take(&mut settled.outcome.text));
        settled.earlier.extend(more.earlier);
        settled.outcome.add(more.outcome);
        settled.late = more.late;
    }
    // Its report is all that it said at an end, also before a message came.
    settled.earlier.push(std::mem::take(&mut settled.outcome.text));
    settled.earlier.retain(|it| !it.trim().is_empty());
    settled.outcome.text = settled.earlier.join("\n\n");
    Ok(settled)
}

/// Returns the message with the task.
fn prompt(task: &Task) -> String {
    match task.briefing.as_deref().map(str::trim).filter(|it| !it.is_empty()) {
        Some(briefing) => format!("What is known:\n{briefing}\n\nThe task:\n{}", task.prompt),
        None => task.prompt.clone(),
    }
}

fn stopped(name: &str, now: &Now) -> Fault {
    let fault = Fault::new(Kind::Cancelled, format!("{name} was stopped after {} answers", now.steps));
    if now.text().trim().is_empty() { fault } else { fault.seen(Output::text(now.text())) }
}

/// Returns a random suffix that distinguishes agents of one profile.
fn four_digits() -> String {
    let mut bytes = [0; 2];
    if getrandom::fill(&mut bytes).is_err() {
        let nanos = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |it| it.subsec_nanos());
        bytes = (nanos as u16).to_be_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
