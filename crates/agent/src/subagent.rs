//! Subagents: connects an agent's tools to its profiles, to other agents and to the person.

mod run;
mod watch;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::StreamExt;
use kit::{
    Cx, Fault, Kind,
    services::{Agents, ProfileInfo, Profiles as Listed, Question, Report, Soon, Task},
};
use parking_lot::Mutex;
use runtime::{Limits, Session, WeakSession, config::SubagentSection};

use crate::{
    asker::Asker,
    event::{Event, Observer, Silent},
    model::{self, Item, Model, Request},
    profiles::{Known, Origin, PLAN, Profile, Profiles},
    prompt::System,
    skills::Skills,
    turn::Steering,
};

/// Maximum depth of agents that start agents, where that is allowed.
const DEEPEST: usize = 3;

/// Number of retries of a thought that broke off.
const AGAIN: usize = 2;

/// The tools by which a model changes its profile.
const SWITCHING: [&str; 2] = ["list_profiles", "switch_profile"];

/// The tools by which an agent goes beyond its one task.
const LEADING: [&str; 7] =
    ["subagent", "spawn_agent", "switch_profile", "list_profiles", "ask_user", "explore", "critic"];

/// Returns the model of a name.
pub type Choose = Arc<dyn Fn(&str) -> Result<Arc<dyn Model>, Fault> + Send + Sync>;

/// Returns the system prompt of a session under a profile.
pub type Compose = Arc<dyn Fn(&Session, Option<&Profile>) -> System + Send + Sync>;

/// Other machines, on which an agent's tasks can run.
pub trait Elsewhere: Send + Sync {
    /// Runs a task of this session's agent on a worker with these labels, and returns its report. It stops with the call of
    /// `cx`.
    ///
    /// # Errors
    /// When no worker takes the task, or it fails there.
    fn run<'a>(
        &'a self,
        on: &'a str,
        task: Task,
        session: &'a Session,
        cx: &'a Cx,
    ) -> Soon<'a, Result<Report, Fault>>;
}

/// The resources that an agent needs to switch profiles and to start other agents.
#[derive(Clone)]
pub struct Setup {
    /// The sources of profiles.
    pub profiles: Profiles,
    /// The sources of skills.
    pub skills: Option<Skills>,
    /// Finds a model by its name.
    pub choose: Choose,
    /// Makes a system prompt.
    pub compose: Compose,
    /// The person's configuration of agents that an agent starts.
    pub section: SubagentSection,
    /// The person, who answers questions.
    pub person: Arc<dyn Asker>,
    /// Other machines; `None` where tasks stay on this one.
    pub elsewhere: Option<Arc<dyn Elsewhere>>,
}

/// An agent as its tools and its person use it, together with the agents that it starts. Cheap to clone.
#[derive(Clone)]
pub struct Crew {
    inner: Arc<Inner>,
}

struct Inner {
    session: WeakSession,
    host: Arc<dyn Observer>,
    steering: Steering,
    setup: Arc<Setup>,
    /// The model without any profile, and the model of the profile.
    given: Mutex<Given>,
    profile: Mutex<Option<Arc<Profile>>>,
    /// The limits of the session without any profile.
    base: Limits,
    /// The limits of the profile that the person chose. Another profile that the model switches to can't
    /// widen them.
    held: Mutex<ChosenLimits>,
    /// The number of agents above this one.
    depth: usize,
    below: Mutex<Vec<Weak<Self>>>,
}

/// The profile that the person chose, with its limits.
#[derive(Default)]
struct ChosenLimits {
    profile: Option<String>,
    limits: Limits,
}

/// The limits of a session before it was [narrowed](Crew::narrow).
#[must_use]
pub struct Narrowed {
    held: Option<Vec<String>>,
    before: Arc<Limits>,
    profile: Option<String>,
}

struct Given {
    model: Arc<dyn Model>,
    set: Arc<dyn Model>,
}

impl Crew {
    /// Creates a crew for a session whose calls come from the agent of another program: agents that it starts
    /// use this model. The session does not get this crew as its agent service.
    pub fn alone(session: &Session, model: Arc<dyn Model>, setup: Setup) -> Self {
        let base = Limits::clone(&session.limits());
        Self::of(session, Arc::new(Silent), Steering::alone(model), Arc::new(setup), (base, 0))
    }

    /// Creates a crew, and registers it with the session. `base` is the limits of the session without any
    /// profile, at `depth` below the first agent.
    pub(crate) fn new(
        session: &Session,
        host: Arc<dyn Observer>,
        steering: Steering,
        setup: Arc<Setup>,
        (base, depth): (Limits, usize),
    ) -> Self {
        let crew = Self::of(session, host, steering, setup, (base, depth));
        session.belongs_to(Arc::new(crew.clone()));
        crew
    }

    fn of(
        session: &Session,
        host: Arc<dyn Observer>,
        steering: Steering,
        setup: Arc<Setup>,
        (base, depth): (Limits, usize),
    ) -> Self {
        let inner = Inner {
            session: session.weak(),
            host,
            given: Mutex::new(Given { model: steering.model(), set: steering.model() }),
            steering,
            profile: Mutex::default(),
            setup,
            base,
            held: Mutex::default(),
            depth,
            below: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Switches to this profile, or to none, from the model's next answer on, because the person wants it.
    /// Returns a text that describes the change. With `model` the profile's model answers, otherwise the same
    /// as before. Blocks.
    ///
    /// # Errors
    /// When there is no such profile, or its model is unavailable; then nothing changes.
    pub fn begin(&self, profile: Option<&str>, model: bool) -> Result<String, Fault> {
        let profile = match profile {
            Some(name) => Some(self.known().find(name)?),
            None => None,
        };
        // Plan mode is read-only, even if the person replaced its profile.
        let read_only = profile.as_ref().is_some_and(|it| it.read_only || it.name == PLAN);
        let name = profile.as_ref().map(|it| it.name.clone());
        let limits = Limits { tools: None, read_only };
        let before = std::mem::replace(&mut *self.inner.held.lock(), ChosenLimits { profile: name, limits });
        let said = self.go_on_under(profile, model, &[]);
        match &said {
            Ok(_) => {
                let limits = self.session()?.limits();
                self.inner.held.lock().limits.tools.clone_from(&limits.tools);
            }
            Err(_) => *self.inner.held.lock() = before,
        }
        said
    }

    /// Limits the session to those of its tools that are in this list, whatever profile the model switches
    /// to, until [`widen`](Self::widen) gets the result.
    ///
    /// # Errors
    /// When the session has none of these tools.
    pub fn narrow(&self, tools: &[String]) -> Result<Narrowed, Fault> {
        let session = self.session()?;
        let left: Vec<String> = names(&session).into_iter().filter(|it| tools.contains(it)).collect();
        if left.is_empty() {
            let what = format!("none of these tools is available here: {}", tools.join(", "));
            return Err(Fault::not_found(what).next("Correct `allowed-tools` in the file, or leave it out."));
        }
        let before = session.limits();
        session.limit(Limits { tools: Some(left.clone()), ..Limits::clone(&before) });
        let held = self.inner.held.lock().limits.tools.replace(left);
        Ok(Narrowed { held, before, profile: self.profile() })
    }

    /// Restores the limits that [`narrow`](Self::narrow) replaced. Blocks.
    ///
    /// # Errors
    /// When the profile that the model has switched to meanwhile is gone.
    pub fn widen(&self, narrowed: Narrowed) -> Result<(), Fault> {
        self.inner.held.lock().limits.tools = narrowed.held;
        let now = self.profile();
        if now == narrowed.profile {
            self.session()?.limit(Limits::clone(&narrowed.before));
            return Ok(());
        }
        // The model has switched profiles meanwhile: the new profile's limits apply now.
        let profile = now.map(|name| self.known().find(&name)).transpose()?;
        self.go_on_under(profile, false, &SWITCHING).map(drop)
    }

    /// Returns the name of the profile that the person chose, if any.
    pub fn chosen(&self) -> Option<String> {
        self.inner.held.lock().profile.clone()
    }

    /// Switches to the profile that the model had chosen in an earlier process. Blocks.
    ///
    /// # Errors
    /// Those of [`begin`](Self::begin).
    pub fn resume(&self, profile: &str) -> Result<String, Fault> {
        self.go_on_under(Some(self.known().find(profile)?), false, &SWITCHING)
    }

    /// Returns the name of the current profile, if any.
    pub fn profile(&self) -> Option<String> {
        self.inner.profile.lock().as_ref().map(|it| it.name.clone())
    }

    /// Returns the profiles as they are now. Blocks.
    pub fn known(&self) -> Known {
        self.inner.setup.profiles.read()
    }

    /// Updates the system prompt after a change of the session's tools. It takes effect with the next answer.
    pub(crate) fn update_system_prompt(&self) {
        if let Ok(session) = self.session() {
            let profile = self.inner.profile.lock().clone();
            self.inner.steering.set_system((self.inner.setup.compose)(&session, profile.as_deref()));
        }
    }

    /// Returns whether this agent may start others.
    pub fn may_lead(&self) -> bool {
        self.inner.depth == 0 || (self.inner.setup.section.nested == Some(true) && self.inner.depth < DEEPEST)
    }

    fn session(&self) -> Result<Session, Fault> {
        let ended = || Fault::new(Kind::Cancelled, "the session has ended");
        self.inner.session.get().ok_or_else(ended)
    }

    /// Switches to a profile. The session also keeps the `keeping` tools, whatever the profile lists, so that
    /// the model can leave a profile that it chose.
    fn go_on_under(
        &self,
        profile: Option<Arc<Profile>>,
        its_model: bool,
        keeping: &[&str],
    ) -> Result<String, Fault> {
        let (inner, session) = (&self.inner, self.session()?);
        let mut notes: Vec<String> = profile.iter().flat_map(|it| it.notes.clone()).collect();
        let mut given = inner.given.lock();
        if !Arc::ptr_eq(&inner.steering.model(), &given.set) {
            // The person has changed the model since.
            given.model = inner.steering.model();
        }
        let model = match &profile {
            Some(profile) if its_model => self.model_of(profile, &given.model, &mut notes)?,
            _ => given.model.clone(),
        };
        let held = inner.held.lock().limits.clone();
        let read_only =
            inner.base.read_only || held.read_only || profile.as_ref().is_some_and(|it| it.read_only);
        // The tools to narrow from: those without a profile, or those of the profile that the person chose.
        let base = held.tools.or_else(|| inner.base.tools.clone());
        session.limit(Limits { read_only, tools: base.clone() });
        session.plan(profile.as_ref().is_some_and(|it| it.name == PLAN));
        let default = inner.setup.section.tools.as_deref().filter(|_| inner.depth > 0);
        let list = listed_here(profile.as_deref(), default, &session, read_only);
        let tools = match &profile {
            Some(profile) if list.is_some() || !profile.without.is_empty() => {
                let all = names(&session);
                let mut tools = narrowed(profile, list.as_deref(), &all, &mut notes);
                let stays = |it: &&String| keeping.contains(&it.as_str()) && !profile.without.contains(*it);
                tools.extend(
                    all.iter().filter(stays).filter(|it| !tools.contains(it)).cloned().collect::<Vec<_>>(),
                );
                Some(tools)
            }
            None if list.is_some() => Some(on_list(&names(&session), list.as_deref())),
            _ => base,
        };
        session.limit(Limits { tools, read_only });
        if read_only {
            self.hold_those_below();
        }
        let system = (inner.setup.compose)(&session, profile.as_deref());
        let name = profile.as_ref().map_or("no profile", |it| it.name.as_str());
        let mut text = format!("From the next answer on: {name}\nmodel: {}\ntools: ", model.name());
        text.push_str(&names(&session).join(", "));
        if read_only {
            text.push_str("\nNothing can be changed: files are read-only, for commands too.");
        }
        for note in notes {
            text.push_str(&format!("\nnote: {note}"));
        }
        given.set = model.clone();
        inner.steering.set_model(model);
        inner.steering.set_system(system);
        *inner.profile.lock() = profile;
        Ok(text)
    }

    /// Makes the agents that this one started read-only too.
    fn hold_those_below(&self) {
        let below: Vec<_> = self.inner.below.lock().iter().filter_map(Weak::upgrade).collect();
        for inner in below {
            if let Some(session) = inner.session.get() {
                session.limit(Limits { read_only: true, ..Limits::clone(&session.limits()) });
            }
            Self { inner }.hold_those_below();
        }
    }

    /// Returns the model of a profile, or `otherwise` if it names none.
    fn model_of(
        &self,
        profile: &Profile,
        otherwise: &Arc<dyn Model>,
        notes: &mut Vec<String>,
    ) -> Result<Arc<dyn Model>, Fault> {
        let Some(name) = &profile.model else { return Ok(otherwise.clone()) };
        match (self.inner.setup.choose)(name) {
            Ok(model) => Ok(model),
            // Model names of another program are unknown here, unless the person configured them.
            Err(_) if profile.origin != Origin::Program && CLAUDE.contains(&name.as_str()) => {
                let ours = otherwise.name();
                notes.push(format!("no model is called `{name}` here, so it is {ours}; `[models.{name}]` in haft.toml names one"));
                Ok(otherwise.clone())
            }
            Err(fault) => Err(Fault {
                what: format!("the model of the profile `{}` is unavailable: {}", profile.name, fault.what),
                ..fault
            }),
        }
    }
}

/// Claude Code's names of models.
const CLAUDE: [&str; 3] = ["haiku", "opus", "sonnet"];

/// Returns the names of the session's tools.
fn names(session: &Session) -> Vec<String> {
    session.catalog().specs().map(|it| it.name.clone()).collect()
}

/// Returns the tools that an agent should have: those that its profile lists, otherwise `default`. The
/// profile of a workspace can't list tools beyond the person's `default`.
fn listed(profile: Option<&Profile>, default: Option<&[String]>) -> Option<Vec<String>> {
    let named = profile.and_then(|it| it.tools.as_deref());
    match (named, default, profile.map(|it| &it.origin)) {
        (Some(named), Some(default), Some(Origin::Workspace(_))) => {
            Some(named.iter().filter(|it| default.contains(it)).cloned().collect())
        }
        _ => named.or(default).map(<[String]>::to_vec),
    }
}

/// Returns the tools of `all` that are on the list; without a list, all.
fn on_list(all: &[String], list: Option<&[String]>) -> Vec<String> {
    all.iter().filter(|it| list.is_none_or(|list| list.contains(it))).cloned().collect()
}

/// Like [`listed`], with the tools of `enabled.json`, by their names in this session: a built-in tool that
/// the session does not have becomes its stand-in. A stand-in that may do more, such as one tool for all of
/// reading and writing, is only for a read-only agent. Without a list, the result is `None`, which stands for
/// all tools.
fn listed_here(
    profile: Option<&Profile>,
    default: Option<&[String]>,
    session: &Session,
    read_only: bool,
) -> Option<Vec<String>> {
    let mut list = listed(profile, default)?;
    list.extend(session.runtime().plugins().enabled());
    let catalog = session.catalog();
    let here = |name: String| match catalog.stand_in(&name) {
        Some(spec) if !catalog.has(&name) && (read_only || spec.at_most.is_read_only()) => spec.name.clone(),
        _ => name,
    };
    Some(list.into_iter().map(here).collect())
}

/// Returns the tools of `all` that are on the list and that the profile does not exclude; without a list,
/// all. Adds a note on names that no tool has.
fn narrowed(
    profile: &Profile,
    list: Option<&[String]>,
    all: &[String],
    notes: &mut Vec<String>,
) -> Vec<String> {
    let on = |name: &String| list.is_none_or(|it| it.contains(name)) && !profile.without.contains(name);
    // Built-in profiles name the tools of every toolset.
    if profile.origin != Origin::Program {
        let unknown: Vec<String> = list
            .iter()
            .flat_map(|it| it.iter())
            .filter(|it| !all.contains(it))
            .map(|it| format!("`{it}`"))
            .collect();
        if !unknown.is_empty() {
            notes.push(format!(
                "`{}` names tools that are not to be had here: {}",
                profile.name,
                unknown.join(", ")
            ));
        }
    }
    all.iter().filter(|it| on(it)).cloned().collect()
}

impl Agents for Crew {
    fn profiles(&self) -> Listed {
        let (known, current) = (self.known(), self.profile());
        let info = |it: &Arc<Profile>| ProfileInfo {
            name: it.name.clone(),
            title: it.title.clone(),
            description: it.description.clone(),
            current: current.as_ref() == Some(&it.name),
        };
        let notes =
            known.profiles.iter().flat_map(|it| it.notes.iter().map(|note| format!("{}: {note}", it.name)));
        let aside = known.broken.iter().cloned().chain(notes).collect();
        Listed { known: known.profiles.iter().map(info).collect(), aside }
    }

    fn switch(&self, profile: &str) -> Result<String, Fault> {
        if self.inner.depth > 0 && !self.may_lead() {
            return Err(Fault::denied("an agent that another one started keeps its profile"));
        }
        let profile = self.known().find(profile)?;
        self.go_on_under(Some(profile), true, &SWITCHING)
    }

    fn tool_format(&self) -> &'static str {
        self.inner.steering.model().tool_format()
    }

    fn manual(&self, name: &str) -> Option<String> {
        self.inner.setup.skills.as_ref()?.manual(name)
    }

    fn delegate<'a>(&'a self, task: Task, cx: &'a Cx) -> Soon<'a, Result<Report, Fault>> {
        Box::pin(self.run(task, cx))
    }

    fn ask<'a>(&'a self, mut question: Question, cx: &'a Cx) -> Soon<'a, Result<String, Fault>> {
        Box::pin(async move {
            let session = self.session()?;
            if session.is_unattended() {
                let what = "a trigger began this turn, so nobody is there to answer";
                return Err(Fault::new(Kind::Unavailable, what)
                    .next("Decide by yourself, and say in the end what you took for granted."));
            }
            if let Some(agent) = session.agent() {
                question.text = format!("{agent}: {}", question.text);
            }
            let asked = async {
                // The time to answer begins when the person can read the question.
                let _turn = session.turn_to_ask().await;
                let within = question.within;
                let asking = self.inner.setup.person.ask(question);
                match within {
                    Some(within) => tokio::time::timeout(within, asking).await.unwrap_or_else(|_| {
                        let what = format!("nobody answered within {} s", within.as_secs());
                        let alone = "Decide by yourself, and say in the end what you took for granted.";
                        Err(Fault::new(Kind::Timeout, what).next(alone))
                    }),
                    None => asking.await,
                }
            };
            tokio::select! {
                biased;
                () = cx.cancelled() => Err(Fault::new(Kind::Cancelled, "the question was taken back")),
                answer = asked => answer.inspect(|words| session.add_person_words(words)),
            }
        })
    }

    fn show<'a>(&'a self, text: String, _: &'a Cx) -> Soon<'a, Result<(), Fault>> {
        Box::pin(async move {
            let session = self.session()?;
            let text = match session.agent() {
                Some(agent) => format!("{agent}: {text}"),
                None => text,
            };
            let _turn = session.turn_to_ask().await;
            self.inner.setup.person.show(text).await
        })
    }

    fn think<'a>(&'a self, system: &'a str, prompt: &'a str) -> Soon<'a, Result<String, Fault>> {
        Box::pin(async move {
            let model = self.inner.steering.model();
            let mut last = None;
            for again in 0..=AGAIN {
                if again > 0 {
                    tokio::time::sleep(Duration::from_millis(500 << again)).await;
                }
                let request = Request {
                    system: system.into(),
                    items: vec![Item::person(prompt)],
                    tools: Arc::new([]),
                    step: 0,
                    longest: None,
                    format: None,
                };
                match self.thought(&*model, request).await {
                    Ok(text) => return Ok(text),
                    Err(error) if error.may_pass() => last = Some(error),
                    Err(error) => {
                        last = Some(error);
                        break;
                    }
                }
            }
            let why = last.map(|it| it.to_string()).unwrap_or_default();
            Err(Fault::new(Kind::Unavailable, format!("the model does not answer: {why}")))
        })
    }
}

impl Crew {
    /// Returns one answer, as text.
    async fn thought(&self, model: &dyn Model, request: Request) -> Result<String, model::ModelError> {
        let (mut text, mut stream) = (String::new(), model::ask(model, request));
        while let Some(event) = stream.next().await {
            match event? {
                model::Event::Text(more) => text.push_str(&more),
                model::Event::Used(usage) => {
                    let cost = model.abilities().price.map(|it| usage.cost(&it));
                    self.inner.steering.add_below(usage, cost);
                    let inner = Box::new(Event::Used { usage, cost });
                    self.inner.host.observe(Event::Under { agent: "thought".to_owned(), inner });
                }
                model::Event::End(_) => return Ok(text),
                _ => {}
            }
        }
        Err(model::ModelError::new(model::Breach::Broken, "the answer ended without its last part"))
    }
}
