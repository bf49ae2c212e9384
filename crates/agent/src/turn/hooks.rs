//! Hooks of an agent's events: the start of its session, a person's message, and the end of a turn.
//!
//! What a hook adds reaches the model as an attachment of the message, marked as data.

use kit::Fault;
use runtime::{Session, config::HookEvent};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentError};
use crate::{event::Event, input::Input, model::Item};

/// The number of times that hooks may keep one turn from ending.
const MOST_STOPS: usize = 8;

/// The hooks' part of one turn.
#[derive(Default)]
pub(super) struct TurnHooks {
    /// How often hooks kept the turn from ending.
    stops: usize,
}

impl Agent {
    /// Runs the hooks before a turn with this input, and attaches what they add to it.
    ///
    /// # Errors
    /// When a hook refuses the message: the conversation stays as it was.
    pub(super) async fn hooks_before(
        &mut self,
        input: &mut Option<Input>,
        cancel: &CancellationToken,
    ) -> Result<(), AgentError> {
        if self.session.runtime().hooks().is_none() {
            return Ok(());
        }
        let is_persons = input.as_ref().is_some_and(Input::is_persons);
        let mut words = Vec::new();
        if !std::mem::replace(&mut self.hooks_began, true) && self.session.agent().is_none() {
            let source = if self.transcript.items().is_empty() { "startup" } else { "resume" };
            let fields = json!({"source": source});
            words.push(self.session.run_hooks(HookEvent::SessionStart, source, fields, cancel).await);
        }
        if let Some(input) = input.as_ref().filter(|_| is_persons && self.session.agent().is_none()) {
            let fields = json!({"prompt": input.words()});
            words.push(self.session.run_hooks(HookEvent::PromptSubmit, "", fields, cancel).await);
        }
        self.hear_hooks();
        for word in words {
            if let Some((hook, reason)) = word.denied {
                let what =
                    format!("the hook `{hook}` refused the message, and the model did not get it: {reason}");
                return Err(Fault::denied(what)
                    .next("Change the message, or the hook: `haft hooks` shows it.")
                    .into());
            }
            if let Some(reason) = word.halt {
                let what = format!("a hook stopped the turn before it began: {reason}");
                return Err(Fault::denied(what).next("`haft hooks` shows the hooks.").into());
            }
            if let Some(input) = input.as_mut() {
                for (hook, text) in word.context {
                    input.attach_text(&self.session, "hook", &hook, text.as_bytes())?;
                }
            }
        }
        Ok(())
    }

    /// Runs the hooks at the end of a turn. Returns whether the model has to go on, as a hook wants.
    pub(super) async fn hooks_at_stop(&mut self, turn: &mut TurnHooks, stop: &CancellationToken) -> bool {
        let event = match self.session.agent() {
            Some(_) => HookEvent::SubagentStop,
            None => HookEvent::Stop,
        };
        if !self.session.has_hooks(event) || stop.is_cancelled() {
            return false;
        }
        let fields = json!({"stop_hook_active": turn.stops > 0});
        let word = self.session.run_hooks(event, "", fields, stop).await;
        self.hear_hooks();
        let Some((hook, reason)) = word.denied.filter(|_| word.halt.is_none()) else { return false };
        if turn.stops >= MOST_STOPS {
            let text = format!(
                "the hook `{hook}` wanted the model to go on, for the {MOST_STOPS}th time in this turn: the turn ends"
            );
            self.host.observe(Event::Note { text });
            return false;
        }
        turn.stops += 1;
        self.host.observe(Event::Note { text: format!("the hook `{hook}` lets the model go on") });
        self.transcript.add(Item::person(format!(
            "You are not done yet, says the hook `{hook}` of the configuration (not the person): {reason}"
        )));
        true
    }

    /// Reports to the person what hooks said. Returns the reason, if one wants the agent to stop.
    pub(super) fn hear_hooks(&self) -> Option<String> {
        heard(&self.session, |text| self.host.observe(Event::Note { text }))
    }
}

fn heard(session: &Session, observe: impl Fn(String)) -> Option<String> {
    session.runtime().hooks()?;
    session.hook_notes().into_iter().for_each(&observe);
    let reason = session.hook_halt()?;
    observe(format!("a hook stopped the agent: {reason}"));
    Some(reason)
}
