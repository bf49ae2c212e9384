//! Which processes descend from this one, and how are all of them ended?

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    fs,
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};

/// How often one sweep looks for processes that it has not stopped yet.
const LOOKS: usize = 100;

/// A process as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// Has it ended, and only waits for its parent to notice?
    pub(super) gone: bool,
    /// When it was started, in ticks since the machine was.
    pub(super) started: u64,
}

/// A process that no other is taken for: its id, and when it was started.
pub(super) type Identity = (i32, u64);

/// What is not to be ended.
#[derive(Debug, Default)]
pub(super) struct Spared {
    /// Left itself, but not what it started.
    pub(super) alone: Option<i32>,
    /// Left, with all that descends from them.
    pub(super) whole: BTreeSet<Identity>,
    /// The same, by id alone: children of ours, whose ids can't be given away before we have noticed their end.
    pub(super) children: HashSet<i32>,
}

/// The processes below this one that have not ended, without what is spared.
pub(super) fn below(spared: &Spared) -> Vec<i32> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut queue = VecDeque::from(children(own_pid()));
    while let Some(pid) = queue.pop_front() {
        if spared.children.contains(&pid) || !seen.insert(pid) {
            continue;
        }
        let Some(stat) = stat(pid) else { continue };
        if spared.alone != Some(pid) {
            if spared.whole.contains(&(pid, stat.started)) {
                continue;
            }
            if !stat.gone {
                found.push(pid);
            }
        }
        queue.extend(children(pid));
    }
    found
}

/// Stops everything below this process, so that nothing is started meanwhile, and kills it. Gives how many there
/// were; to be called again until that is none.
pub(super) fn kill_all(spared: &Spared, ended: &mut HashSet<i32>) -> usize {
    let mut stopped = HashSet::new();
    for _ in 0..LOOKS {
        let fresh: Vec<i32> = below(spared).into_iter().filter(|it| !stopped.contains(it)).collect();
        if fresh.is_empty() {
            break;
        }
        for pid in fresh {
            send(pid, Signal::STOP);
            stopped.insert(pid);
        }
    }
    for pid in &stopped {
        send(*pid, Signal::KILL);
    }
    ended.extend(&stopped);
    stopped.len()
}

/// Sends a signal to one process, if it is still there.
pub(super) fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Children that have ended, one by one. `Err`: there are no children at all any more.
pub(super) fn reap() -> Result<Option<(i32, WaitStatus)>, NoChildren> {
    match rustix::io::retry_on_intr(|| wait(WaitOptions::NOHANG)) {
        Ok(ended) => Ok(ended.map(|(pid, status)| (pid.as_raw_nonzero().get(), status))),
        Err(_) => Err(NoChildren),
    }
}

/// Children that have ended or were stopped, one by one.
pub(super) fn ended_or_stopped() -> Option<(i32, WaitStatus)> {
    let noticed = rustix::io::retry_on_intr(|| wait(WaitOptions::NOHANG | WaitOptions::UNTRACED));
    noticed.ok().flatten().map(|(pid, status)| (pid.as_raw_nonzero().get(), status))
}

/// A process that adopts all its descendants and has no child has no descendant.
#[derive(Debug)]
pub(super) struct NoChildren;

/// The ids of the children of a process.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    // Each thread has children of its own.
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return found };
    for thread in threads.flatten() {
        let Ok(list) = fs::read_to_string(thread.path().join("children")) else { continue };
        found.extend(list.split_ascii_whitespace().filter_map(|it| it.parse::<i32>().ok()));
    }
    found
}

/// What the kernel says of a process, while there is one.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(&stat)
}

/// The id of this process.
pub(super) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The name stands in brackets and may hold anything, brackets too.
fn parse(stat: &[u8]) -> Option<Stat> {
    let end = memchr::memrchr(b')', stat)?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let threads: u64 = fields.nth(16)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    // The first thread of a process can end before the others: it looks dead and is not.
    Some(Stat { gone: matches!(state, "Z" | "X" | "x") && threads <= 1, started })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_read_over() {
        let line = b"7 (a) Z 1) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 3 18 4711 20 21\n";
        assert_eq!(parse(line), Some(Stat { gone: false, started: 4711 }));
        let line = b"7 (sh) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 18 4711 20 21\n";
        assert_eq!(parse(line), Some(Stat { gone: true, started: 4711 }));
        let line = b"7 (java) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 9 18 4711 20 21\n";
        assert_eq!(parse(line), Some(Stat { gone: false, started: 4711 }));
        assert_eq!(parse(b"7 (sh"), None);
    }

    #[test]
    fn this_process_and_its_children_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(children(own_pid()).contains(&pid));
        assert!(!stat(pid).unwrap().gone);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stat(pid), None);
    }
}
