//! Reconnection to a server that ended, with exponential backoff.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kit::{Fault, Kind};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{
    Server,
    connect::Live,
    definition::Definition,
    definition_store::Manifest,
    servers::Servers,
    start::{Learns, Start},
};

/// Pause after the first failure; each further failure doubles it.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// A call waits this long for the next try; a longer wait is a fault that names it.
const WAITED: Duration = Duration::from_secs(3);
/// After this many failures in a row calls don't wait: the first call after the pause tries once.
const MANY: u32 = 5;

/// The connection of one session to one server, up or down.
pub(super) struct Link {
    pub(super) server: Arc<Server>,
    /// The tool definitions of a server that is not configured.
    own: Option<Arc<Mutex<Option<Arc<Manifest>>>>>,
    state: Mutex<State>,
    /// Held by the call that connects; others wait for it.
    turn: tokio::sync::Mutex<()>,
    tries: AtomicU64,
}

#[derive(Default)]
struct State {
    live: Option<Arc<Live>>,
    /// Whether the session started it already; it needs no further permission.
    was_started: bool,
    /// Whether it answered a call on its present connection.
    answered: bool,
    /// Failures in a row: starts that failed, or connections lost in a call.
    failures: u32,
    not_before: Option<Instant>,
    last: Option<Fault>,
}

/// The present state of a link.
pub(super) struct LinkState {
    pub(super) is_live: bool,
    pub(super) was_started: bool,
    pub(super) answered: bool,
    /// The fault of the last try.
    pub(super) last: Option<String>,
    /// Time until the next try, after a failure.
    pub(super) again_in: Option<Duration>,
    pub(super) failures: u32,
    pub(super) noise: Option<String>,
}

impl Link {
    pub(super) fn new(server: Arc<Server>) -> Arc<Self> {
        Self::made(server, None)
    }

    /// Creates the link to a server that the session added.
    pub(super) fn own(server: Arc<Server>) -> Arc<Self> {
        Self::made(server, Some(Arc::default()))
    }

    fn made(server: Arc<Server>, own: Option<Arc<Mutex<Option<Arc<Manifest>>>>>) -> Arc<Self> {
        let (state, turn, tries) = Default::default();
        Arc::new(Self { server, own, state, turn, tries })
    }

    /// Returns the known tool definitions.
    pub(super) fn manifest(&self, servers: &Servers) -> Option<Arc<Manifest>> {
        match &self.own {
            Some(own) => own.lock().clone(),
            None => servers.manifest(&self.server.name),
        }
    }

    /// Returns whether the session added the server.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    fn alive(&self) -> Option<Arc<Live>> {
        let mut state = self.state.lock();
        if state.live.as_ref().is_some_and(|it| it.is_over()) {
            // The connection ended between two calls: no call failed, but the reconnection uses backoff.
            state.live = None;
            state.answered = false;
        }
        state.live.clone()
    }

    /// Returns the connection; connects if there is none. Dropping this future does not stop the connecting.
    ///
    /// # Errors
    /// When connecting fails, or the next try is not due.
    pub(super) async fn live(
        self: &Arc<Self>,
        with: &Start,
        servers: &Arc<Servers>,
    ) -> Result<Arc<Live>, Fault> {
        if let Some(live) = self.alive() {
            return Ok(live);
        }
        let (this, with, servers) = (self.clone(), with.clone(), servers.clone());
        let started = tokio::spawn(async move { this.start(&with, &servers).await }).await;
        started.unwrap_or_else(|error| Err(Fault::bug(format!("the start of a server was lost: {error}"))))
    }

    async fn start(&self, with: &Start, servers: &Arc<Servers>) -> Result<Arc<Live>, Fault> {
        let tries = self.tries.load(Ordering::Acquire);
        let _turn = self.turn.lock().await;
        if let Some(live) = self.alive() {
            return Ok(live);
        }
        // Calls that waited for a failed try get its fault.
        if self.tries.load(Ordering::Acquire) != tries
            && let Some(last) = &self.state.lock().last
        {
            return Err(last.copied());
        }
        self.wait().await?;
        let own: Option<Learns> = self.own.clone().map(|own| {
            let name = self.server.name.clone();
            Arc::new(move |lifecycle, (said, _): (Vec<Definition>, _)| {
                let mut own = own.lock();
                let manifest = match &*own {
                    Some(before) => before.updated(lifecycle, said),
                    None => Manifest::first(&name, lifecycle, said),
                };
                *own = Some(Arc::new(manifest));
            }) as Learns
        });
        let started = with.start(servers, &self.server, own).await;
        self.tries.fetch_add(1, Ordering::AcqRel);
        let mut state = self.state.lock();
        match started {
            Ok(live) => {
                (state.live, state.was_started, state.answered) = (Some(live.clone()), true, false);
                Ok(live)
            }
            Err(fault) => {
                state.fails(fault.copied());
                Err(fault)
            }
        }
    }

    /// Waits until the next try is due, if that is soon.
    async fn wait(&self) -> Result<(), Fault> {
        let (not_before, failures, last) = {
            let state = self.state.lock();
            (state.not_before, state.failures, state.last.as_ref().map(Fault::copied))
        };
        let left = not_before.map_or(Duration::ZERO, |it| it.saturating_duration_since(Instant::now()));
        if left <= WAITED && failures < MANY {
            sleep(left).await;
            return Ok(());
        }
        if left.is_zero() {
            return Ok(());
        }
        let name = &self.server.name;
        let times = if failures == 1 { "once".to_owned() } else { format!("{failures} times in a row") };
        let what = format!(
            "the server `{name}` failed {times}, so it is not tried again for {} s",
            left.as_secs().max(1)
        );
        let fault = Fault::new(Kind::Unavailable, what)
            .next("Do without it for now; mcp_status shows what is wrong, and mcp_connect tries it at once.");
        Err(match last {
            Some(last) => fault.seen(kit::Output::text(format!("the last time: {}", last.as_text()))),
            None => fault,
        })
    }

    /// Records an answer: resets the failures.
    pub(super) fn worked(&self, live: &Arc<Live>) {
        let mut state = self.state.lock();
        if state.live.as_ref().is_some_and(|it| Arc::ptr_eq(it, live)) {
            (state.answered, state.failures, state.not_before, state.last) = (true, 0, None, None);
        }
    }

    /// Records that this connection was lost in a call.
    pub(super) fn lost(&self, live: &Arc<Live>, fault: &Fault) {
        let mut state = self.state.lock();
        // Several calls may have lost the same connection; that is one failure.
        if state.live.as_ref().is_some_and(|it| Arc::ptr_eq(it, live)) {
            (state.live, state.answered) = (None, false);
            state.fails(fault.copied());
        }
    }

    /// Resets the failures: the next try is due at once.
    pub(super) fn forget_failures(&self) {
        let mut state = self.state.lock();
        (state.failures, state.not_before) = (0, None);
    }

    /// Ends the connection in order. Returns false if there was none.
    pub(super) async fn end(&self) -> bool {
        let live = {
            let mut state = self.state.lock();
            state.answered = false;
            state.live.take()
        };
        let Some(live) = live else { return false };
        let was_there = !live.is_over();
        live.end().await;
        was_there
    }

    pub(super) fn standing(&self) -> LinkState {
        let live = self.alive();
        let state = self.state.lock();
        LinkState {
            is_live: live.is_some(),
            was_started: state.was_started,
            answered: state.answered,
            last: state.last.as_ref().map(Fault::as_text),
            again_in: state.not_before.map(|it| it.saturating_duration_since(Instant::now())),
            failures: state.failures,
            noise: live.and_then(|it| it.noise()),
        }
    }
}

impl State {
    fn fails(&mut self, fault: Fault) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + pause(self.failures));
        self.last = Some(fault);
    }
}

/// Returns the pause after this many failures: doubles each time, with jitter.
fn pause(failures: u32) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST);
    let mut byte = [128];
    // Without randomness there is no jitter.
    let _ = getrandom::fill(&mut byte);
    let [byte] = byte;
    doubled.mul_f64(0.75 + f64::from(byte) / 512.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        for (failures, least, most) in
            [(1, 375, 625), (2, 750, 1250), (5, 6_000, 10_000), (40, 45_000, 75_000)]
        {
            let pause = pause(failures).as_millis();
            assert!((least..=most).contains(&pause), "{failures}: {pause}");
        }
    }
}
