//! Modes and options of a session: profile, model, effort and sandbox.
//!
//! An editor can narrow the sandbox that the configuration allows, and never widen it.

use std::sync::Arc;

use agent::{Crew, Steering, model::Model, profiles::Profile};
use clap::ValueEnum as _;
use kit::{Fault, Kind};
use sandbox::SandboxMode;
use serve::acp::{
    error_of,
    v1::{
        ConfigOptionUpdate, CurrentModeUpdate, Error, SessionConfigOption, SessionConfigOptionCategory,
        SessionConfigSelectOption, SessionMode, SessionModeId, SessionModeState, SessionUpdate,
    },
};

use sessions::{Event, Operation};

use super::{
    Backend,
    opener::{Here, Shared},
    opening::Opening,
    session::AcpSession,
};
use crate::{Options, SandboxArg, terminal::abbreviate};

/// The id of the mode without a profile.
const NONE: &str = "none";

const PROFILE: &str = "profile";
const MODEL: &str = "model";
const EFFORT: &str = "effort";
pub(super) const SANDBOX: &str = "sandbox";

/// The efforts that can be set for a model.
const EFFORTS: [&str; 3] = ["low", "medium", "high"];

/// A value with its name and its description.
type Value = (String, String, String);

impl AcpSession {
    /// Returns the profile that the agent works under now, as a mode.
    pub(super) fn mode(&self) -> String {
        let profile = match self.here() {
            Some(here) => here.crew.as_ref().and_then(Crew::profile),
            None => self.there.lock().profile.clone(),
        };
        profile.unwrap_or_else(|| NONE.to_owned())
    }

    fn model(&self) -> String {
        self.here()
            .map_or_else(|| self.there.lock().model.clone(), |it| it.steering.model().name().to_owned())
    }

    fn profiles(&self) -> Vec<Value> {
        let mut all = vec![(NONE.to_owned(), "Default".to_owned(), "No profile".to_owned())];
        let known = self.factory().opened.profiles.read();
        let shown =
            |it: &Arc<Profile>| (it.name.clone(), it.title.clone(), abbreviate::line(&it.description, 200));
        all.extend(known.profiles.iter().map(shown));
        all
    }

    pub(super) fn modes(&self) -> SessionModeState {
        let modes = self.profiles().into_iter().map(|(id, name, about)| {
            SessionMode::new(id.clone(), if name.is_empty() { id } else { name }).description(about)
        });
        SessionModeState::new(SessionModeId::from(self.mode()), modes.collect())
    }

    pub(super) fn config_options(&self) -> Vec<SessionConfigOption> {
        let now = self.model();
        let mut models = vec![(now.clone(), now.clone(), String::new())];
        let named = self.factory().model_names().into_iter().filter(|it| it.0 != now);
        models.extend(named.map(|(name, about)| (name.clone(), name, about)));
        let mut options = vec![
            select(PROFILE, "Profile", SessionConfigOptionCategory::Mode, &self.mode(), self.profiles()),
            select(MODEL, "Model", SessionConfigOptionCategory::Model, &now, models),
        ];
        if let Some(effort) = self.effort() {
            let mut efforts: Vec<&str> = EFFORTS.to_vec();
            if !efforts.contains(&effort.as_str()) {
                efforts.push(&effort);
            }
            let efforts = efforts.iter().map(|it| ((*it).to_owned(), (*it).to_owned(), String::new()));
            let category = SessionConfigOptionCategory::ThoughtLevel;
            options.push(select(EFFORT, "Effort", category, &effort, efforts.collect()));
        }
        if self.is_hosted() {
            return options;
        }
        let sandbox = name_of(self.runtime().policy().sandbox);
        let category = SessionConfigOptionCategory::Other("_sandbox".to_owned());
        let allowed = self.sandboxes().into_iter().map(|it| {
            let name = name_of(it);
            let about = match it {
                SandboxMode::ReadOnly => "Tools change nothing",
                SandboxMode::Workspace => {
                    "Tools change files of the workspace; commands run in the OS sandbox"
                }
                SandboxMode::Full => "Commands run outside the OS sandbox, each after approval",
            };
            (name.clone(), name, about.to_owned())
        });
        options.push(select(SANDBOX, "Sandbox", category, &sandbox, allowed.collect()));
        options
    }

    /// Returns the sandboxes that the configuration allows, the narrowest first.
    fn sandboxes(&self) -> Vec<SandboxMode> {
        let all = [SandboxMode::ReadOnly, SandboxMode::Workspace, SandboxMode::Full];
        all.into_iter().take_while(|it| width(*it) <= width(self.widest)).collect()
    }

    /// Switches to this profile.
    pub(super) async fn set_profile(&self, name: &str) -> Result<(), Fault> {
        let profile = Some(name).filter(|it| *it != NONE).map(str::to_owned);
        let event = Event::Configured { model: None, profile: Some(name.to_owned()) };
        let operation = Operation::Profile { name: profile.clone() };
        self.configure(operation, event, |here| {
            let crew = here.crew.as_ref().ok_or_else(|| Fault::bug("an agent without profiles"))?;
            crew.begin(profile.as_deref(), true).map(drop)
        })
        .await
    }

    pub(super) async fn set_option(&self, option: &str, value: &str) -> Result<(), Fault> {
        match option {
            PROFILE => self.set_profile(value).await,
            MODEL => {
                let operation = Operation::Model { name: value.to_owned() };
                // Before the model is made: its name may be any address, or a file.
                self.handle.check(&operation)?;
                let model = self.factory().model(value)?;
                let event = Event::Configured { model: Some(value.to_owned()), profile: None };
                self.configure(operation, event, |here| {
                    here.steering.set_model(model);
                    Ok(())
                })
                .await
            }
            EFFORT => {
                let here = self.here().ok_or_else(|| self.elsewhere("effort"))?;
                let name = here.steering.model().name().to_owned();
                here.steering.set_model(with_effort(&self.shared, &name, value)?);
                self.shared.kept.lock().effort = Some(value.to_owned());
                self.keep();
                Ok(())
            }
            other => Err(Fault::not_found(format!("there is no option `{other}`"))
                .next(format!("The options are {PROFILE}, {MODEL}, {EFFORT} and {SANDBOX}."))),
        }
    }

    /// Changes what answers: at once, also while a turn goes on here. In another process it is done between turns.
    async fn configure(
        &self,
        operation: Operation,
        event: Event,
        now: impl FnOnce(&Here) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let is_busy = self.handle.state().await.is_ok_and(|it| it.turn.is_some() || it.waiting > 0);
        match self.here().filter(|_| is_busy) {
            Some(here) => {
                now(&here)?;
                here.log.add(event);
                Ok(())
            }
            None if is_busy => {
                let what = "a turn is under way in the process that runs this session";
                Err(Fault::new(Kind::Unavailable, what).next("Cancel the turn, or wait for its end."))
            }
            None => self.handle.act(&self.new_key(), operation).await.map(drop),
        }
    }

    fn elsewhere(&self, what: &str) -> Fault {
        let there = self.there.lock();
        let what =
            format!("process {} ({}) runs this session: its {what} can't be set here", there.pid, there.by);
        Fault::new(Kind::Unavailable, what).next("Close it there, and load it again.")
    }

    /// Returns the effort that is configured for the model, if it can be set.
    fn effort(&self) -> Option<String> {
        effort(&self.shared, &self.model()).filter(|_| self.here().is_some())
    }

    /// Returns the updates of mode and options as they are now.
    pub(super) fn options_as_updates(&self) -> [SessionUpdate; 2] {
        let mode = CurrentModeUpdate::new(SessionModeId::from(Arc::<str>::from(self.mode())));
        [
            SessionUpdate::CurrentModeUpdate(mode),
            SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(self.config_options())),
        ]
    }
}

fn effort(shared: &Shared, model: &str) -> Option<String> {
    let configured = shared.factory.opened.agents.models.get(model)?.effort.clone()?;
    Some(shared.kept.lock().effort.clone().unwrap_or(configured))
}

fn with_effort(shared: &Shared, name: &str, value: &str) -> Result<Arc<dyn Model>, Fault> {
    if effort(shared, name).is_none() {
        let what = format!("`{name}` has no `effort`");
        return Err(Fault::bad_args(what).next("Set it for a model of `[models.NAME]` in haft.toml."));
    }
    shared.factory.model_with_effort(name, value)
}

/// Applies the effort that was set before.
pub(super) fn restore_effort(shared: &Shared, steering: &Steering) {
    let Some(effort) = shared.kept.lock().effort.clone() else { return };
    let name = steering.model().name().to_owned();
    if let Ok(model) = with_effort(shared, &name, &effort) {
        steering.set_model(model);
    }
}

impl Backend {
    /// Returns the widest sandbox that the configuration allows in a workspace.
    pub(super) fn widest(&self, options: &Options) -> SandboxMode {
        let options = Options { sandbox: self.options.sandbox, ..options.clone() };
        let configured = options.config(&self.place).map(|it| it.sandbox);
        // A configuration that can't be read allows the least.
        configured.map_or(SandboxMode::ReadOnly, |it| {
            options.sandbox.map(SandboxMode::from).or(it).unwrap_or_default()
        })
    }

    /// Reopens the session in another sandbox.
    pub(super) async fn set_sandbox(
        &self,
        session: &Arc<AcpSession>,
        value: &str,
    ) -> Result<Arc<AcpSession>, Error> {
        let allowed: Vec<String> = session.sandboxes().into_iter().map(name_of).collect();
        if !allowed.iter().any(|it| it == value) {
            let what = format!("the sandbox `{value}` is not one of those that the configuration allows");
            let next =
                format!("Choose {}. `haft --sandbox {value} acp` starts with another.", allowed.join(" or "));
            return Err(error_of(&Fault::bad_args(what).next(next)));
        }
        if session.here().is_none() {
            return Err(error_of(&session.elsewhere("sandbox")));
        }
        if session.handle.state().await.is_ok_and(|it| it.turn.is_some()) {
            let what = "a turn is under way, and the sandbox of its calls can't change";
            return Err(error_of(&Fault::bad_args(what).next("Cancel the turn, or wait for its end.")));
        }
        let mut kept = session.shared.kept.lock().clone();
        kept.sandbox = Some(value.to_owned());
        let sandbox = SandboxArg::from_str(value, false).ok();
        let opening = Opening { sandbox, ..session.opening.clone() };
        let id = session.id.clone();
        self.leave(&id).await;
        let session = self.opened(opening, Some(&id), kept).await?;
        session.introduce().await;
        Ok(session)
    }
}

fn select(
    id: &'static str,
    name: &str,
    category: SessionConfigOptionCategory,
    now: &str,
    values: Vec<Value>,
) -> SessionConfigOption {
    let mut values = values;
    // The current value is among the choices, even if its file is gone.
    if !values.iter().any(|it| it.0 == now) {
        values.push((now.to_owned(), now.to_owned(), String::new()));
    }
    let values: Vec<SessionConfigSelectOption> = values
        .into_iter()
        .map(|(value, name, about)| {
            let name = if name.is_empty() { value.clone() } else { name };
            SessionConfigSelectOption::new(value, name).description(Some(about).filter(|it| !it.is_empty()))
        })
        .collect();
    SessionConfigOption::select(id, name, now.to_owned(), values).category(category)
}

/// Ranks sandboxes by how much they allow.
pub(super) fn width(sandbox: SandboxMode) -> u8 {
    match sandbox {
        SandboxMode::ReadOnly => 0,
        SandboxMode::Workspace => 1,
        SandboxMode::Full => 2,
    }
}

fn name_of(sandbox: SandboxMode) -> String {
    match sandbox {
        SandboxMode::ReadOnly => "read-only",
        SandboxMode::Workspace => "workspace",
        SandboxMode::Full => "full",
    }
    .to_owned()
}
