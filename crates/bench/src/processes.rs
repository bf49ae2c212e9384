//! Processes by their ids: the tree below one, its memory, its processor time.

use std::{collections::HashMap, fs};

use crate::batch::Outcome;

/// Returns the ids of a process and of all processes below it; its own is the first.
#[must_use]
pub fn tree(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else { continue };
        if let Some(parent) = field(pid, 1) {
            children.entry(u32::try_from(parent).unwrap_or(0)).or_default().push(pid);
        }
    }
    let (mut found, mut open) = (Vec::new(), vec![root]);
    while let Some(pid) = open.pop() {
        found.push(pid);
        open.extend(children.remove(&pid).into_iter().flatten());
    }
    found
}

/// Returns a field of `/proc/PID/stat`, counted from the state, which is 0.
fn field(pid: u32, number: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(number)?.parse().ok()
}

/// Returns the processor time of these processes, in seconds.
#[must_use]
pub fn cpu(pids: &[u32]) -> f64 {
    let ticks: u64 = pids.iter().filter_map(|pid| Some(field(*pid, 11)? + field(*pid, 12)?)).sum();
    // Linux has 100 of them in a second on every machine that haft runs on.
    ticks as f64 / 100.0
}

/// Returns the memory (PSS) of these processes in KB: of what they share, each has its part.
#[must_use]
pub fn memory(pids: &[u32]) -> u64 {
    let of_one = |pid: &u32| {
        let about = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        kilobytes(&about, "Pss:")
    };
    pids.iter().filter_map(of_one).sum()
}

/// Returns the resident memory of a process in bytes.
///
/// # Errors
/// When the process is gone.
pub fn resident(pid: u32) -> Outcome<u64> {
    let about = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(kilobytes(&about, "VmRSS:").ok_or("no VmRSS")? * 1024)
}

fn kilobytes(about: &str, name: &str) -> Option<u64> {
    let line = about.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
