//! One run: a group in a folder of its own, its kills, and the check at the end.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use store::{NewMessage, Source, Store};
use tokio::runtime::Runtime;

use super::{
    Trouble,
    check::{Counts, check},
    plan::{GAP_MS, Plan, Random},
    process::{ASKED, OVER, READY, open},
};

/// Maximum number of kills of one group.
const KILLS: u64 = 3;
/// Maximum number of requests to models before a kill.
const STEPS: u64 = 24;
/// Time to wait for the next request to a model: a group that is done asks none.
const NEXT: Duration = Duration::from_millis(300);
/// Time to wait for the members, and for the end.
const LONGEST: Duration = Duration::from_secs(120);

/// How the processes of a run are begun.
pub struct Kills<'a> {
    /// The program whose first two arguments are `run` and a folder.
    pub program: &'a Path,
    /// A guarantee to break, for a test of the check.
    pub broken: Option<&'a str>,
}

struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Process {
    fn start(kills: &Kills<'_>, folder: &Path, ahead_ms: u64) -> Result<Self, Trouble> {
        let mut command = Command::new(kills.program);
        if let Some(broken) = kills.broken {
            command.env("HAFT_BREAK", broken);
        }
        command.arg("run").arg(folder).arg(ahead_ms.to_string());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = BufReader::new(child.stdout.take().ok_or("a process without output")?);
        let (sends, lines) = mpsc::channel();
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|it| sends.send(it)));
        Ok(Self { child, lines })
    }

    /// Waits for a line; returns false if another end comes first.
    fn waits_for(&self, line: &str) -> bool {
        while let Ok(seen) = self.lines.recv_timeout(LONGEST) {
            if seen == line {
                return true;
            }
        }
        false
    }

    fn kill(mut self) -> Result<(), Trouble> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

/// Runs the group of a seed, kills its process several times, and checks what the store has in the end.
///
/// # Errors
/// When the run can't be made. What was lost or repeated is in the counts.
pub fn one_run(seed: u64, kills: &Kills<'_>, posts: &Runtime) -> Result<Counts, Trouble> {
    let folder = tempfile::tempdir()?;
    let at = folder.path();
    fs::create_dir_all(at.join("ws"))?;
    let plan = Plan::new(seed);
    fs::write(at.join("plan.json"), serde_json::to_vec(&plan)?)?;
    let mut random = Random::new(seed ^ 0x5eed);
    let store = open(at);
    let (mut posted, mut killed) = (Vec::new(), 0);
    for time in 0..=random.below(KILLS) {
        let process = Process::start(kills, at, time * GAP_MS)?;
        // The first process makes the triggers.
        if time == 0 && !process.waits_for(READY) {
            process.kill()?;
            return Err("the members don't run".into());
        }
        kill_at_a_step(process, &mut random, || posts.block_on(post(&store, seed, &mut posted)))?;
        killed += 1;
    }
    let mut last = Process::start(kills, at, 10 * GAP_MS)?;
    if !last.waits_for(OVER) {
        last.kill()?;
        return Err("the group comes to no end".into());
    }
    last.child.wait()?;
    let mut counts = check(&store, &plan, &posted)?;
    counts.kills += killed;
    if counts.is_bad() && std::env::var_os("HAFT_KEEP").is_some() {
        counts.faults.push(format!("kept in {}", folder.keep().display()));
    }
    Ok(counts)
}

/// Kills a process after some requests to models and a moment more. Now and then a message comes from outside.
fn kill_at_a_step(
    process: Process,
    random: &mut Random,
    mut post: impl FnMut() -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let mut steps = random.below(STEPS);
    while steps > 0 {
        match process.lines.recv_timeout(NEXT) {
            Ok(line) if line == ASKED => {
                steps -= 1;
                if random.one_of(4) {
                    post()?;
                }
            }
            Ok(line) if line == OVER => break,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    thread::sleep(Duration::from_micros(random.below(6_000)));
    process.kill()
}

/// Posts a message to a member, as a program outside of the group does.
async fn post(store: &Store, seed: u64, posted: &mut Vec<(String, String)>) -> Result<(), Trouble> {
    let Some(group) = store.groups().list().map_err(|it| it.what)?.into_iter().next() else { return Ok(()) };
    let members = store.groups().shape(&group.name).map_err(|it| it.what)?.members;
    let mut random = Random::new(seed ^ posted.len() as u64);
    let Some(member) = members.get(random.below(members.len() as u64) as usize) else { return Ok(()) };
    let text = format!("hop=1 from outside {}", posted.len());
    let message = NewMessage::new(&member.session, Source::Direct, "outside", text);
    let accepted = store.inbox().post(message).await.map_err(|it| it.what)?;
    posted.push((member.session.clone(), accepted.message));
    Ok(())
}
