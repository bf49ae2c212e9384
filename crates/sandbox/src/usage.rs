//! Resource watch: kills a command whose tree has too many processes, and the largest process when all
//! together use too much memory.
//!
//! The first process of the sandbox checks from time to time. Nearly every check is two reads, however many
//! processes there are: the newest process id shows what was started, which is then read alone, and the memory
//! that the machine has available shows whether anything can have grown. Only if it has fallen by a part of what
//! is left to the limit does haft scan all processes; so ten thousand idle jobs cost nothing. A process that used
//! no CPU time since the last scan is taken as unchanged. The exact share of memory is read only if an upper bound
//! comes near the limit. Memory in shared mappings, in `memfd` files and in System V segments counts.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::MetadataExt as _,
    time::{Duration, Instant},
};

use kit::{deliberate_faults::is_broken, procs::Looked};
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    process::{Pid, Signal, kill_process},
};

use super::limits::{Ended, Limits};

/// Interval of checks while a process works.
const SOON: Duration = Duration::from_millis(50);
/// Interval of checks while none does.
const LATER: Duration = Duration::from_millis(250);
/// Shortest interval of full scans while memory shrinks.
const BUSY: Duration = Duration::from_millis(250);
/// The same while it does not, and the interval per process: others may free the memory that a command takes. A scan
/// takes about a thousandth of that.
const IDLE: Duration = Duration::from_millis(500);
const PER_PROCESS: Duration = Duration::from_millis(20);
/// Full scans take at most one part in so many of the time.
const SHARE: u32 = 10;
/// Number of new processes after which a full scan is due at once.
const STARTED: u64 = 48;
/// Part of what is left to the limit of memory by which the machine's memory may fall before a full scan; and its
/// bounds.
const PART: u64 = 8;
const GROWTH: std::ops::RangeInclusive<u64> = (4 << 20)..=(64 << 20);

/// The state of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Process {
    parent: i32,
    threads: u64,
    /// CPU time, in ticks.
    cpu: u64,
    /// Its start time, in ticks.
    started: u64,
    /// Its resident pages.
    resident: u64,
}

/// Facts about a process, valid while it uses no CPU time.
#[derive(Debug, Default)]
struct Known {
    process: Process,
    /// Its open `memfd` files: their inodes, and the bytes in them.
    files: Vec<(u64, u64)>,
    /// Its exact share of memory, once it was read.
    exact: Option<u64>,
}

/// Processes, sorted by their ids.
#[derive(Debug, Default)]
struct Processes(Vec<(i32, Known)>);

impl Processes {
    fn get(&self, pid: i32) -> Option<&Known> {
        let at = self.0.binary_search_by_key(&pid, |it| it.0).ok()?;
        self.0.get(at).map(|it| &it.1)
    }

    /// Returns the entry that was there before.
    fn insert(&mut self, pid: i32, known: Known) -> Option<Known> {
        match self.0.binary_search_by_key(&pid, |it| it.0) {
            Ok(at) => self.0.get_mut(at).map(|it| std::mem::replace(&mut it.1, known)),
            Err(at) => {
                self.0.insert(at, (pid, known));
                None
            }
        }
    }

    fn values(&self) -> impl Iterator<Item = &Known> {
        self.0.iter().map(|it| &it.1)
    }

    /// Takes in the processes that there are now, and writes to the entries of those that changed. Returns whether any
    /// did.
    fn become_those(&mut self, now: impl Iterator<Item = (i32, Process)>) -> bool {
        let (mut is_busy, mut all, mut at) = (false, HashSet::new(), 0);
        for (pid, process) in now {
            all.insert(pid);
            // The kernel lists them by their ids, so that nearly always the next one is meant.
            while self.0.get(at).is_some_and(|it| it.0 < pid) {
                at += 1;
            }
            match self.0.get(at) {
                Some((known, it)) if *known == pid && it.process == process => continue,
                _ => is_busy = true,
            }
            self.insert(pid, Known { process, files: memory_files(pid), exact: None });
        }
        if all.len() != self.0.len() {
            is_busy = true;
            self.0.retain(|it| all.contains(&it.0));
        }
        is_busy
    }
}

/// The resource watch of one sandbox.
pub(super) struct Usage {
    limits: Limits,
    known: Processes,
    /// The processes and threads below each supervisor; too many, if some have ended since the last full scan.
    counts: HashMap<i32, (u64, u64)>,
    /// The newest process id at the last check.
    newest: u64,
    last: Option<Scan>,
    is_busy: bool,
    has_swap: bool,
    page: u64,
}

/// The last full scan.
#[derive(Debug, Clone, Copy)]
struct Scan {
    at: Instant,
    took: Duration,
    /// The most memory that the machine has had available since, in bytes.
    available: u64,
    /// The growth of memory after which the next scan is due, in bytes.
    growth: u64,
}

impl Usage {
    /// Creates a watch with these limits.
    pub(super) fn new(limits: Limits) -> Self {
        let about = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let swap = about.lines().find_map(|line| line.strip_prefix("SwapTotal:"));
        let has_swap = swap.is_none_or(|it| !it.trim().starts_with("0 "));
        Self {
            limits,
            known: Processes::default(),
            counts: HashMap::new(),
            newest: 0,
            last: None,
            is_busy: true,
            has_swap,
            page: page_size(),
        }
    }

    /// Checks the trees below these supervisors, and kills the largest process if all use too much memory. To
    /// be called by the first process of a PID namespace.
    pub(super) fn look(
        &mut self,
        is_supervisor: &dyn Fn(i32) -> bool,
        mut say: impl FnMut(&Ended),
    ) -> Looked {
        let (newest, available) = (newest_process(), available_memory());
        let before = std::mem::replace(&mut self.newest, newest);
        // The numbers begin again after the highest.
        let started = newest.checked_sub(before).unwrap_or(STARTED);
        if let Some(last) = &mut self.last {
            last.available = last.available.max(available);
        }
        let has_grown = self.last.is_none_or(|it| it.available.saturating_sub(available) >= it.growth);
        let processes = u32::try_from(self.known.0.len()).unwrap_or(u32::MAX);
        let is_due = self.last.is_none_or(|it| {
            let since = it.at.elapsed();
            since >= BUSY.max(it.took * SHARE)
                && (has_grown || since >= IDLE.max(PER_PROCESS.saturating_mul(processes)))
        });
        self.is_busy = started > 0 || has_grown;
        let is_crowd = started >= STARTED;
        if !is_due && !is_crowd && !self.take_in_new(before, newest, is_supervisor) {
            return Looked { next: if self.is_busy { SOON } else { LATER }, end: Vec::new() };
        }
        // Who is ended is decided on what there is now.
        let began = Instant::now();
        self.is_busy |= self.take_in(is_supervisor);
        self.count(is_supervisor);
        let end = self.crowded(&mut say);
        let (ended, left) = self.end_the_largest(&end);
        if let Some(ended) = ended {
            say(&ended);
        }
        let growth = (left / PART).clamp(*GROWTH.start(), *GROWTH.end());
        self.last = Some(Scan { at: Instant::now(), took: began.elapsed(), available, growth });
        Looked { next: if self.is_busy { SOON } else { LATER }, end }
    }

    /// Reads the processes that were started since `before` was the newest one. Returns whether a command may
    /// have too many by now.
    fn take_in_new(&mut self, before: u64, newest: u64, is_supervisor: &dyn Fn(i32) -> bool) -> bool {
        let mut may_be_crowded = false;
        for number in before.saturating_add(1)..=newest {
            // A new thread has a number of its own: its process has one more.
            let Some(pid) = i32::try_from(number).ok().and_then(process_of) else { continue };
            if is_supervisor(pid) {
                continue;
            }
            let Some(process) = process(pid) else { continue };
            let threads = process.threads;
            let was = self.known.insert(pid, Known { process, files: memory_files(pid), exact: None });
            let Some(supervisor) = self.supervisor_of(pid, is_supervisor) else { continue };
            let count = self.counts.entry(supervisor).or_default();
            count.0 += u64::from(was.is_none());
            count.1 += threads - was.map_or(0, |it| it.process.threads).min(threads);
            may_be_crowded |= self.limits.exceeded_by(*count);
        }
        may_be_crowded
    }

    /// Scans all processes but the supervisors: those are haft's own, and their memory can't be read exactly, so
    /// that they would be taken for large. Returns whether one of them used CPU time, started or ended.
    fn take_in(&mut self, is_supervisor: &dyn Fn(i32) -> bool) -> bool {
        let own = i32::try_from(std::process::id()).unwrap_or(1);
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
        let now =
            pids.filter(|it| *it != own && !is_supervisor(*it)).filter_map(|it| Some((it, process(it)?)));
        self.known.become_those(now)
    }

    /// Counts the processes below each supervisor.
    fn count(&mut self, is_supervisor: &dyn Fn(i32) -> bool) {
        self.counts.clear();
        for (pid, known) in &self.known.0 {
            if let Some(supervisor) = self.supervisor_of(*pid, is_supervisor) {
                let (processes, threads) = self.counts.entry(supervisor).or_default();
                *processes += 1;
                *threads += known.process.threads;
            }
        }
    }

    /// Returns the supervisors below which there are too many processes or threads.
    fn crowded(&self, say: &mut impl FnMut(&Ended)) -> Vec<i32> {
        if is_broken("process-limit") {
            return Vec::new();
        }
        let mut end = Vec::new();
        for (supervisor, count) in &self.counts {
            if self.limits.exceeded_by(*count) {
                say(&Ended::Processes { processes: count.0, threads: count.1 });
                end.push(*supervisor);
            }
        }
        end
    }

    /// Returns the supervisor of a process.
    fn supervisor_of(&self, pid: i32, is_supervisor: &dyn Fn(i32) -> bool) -> Option<i32> {
        let mut at = self.known.get(pid)?.process.parent;
        // A process that ended meanwhile may leave a gap, but no cycle.
        for _ in 0..self.known.0.len() {
            if is_supervisor(at) {
                return Some(at);
            }
            at = self.known.get(at)?.process.parent;
        }
        None
    }

    /// Kills the largest process if all use more memory than permitted. Processes that are being killed
    /// anyway are skipped. Returns the killed one, and the bytes that are left to the limit.
    fn end_the_largest(&mut self, ending: &[i32]) -> (Option<Ended>, u64) {
        let limit = if is_broken("memory-limit") { u64::MAX } else { self.limits.memory };
        // Mapped files and shared memory count several times here: the sum is an upper bound, except for
        // swapped memory.
        let files: u64 = self.files().values().sum();
        let segments = segments();
        let resident: u64 = self.known.values().map(|it| it.process.resident * self.page).sum();
        let at_most = resident + files + segments;
        if at_most <= limit / 2 || (at_most <= limit && !self.has_swap) || !ending.is_empty() {
            return (None, limit.saturating_sub(at_most));
        }
        let page = self.page;
        for (pid, known) in &mut self.known.0 {
            known.exact.get_or_insert_with(|| share(*pid).unwrap_or(known.process.resident * page));
        }
        let exact: u64 = self.known.values().filter_map(|it| it.exact).sum();
        if exact + files + segments <= limit {
            return (None, limit - exact - files - segments);
        }
        // A mapped `memfd` was counted twice.
        let mapped: u64 =
            if files == 0 { 0 } else { self.known.0.iter().map(|(pid, it)| mapped(*pid, it)).sum() };
        let used = exact + files + segments - mapped.min(files);
        if used <= limit {
            return (None, limit - used);
        }
        // Killing processes does not free a segment that none has mapped.
        if segments > 0 {
            remove_segments();
            return (None, 0);
        }
        let uses = |known: &Known| known.exact.unwrap_or(0) + known.files.iter().map(|it| it.1).sum::<u64>();
        let Some((process, known)) = self.known.0.iter().max_by_key(|(_, known)| uses(known)) else {
            return (None, 0);
        };
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_owned();
        let killed = Pid::from_raw(*process).is_some_and(|it| kill_process(it, Signal::KILL).is_ok());
        (killed.then(|| Ended::Memory { name, used: uses(known) }), 0)
    }

    /// Returns the bytes in each `memfd` file, whichever process has it open.
    fn files(&self) -> HashMap<u64, u64> {
        self.known.values().flat_map(|it| it.files.iter().copied()).collect()
    }
}

#[expect(unsafe_code, reason = "a library has it only behind a feature")]
fn page_size() -> u64 {
    // SAFETY: the call takes a plain number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Returns the id of the newest process of this namespace.
fn newest_process() -> u64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_ascii_whitespace().next_back().and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// Returns the memory that the machine has available, in bytes; 0 if it can't be read.
fn available_memory() -> u64 {
    let about = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    kib(&about, "MemAvailable:").unwrap_or(0)
}

/// Returns the process that a number in `/proc` belongs to: a thread has one, too.
fn process_of(number: i32) -> Option<i32> {
    let about = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
    about.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

fn process(pid: i32) -> Option<Process> {
    // One of these lines has at most about 400 bytes. Three system calls, as a scan reads thousands.
    let mut stat = [0; 1024];
    let file =
        openat(CWD, format!("/proc/{pid}/stat"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let read = rustix::io::read(&file, &mut stat).ok()?;
    parse(stat.get(..read)?)
}

/// Parses `/proc/PID/stat`. The name is in parentheses and may hold anything, parentheses too.
fn parse(stat: &[u8]) -> Option<Process> {
    let end = memchr::memrchr(b')', stat)?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    // The first field here is the third in proc(5).
    let mut fields = rest.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let mut skip = |number: usize| fields.nth(number)?.ok();
    let parent = i32::try_from(skip(0)?).ok()?;
    let cpu = skip(9)? + skip(0)?;
    let (threads, started, resident) = (skip(4)?, skip(1)?, skip(1)?);
    Some(Process { parent, cpu, threads, started, resident })
}

/// Returns the `memfd` files that a process has open: their inodes, and the bytes in them; none if access is refused.
fn memory_files(pid: i32) -> Vec<(u64, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut found = HashSet::new();
    for entry in entries {
        let path = entry.path();
        let is_one =
            fs::read_link(&path).is_ok_and(|it| it.as_os_str().as_encoded_bytes().starts_with(b"/memfd:"));
        if is_one && let Ok(about) = fs::metadata(&path) {
            found.insert((about.ino(), about.blocks() * 512));
        }
    }
    found.into_iter().collect()
}

/// Returns the bytes in System V segments that no process has mapped.
fn segments() -> u64 {
    unmapped_segments(&fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default()).map(|it| it.1).sum()
}

/// Returns the segments of this table that no process has mapped: their ids, and the bytes in them.
fn unmapped_segments(table: &str) -> impl Iterator<Item = (i32, u64)> {
    table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let id = i32::try_from(field(1)?).ok()?;
        (field(6)? == 0).then_some((id, field(14)? + field(15)?))
    })
}

/// Removes the segments of this namespace that no process has mapped: they outlive their creator.
#[expect(unsafe_code, reason = "rustix has no call for it")]
fn remove_segments() {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    for (id, _) in unmapped_segments(&table) {
        // SAFETY: to remove a segment takes no pointer.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// Returns the memory of a process that belongs to no file on a disk; shared memory is divided among its users.
fn share(pid: i32) -> Option<u64> {
    let about = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(["Pss_Anon:", "Pss_Shmem:", "SwapPss:"].iter().filter_map(|name| kib(&about, name)).sum())
}

/// Returns how much of a process's `memfd` files is included in its share.
fn mapped(pid: i32, known: &Known) -> u64 {
    if known.files.is_empty() {
        return 0;
    }
    let about = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let (mut is_one, mut sum) = (false, 0);
    for line in about.lines() {
        match line.split_once(' ') {
            Some(("Pss:", rest)) if is_one => sum += number(rest),
            // The line that begins a mapping: its addresses.
            Some((first, rest)) if first.contains('-') && !first.ends_with(':') => {
                is_one = rest.contains(" /memfd:");
            }
            _ => {}
        }
    }
    sum
}

fn kib(about: &str, name: &str) -> Option<u64> {
    Some(number(about.lines().find_map(|line| line.strip_prefix(name))?))
}

/// Parses a number followed by `kB`; returns bytes.
fn number(text: &str) -> u64 {
    text.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn process_is_read_past_its_name() {
        let line = b"7 (a) Z 1) S 4 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 3 18 4711 20 22 23\n";
        let expected = Process { parent: 4, threads: 3, cpu: 11 + 12, started: 4711, resident: 22 };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse(b"7 (sh"), None);
    }

    #[test]
    fn thread_belongs_to_its_process_and_new_ones_are_counted() {
        let own = i32::try_from(std::process::id()).unwrap();
        let thread = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get());
        let number = thread.join().unwrap();
        assert_eq!(process_of(own), Some(own));
        assert!(process_of(number).is_none_or(|it| it == own));
        let mut usage = Usage::new(Limits { tree: 1, ..Limits::default() });
        let children = [(); 2].map(|()| std::process::Command::new("sleep").arg("9").spawn().unwrap());
        let [first, second] = children.each_ref().map(|it| u64::from(it.id()));
        let crowded = |usage: &mut Usage, pid: u64| usage.take_in_new(pid - 1, pid, &|it| it == own);
        assert!(!crowded(&mut usage, first) && !crowded(&mut usage, first), "one process, seen twice");
        assert!(crowded(&mut usage, second));
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn this_process_is_seen_with_its_memory_files() {
        let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, &[1; 100_000]).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(process(own).unwrap().resident > 0);
        assert!(share(own).unwrap() > 0);
        assert!(memory_files(own).iter().any(|(_, bytes)| *bytes >= 100_000));
        assert_eq!(memory_files(-1), []);
    }

    #[test]
    fn only_segments_that_nothing_has_mapped_are_counted() {
        let table = "       key      shmid perms       size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime        rss       swap\n\
                     0          3  1600     409600     7     7      0     0     0     0     0          0          0 1700000000     409600       4096\n\
                     0          4  1600     409600     7     7      1     0     0     0     0          0          0 1700000000     409600          0\n";
        assert_eq!(unmapped_segments(table).collect::<Vec<_>>(), [(3, 413_696)]);
    }

    #[test]
    fn only_the_crowded_tree_is_ended() {
        let limits = Limits { tree: 10, ..Limits::default() };
        let mut usage = Usage::new(limits);
        let mut put = |pid, parent, threads| {
            let process = Process { parent, threads, ..Process::default() };
            usage.known.insert(pid, Known { process, ..Known::default() });
        };
        for supervisor in [10, 20, 30] {
            put(supervisor, 1, 1);
        }
        // A chain, a wide tree that is just small enough, and one process with many threads.
        (100..111).for_each(|pid| put(pid, if pid == 100 { 10 } else { pid - 1 }, 1));
        (200..210).for_each(|pid| put(pid, 20, 1));
        put(300, 30, 81);
        let mut said = Vec::new();
        usage.count(&|pid| [10, 20, 30].contains(&pid));
        let mut end = usage.crowded(&mut |it| said.push(it.clone()));
        end.sort_unstable();
        assert_eq!(end, [10, 30]);
        assert_eq!(said.len(), 2);
        assert!(said.contains(&Ended::Processes { processes: 11, threads: 11 }));
    }
}
