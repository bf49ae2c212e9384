//! The socket of this process: others follow the sessions that it owns, and act on them.
//!
//! A malformed line ends its own connection, and nothing else. Rows are read from the database; the socket says when there
//! are more.

use std::{sync::Arc, time::Duration};

use kit::{Fault, Kind};
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    net::UnixStream,
    sync::Semaphore,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    fault::Failure,
    operation::Operation,
    owner::{Core, GivenUp, Owned},
    socket::{Listening, is_ours},
    wire::{Answer, Ask, NoLine, Request, VERSION, line, written},
};

/// So many connections are served at once.
const CONNECTIONS: usize = 512;

/// How long a connection may take for its first request, and for taking an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Serves the sessions that this process owns, until what this gives is dropped.
pub(crate) fn serve(listening: Listening, owned: Arc<Owned>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let stream = match listening.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, mostly: some will be free again.
                    tracing::warn!(%error, "a connection to the session socket was not accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(permit) = free.clone().try_acquire_owned() else { continue };
            if !is_ours(&stream) {
                tracing::warn!("another user tried to reach the session socket");
                continue;
            }
            let owned = owned.clone();
            tokio::spawn(async move {
                connection(stream, &owned).await;
                drop(permit);
            });
        }
    }))
}

async fn connection(stream: UnixStream, owned: &Owned) {
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading);
    loop {
        let answer = match timeout(TIMEOUT, line(&mut reading)).await {
            Ok(Ok(line)) => match serde_json::from_slice::<Request>(&line) {
                Ok(request) if request.version != VERSION => Err(other_version(request.version)),
                Ok(request) => match owned.get(&request.session) {
                    Some(core) => match request.ask {
                        Ask::State => Ok(Answer::State(Box::new(core.state()))),
                        Ask::Act { key, by, operation } => Ok(act(&core, &key, &by, operation).await),
                        Ask::Message { recipient } => {
                            core.feed().store().inbox().notify(&recipient);
                            Ok(Answer::Ok(serde_json::Value::Null))
                        }
                        Ask::Follow { attends } => {
                            return follow(core, attends, &mut reading, &mut writing).await;
                        }
                    },
                    None => Ok(Answer::NotHere),
                },
                Err(error) => Err(Fault::bad_args(format!("the line is no request: {error}"))),
            },
            Ok(Err(NoLine::TooLong)) => Err(Fault::new(Kind::TooBig, "the line is too long")),
            Ok(Err(NoLine::End)) | Err(_) => return,
        };
        let (answer, goes_on) = match answer {
            Ok(answer) => (answer, true),
            Err(fault) => (Answer::Fault(Failure::from(&fault)), false),
        };
        let sent = timeout(TIMEOUT, writing.write_all(&written(&answer))).await;
        if !goes_on || !sent.is_ok_and(|it| it.is_ok()) {
            return;
        }
    }
}

/// The operation goes on when the connection ends; asked for again under its key it has its result.
async fn act(core: &Arc<Core>, key: &str, by: &str, operation: Operation) -> Answer {
    match core.act(key, by, operation).await {
        Ok(Ok(value)) => Answer::Ok(value),
        Ok(Err(fault)) => Answer::Fault(Failure::from(&fault)),
        Err(GivenUp) => Answer::NotHere,
    }
}

/// Sends the head of the log whenever it grows. A client that reads slowly skips to the newest one.
async fn follow(
    core: Arc<Core>,
    attends: bool,
    reading: &mut (impl tokio::io::AsyncBufRead + Unpin),
    writing: &mut (impl tokio::io::AsyncWrite + Unpin),
) {
    let _attendance = attends.then(|| core.hub().attend());
    let mut head = core.feed().head().subscribe();
    let mut claims = core.feed().claims.subscribe();
    let epoch = core.epoch();
    let feed = core.feed().clone();
    // The owner must be able to go while others follow.
    drop(core);
    claims.borrow_and_update();
    if !feed.has_log() {
        return;
    }
    let mut hung_up = std::pin::pin!(line(reading));
    loop {
        let now = *head.borrow_and_update();
        let line = written(&Answer::Head(now));
        let sent = tokio::select! {
            sent = writing.write_all(&line) => sent,
            // Whatever comes on this connection ends it.
            _ = &mut hung_up => return,
            _ = claims.changed() => return,
        };
        if let Err(error) = sent {
            tracing::debug!(%error, epoch, "a follower is gone");
            return;
        }
        tokio::select! {
            changed = head.changed() => if changed.is_err() { return },
            _ = &mut hung_up => return,
            _ = claims.changed() => return,
        }
    }
}

fn other_version(version: u32) -> Fault {
    let what = format!("the protocol of this session has version {VERSION}, and you speak {version}");
    Fault::new(Kind::Unavailable, what).next("Use the same haft on both sides.")
}
