//! Request bodies and response bodies, with limits on size, memory and time.

use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::{BodyExt as _, combinators::BoxBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, timeout_at};

use super::replies::{self, Reply};

/// Maximum size of a body, in bytes.
const LARGEST: usize = 16 * 1024 * 1024;

/// Maximum size of all bodies that are being read, in pieces of [`PIECE`].
const PIECES: usize = 16 * 16;

const PIECE: usize = 1024 * 1024;

/// The pieces that one person can hold: six of the largest bodies.
const OF_ONE: usize = 6 * 16;

/// The last pieces are for people who hold no more than one of the largest bodies.
const RESERVE: usize = 4 * 16;
const FEW: usize = 16;

/// Time limit of a body, to which a second is added for every [`EACH_SECOND`] bytes.
const GRACE: Duration = Duration::from_secs(10);

const EACH_SECOND: u64 = 16 * 1024;

/// Memory permits for the bodies that are being read. One person can hold a part of them, and the last ones are for those who hold few.
#[derive(Default)]
pub struct BodyPermits(Arc<Mutex<Pieces>>);

/// The pieces that are held.
#[derive(Default)]
struct Pieces {
    all: usize,
    /// Those of each person.
    of: HashMap<String, usize>,
}

impl Pieces {
    /// Takes one piece for a person. Returns false if there is none for them.
    fn take(&mut self, person: &str) -> bool {
        let own = self.of.get(person).copied().unwrap_or_default();
        let most = if own < FEW { PIECES } else { PIECES - RESERVE };
        if own >= OF_ONE || self.all >= most {
            return false;
        }
        self.all += 1;
        *self.of.entry(person.to_owned()).or_default() += 1;
        true
    }

    fn give_back(&mut self, person: &str, pieces: usize) {
        self.all = self.all.saturating_sub(pieces);
        if let Some(own) = self.of.get_mut(person) {
            *own = own.saturating_sub(pieces);
            if *own == 0 {
                self.of.remove(person);
            }
        }
    }
}

fn locked(pieces: &Mutex<Pieces>) -> MutexGuard<'_, Pieces> {
    pieces.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The permits for one body of a person.
pub struct HeldPermits {
    of: Arc<Mutex<Pieces>>,
    person: String,
    pieces: usize,
}

impl HeldPermits {
    /// Holds permits for so many bytes in all. Returns false if there are none for this person.
    pub fn hold(&mut self, bytes: usize) -> bool {
        let wanted = bytes.div_ceil(PIECE);
        if self.pieces >= wanted {
            return true;
        }
        let mut pieces = locked(&self.of);
        while self.pieces < wanted && pieces.take(&self.person) {
            self.pieces += 1;
        }
        self.pieces >= wanted
    }

    /// Gives the permits back.
    pub fn release(&mut self) {
        if self.pieces > 0 {
            locked(&self.of).give_back(&self.person, self.pieces);
            self.pieces = 0;
        }
    }
}

impl Drop for HeldPermits {
    fn drop(&mut self) {
        self.release();
    }
}

/// Returns the time by which the rest of a body has to come, of which so many bytes are there.
pub fn due(began: Instant, bytes: usize) -> Instant {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    began + GRACE + Duration::from_secs(bytes / EACH_SECOND)
}

impl BodyPermits {
    /// Returns the permits for a body of this person, none at first.
    pub fn of(&self, person: &str) -> HeldPermits {
        HeldPermits { of: self.0.clone(), person: person.to_owned(), pieces: 0 }
    }

    /// Reads a whole body of a person; an answer for one that is too large, too slow, or broken.
    pub(super) async fn read(&self, person: &str, body: Incoming) -> Result<Bytes, Reply> {
        self.read_within(person, body, LARGEST).await
    }

    /// Reads a whole body of a person, of at most `largest` bytes.
    ///
    /// # Errors
    /// The answer to one that is too large, too slow, or broken.
    pub async fn read_within(
        &self,
        person: &str,
        mut body: Incoming,
        largest: usize,
    ) -> Result<Bytes, Reply> {
        let too_large = || {
            let what = format!("a request has at most {} KiB", largest >> 10);
            replies::last(StatusCode::PAYLOAD_TOO_LARGE, what)
        };
        let announced = body.size_hint().lower();
        if usize::try_from(announced).map_or(true, |it| it > largest) {
            return Err(too_large());
        }
        let began = Instant::now();
        let (mut read, mut held) = (BytesMut::new(), self.of(person));
        loop {
            let Ok(frame) = timeout_at(due(began, read.len()), body.frame()).await else {
                return Err(replies::last(StatusCode::REQUEST_TIMEOUT, "the request comes too slowly"));
            };
            let data = match frame {
                None => return Ok(read.freeze()),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    return Err(replies::last(
                        StatusCode::BAD_REQUEST,
                        format!("the request is broken: {error}"),
                    ));
                }
            };
            if read.len() + data.len() > largest {
                return Err(too_large());
            }
            if !held.hold(read.len() + data.len()) {
                return Err(replies::full("too many large requests at once"));
            }
            read.extend_from_slice(&data);
        }
    }
}

/// The body of an answer, with a guard that is dropped once it is sent.
pub struct Guarded<T> {
    body: BoxBody<Bytes, Infallible>,
    held: Option<T>,
}

impl<T> Guarded<T> {
    /// Holds `held` until `body` is sent.
    pub fn new(body: BoxBody<Bytes, Infallible>, held: T) -> Self {
        Self { body, held: Some(held) }
    }
}

impl<T: Unpin> Body for Guarded<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) {
            self.held = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_person_holds_a_part_and_the_last_permits_are_for_those_who_hold_few() {
        let permits = BodyPermits::default();
        let held = |person: &str, bodies: usize| {
            let mut all: Vec<HeldPermits> = (0..bodies).map(|_| permits.of(person)).collect();
            let count = all.iter_mut().filter_map(|it| it.hold(LARGEST).then_some(())).count();
            (all, count)
        };
        let (one, two) = (held("one", 8), held("two", 8));
        assert_eq!((one.1, two.1), (6, 6), "eight bodies of each were begun");
        let others: Vec<_> = ["three", "four", "five", "six"].map(|it| held(it, 2)).into();
        assert_eq!(others.iter().map(|it| it.1).collect::<Vec<_>>(), [1, 1, 1, 1]);
        assert_eq!(held("seven", 1).1, 0, "256 MiB are held");
        drop((one, two, others));
        assert_eq!(locked(&permits.0).all, 0);
        assert!(locked(&permits.0).of.is_empty());
        assert_eq!(held("seven", 8).1, 6);
    }
}
