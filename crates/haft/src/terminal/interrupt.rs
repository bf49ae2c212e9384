//! Signal handling: the first signal cancels, the second one ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code of a run that a person stopped.
pub(crate) const STOPPED: u8 = 130;

/// Another program has the terminal: Ctrl-C is meant for that one.
static ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Records whether another program has the terminal. Meanwhile haft ignores the SIGINT that it also receives.
pub(crate) fn is_elsewhere(elsewhere: bool) {
    ELSEWHERE.store(elsewhere, Ordering::Release);
}

/// Cancels `cancel` at the first SIGINT, SIGTERM or SIGHUP; ends this process at the second one, after `restore`.
pub(crate) fn watch(cancel: CancellationToken, restore: fn()) -> std::io::Result<()> {
    let (ready, is_ready) = std::sync::mpsc::channel();
    // A separate thread: a second signal is handled even if all other threads are blocked.
    std::thread::Builder::new().name("haft-signals".to_owned()).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        runtime.block_on(async move {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let [interrupt, terminate, hangup] = kinds.map(signal);
            let (mut interrupt, mut terminate, mut hangup) = match (interrupt, terminate, hangup) {
                (Ok(interrupt), Ok(terminate), Ok(hangup)) => (interrupt, terminate, hangup),
                (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            let _ = ready.send(Ok(()));
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {
                        if ELSEWHERE.load(Ordering::Acquire) {
                            continue;
                        }
                    }
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                if cancel.is_cancelled() {
                    restore();
                    std::process::exit(i32::from(STOPPED));
                }
                cancel.cancel();
            }
        });
    })?;
    is_ready.recv().unwrap_or(Ok(()))
}
