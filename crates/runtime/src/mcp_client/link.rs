//! Reconnection to a server that died, with backoff.

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

/// How long after a first failure it is not tried again; each further one doubles it.
const FIRST: Duration = Duration::from_millis(500);
/// The longest of these times.
const LONGEST: Duration = Duration::from_secs(60);
/// A call waits so long for the next try itself, and is told of a longer wait.
const WAITED: Duration = Duration::from_secs(3);
/// After so many failures with no answer between them nobody waits any more: a single call tries once the time is up.
const MANY: u32 = 5;

/// The connection of one session to one server, which may be there or not.
pub(super) struct Link {
    pub(super) server: Arc<Server>,
    /// What it says of its tools, where it is not a server that is configured.
    own: Option<Arc<Mutex<Option<Arc<Manifest>>>>>,
    state: Mutex<State>,
    /// One starts it; the others wait for that.
    turn: tokio::sync::Mutex<()>,
    tries: AtomicU64,
}

#[derive(Default)]
struct State {
    live: Option<Arc<Live>>,
    /// It was started in this session, so that need not be asked about again.
    was_started: bool,
    /// It answered a call of its present connection.
    answered: bool,
    /// So often in a row it could not be started, or ended in a call.
    failures: u32,
    not_before: Option<Instant>,
    last: Option<Fault>,
}

/// How a link is now.
pub(super) struct LinkState {
    pub(super) is_live: bool,
    pub(super) was_started: bool,
    pub(super) answered: bool,
    /// Why the last try failed.
    pub(super) last: Option<String>,
    /// In how long it may be tried again, where it failed.
    pub(super) again_in: Option<Duration>,
    pub(super) failures: u32,
    pub(super) noise: Option<String>,
}

impl Link {
    pub(super) fn new(server: Arc<Server>) -> Arc<Self> {
        Self::made(server, None)
    }

    /// To a server that nobody configured.
    pub(super) fn own(server: Arc<Server>) -> Arc<Self> {
        Self::made(server, Some(Arc::default()))
    }

    fn made(server: Arc<Server>, own: Option<Arc<Mutex<Option<Arc<Manifest>>>>>) -> Arc<Self> {
        let (state, turn, tries) = Default::default();
        Arc::new(Self { server, own, state, turn, tries })
    }

    /// What is known of its tools.
    pub(super) fn manifest(&self, servers: &Servers) -> Option<Arc<Manifest>> {
        match &self.own {
            Some(own) => own.lock().clone(),
            None => servers.manifest(&self.server.name),
        }
    }

    /// Is it there only for this session?
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    fn alive(&self) -> Option<Arc<Live>> {
        let mut state = self.state.lock();
        if state.live.as_ref().is_some_and(|it| it.is_over()) {
            // It ended between two calls: that is not a failure of either, but it is started anew with care.
            state.live = None;
            state.answered = false;
        }
        state.live.clone()
    }

    /// The connection, made if there is none. Whoever stops waiting for that does not stop it.
    ///
    /// # Errors
    /// When it can't be made, or is not tried again yet.
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
        // Those who waited for a try that failed are told what that came to.
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
                    Some(before) => before.told(lifecycle, said),
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

    /// Waits until it may be tried again, if that is soon.
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

    /// It answered: whatever failed before is over.
    pub(super) fn worked(&self, live: &Arc<Live>) {
        let mut state = self.state.lock();
        if state.live.as_ref().is_some_and(|it| Arc::ptr_eq(it, live)) {
            (state.answered, state.failures, state.not_before, state.last) = (true, 0, None, None);
        }
    }

    /// This connection was lost in a call.
    pub(super) fn lost(&self, live: &Arc<Live>, fault: &Fault) {
        let mut state = self.state.lock();
        // Several calls may have been under way; it is one failure.
        if state.live.as_ref().is_some_and(|it| Arc::ptr_eq(it, live)) {
            (state.live, state.answered) = (None, false);
            state.fails(fault.copied());
        }
    }

    /// It may be tried at once, whatever was before.
    pub(super) fn forget_failures(&self) {
        let mut state = self.state.lock();
        (state.failures, state.not_before) = (0, None);
    }

    /// Ends the connection in order. False, if there was none.
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

/// How long it is left alone after so many failures: twice as long each time, and not in step with others.
fn pause(failures: u32) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST);
    let mut byte = [128];
    // Without randomness they are in step, that is all.
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
