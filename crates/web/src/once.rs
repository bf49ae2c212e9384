//! Requests that make a secret, done once: one that is repeated with its idempotency key gets the answer of the first.
//!
//! A secret is not kept on the disk, so its answer is kept in memory, for a time in which a client repeats a request.

use std::{
    collections::VecDeque,
    future::Future,
    time::{Duration, Instant},
};

use http::StatusCode;
use kit::Fault;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::{answer::Answer, problem::Problem};

/// How long an answer is kept, and how many.
const KEPT: Duration = Duration::from_secs(600);
const MOST: usize = 256;

/// The answers to requests that had idempotency keys, oldest first.
#[derive(Default)]
pub(crate) struct Once(Mutex<VecDeque<Answered>>);

struct Answered {
    given: GivenKey,
    status: StatusCode,
    answer: Value,
    until: Instant,
}

/// An idempotency key with its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GivenKey {
    /// The hash of the key, and of who sent it to which route.
    pub(crate) key: String,
    /// The hash of the request.
    pub(crate) request: String,
}

/// The error of a key that came with another request before.
pub(crate) fn of_another() -> Fault {
    Fault::bad_args("this `Idempotency-Key` came with another request before")
        .next("Make up a new random one for each new request.")
}

impl Once {
    /// Does a request, unless it was done before; gives its answer. One whose secret no longer `stands` is not given again.
    pub(crate) async fn make(
        &self,
        given: Option<GivenKey>,
        stands: impl Fn(&Value) -> bool + Send,
        make: impl Future<Output = Result<(StatusCode, Value), Problem>> + Send,
    ) -> Result<Answer, Problem> {
        let Some(given) = given else {
            return make.await.map(|(status, answer)| Answer::json(status, &answer));
        };
        // Held meanwhile: the same request at the same time waits for the answer of this one.
        let mut all = self.0.lock().await;
        all.retain(|it| it.until > Instant::now());
        if let Some(kept) = all.iter().find(|it| it.given.key == given.key) {
            if kept.given != given {
                return Err(of_another().into());
            }
            if !stands(&kept.answer) {
                let what = "this request was done before, and what it made was revoked since";
                return Err(Problem::new(StatusCode::GONE, "stale", what)
                    .next("Ask again under a new `Idempotency-Key` to make another one."));
            }
            return Ok(Answer::json(kept.status, &kept.answer));
        }
        let (status, answer) = make.await?;
        if all.len() >= MOST {
            all.pop_front();
        }
        let reply = Answer::json(status, &answer);
        all.push_back(Answered { given, status, answer, until: Instant::now() + KEPT });
        Ok(reply)
    }
}
