//! Triggers of a session, for the tools that make, list and remove them.

use std::sync::Arc;

use kit::{
    Fault, Kind,
    effect::Effect,
    services::{MadeTrigger, NewTrigger, Soon, Triggers},
};
use policy::grants::parse;
use store::channels::Scope;
use triggers::{Service, Spec, What};

use crate::session_state::SessionState;

/// The triggers of one session.
pub(crate) struct TriggersOf {
    service: Service,
    session: Arc<SessionState>,
}

impl TriggersOf {
    pub(crate) fn new(session: &Arc<SessionState>) -> Self {
        Self { service: Service::new(session.store().clone()), session: session.clone() }
    }

    async fn make(&self, new: NewTrigger) -> Result<MadeTrigger, Fault> {
        let spec = checked(&self.session, &new)?;
        let name = self.session.name();
        let added = self.service.add(name, new.name.as_deref(), &spec, "tool", store::now_ms()).await?;
        let mut notes = Vec::new();
        if let What::Webhook { .. } = spec.what {
            notes.push(format!("Requests go to POST /hooks/{name}/{} of `haft mcp --http`.", added.id));
        }
        if let Some(secret) = &added.secret {
            notes.push(format!("Its secret, which is not shown again: {secret}"));
        }
        Ok(MadeTrigger { id: added.id, arguments: added.arguments, notes })
    }
}

impl Triggers for TriggersOf {
    fn add(&self, new: NewTrigger) -> Soon<'_, Result<MadeTrigger, Fault>> {
        Box::pin(self.make(new))
    }

    fn remove<'a>(&'a self, id: &'a str) -> Soon<'a, Result<bool, Fault>> {
        Box::pin(self.service.remove(self.session.name(), id))
    }

    fn list(&self) -> Soon<'_, Result<Vec<String>, Fault>> {
        Box::pin(async move {
            let rows = self.service.list(Some(self.session.name())).await?;
            Ok(rows.iter().map(Service::line).collect())
        })
    }
}

/// Returns what the rules and a person decide about, for a trigger that a tool declares: in one line, the effects, and the
/// grants.
///
/// # Errors
/// When it is not a trigger: then nobody is asked.
pub(crate) fn planned(session: &SessionState, new: &str) -> Result<(String, String, Vec<Effect>), Fault> {
    let new: NewTrigger = serde_json::from_str(new)
        .map_err(|error| Fault::bug(format!("a trigger was not declared: {error}")))?;
    let spec = checked(session, &new)?;
    let grants = spec.common.grants.iter().map(|it| parse(it)).collect::<Result<_, _>>()?;
    Ok((spec.to_string(), spec.effects(new.name.as_deref()).join("\n"), grants))
}

/// Reads a trigger, and checks what can be checked before a person is asked.
fn checked(session: &SessionState, new: &NewTrigger) -> Result<Spec, Fault> {
    if session.agent().is_some() {
        let what = "the session of a sub-agent ends with its task, so it has no triggers";
        return Err(Fault::new(Kind::Unavailable, what)
            .next("Report to the agent that started you what should begin when."));
    }
    let spec = Spec::of(&new.tool, &new.arguments)?;
    spec.first_due("", store::now_ms())?;
    spec.common.grants.iter().try_for_each(|it| parse(it).map(drop))?;
    if let Some(name) = &new.name
        && session.store().triggers().get(session.name(), name)?.is_some()
    {
        return Err(Fault::bad_args(format!("trigger `{name}` already exists"))
            .next("Choose another `name`, or remove that trigger first."));
    }
    match &spec.what {
        What::WatchChannel { channel_name, .. } => has_channel(session, channel_name)?,
        What::WatchJob { job, .. } => drop(kit::services::Jobs::get(&**session.jobs(), job)?),
        What::Webhook { secret: Some(secret), .. } => {
            let vault = session.runtime().vault();
            // The secret is named for this host: it is compared here, and sent nowhere.
            drop(vault.reveal(secret, WEBHOOK_HOST, 0)?);
        }
        _ => {}
    }
    Ok(spec)
}

/// The host for which `[secret.NAME]` names the secret of a webhook.
pub const WEBHOOK_HOST: &str = "webhook";

/// Checks that the session can listen on a channel of this name.
fn has_channel(session: &SessionState, channel: &str) -> Result<(), Fault> {
    let channels = session.store().channels();
    let group = channels.member(session.name())?.map(|it| it.environment).filter(|it| !it.is_empty());
    let environment = group.unwrap_or_else(|| format!("env_{}", session.name()));
    let mut there: Vec<String> = Vec::new();
    for scope in [Scope::Environment(environment), Scope::Session(session.name().to_owned())] {
        there.extend(channels.list(&scope)?.into_iter().map(|it| it.name));
    }
    if there.iter().any(|it| it == channel) {
        return Ok(());
    }
    let names = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Err(Fault::not_found(format!("Channel '{channel}' does not exist"))
        .next(format!("Available channels: {names}. Pick one exactly as written.")))
}
