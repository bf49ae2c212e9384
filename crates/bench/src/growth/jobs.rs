//! Background jobs: their start, their memory beside the bare command, their processor time while nothing happens.

use std::{
    fs,
    io::Write,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Column, Outcome, median, millis, place::Place, print};
use crate::{
    client::Client,
    processes::{cpu, memory},
};

/// Time in which nothing happens.
const IDLE: Duration = Duration::from_secs(10);
/// Starts of which the median is taken, the last ones.
const LAST: usize = 100;
/// Calls above the limit, of which the median is taken.
const REFUSALS: usize = 15;
/// Processes that are started without haft, for comparison.
const BARE: usize = 50;

/// Prints a table of sessions with so many jobs each. With `limit`, the last of them is one below it.
///
/// # Errors
/// When a job does not start, or more than the limit do.
pub fn table(out: &mut impl Write, numbers: &[usize]) -> Outcome<()> {
    let mut start = Column::new("start of a job, the last hundred, p50, ms");
    let mut space = Column::new("memory of a job above the bare command, KB");
    let mut idle = Column::new("processor time while idle, % of a core");
    let mut refused = Column::new("refusal at the limit, ms");
    for number in numbers {
        let base = tempfile::tempdir()?;
        let place = Place::new(base.path())?;
        fs::write(place.base.join("config/haft.toml"), format!("[limits]\njobs = {number}\n"))?;
        let mut server = place.server()?;
        server.call("shell", &json!({"command": "true"}))?;
        let before = memory(&server.tree());
        let arguments = json!({"command": "exec sleep 100000", "run_in_background": true});
        let mut times = Vec::with_capacity(*number);
        for at in 0..*number {
            let began = Instant::now();
            let (text, is_good) = server.call("shell", &arguments)?;
            if !is_good {
                return Err(format!("job {} of {number}: {text}", at + 1).into());
            }
            times.push(millis(began.elapsed()));
        }
        until_all_run(&server, *number)?;
        let last = times.split_off(times.len().saturating_sub(LAST));
        start.put(*number, median(last));
        let mut times = Vec::with_capacity(REFUSALS);
        for _ in 0..REFUSALS {
            let began = Instant::now();
            let (text, is_good) = server.call("shell", &arguments)?;
            times.push(millis(began.elapsed()));
            if is_good {
                return Err(format!("a job above the limit was started: {text}").into());
            }
        }
        refused.put(*number, median(times));
        let tree = server.tree();
        // Measured while the jobs run: what both kinds share is shared by all of them.
        let bare = Bare::start()?;
        let of_jobs = memory(&tree).saturating_sub(before) as f64 / *number as f64;
        space.put(*number, of_jobs - bare.each());
        drop(bare);
        sleep(Duration::from_secs(2));
        let spent = cpu(&tree);
        sleep(IDLE);
        idle.put(*number, (cpu(&tree) - spent) / IDLE.as_secs_f64() * 100.0);
        let (text, _) = server.call("jobs", &json!({}))?;
        let running = text.lines().filter(|it| it.contains("running")).count();
        writeln!(out, "{number} jobs: {running} of them are listed as running")?;
    }
    print(out, &[start, space, idle, refused])
}

/// Waits until the command of each job runs: a job is accepted before that.
fn until_all_run(server: &Client, number: usize) -> Outcome<()> {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let is_one =
            |pid: &&u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it.trim() == "sleep");
        let running = server.tree().iter().filter(is_one).count();
        if running >= number {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("{running} of {number} jobs run").into());
        }
        sleep(Duration::from_millis(100));
    }
}

/// The same command, started without haft.
struct Bare(Vec<Child>);

impl Bare {
    fn start() -> Outcome<Self> {
        let mut all = Self(Vec::new());
        for _ in 0..BARE {
            let mut command = Command::new("sleep");
            command.arg("100000").stdin(Stdio::null()).stdout(Stdio::null());
            all.0.push(command.spawn()?);
        }
        sleep(Duration::from_millis(200));
        Ok(all)
    }

    /// Returns the memory of each, in KB.
    fn each(&self) -> f64 {
        let pids: Vec<u32> = self.0.iter().map(Child::id).collect();
        memory(&pids) as f64 / pids.len() as f64
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It runs until it is killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
