//! The processes of one haft: which there are, and the memory of all of them.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// This process and everything below it.
pub(super) fn tree(root: u32) -> Vec<u32> {
    let mut all = vec![root];
    let mut next = 0;
    while let Some(pid) = all.get(next).copied() {
        next += 1;
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|it| it.parse::<u32>().ok()));
        }
    }
    all
}

/// Returns the decoders among them.
pub(super) fn decoders(root: u32) -> Vec<u32> {
    let is_decoder = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|it| *it == 0).nth(1) == Some(b"decoder".as_slice())
    };
    tree(root).into_iter().filter(is_decoder).collect()
}

/// Returns a line of a process's `status`.
pub(super) fn status(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(status.lines().find_map(|it| it.strip_prefix(name))?.trim().to_owned())
}

/// Watches how much memory a tree of processes has at its peak, in MiB. What is a file's is not counted: processes share
/// it.
pub(super) struct Watch {
    peak: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn over(root: u32) -> Self {
        let (peak, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (to, until) = (peak.clone(), over.clone());
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                to.fetch_max(used(root), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        });
        Self { peak, over, thread: Some(thread) }
    }

    pub(super) fn peak(mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.peak.load(Ordering::Relaxed) >> 10
    }
}

/// Returns the memory of a process and its descendants, in KiB.
fn used(root: u32) -> u64 {
    let kib = |pid: u32, name: &str| {
        status(pid, name).and_then(|it| it.strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0)
    };
    tree(root).into_iter().map(|pid| kib(pid, "RssAnon:") + kib(pid, "RssShmem:")).sum()
}
