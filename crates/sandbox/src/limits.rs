//! Limits of commands: memory, files, processes. `usage.rs` kills processes that exceed them.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    sync::LazyLock,
};

use kit::{deliberate_faults::is_broken, procs::Limit};
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

/// The resource limits of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of all processes together, in bytes; each may reserve twice as much.
    pub memory: u64,
    /// Size of each file, in bytes.
    pub file: u64,
    /// Open files of each process, until it raises the limit.
    pub open_files: u64,
    /// Processes and threads in the sandbox.
    pub processes: u64,
    /// Processes of one command, with all that it starts.
    pub tree: u64,
    /// Background jobs of one session at once.
    pub jobs: u64,
}

const GIB: u64 = 1 << 30;

/// Threads that a tree may have per permitted process: runtimes start one per processor.
const THREADS: u64 = 8;

/// Processes and threads that a sandbox may have besides one process and its supervisor for each job.
const WITHOUT_JOBS: u64 = 4096;

/// The limit of open files up to which a process may raise its own.
const MOST_OPEN_FILES: u64 = 4096;

impl Default for Limits {
    fn default() -> Self {
        let memory = (memory_of_machine() / 2).clamp(GIB / 4, 2 * GIB);
        let jobs = 10_000;
        Self {
            memory,
            file: 2 * GIB,
            open_files: 1024,
            processes: Self::processes_for(jobs),
            tree: 256,
            jobs,
        }
    }
}

/// Returns the machine's memory in bytes, as it was when first asked for.
pub(super) fn memory_of_machine() -> u64 {
    static MEMORY: LazyLock<u64> = LazyLock::new(|| {
        // It is the first line. A whole file of unknown size is read in many parts, and this is done at the start.
        let mut first = [0; 256];
        let length = File::open("/proc/meminfo").and_then(|mut it| it.read(&mut first)).unwrap_or(0);
        let about = String::from_utf8_lossy(first.get(..length).unwrap_or_default());
        let total = about.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = total.and_then(|it| it.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.map_or(4 * GIB, |kib| kib * 1024)
    });
    *MEMORY
}

impl Limits {
    /// Returns the processes and threads of a sandbox with so many jobs: each has a supervisor and at least one
    /// process.
    pub fn processes_for(jobs: u64) -> u64 {
        WITHOUT_JOBS + 2 * jobs
    }

    /// Returns whether a command has too many processes or threads.
    pub(super) fn exceeded_by(&self, (processes, threads): (u64, u64)) -> bool {
        processes > self.tree || threads > self.tree.saturating_mul(THREADS)
    }

    /// Returns the limits that each command gets. A lower limit of haft itself is not raised.
    pub fn of_each(&self) -> Vec<Limit> {
        let most = self.open_files.max(MOST_OPEN_FILES);
        let limits = [
            (Resource::Data, self.memory.saturating_mul(2).max(4 * GIB), None),
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

    /// Sets the process limit of this PID namespace, which also applies to root, unlike a limit per user.
    /// Call it inside, before `/proc` is made read-only.
    pub(super) fn set_processes_of_namespace(&self) -> io::Result<()> {
        // Before 6.14 there is one such file for the whole machine, and root may write it.
        if kernel() < (6, 14) {
            return Ok(());
        }
        fs::write("/proc/sys/kernel/pid_max", self.processes.to_string())
    }
}

/// The parts of the user's own inotify limits that a sandbox may use up: the kernel counts them per user,
/// inside and outside together.
const WATCHING: [(&str, &str, u64); 2] =
    [("max_inotify_instances", "max_user_instances", 4), ("max_inotify_watches", "max_user_watches", 2)];
/// Namespaces that a sandbox may not create.
const NONE: [&str; 10] = [
    "max_cgroup_namespaces",
    "max_fanotify_groups",
    "max_fanotify_marks",
    "max_ipc_namespaces",
    "max_mnt_namespaces",
    "max_net_namespaces",
    "max_pid_namespaces",
    "max_time_namespaces",
    "max_user_namespaces",
    "max_uts_namespaces",
];

/// Reserves most of the resources that the kernel counts per user for processes outside: commands have the
/// same user. Call it inside, before `/proc` is made read-only.
pub(super) fn keep_counts_of_user() -> io::Result<()> {
    if is_broken("inotify-limit") {
        return Ok(());
    }
    for (name, of_machine, part) in WATCHING {
        let machine = fs::read_to_string(format!("/proc/sys/fs/inotify/{of_machine}"));
        let machine: u64 = machine.ok().and_then(|it| it.trim().parse().ok()).unwrap_or(128);
        fs::write(format!("/proc/sys/user/{name}"), (machine / part).clamp(16, 1 << 20).to_string())?;
    }
    for name in NONE {
        match fs::write(format!("/proc/sys/user/{name}"), "0") {
            // An older kernel, or one without that feature.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            written => written?,
        }
    }
    Ok(())
}

fn kernel() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(|it| it.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// A process or command that was killed because it used too much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// A process, because all processes together used too much memory.
    Memory {
        /// Its name.
        name: String,
        /// Its memory, in bytes.
        used: u64,
    },
    /// A command with everything it started, because it had too many processes.
    Processes {
        /// Number of processes.
        processes: u64,
        /// Number of threads.
        threads: u64,
    },
}
