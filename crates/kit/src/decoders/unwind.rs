//! Unwinding out of a decoder: turns a panic into a fault, and lets a callback abort a decoder that has no
//! way to be cancelled.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use super::STACK;
use crate::{Fault, Kind};

/// Aborts a decoder from a callback, with this fault as its result. Only below [`Decoder::decode`].
///
/// [`Decoder::decode`]: super::Decoder::decode
pub fn leave(why: Fault) -> ! {
    std::panic::resume_unwind(Box::new(Left(why)))
}

struct Left(Fault);

/// Runs a part of a decoder as a worker would: a panic becomes a fault, and [`leave`] works. For tests.
///
/// # Errors
/// Those of the work.
pub fn catch<T>(what: &str, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    caught(what, work).0
}

/// Runs `work`; returns its result, and whether it ended by unwinding.
pub(super) fn caught<T>(what: &str, work: impl FnOnce() -> Result<T, Fault>) -> (Result<T, Fault>, bool) {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => (done, false),
        Err(panic) => (Err(fault(what, panic)), true),
    }
}

/// Runs the work on a thread with a deep stack, and waits for it.
pub(super) fn on_deep_stack<T: Send>(
    what: &str,
    work: impl FnOnce() -> Result<T, Fault> + Send,
) -> Result<T, Fault> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("haft-decoding".to_owned()).stack_size(STACK);
        let started = builder.spawn_scoped(scope, || caught(what, work).0).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("no thread could be started to decode {what}: {error}"))
        })?;
        started.join().unwrap_or_else(|panic| Err(fault(what, panic)))
    })
}

fn fault(what: &str, panic: Box<dyn Any + Send>) -> Fault {
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
        let fault = on_deep_stack::<()>("`a.pdf`", || panic!("out of range")).unwrap_err();
        assert_eq!(
            (fault.kind, fault.what.as_str()),
            (Kind::Failed, "`a.pdf` is broken: its decoder gave up")
        );
        let fault = on_deep_stack::<()>("x", || leave(Fault::new(Kind::TooBig, "too much"))).unwrap_err();
        assert_eq!((fault.kind, fault.what.as_str()), (Kind::TooBig, "too much"));
        assert_eq!(on_deep_stack("x", || Ok(3)).unwrap(), 3);
    }
}
