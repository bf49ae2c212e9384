//! The client of another process's socket.

use std::{io, path::Path, time::Duration};

use kit::Fault;
use serde_json::Value;
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    net::UnixStream,
    sync::watch,
    time::timeout,
};

use crate::{
    operation::Operation,
    owner::State,
    socket::connect,
    watcher::reached,
    wire::{Answer, Ask, Request, VERSION, line, written},
};

/// How long an owner may take to say how a session stands.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The owner was not reached, or went before it answered.
pub(crate) struct Unreached;

impl From<io::Error> for Unreached {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// Has the owner do this. The answer may take as long as it takes.
pub(crate) async fn act(
    folder: &Path,
    socket: &str,
    session: &str,
    (key, by): (&str, &str),
    operation: &Operation,
) -> Result<Result<Value, Fault>, Unreached> {
    let ask = Ask::Act { key: key.to_owned(), by: by.to_owned(), operation: operation.clone() };
    match asked(folder, socket, session, ask).await?.1 {
        Answer::Ok(value) => Ok(Ok(value)),
        Answer::Fault(failure) => Ok(Err(failure.into())),
        Answer::State(_) | Answer::Head(_) | Answer::NotHere => Err(Unreached),
    }
}

/// How a session stands.
pub(crate) async fn state(folder: &Path, socket: &str, session: &str) -> Result<State, Unreached> {
    let asking = asked(folder, socket, session, Ask::State);
    match timeout(TIMEOUT, asking).await.map_err(|_| Unreached)??.1 {
        Answer::State(state) => Ok(*state),
        _ => Err(Unreached),
    }
}

/// Tells the owner of a message in the inbox of the session, or of an agent below it.
pub(crate) async fn tell_of_message(
    folder: &Path,
    socket: &str,
    session: &str,
    recipient: &str,
) -> Result<(), Unreached> {
    let asking = asked(folder, socket, session, Ask::Message { recipient: recipient.to_owned() });
    timeout(TIMEOUT, asking).await.map_err(|_| Unreached)?.map(drop)
}

/// Tells whoever listens to `head` how far the log is, until the owner goes.
pub(crate) async fn follow(
    folder: &Path,
    socket: &str,
    session: &str,
    head: &watch::Sender<u64>,
    attends: bool,
) -> Result<std::convert::Infallible, Unreached> {
    let ask = Ask::Follow { attends };
    let (mut reading, first) = asked(folder, socket, session, ask).await?;
    let mut answer = first;
    loop {
        let Answer::Head(now) = answer else { return Err(Unreached) };
        reached(head, now);
        let line = line(&mut reading).await.map_err(|_| Unreached)?;
        answer = serde_json::from_slice(&line).map_err(|_| Unreached)?;
    }
}

/// Sends a request. Gives the connection and the first answer.
async fn asked(
    folder: &Path,
    socket: &str,
    session: &str,
    ask: Ask,
) -> Result<(BufReader<UnixStream>, Answer), Unreached> {
    let mut stream = BufReader::new(connect(folder, socket).await?);
    let request = Request { version: VERSION, session: session.to_owned(), ask };
    stream.write_all(&written(&request)).await?;
    let line = line(&mut stream).await.map_err(|_| Unreached)?;
    let answer = serde_json::from_slice(&line).map_err(|_| Unreached)?;
    Ok((stream, answer))
}
