//! Tasks that follow a consumer or a subscription: begun again after each end, and stopped with their owner.

use std::future::Future;

use tokio::{task::JoinHandle, time::sleep};

use super::PAUSE;
use crate::Result;

/// A task that follows something of the server until this is dropped.
pub(super) struct Follower(JoinHandle<()>);

impl Follower {
    /// Starts the task. `follow` returns when what it follows ends, and runs again after a pause; `what` names it in the log.
    pub(super) fn start<F>(what: &'static str, mut follow: impl FnMut() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<()>> + Send,
    {
        Self(tokio::spawn(async move {
            loop {
                if let Err(error) = follow().await {
                    tracing::warn!(%error, "{what} could not be followed; trying again");
                }
                sleep(PAUSE).await;
            }
        }))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::nats::unreachable;

    #[tokio::test(start_paused = true)]
    async fn follower_begins_again_after_ends_and_errors_and_stops_with_its_owner() {
        let (tell, mut begun) = mpsc::unbounded_channel();
        let mut count = 0;
        let follower = Follower::start("a test", move || {
            count += 1;
            let (count, tell) = (count, tell.clone());
            async move {
                tell.send(count).map_err(unreachable)?;
                if count == 1 { Err(unreachable("gone")) } else { Ok(()) }
            }
        });
        for expected in 1..=3 {
            assert_eq!(begun.recv().await, Some(expected));
        }
        drop(follower);
        while begun.recv().await.is_some() {}
    }
}
