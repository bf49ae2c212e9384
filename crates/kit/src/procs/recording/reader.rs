//! Pipe readers: as fast as the writer, with bounded memory.

use std::{
    cell::RefCell,
    io,
    os::fd::OwnedFd,
    sync::{Arc, Weak},
};

use tokio::io::unix::AsyncFd;
use tokio_util::sync::CancellationToken;

use super::{super::async_pipe::awaited, Recording, Source};

/// Bytes that are read at once.
const READ: usize = 64 << 10;

thread_local! {
    /// One buffer for all pipes: a thousand quiet pipes need no memory.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads to the end, in a task of its own, as long as the recording exists and has this source.
pub(super) fn read(end: OwnedFd, recording: &Arc<Recording>) -> io::Result<()> {
    let end = Arc::new(awaited(end)?);
    let dropped = CancellationToken::new();
    let source = Source { end: Arc::downgrade(&end), _wanted: dropped.clone().drop_guard() };
    *recording.source.lock() = Some(source);
    tokio::spawn(read_all(end, Arc::downgrade(recording), dropped));
    Ok(())
}

async fn read_all(end: Arc<AsyncFd<OwnedFd>>, recording: Weak<Recording>, dropped: CancellationToken) {
    loop {
        let readable = tokio::select! {
            biased;
            // The pipe is read elsewhere, or not needed any more.
            () = dropped.cancelled() => return,
            readable = end.readable() => readable,
        };
        let Ok(mut ready) = readable else { break };
        let Some(recording) = recording.upgrade() else { return };
        let read = ready.try_io(|end| read_once(end.get_ref(), &recording));
        let nothing_more = read.is_err();
        match read {
            Ok(Ok(0)) => break,
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            // A terminal that no process has open returns an error (`EIO`).
            Ok(Err(_)) => break,
            Ok(Ok(_)) | Err(_) => {}
        }
        // When no more bytes are available at once, those so far go to the file.
        if let Some((file, bytes)) = recording.due(nothing_more) {
            let _ = tokio::task::spawn_blocking(move || file.write(&bytes)).await;
        }
    }
    let Some(recording) = recording.upgrade() else { return };
    if recording.handle_is_open() {
        let _ = tokio::task::spawn_blocking(move || recording.close()).await;
    } else {
        recording.close();
    }
}

pub(super) fn read_once(end: &OwnedFd, recording: &Recording) -> io::Result<usize> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(READ, 0);
        let _one = recording.reading.lock();
        let read = rustix::io::read(end, &mut **buffer)?;
        recording.take(buffer.get(..read).unwrap_or_default());
        Ok(read)
    })
}
