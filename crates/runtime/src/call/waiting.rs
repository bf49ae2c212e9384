//! Waiting for other calls, reported as progress of the call.

use std::{pin::pin, time::Duration};

use kit::services::Progress;
use tokio::time::timeout;

use crate::session_state::SessionState;

/// Time after which a call reports what it waits for, and the interval between two looks at that.
const REPORTED: Duration = Duration::from_millis(500);

/// Runs `wait` to its end. If it takes long, reports the call that this one waits for, and then that it runs.
pub(super) async fn reported<T>(
    session: &SessionState,
    call: &str,
    progress: Option<&dyn Progress>,
    wait: impl Future<Output = T>,
) -> T {
    let mut wait = pin!(wait);
    let Some(progress) = progress else { return wait.await };
    let mut told: Option<String> = None;
    loop {
        if let Ok(done) = timeout(REPORTED, wait.as_mut()).await {
            if told.is_some() {
                progress.report(0.0, None, "runs");
            }
            return done;
        }
        let ahead = session.schedule().ahead_of(call);
        let line = ahead.map(|it| format!("waits for {}", it.name_in(session.name())));
        if line.is_some() && line != told {
            progress.report(0.0, None, line.as_deref().unwrap_or_default());
            told = line;
        }
    }
}
