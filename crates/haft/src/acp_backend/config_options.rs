//! Modes and options of a session: profile, model, effort and sandbox.
//!
//! An editor can narrow the sandbox that the configuration allows, and never widen it.

use std::sync::Arc;

use agent::{Crew, model::Model};
use clap::ValueEnum as _;
use kit::Fault;
use sandbox::SandboxMode;
use serve::acp::{
    error_of,
    v1::{
        ConfigOptionUpdate, Error, SessionConfigOption, SessionConfigOptionCategory,
        SessionConfigSelectOption, SessionMode, SessionModeId, SessionModeState, SessionUpdate,
    },
};

use super::{Backend, opening::Opening, session::AcpSession};
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
    pub(super) fn mode(&self) -> Arc<str> {
        let profile = self.crew.as_ref().and_then(Crew::profile);
        profile.map_or_else(|| Arc::from(NONE), Arc::from)
    }

    fn profiles(&self) -> Vec<Value> {
        let mut all = vec![(NONE.to_owned(), "Default".to_owned(), "No profile".to_owned())];
        if let Some(crew) = &self.crew {
            all.extend(
                crew.known()
                    .profiles
                    .iter()
                    .map(|it| (it.name.clone(), it.title.clone(), abbreviate::line(&it.description, 200))),
            );
        }
        all
    }

    pub(super) fn modes(&self) -> SessionModeState {
        let modes = self.profiles().into_iter().map(|(id, name, about)| {
            SessionMode::new(id.clone(), if name.is_empty() { id } else { name }).description(about)
        });
        SessionModeState::new(SessionModeId::from(self.mode()), modes.collect())
    }

    pub(super) fn config_options(&self) -> Vec<SessionConfigOption> {
        let now = self.steering.model().name().to_owned();
        let mut models = vec![(now.clone(), now.clone(), String::new())];
        let named = self.factory.model_names().into_iter().filter(|it| it.0 != now);
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
        let sandbox = name_of(self.session.runtime().policy().sandbox);
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
    pub(super) fn set_profile(&self, name: &str) -> Result<(), Fault> {
        let crew = self.crew.as_ref().ok_or_else(|| Fault::bug("an agent without profiles"))?;
        crew.begin(Some(name).filter(|it| *it != NONE), true).map(drop)?;
        self.stand();
        Ok(())
    }

    pub(super) fn set_option(&self, option: &str, value: &str) -> Result<(), Fault> {
        match option {
            PROFILE => self.set_profile(value),
            MODEL => {
                self.steering.set_model(self.factory.model(value)?);
                self.stand();
                Ok(())
            }
            EFFORT => {
                let name = self.steering.model().name().to_owned();
                self.steering.set_model(self.with_effort(&name, value)?);
                self.kept.lock().effort = Some(value.to_owned());
                self.keep();
                Ok(())
            }
            other => Err(Fault::not_found(format!("there is no option `{other}`"))
                .next(format!("The options are {PROFILE}, {MODEL}, {EFFORT} and {SANDBOX}."))),
        }
    }

    /// Returns the effort that is configured for the model.
    fn effort(&self) -> Option<String> {
        let configured =
            self.factory.opened.agents.models.get(self.steering.model().name())?.effort.clone()?;
        Some(self.kept.lock().effort.clone().unwrap_or(configured))
    }

    fn with_effort(&self, name: &str, effort: &str) -> Result<Arc<dyn Model>, Fault> {
        if self.effort().is_none() {
            let what = format!("`{name}` has no `effort`");
            return Err(Fault::bad_args(what).next("Set it for a model of `[models.NAME]` in haft.toml."));
        }
        self.factory.model_with_effort(name, effort)
    }

    /// Applies the effort that was set before.
    pub(super) fn restore_effort(&self) {
        let Some(effort) = self.kept.lock().effort.clone() else { return };
        let name = self.steering.model().name().to_owned();
        if let Ok(model) = self.with_effort(&name, &effort) {
            self.steering.set_model(model);
        }
    }

    /// Saves the state of the conversation, unless a turn runs: that saves it at its end.
    fn stand(&self) {
        if let Ok(turn) = self.turn.try_lock()
            && let Some(turning) = &*turn
            && let Err(fault) = self.factory.keep(&turning.agent)
        {
            tracing::warn!("how the conversation stands was not saved: {fault}");
        }
    }

    pub(super) async fn tell_options(&self) {
        self.tell(SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(self.config_options()))).await;
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
        if session.turn.try_lock().is_err() {
            let what = "a turn is under way, and the sandbox of its calls can't change";
            return Err(error_of(&Fault::bad_args(what).next("Cancel the turn, or wait for its end.")));
        }
        let mut kept = session.kept.lock().clone();
        kept.sandbox = Some(value.to_owned());
        let sandbox = SandboxArg::from_str(value, false).ok();
        let opening = Opening { sandbox, ..session.opening.clone() };
        let id = session.id.clone();
        self.leave(&id).await;
        self.opened(opening, Some(&id), kept).await
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
