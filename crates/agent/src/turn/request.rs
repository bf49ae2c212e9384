//! Requests to the model, with retries and compaction.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{
    Agent, AgentError,
    step::{Around, Broke, Step},
};
use crate::{
    compaction::{Shorten, allowed, weight},
    event::Event,
    loop_detection::changing,
    model::{Breach, Request, Usage, ask},
};

/// Maximum number of retries of an answer that broke off.
const AGAIN: u32 = 3;

/// Maximum number of times that a conversation is shortened when the provider rejects it as too long.
const SHORTER: u32 = 2;

impl Agent {
    /// Returns one answer of the model with the results of its calls, or `None` if it was stopped before any
    /// text.
    pub(super) async fn answer(
        &mut self,
        usage: &mut Usage,
        stop: &CancellationToken,
    ) -> Result<Option<Step>, AgentError> {
        let (mut again, mut shorter) = (0, 0);
        let mut most = allowed(self.steering.model().abilities());
        self.shorten(most, false, usage, stop).await?;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(None),
                written = self.transcript.written() => written?,
            }
            self.host.observe(Event::Asked { step: self.transcript.steps() + 1 });
            let model = self.steering.model();
            let mut items = self.transcript.items().to_vec();
            if model.abilities().images {
                self.attached.attach(&self.session, &mut items);
            }
            let (system, tools) = (self.steering.system(), self.shown.tools.clone());
            let bytes = weight(&system, &tools, &items);
            self.steering.set_size(self.rate.tokens(bytes), true);
            let format = self.format.clone();
            let request =
                Request { system, items, tools, step: self.transcript.steps(), longest: None, format };
            let around = Around {
                session: &self.session,
                host: &self.host,
                transcript: &mut self.transcript,
                loops: &mut self.loops,
                changing: &changing(self.session.catalog().specs()),
                cancel: stop,
            };
            match Step::run(around, ask(&*model, request)).await {
                Ok(step) => {
                    self.rate.learn(bytes, step.usage.request());
                    if step.usage.request() > 0 {
                        self.counted = Some(step.usage.all());
                        self.steering.set_size(step.usage.all(), false);
                    }
                    return Ok(Some(step));
                }
                Err(Broke::Stopped) => return Ok(None),
                Err(Broke::Error(error)) if error.breach == Breach::TooLong && shorter < SHORTER => {
                    shorter += 1;
                    // The provider counts differently: the current size is too large, whatever the estimate.
                    most = self.rate.tokens(bytes).min(most) / 2;
                    if !self.shorten(most, true, usage, stop).await? {
                        return Err(error.into());
                    }
                    self.host.observe(Event::Again { why: error.to_string(), seconds: 0.0 });
                }
                Err(Broke::Error(error)) if error.breach == Breach::Refused && self.format.is_some() => {
                    // The model may be too old, or the provider may not support the schema: the caller checks
                    // the answer anyway.
                    self.format = None;
                    let text = format!("asking again without structured output, as it was refused: {error}");
                    self.host.observe(Event::Note { text });
                }
                Err(Broke::Error(error)) if error.may_pass() && !error.tried && again < AGAIN => {
                    again += 1;
                    let seconds = 0.5 * f32::from(1u8 << again);
                    self.host.observe(Event::Again { why: error.to_string(), seconds });
                    tokio::select! {
                        () = tokio::time::sleep(Duration::from_secs_f32(seconds)) => {}
                        () = stop.cancelled() => return Ok(None),
                    }
                }
                Err(Broke::Error(error)) => return Err(error.into()),
            }
        }
    }

    /// Shortens the conversation if it is too long for the model. Returns whether it changed.
    async fn shorten(
        &mut self,
        most: u64,
        hard: bool,
        usage: &mut Usage,
        stop: &CancellationToken,
    ) -> Result<bool, AgentError> {
        let model = self.steering.model();
        let shorten = Shorten {
            session: &self.session,
            host: &self.host,
            model: &model,
            transcript: &mut self.transcript,
            rate: self.rate,
            beside: weight(&self.steering.system(), &self.shown.tools, &[]),
            cancel: stop,
        };
        let shortened = shorten.to(most, hard).await?;
        *usage += shortened.usage;
        if shortened.changed {
            // The model can no longer read the earlier results.
            self.loops.forget();
            self.estimate_size();
        }
        Ok(shortened.changed)
    }
}
