//! The budget of a group: one count of tokens, dollars, steps and time for all members. No request is sent beyond it.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use agent::model::{Abilities, Breach, Event, Events, Model, ModelError, Request};
use futures_util::{StreamExt as _, stream};
use kit::{Spec, services::Soon};
use parking_lot::Mutex;
use serde_json::json;
use store::groups::Used;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{Inner, event};
use crate::recipe::Limits;

/// Counts requests of models: the budget of the group, or the way to it from a member with a process of its own.
pub(crate) trait Counter: Send + Sync {
    /// Takes one step of the budget, or returns the limit that forbids it.
    fn take_step(&self) -> Soon<'_, Result<(), String>>;

    /// Counts what the response to a request used.
    fn add(&self, tokens: u64, dollars: f64);
}

/// Has the requests of models count. Cheap to clone.
#[derive(Clone)]
pub struct Meter {
    counter: Arc<dyn Counter>,
}

impl Meter {
    pub(crate) fn new(counter: Arc<dyn Counter>) -> Self {
        Self { counter }
    }

    /// Returns a model whose requests count, and are refused once the budget is used up.
    pub fn wrap(&self, model: Arc<dyn Model>) -> Arc<dyn Model> {
        Arc::new(Metered { model, counter: self.counter.clone() })
    }

    /// Counts a cost that the prices of the model don't show.
    pub fn add_cost(&self, dollars: f64) {
        self.counter.add(0, dollars);
    }
}

/// The budget of a group: its limits, and what its members used. Cheap to clone.
#[derive(Clone)]
pub(super) struct Budget {
    inner: Arc<Counted>,
}

struct Counted {
    limits: Limits,
    used: Mutex<Used>,
    began: Instant,
    /// The limit that was reached.
    exhausted: watch::Sender<Option<String>>,
}

impl Counter for Budget {
    fn take_step(&self) -> Soon<'_, Result<(), String>> {
        Box::pin(std::future::ready(self.take()))
    }

    fn add(&self, tokens: u64, dollars: f64) {
        let mut used = self.inner.used.lock();
        used.tokens = used.tokens.saturating_add(tokens);
        used.cost += dollars;
    }
}

impl Budget {
    pub(super) fn new(limits: Limits, used: Used) -> Self {
        let exhausted = watch::Sender::new(None);
        Self { inner: Arc::new(Counted { limits, used: Mutex::new(used), began: Instant::now(), exhausted }) }
    }

    /// Returns a meter of this budget.
    pub(super) fn meter(&self) -> Meter {
        Meter::new(Arc::new(self.clone()))
    }

    /// Returns the limits, and what was used.
    pub(super) fn state(&self) -> (Limits, Used) {
        (self.inner.limits.clone(), *self.inner.used.lock())
    }

    /// Returns the limit that was reached.
    pub(super) fn exhausted(&self) -> Option<String> {
        self.inner.exhausted.borrow().clone()
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    fn take(&self) -> Result<(), String> {
        let limits = &self.inner.limits;
        let mut used = self.inner.used.lock();
        let reached = if limits.steps.is_some_and(|most| used.steps >= most) {
            Some(format!("{} steps", used.steps))
        } else if limits.tokens.is_some_and(|most| used.tokens >= most) {
            Some(format!("{} tokens", used.tokens))
        } else if limits.dollars.is_some_and(|most| used.cost >= most) {
            Some(format!("{:.4} dollars", used.cost))
        } else if self.time_is_up() {
            Some(format!("{} minutes", limits.minutes.unwrap_or_default()))
        } else {
            None
        };
        match reached {
            Some(limit) => {
                drop(used);
                self.reach(&limit);
                Err(limit)
            }
            None => {
                used.steps += 1;
                Ok(())
            }
        }
    }

    fn time_is_up(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() >= until)
    }

    fn until(&self) -> Option<Instant> {
        let minutes = self.inner.limits.minutes.filter(|it| it.is_finite() && *it >= 0.0)?;
        self.inner.began.checked_add(Duration::try_from_secs_f64(minutes * 60.0).ok()?)
    }

    fn reach(&self, limit: &str) {
        self.inner.exhausted.send_if_modified(|it| {
            let is_new = it.is_none();
            if is_new {
                *it = Some(limit.to_owned());
            }
            is_new
        });
    }
}

struct Metered {
    model: Arc<dyn Model>,
    counter: Arc<dyn Counter>,
}

impl Model for Metered {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn abilities(&self) -> &Abilities {
        self.model.abilities()
    }

    fn tool_format(&self) -> &'static str {
        self.model.tool_format()
    }

    fn idle_limit(&self) -> Option<Duration> {
        self.model.idle_limit()
    }

    fn system_prompt(&self, system: &Arc<str>, tools: &[Spec]) -> Arc<str> {
        self.model.system_prompt(system, tools)
    }

    fn stream(&self, request: Request) -> Events {
        let (counter, model) = (self.counter.clone(), self.model.clone());
        let begins = async move {
            if let Err(limit) = counter.take_step().await {
                let what = format!("the budget of the group is used up: {limit}");
                let error = ModelError::new(Breach::Refused, what)
                    .next("`haft group run --resume NAME` with a higher `--budget-…` goes on.");
                return Box::pin(stream::once(std::future::ready(Err(error)))) as Events;
            }
            let price = model.abilities().price;
            Box::pin(model.stream(request).inspect(move |part| {
                if let Ok(Event::Used(usage)) = part {
                    counter.add(usage.all(), price.map_or(0.0, |it| usage.cost(&it)));
                }
            }))
        };
        Box::pin(stream::once(begins).flatten())
    }
}

/// Stops all members once a limit is reached.
pub(super) async fn watch_over(inner: Weak<Inner>) {
    let Some(budget) = inner.upgrade().map(|it| it.budget.clone()) else { return };
    let mut exhausted = budget.inner.exhausted.subscribe();
    let until = budget.until();
    let timer = async {
        match until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        reached = async { exhausted.wait_for(Option::is_some).await.is_ok() } => if !reached { return },
        () = timer => budget.reach(&format!("{} minutes", budget.inner.limits.minutes.unwrap_or_default())),
    }
    let (Some(inner), Some(limit)) = (inner.upgrade(), budget.exhausted()) else { return };
    let ids: Vec<String> = inner.state.lock().live.keys().cloned().collect();
    for id in &ids {
        inner.hold_turns(id, true);
        inner.cancel_turn(id).await;
    }
    let (_, used) = budget.state();
    let body = json!({"limit": limit, "tokens": used.tokens, "steps": used.steps, "cost": used.cost});
    if let Err(fault) = inner.note(vec![event("budget_exhausted", None, body)]).await {
        tracing::warn!(%fault, "the end of the group's budget is not in its events");
    }
    inner.touch();
}
