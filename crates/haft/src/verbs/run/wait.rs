//! `haft run --wait`: stays after the task, and runs the turns that triggers and messages begin.

use agent::{Agent, AgentError, Driver, Ended, Settled};
use sessions::{Began, Owner};
use store::TriggerState;
use tokio_util::sync::CancellationToken;

use super::{Done, Service};
use crate::print;

/// Runs turns until no trigger of the session is armed and no message waits, or somebody stops it.
///
/// # Errors
/// When the triggers can't be read. A turn that fails is printed, and the next one begins with the next message.
pub(super) async fn wait(
    owner: &Owner,
    service: &Service,
    driver: &mut Driver,
    agent: &mut Agent,
    mut done: Done,
    cancel: &CancellationToken,
) -> Result<Done, AgentError> {
    let store = agent.session().runtime().store().clone();
    let name = agent.session().name().to_owned();
    let mut changes = store.triggers().changes(&name);
    while !cancel.is_cancelled() {
        changes.borrow_and_update();
        let is_armed = store.triggers().list(Some(&name))?.iter().any(|it| it.state == TriggerState::Armed);
        if !is_armed && !store.inbox().has_queued(&name)? {
            break;
        }
        let session = agent.session().clone();
        tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            () = driver.woken(&session) => {}
            _ = changes.changed() => continue,
        }
        let turn = owner.begin_turn(agent, Began { by: service.who().to_owned(), ..Began::default() });
        let stopped = turn.cancel().clone();
        let work = driver.settle(agent, None, cancel);
        tokio::pin!(work);
        let settled: Result<Settled, AgentError> = tokio::select! {
            settled = &mut work => settled,
            () = stopped.cancelled() => {
                cancel.cancel();
                work.await
            }
        };
        match settled {
            Ok(settled) => {
                turn.end(&Ok(settled.outcome.clone()));
                done.settled.outcome.add(settled.outcome);
                done.settled.late = settled.late;
            }
            Err(error) => {
                turn.failed(&error);
                print::err(&format!("haft: {}", super::fault(error).as_text()));
            }
        }
    }
    if cancel.is_cancelled() {
        done.settled.outcome.ended = Ended::Cancelled;
    }
    for line in crate::triggers::news(&store, Some(&name)).await? {
        print::err(&format!("haft: {line}"));
    }
    Ok(done)
}
