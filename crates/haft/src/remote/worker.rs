//! A worker: announces itself, claims work that fits it, and runs each session in a folder of its own.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use engine::{Control, Engine, Grain, PROTOCOL, Work, Worker as About};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{LocalBoxFuture, OptionFuture},
    stream::FuturesUnordered,
};
use kit::{Fault, Kind, deliberate_faults::is_broken};
use serde_json::Value;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{ANY, fault, folders::WorkerFolder, has, session::Shared, shown};
use crate::{Options, Place, agent_options::AgentOptions, print, terminal::abbreviate};

/// Pause after the engine could not be reached.
const AGAIN: Duration = Duration::from_secs(1);

/// Maximum length of a task's words in the log, in characters.
const WORDS: usize = 60;

/// Pause between two requests for orders, once one was received.
const ORDERS: Duration = Duration::from_millis(200);

/// Time limit for writing what the list of its tools needed.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// How often a worker asks the engine to remove old records.
const SWEEP: Duration = Duration::from_secs(3600);

/// Age at which ended work and its contents are removed.
const OLD: Duration = Duration::from_secs(7 * 24 * 3600);

/// The offer of a worker: its labels, and how many sessions it runs at once.
pub(crate) struct Offers {
    pub(crate) labels: BTreeSet<String>,
    pub(crate) slots: u32,
}

/// A worker of this machine.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    about: About,
}

/// A signal or an order to a worker.
enum Order {
    Drain,
    Stop,
}

/// Returns the labels that this machine has by itself: the operating system, the architecture, the host, and `any`.
fn own_labels(host: &str) -> [String; 4] {
    [std::env::consts::OS, std::env::consts::ARCH, host, ANY].map(str::to_owned)
}

/// Returns the name of this host; what is not a letter, a digit, `-`, `_` or `.` in it is left out.
pub(crate) fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name: String =
        name.chars().filter(|it| it.is_ascii_alphanumeric() || "-_.".contains(*it)).take(60).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

impl Worker {
    /// Prepares a worker: its folder, and the list of what it has.
    ///
    /// # Errors
    /// When the configuration or the state folder can't be used.
    pub(crate) async fn new(
        engine: Arc<dyn Engine>,
        offers: Offers,
        agent: AgentOptions,
        options: &Options,
        place: &Place,
    ) -> Result<Self, Fault> {
        let host = host();
        let mut random = [0; 3];
        getrandom::fill(&mut random).map_err(|error| Fault::bug(format!("no random numbers: {error}")))?;
        let random: String = random.iter().map(|it| format!("{it:02x}")).collect();
        let id = format!("{}-{random}", host.replace('.', "-"));
        let folder = WorkerFolder::create(place, &id).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("can't write in `{}`: {error}", place.state.display()))
        })?;
        let nothing = folder.empty().map_err(|error| Fault::new(Kind::Unavailable, error.to_string()))?;
        let alone = Options { dir: Some(nothing.workspace()), session: None, ..options.clone() };
        let opened = alone.open(place)?;
        if let Some(fault) = opened.broken.own {
            return Err(fault);
        }
        opened.runtime.load_tools().await;
        opened.aside.iter().for_each(|line| print::err(&format!("haft: {line}")));
        let has = has(&opened).into_iter().collect();
        let steps = opened.agents.agent.max_steps;
        opened.runtime.store().close(LAST_WRITE);
        let runtime = opened.runtime;
        let mut labels = offers.labels;
        labels.extend(own_labels(&host));
        let about = About {
            id: id.clone(),
            host,
            labels,
            slots: offers.slots,
            busy: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL + u32::from(is_broken("protocol")),
            draining: false,
            has,
        };
        let arguments = Options { session: None, ..options.clone() }.as_arguments();
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared { engine, folder, runtime, id, arguments, agent, steps, stop });
        Ok(Self { shared, about })
    }

    /// Works until it is drained or stopped.
    ///
    /// # Errors
    /// When signals can't be handled, or the engine refuses this worker.
    pub(crate) async fn run(mut self) -> Result<(), Fault> {
        let unhandled = |error: std::io::Error| {
            Fault::new(Kind::Unavailable, format!("signals can't be handled: {error}"))
        };
        let mut interrupt = signal(SignalKind::interrupt()).map_err(unhandled)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(unhandled)?;
        let engine = self.shared.engine.clone();
        engine.announce(&self.about).await.map_err(fault)?;
        print::err(&format!(
            "haft: worker {} takes work: labels {}, {} at once; Ctrl-C ends it once its work is done",
            self.about.id,
            shown(&self.about.labels),
            self.about.slots
        ));
        let mut running: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        let (mut due, mut swept) = (Instant::now(), None::<Instant>);
        let shared = self.shared.clone();
        // It stays while something else happens: work that a dropped claim was about to take would wait for a lease.
        let mut claiming = None;
        while !(self.about.draining && running.is_empty()) {
            let is_free = !self.about.draining && running.len() < self.about.slots as usize;
            let announced = (self.about.busy, self.about.draining);
            if is_free && claiming.is_none() {
                let (engine, about) = (engine.clone(), self.about.clone());
                claiming = Some(Box::pin(async move { engine.claim(&about).await }));
            }
            let order = tokio::select! {
                biased;
                _ = interrupt.recv() => Some(self.signalled()),
                _ = terminate.recv() => Some(self.signalled()),
                Some(()) = running.next() => None,
                order = orders(&*engine, &self.about.id, self.about.draining) => Some(order),
                Some(claimed) = OptionFuture::from(claiming.as_mut()), if is_free => {
                    claiming = None;
                    match claimed {
                        Ok(Some((work, lease))) => {
                            print::err(&format!("haft: {} begins: {}", work.key, about_work(&work)));
                            running.push(shared.clone().run(work, lease).boxed_local());
                        }
                        // Orders come by themselves.
                        Ok(None) => sleep(ORDERS).await,
                        Err(error) => unreached(error).await?,
                    }
                    None
                }
                () = sleep_until(due) => {
                    if swept.is_none_or(|it| it.elapsed() >= SWEEP) {
                        swept = Some(Instant::now());
                        if let Err(error) = engine.sweep(OLD).await {
                            tracing::warn!("old records could not be removed: {error}");
                        }
                    }
                    due = Instant::now();
                    None
                }
            };
            match order {
                Some(Order::Drain) if !self.about.draining => {
                    self.about.draining = true;
                    let left = running.len();
                    print::err(&format!("haft: draining: {left} running; once more stops them"));
                }
                Some(Order::Drain) | None => {}
                Some(Order::Stop) => {
                    self.about.draining = true;
                    self.shared.stop.cancel();
                }
            }
            self.about.busy = u32::try_from(running.len()).unwrap_or(u32::MAX);
            if due <= Instant::now() || announced != (self.about.busy, self.about.draining) {
                due = Instant::now() + engine.lease_length() / 3;
                if let Err(error) = engine.announce(&self.about).await {
                    unreached(error).await?;
                }
            }
        }
        drop(running);
        engine.leave(&self.about.id).await.map_err(fault)?;
        print::err("haft: ended");
        Ok(())
    }

    /// Returns the order that a signal is: the first one drains, the second one stops.
    fn signalled(&self) -> Order {
        if self.about.draining { Order::Stop } else { Order::Drain }
    }
}

/// Waits for an order of `haft workers`. One that was carried out already is not returned again.
async fn orders(engine: &dyn Engine, id: &str, draining: bool) -> Order {
    loop {
        match engine.controlled(id).await {
            Ok(Control::Stop) => return Order::Stop,
            Ok(Control::Drain) if !draining => return Order::Drain,
            Ok(Control::Drain) => sleep(ORDERS).await,
            Err(_) => sleep(AGAIN).await,
        }
    }
}

/// Describes a piece of work for the person at the worker, who sees keys only otherwise.
fn about_work(work: &Work) -> String {
    let text = |name: &str| work.task.get(name).and_then(Value::as_str).unwrap_or_default();
    match work.grain {
        Grain::Session => abbreviate::line(text("words"), WORDS),
        Grain::Call => format!("a call of {}", text("tool")),
    }
}

/// Reports that the engine can't be reached, and waits a moment.
///
/// # Errors
/// When repeating it does not help.
async fn unreached(error: engine::Error) -> Result<(), Fault> {
    if !matches!(error, engine::Error::Unreachable(_)) {
        return Err(fault(error));
    }
    print::err(&format!("haft: {error}; trying again"));
    sleep(AGAIN).await;
    Ok(())
}
