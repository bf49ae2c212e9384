//! Client of the Chrome DevTools Protocol, over two pipes.
//!
//! Messages are JSON, each with a zero byte at its end. No other process has the other ends, as one might
//! have of a port.

use std::{collections::VecDeque, io, os::fd::OwnedFd};

use kit::{Fault, Kind, OrFault};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::unix::pipe::{Receiver, Sender},
};

/// Maximum size of a message.
const LONGEST: usize = 96 << 20;

/// Maximum number of events that are kept.
const EVENTS: usize = 20_000;

/// The connection with a browser.
pub(super) struct DevTools {
    said: BufReader<Receiver>,
    say: Sender,
    number: u64,
    /// The present page, once there is one.
    session: Option<String>,
    events: VecDeque<Value>,
}

/// The browser's ends: its descriptors 3 and 4.
pub(super) type Ends = Vec<(i32, OwnedFd)>;

impl DevTools {
    /// Creates a connection; returns it and its other ends.
    pub(super) fn open() -> io::Result<(Self, Ends)> {
        let (their_input, say) = pipe_with(PipeFlags::CLOEXEC)?;
        let (said, their_output) = pipe_with(PipeFlags::CLOEXEC)?;
        for ours in [&say, &said] {
            rustix::io::ioctl_fionbio(ours, true)?;
        }
        let tools = Self {
            said: BufReader::new(Receiver::from_owned_fd(said)?),
            say: Sender::from_owned_fd(say)?,
            number: 0,
            session: None,
            events: VecDeque::new(),
        };
        Ok((tools, vec![(3, their_input), (4, their_output)]))
    }

    /// Selects this page for later calls.
    pub(super) fn attach(&mut self, session: &str) {
        self.session = Some(session.to_owned());
    }

    /// Calls a method of the browser, and waits for its result.
    pub(super) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Fault> {
        let number = self.send(method, params).await?;
        loop {
            let mut message = self.receive().await?;
            if at(&message, "/id").as_u64() != Some(number) {
                self.remember(message);
                continue;
            }
            if let Some(error) = message.get("error") {
                let what = format!(
                    "the browser can't do `{method}`: {}",
                    at(error, "/message").as_str().unwrap_or("no reason")
                );
                return Err(Fault::new(Kind::Failed, what));
            }
            return Ok(message.get_mut("result").map(Value::take).unwrap_or_default());
        }
    }

    /// Waits for the next event.
    pub(super) async fn event(&mut self) -> Result<Value, Fault> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let message = self.receive().await?;
            self.remember(message);
        }
    }

    /// Returns an event that has arrived already.
    pub(super) fn happened(&mut self) -> Option<Value> {
        self.events.pop_front()
    }

    fn remember(&mut self, message: Value) {
        if message.get("method").is_some() && self.events.len() < EVENTS {
            self.events.push_back(message);
        }
    }

    async fn send(&mut self, method: &str, params: Value) -> Result<u64, Fault> {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if let (Some(session), Some(message)) = (&self.session, message.as_object_mut()) {
            message.insert("sessionId".to_owned(), json!(session));
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.say.write_all(&bytes).await.or_fault(Kind::Failed, "the browser went away")?;
        Ok(self.number)
    }

    async fn receive(&mut self) -> Result<Value, Fault> {
        loop {
            let mut bytes = Vec::new();
            loop {
                let here = self.said.fill_buf().await.or_fault(Kind::Failed, "the browser went away")?;
                if here.is_empty() || bytes.len() > LONGEST {
                    return Err(Fault::new(Kind::Failed, "the browser went away before the page was there"));
                }
                let end = here.iter().position(|it| *it == 0);
                let taken = end.map_or(here.len(), |it| it + 1);
                bytes.extend(here.iter().take(end.unwrap_or(here.len())));
                self.said.consume(taken);
                if end.is_some() {
                    break;
                }
            }
            let message: Value = serde_json::from_slice(&bytes)
                .or_fault(Kind::Failed, "the browser said something that is not a message")?;
            // A dialog would block the page, and no person can answer it.
            if at(&message, "/method") == "Page.javascriptDialogOpening" {
                self.send("Page.handleJavaScriptDialog", json!({"accept": false})).await?;
                continue;
            }
            return Ok(message);
        }
    }
}

/// Returns the value at a place in a message; null, if there is none.
pub(super) fn at<'a>(message: &'a Value, pointer: &str) -> &'a Value {
    message.pointer(pointer).unwrap_or(&Value::Null)
}
