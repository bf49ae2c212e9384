//! Process trees: finds and kills all descendants.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    fs,
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};

/// Maximum number of listings in one sweep for processes that are not stopped yet.
const LOOKS: usize = 100;
/// After this many listings, or from this many processes on, the whole namespace is stopped at once: a fork
/// bomb is faster than a listing.
const FEW_LOOKS: usize = 3;
const MANY: usize = 48;

/// A process as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// Whether it has ended and waits to be reaped.
    pub(super) gone: bool,
    /// Whether it is stopped by a signal.
    stopped: bool,
    parent: i32,
    /// Its start time, in ticks since boot.
    pub(super) started: u64,
}

/// The identity of a process: its id and its start time, which together are unique.
pub(super) type Identity = (i32, u64);

/// The processes that are not killed.
#[derive(Debug, Default)]
pub(super) struct Spared {
    /// Spared itself, but not what it started.
    pub(super) alone: Option<i32>,
    /// Spared, with all their descendants.
    pub(super) whole: BTreeSet<Identity>,
    /// Like `whole`, by id alone: children of this process, whose ids can't be reused before they are reaped.
    pub(super) children: HashSet<i32>,
}

/// Returns the processes below this one that have not ended, without those spared.
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

/// Returns whether there are many processes below this one. Reads no more than it takes to know.
fn has_many(spared: &Spared) -> bool {
    let mut found = 0;
    let mut queue = children(own_pid());
    while let Some(pid) = queue.pop() {
        if spared.children.contains(&pid) {
            continue;
        }
        found += 1;
        if found >= MANY {
            return true;
        }
        queue.extend(children(pid));
    }
    false
}

/// Stops everything below this process, so that nothing is started meanwhile, and kills it. Returns the
/// number of processes found; call it again until that is 0. `apart`: the PID namespace belongs to one
/// session alone.
pub(super) fn kill_all(spared: &Spared, ended: &mut HashSet<i32>, apart: bool) -> usize {
    let mut stopped = HashSet::new();
    // A fork bomb leaves this process hardly any CPU time: each listing takes seconds until everything is stopped.
    if apart && pids().nth(MANY).is_some() && has_many(spared) {
        let killed = kill_frozen(own_pid(), spared);
        ended.extend(&killed);
        return killed.len();
    }
    for look in 0..LOOKS {
        if apart && (look >= FEW_LOOKS || stopped.len() >= MANY) {
            let killed = kill_frozen(own_pid(), spared);
            ended.extend(&killed);
            return killed.len();
        }
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

/// Kills everything below `root` while no process of this PID namespace runs, so that no fork escapes.
/// Returns the killed processes. Call it only in a namespace that belongs to one session.
pub(super) fn kill_frozen(root: i32, spared: &Spared) -> HashSet<i32> {
    // With many processes the listing would take too long: then processes that a person had stopped are
    // continued as well.
    let stopped: HashSet<i32> = if pids().nth(MANY).is_some() {
        HashSet::new()
    } else {
        everybody().filter(|(_, it)| it.stopped).map(|(pid, _)| pid).collect()
    };
    // The kernel sends it to all but the first process and this one. A fork that is under way finishes before
    // it or inherits it.
    send_to_all(Signal::STOP);
    let all: Vec<(i32, Stat)> = everybody().collect();
    let killed: HashSet<i32> = descendants(root, &all, spared);
    for pid in &killed {
        send(*pid, Signal::KILL);
    }
    // Newest first: a shell that goes on before its child would take the child for stopped.
    for (pid, _) in all.iter().rev().filter(|(pid, _)| !killed.contains(pid) && !stopped.contains(pid)) {
        send(*pid, Signal::CONT);
    }
    killed
}

/// Returns the processes below `root` that have not ended, without those spared.
fn descendants(root: i32, all: &[(i32, Stat)], spared: &Spared) -> HashSet<i32> {
    let mut children: HashMap<i32, Vec<&(i32, Stat)>> = HashMap::new();
    for process in all {
        children.entry(process.1.parent).or_default().push(process);
    }
    let (mut found, mut queue) = (HashSet::new(), vec![root]);
    while let Some(parent) = queue.pop() {
        for (pid, stat) in children.remove(&parent).into_iter().flatten() {
            let is_spared = spared.children.contains(pid) || spared.whole.contains(&(*pid, stat.started));
            if is_spared && spared.alone != Some(*pid) {
                continue;
            }
            if !stat.gone && spared.alone != Some(*pid) {
                found.insert(*pid);
            }
            queue.push(*pid);
        }
    }
    found
}

/// Returns all processes in `/proc`, by their ids.
fn everybody() -> impl Iterator<Item = (i32, Stat)> {
    pids().filter_map(|pid| Some((pid, stat(pid)?)))
}

/// Returns the ids of all processes in `/proc`.
fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok())
}

/// Sends a signal to all processes of the namespace but its first and this one.
#[expect(unsafe_code, reason = "rustix sends to one process or to one group")]
fn send_to_all(signal: Signal) {
    // SAFETY: it takes two numbers.
    unsafe { libc::kill(-1, signal.as_raw()) };
}

/// Sends a signal to one process, if it still exists.
pub(super) fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Reaps a child that has ended. `Err`: there are no children at all.
pub(super) fn reap() -> Result<Option<(i32, WaitStatus)>, NoChildren> {
    match rustix::io::retry_on_intr(|| wait(WaitOptions::NOHANG)) {
        Ok(ended) => Ok(ended.map(|(pid, status)| (pid.as_raw_nonzero().get(), status))),
        Err(_) => Err(NoChildren),
    }
}

/// Returns a child that has ended or was stopped.
pub(super) fn ended_or_stopped() -> Option<(i32, WaitStatus)> {
    let noticed = rustix::io::retry_on_intr(|| wait(WaitOptions::NOHANG | WaitOptions::UNTRACED));
    noticed.ok().flatten().map(|(pid, status)| (pid.as_raw_nonzero().get(), status))
}

/// The process has no children. If it is a subreaper, it then has no descendants either.
#[derive(Debug)]
pub(super) struct NoChildren;

/// Returns the ids of the children of a process.
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

/// Reads the kernel's entry of a process; `None` if it does not exist.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(&stat)
}

/// Returns whether a process is suspended: by Ctrl-Z, or a signal.
pub fn is_suspended(pid: u32) -> bool {
    i32::try_from(pid).ok().and_then(stat).is_some_and(|it| it.stopped)
}

/// Returns the id of this process.
pub(super) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Parses `/proc/PID/stat`. The name is in parentheses and may hold anything, parentheses too.
fn parse(stat: &[u8]) -> Option<Stat> {
    let end = memchr::memrchr(b')', stat)?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let threads: u64 = fields.nth(15)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    // The first thread of a process can end before the others: the process then looks dead but is not.
    let gone = matches!(state, "Z" | "X" | "x") && threads <= 1;
    Some(Stat { gone, stopped: state == "T", parent, started })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_process_name_with_brackets_and_spaces_is_skipped() {
        let line = b"7 (a) Z 1) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 3 18 4711 20 21\n";
        assert_eq!(parse(line), Some(Stat { gone: false, stopped: false, parent: 1, started: 4711 }));
        let line = b"7 (sh) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 18 4711 20 21\n";
        assert_eq!(parse(line), Some(Stat { gone: true, stopped: false, parent: 1, started: 4711 }));
        let line = b"7 (java) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 9 18 4711 20 21\n";
        assert_eq!(parse(line), Some(Stat { gone: false, stopped: false, parent: 1, started: 4711 }));
        assert_eq!(parse(b"7 (sh"), None);
    }

    #[test]
    fn descendants_are_found_by_their_parents_and_spared_ones_are_left_out() {
        let process = |pid, parent, gone| (pid, Stat { gone, stopped: false, parent, started: 7 });
        let all = [
            process(2, 1, false),
            process(3, 2, false),
            process(4, 3, true),
            process(5, 4, false),
            process(6, 2, false),
            process(7, 6, false),
            process(8, 1, false),
        ];
        let sorted = |root, spared: &Spared| {
            let mut found: Vec<i32> = descendants(root, &all, spared).into_iter().collect();
            found.sort_unstable();
            found
        };
        assert_eq!(sorted(2, &Spared::default()), [3, 5, 6, 7]);
        let spared = Spared { alone: Some(6), whole: BTreeSet::from([(3, 7)]), ..Spared::default() };
        assert_eq!(sorted(2, &spared), [7]);
        assert_eq!(sorted(1, &Spared { children: HashSet::from([2]), ..Spared::default() }), [8]);
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
