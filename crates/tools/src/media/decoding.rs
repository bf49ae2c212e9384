//! How is a file from anywhere decoded without harm to what runs beside it?

use std::{any::Any, thread};

use kit::{Cx, Fault, Kind};
use tokio::sync::{Semaphore, SemaphorePermit};

/// What is nested as deep as its format allows needs so much.
const STACK: usize = 64 << 20;

/// One at a time, so that what a picture may take of the memory is what all of them take.
static TURN: Semaphore = Semaphore::const_new(1);

/// Waits until no other picture is decoded. The turn ends when what this gives is dropped.
pub(crate) async fn turn(cx: &Cx) -> Result<SemaphorePermit<'static>, Fault> {
    cx.check()?;
    tokio::select! {
        turn = TURN.acquire() => turn.map_err(|error| Fault::bug(format!("no turn: {error}"))),
        () = cx.cancelled() => Err(Fault::new(Kind::Cancelled, "the call was stopped before it was done")),
    }
}

/// Does work on a thread with a deep stack, and turns a panic of a decoder into a fault. Blocks.
pub(crate) fn apart<T: Send>(what: &str, work: impl FnOnce() -> Result<T, Fault> + Send) -> Result<T, Fault> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("haft-decoding".to_owned()).stack_size(STACK);
        let started = builder.spawn_scoped(scope, work).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("no thread could be started to decode {what}: {error}"))
        })?;
        started.join().unwrap_or_else(|panic| Err(given_up(what, panic)))
    })
}

/// Leaves a decoder that calls us while it works, and can't be told to stop. Only below [`apart`].
pub(crate) fn leave(why: Fault) -> ! {
    std::panic::resume_unwind(Box::new(Left(why)))
}

struct Left(Fault);

fn given_up(what: &str, panic: Box<dyn Any + Send>) -> Fault {
    match panic.downcast::<Left>() {
        Ok(left) => left.0,
        Err(_) => Fault::new(Kind::Failed, format!("{what} is broken: its decoder gave up")),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;

    #[test]
    fn a_decoder_that_panics_is_a_fault() {
        let fault = apart::<()>("`a.pdf`", || panic!("out of range")).unwrap_err();
        assert_eq!(
            (fault.kind, fault.what.as_str()),
            (Kind::Failed, "`a.pdf` is broken: its decoder gave up")
        );
        let fault = apart::<()>("x", || leave(Fault::new(Kind::TooBig, "too much"))).unwrap_err();
        assert_eq!((fault.kind, fault.what.as_str()), (Kind::TooBig, "too much"));
        assert_eq!(apart("x", || Ok(3)).unwrap(), 3);
    }
}
