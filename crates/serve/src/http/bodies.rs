//! Request bodies and response bodies, with limits on size, memory and time.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::{BodyExt as _, combinators::BoxBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::replies::{self, Reply};

/// Maximum size of a body, in bytes.
const LARGEST: usize = 16 * 1024 * 1024;

/// Maximum size of all bodies that are being read, in pieces of [`PIECE`].
const PIECES: usize = 16 * 16;

const PIECE: usize = 1024 * 1024;

/// Time limit of a body, to which a second is added for every [`EACH_SECOND`] bytes.
const GRACE: Duration = Duration::from_secs(10);

const EACH_SECOND: u64 = 16 * 1024;

/// Memory permits for the bodies that are being read.
pub struct BodyPermits(Arc<Semaphore>);

impl Default for BodyPermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PIECES)))
    }
}

/// The permits for one body.
#[derive(Default)]
pub struct HeldPermits(Vec<OwnedSemaphorePermit>);

/// Returns the time by which the rest of a body has to come, of which so many bytes are there.
pub fn due(began: Instant, bytes: usize) -> Instant {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    began + GRACE + Duration::from_secs(bytes / EACH_SECOND)
}

impl BodyPermits {
    /// Holds permits for so many bytes in all. Returns false if there are none.
    pub fn hold(&self, held: &mut HeldPermits, bytes: usize) -> bool {
        while held.0.len() * PIECE < bytes {
            let Ok(piece) = Arc::clone(&self.0).try_acquire_owned() else { return false };
            held.0.push(piece);
        }
        true
    }

    /// Reads a whole body; an answer for one that is too large, too slow, or broken.
    pub(super) async fn read(&self, body: Incoming) -> Result<Bytes, Reply> {
        self.read_within(body, LARGEST).await
    }

    /// Reads a whole body of at most `largest` bytes.
    ///
    /// # Errors
    /// The answer to one that is too large, too slow, or broken.
    pub async fn read_within(&self, mut body: Incoming, largest: usize) -> Result<Bytes, Reply> {
        let too_large = || {
            let what = format!("a request has at most {} KiB", largest >> 10);
            replies::last(StatusCode::PAYLOAD_TOO_LARGE, what)
        };
        let announced = body.size_hint().lower();
        if usize::try_from(announced).map_or(true, |it| it > largest) {
            return Err(too_large());
        }
        let began = Instant::now();
        let (mut read, mut held) = (BytesMut::new(), HeldPermits::default());
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
            if !self.hold(&mut held, read.len() + data.len()) {
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
