//! Slow connections: closes those below a minimum rate.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::sleep,
};

/// Time limit for the head of a request.
pub(super) const HEAD: Duration = Duration::from_secs(10);

/// Time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(90);

/// Time in which a client has to read [`TAKEN`] bytes of an answer.
const STALLED: Duration = Duration::from_secs(20);

/// Bytes of an answer that a client has to read within [`STALLED`].
const TAKEN: usize = 16 * 1024;

/// Maximum bytes that are read and discarded after the last answer, so that the client receives it.
const LINGER: usize = 4 * 1024 * 1024;

/// Time limit for that.
const LINGERING: Duration = Duration::from_secs(2);

/// Interval of the checks.
const TICK: Duration = Duration::from_millis(250);

/// The progress of a connection, and its deadlines.
pub struct Pace {
    began: Instant,
    /// In milliseconds since the beginning.
    read_by: AtomicU64,
    write_by: AtomicU64,
    /// Whether nothing of the next request has arrived.
    is_idle: AtomicBool,
    /// The longest time without a byte of the peer, in milliseconds.
    silence: AtomicU64,
}

/// A socket whose peer has to keep up a minimum rate.
pub(super) struct Paced {
    inner: TcpStream,
    pace: Arc<Pace>,
    taken: usize,
    lingered: Option<usize>,
}

const NEVER: u64 = u64::MAX;

impl Pace {
    pub(super) fn new() -> Arc<Self> {
        let pace = Self {
            began: Instant::now(),
            read_by: AtomicU64::new(NEVER),
            write_by: AtomicU64::new(NEVER),
            is_idle: AtomicBool::new(false),
            silence: AtomicU64::new(NEVER),
        };
        pace.set(&pace.read_by, HEAD);
        Arc::new(pace)
    }

    /// Marks that work on a request has begun.
    pub fn busy(&self) {
        self.is_idle.store(false, Ordering::Relaxed);
        self.silence.store(NEVER, Ordering::Relaxed);
        self.read_by.store(NEVER, Ordering::Relaxed);
    }

    /// Limits the time without a byte of the peer, from now until [`busy`](Self::busy): the connection goes on as another protocol.
    pub fn limit_silence(&self, limit: Duration) {
        self.silence.store(millis(limit), Ordering::Relaxed);
        self.set(&self.read_by, limit);
    }

    /// Marks that its answer is sent.
    pub fn idle(&self) {
        self.is_idle.store(true, Ordering::Relaxed);
        self.set(&self.read_by, IDLE);
    }

    /// Resolves when the peer was too slow, or silent for too long.
    pub async fn lost(&self) {
        loop {
            sleep(TICK).await;
            let by = self.read_by.load(Ordering::Relaxed).min(self.write_by.load(Ordering::Relaxed));
            if self.now() >= by {
                return;
            }
        }
    }

    fn came(&self) {
        if self.is_idle.swap(false, Ordering::Relaxed) {
            self.set(&self.read_by, HEAD);
        }
        let silence = self.silence.load(Ordering::Relaxed);
        if silence != NEVER {
            self.set(&self.read_by, Duration::from_millis(silence));
        }
    }

    fn set(&self, clock: &AtomicU64, within: Duration) {
        clock.store(self.now().saturating_add(millis(within)), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        millis(self.began.elapsed())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NEVER)
}

impl Paced {
    pub(super) fn new(socket: TcpStream, pace: Arc<Pace>) -> Self {
        Self { inner: socket, pace, taken: 0, lingered: None }
    }

    /// Tracks the time that the client takes to read.
    fn written(&mut self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &polled {
            Poll::Pending => {
                if self.pace.write_by.load(Ordering::Relaxed) == NEVER {
                    self.taken = 0;
                    self.pace.set(&self.pace.write_by, STALLED);
                }
            }
            Poll::Ready(Ok(count)) => {
                self.taken += count;
                if self.taken >= TAKEN {
                    self.pace.write_by.store(NEVER, Ordering::Relaxed);
                }
            }
            Poll::Ready(Err(_)) => {}
        }
        polled
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.pace.came();
        }
        polled
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.written(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.written(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A shutdown means that nothing is left to write.
        self.pace.write_by.store(NEVER, Ordering::Relaxed);
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    /// Ends the answer, and reads on for a moment: closing a socket with unread data would discard the answer.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingered.is_none() {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            this.lingered = Some(0);
            this.pace.set(&this.pace.read_by, LINGERING);
        }
        let mut scratch = [0; 16 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut this.inner).poll_read(cx, &mut buffer));
            let count = buffer.filled().len();
            let lingered = this.lingered.unwrap_or_default() + count;
            if read.is_err() || count == 0 || lingered > LINGER {
                return Poll::Ready(Ok(()));
            }
            this.lingered = Some(lingered);
        }
    }
}
