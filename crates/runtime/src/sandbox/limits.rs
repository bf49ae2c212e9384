//! How much of the machine may commands use, and what happens to what uses more?

use std::{fs, io};

use kit::procs::Limit;
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};
use serde::{Deserialize, Serialize};

/// What the processes of one sandbox may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How much memory each may ask for, and all together may use, in bytes.
    pub memory: u64,
    /// How long each file may become, in bytes.
    pub file: u64,
    /// How many files each may have open, until it asks for more.
    pub open_files: u64,
    /// How many there may be.
    pub processes: u64,
}

const GIB: u64 = 1 << 30;

/// The most open files that a process may ask for.
const MOST_OPEN_FILES: u64 = 4096;

impl Default for Limits {
    fn default() -> Self {
        let memory = (memory_of_machine() / 2).clamp(GIB / 4, 4 * GIB);
        Self { memory, file: 2 * GIB, open_files: 1024, processes: 4096 }
    }
}

/// The machine's memory in bytes.
pub(super) fn memory_of_machine() -> u64 {
    let about = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = about.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|it| it.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(4 * GIB, |kib| kib * 1024)
}

impl Limits {
    /// They, as each command is given them. What holds for haft already is not raised.
    pub fn of_each(&self) -> Vec<Limit> {
        let most = self.open_files.max(MOST_OPEN_FILES);
        let limits = [
            (Resource::Data, self.memory.max(4 * GIB), None),
            (Resource::Fsize, self.file, None),
            (Resource::Core, 0, None),
            (Resource::Nproc, self.processes, None),
            (Resource::Nofile, self.open_files, Some(most)),
        ];
        let limits = limits.map(|(resource, soft, hard)| {
            let held = getrlimit(resource).maximum.unwrap_or(u64::MAX);
            let hard = hard.unwrap_or(soft).min(held);
            Limit { resource: resource as u32, soft: soft.min(hard), hard }
        });
        limits.to_vec()
    }

    /// The limit of the processes of this PID namespace, which holds for root too: a limit of
    /// the user's does not. To be called inside, before `/proc` is made read-only.
    pub(super) fn set_processes_of_namespace(&self) -> io::Result<()> {
        // Before 6.14 there is one such file for the whole machine, and root may write it.
        if kernel() < (6, 14) {
            return Ok(());
        }
        fs::write("/proc/sys/kernel/pid_max", self.processes.to_string())
    }
}

fn kernel() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(|it| it.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// A process that was ended because all together used too much memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its id in the sandbox.
    pub process: i32,
    /// Its name.
    pub name: String,
    /// What it used, in bytes.
    pub used: u64,
}

/// Ends the largest process when all that can be seen in `/proc` use more than `limit` bytes together.
/// To be called by the first process of a PID namespace, again and again.
pub fn watch_memory(limit: u64) -> Option<Ended> {
    let own = std::process::id();
    let processes = || {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok())
            .filter(|it| i64::from(*it) != i64::from(own))
    };
    // What forked processes share is counted for each here; that is cheap, and never too little.
    if processes().filter_map(anonymous).sum::<u64>() <= limit {
        return None;
    }
    let used: Vec<(i32, u64)> =
        processes().filter_map(|it| Some((it, share(it).or_else(|| anonymous(it))?))).collect();
    if used.iter().map(|(_, used)| used).sum::<u64>() <= limit {
        return None;
    }
    let (process, used) = used.into_iter().max_by_key(|(_, used)| *used)?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_owned();
    kill_process(Pid::from_raw(process)?, Signal::KILL).ok()?;
    Some(Ended { process, name, used })
}

/// The memory of a process that belongs to no file.
fn anonymous(process: i32) -> Option<u64> {
    let pages = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let mut pages = pages.split(' ').skip(1).map(|it| it.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (pages.next()?, pages.next()?);
    Some(resident.saturating_sub(shared) * page_size())
}

#[expect(unsafe_code, reason = "a library has it only behind a feature")]
fn page_size() -> u64 {
    // SAFETY: the call takes a plain number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The same, with what it shares with others divided among them.
fn share(process: i32) -> Option<u64> {
    let about = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = about.lines().find_map(|line| line.strip_prefix("Pss_Anon:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
