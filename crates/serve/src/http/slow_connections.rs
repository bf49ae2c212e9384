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

/// A head of a request is whole after this long.
pub(super) const HEAD: Duration = Duration::from_secs(10);

/// A connection on which nothing is asked is closed after this long.
const IDLE: Duration = Duration::from_secs(90);

/// Who reads its answer takes [`TAKEN`] bytes in this long.
const STALLED: Duration = Duration::from_secs(20);

/// What is taken of an answer so that it goes on.
const TAKEN: usize = 16 * 1024;

/// What is still read after the last answer, so that the client gets to see it.
const LINGER: usize = 4 * 1024 * 1024;

/// And for how long.
const LINGERING: Duration = Duration::from_secs(2);

/// How often it is looked whether time is up.
const TICK: Duration = Duration::from_millis(250);

/// How far a connection is, and until when it has to be farther.
pub(super) struct Pace {
    began: Instant,
    /// In milliseconds from the beginning.
    read_by: AtomicU64,
    write_by: AtomicU64,
    /// Nothing of the next request has come.
    is_idle: AtomicBool,
}

/// A socket whose other end has to keep pace.
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
        };
        pace.set(&pace.read_by, HEAD);
        Arc::new(pace)
    }

    /// A request has begun to be worked on.
    pub(super) fn busy(&self) {
        self.is_idle.store(false, Ordering::Relaxed);
        self.read_by.store(NEVER, Ordering::Relaxed);
    }

    /// Its answer is out.
    pub(super) fn idle(&self) {
        self.is_idle.store(true, Ordering::Relaxed);
        self.set(&self.read_by, IDLE);
    }

    /// Resolves when the other end was too slow.
    pub(super) async fn lost(&self) {
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

    /// Keeps the time that the client takes to take what it is sent.
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
        // Who asks for this has nothing left to write.
        self.pace.write_by.store(NEVER, Ordering::Relaxed);
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    /// Ends the answer, and reads on for a moment: a socket that is closed on what was not read takes the answer back.
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
