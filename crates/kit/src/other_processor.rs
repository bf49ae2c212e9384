//! Short work on another processor, while a program starts.

use std::{io, thread};

/// Starts a thread for short work that begins now, while the caller goes on. It stays off the caller's processor, if there
/// are others.
///
/// Linux may leave a new thread where its creator runs, even when another processor is idle: it then begins when the
/// creator's turn is over, some 3 ms later.
///
/// # Errors
/// When the system starts no more threads.
pub fn on_other_processor(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work)?;
    #[cfg(target_os = "linux")]
    elsewhere();
    Ok(())
}

/// Moves the only other thread of this process to other processors than this one. Does nothing if there are more threads.
#[cfg(target_os = "linux")]
fn elsewhere() {
    use rustix::thread::{Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return };
    let this = gettid();
    let mut others = threads
        .filter_map(|it| Pid::from_raw(it.ok()?.file_name().to_str()?.parse().ok()?))
        .filter(|it| *it != this);
    let (Some(other), None) = (others.next(), others.next()) else { return };
    let Ok(mut processors) = sched_getaffinity(None) else { return };
    processors.unset(sched_getcpu());
    if processors.count() > 0 {
        // Without it the thread only begins later.
        let _ = sched_setaffinity(Some(other), &processors);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_runs_in_a_thread_of_the_name() {
        let (to, from) = mpsc::channel();
        let work = move || to.send(thread::current().name().map(str::to_owned)).unwrap();
        on_other_processor("haft-tested", work).unwrap();
        assert_eq!(from.recv().unwrap().as_deref(), Some("haft-tested"));
    }
}
