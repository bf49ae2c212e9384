//! The speed of each part, compared with a floor that does no more than it must.

mod agent;
mod big;
mod call;
mod commands;
mod edit;
mod fetch;
mod http;
mod large;
mod mcp;
mod peers;
mod process;
mod render;
mod search;
mod ssh;
mod tool_files;

use std::{
    error::Error,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use kit::{
    AnyTool,
    files::{OtherNames, RootSpec},
    redact::Secrets,
};
use policy::Policy;
use runtime::{Call, Commands, DEADLINE, Runtime, Session, Settings, Unattended, plugins::ToolFiles};
use serde_json::Value;

pub use big::rows as big_files;
pub use peers::PEERS;

/// An error, in words.
pub type Trouble = Box<dyn Error>;

/// Measures one part of haft.
pub type Measure = fn(&Scratch) -> Result<Vec<Row>, Trouble>;

/// The benchmarks, by the name on the command line.
pub const BENCHMARKS: [(&str, Measure); 15] = [
    ("agent", agent::rows),
    ("call", call::rows),
    ("read", large::rows),
    ("edit", edit::rows),
    ("grep", search::rows),
    ("start", process::start),
    ("stdio", process::stdio),
    ("memory", process::memory),
    ("mcp", mcp::rows),
    ("http", http::rows),
    ("commands", commands::rows),
    ("render", render::rows),
    ("ssh", ssh::rows),
    ("tool-files", tool_files::rows),
    ("fetch", fetch::rows),
];

/// One line of the table.
pub struct Row {
    what: String,
    ours: Amount,
    p95: Option<Amount>,
    comparison: Comparison,
    aim: Option<Aim>,
}

/// The comparison of a row.
pub enum Comparison {
    /// A measured floor or peer.
    Measured(String, Amount),
    /// Not measured, for this reason.
    Missing(String),
}

/// A quantity with its unit.
#[derive(Debug, Clone, Copy)]
pub enum Amount {
    /// A duration.
    Time(Duration),
    /// A number of bytes.
    Bytes(u64),
    /// A number of things.
    Count(u64),
}

/// The target of a row.
#[derive(Debug, Clone, Copy)]
pub enum Aim {
    /// At most this.
    Under(Amount),
    /// At most this many times the comparison.
    Times(f64),
}

/// The first line of the table.
pub const HEADING: &str = "what                                     |      p50 |      p95 | beside                                     |      p50 |  ratio | aim";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p95 = self.p95.map_or_else(|| "-".to_owned(), |it| it.to_string());
        let (name, theirs, ratio) = match &self.comparison {
            Comparison::Measured(name, theirs) => {
                let ratio = (theirs.number() > 0.0).then(|| self.ours.number() / theirs.number());
                (name.as_str(), theirs.to_string(), ratio)
            }
            Comparison::Missing(why) => (why.as_str(), "-".to_owned(), None),
        };
        let shown = ratio.map_or_else(|| "-".to_owned(), |it| format!("{it:.3}"));
        write!(
            f,
            "{:<40} | {:>8} | {p95:>8} | {name:<42} | {theirs:>8} | {shown:>6} | ",
            self.what,
            self.ours.to_string()
        )?;
        let (aim, kept) = match self.aim {
            None => return f.write_str("-"),
            Some(Aim::Under(most)) => (format!("<= {most}"), Some(self.ours.number() <= most.number())),
            Some(Aim::Times(most)) => (format!("<= {most} times"), ratio.map(|it| it <= most)),
        };
        let kept = match kept {
            Some(true) => "kept",
            Some(false) => "MISSED",
            None => "not known",
        };
        write!(f, "{aim}: {kept}")
    }
}

impl Amount {
    fn minus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Time(one), Self::Time(other)) => Self::Time(one.saturating_sub(other)),
            (one, _) => one,
        }
    }

    fn times(self, many: usize) -> Self {
        match self {
            Self::Time(time) => Self::Time(time * u32::try_from(many).unwrap_or(u32::MAX)),
            Self::Bytes(bytes) => Self::Bytes(bytes * many as u64),
            Self::Count(count) => Self::Count(count * many as u64),
        }
    }

    fn number(self) -> f64 {
        match self {
            Self::Time(time) => time.as_secs_f64(),
            #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
            Self::Bytes(number) | Self::Count(number) => number as f64,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Time(time) if *time < Duration::from_millis(1) => {
                format!("{:.1} us", time.as_secs_f64() * 1e6)
            }
            Self::Time(time) => format!("{:.2} ms", time.as_secs_f64() * 1e3),
            Self::Bytes(bytes) if *bytes < 1_000_000 => format!("{:.1} kB", self.number() / 1e3),
            Self::Bytes(_) => format!("{:.1} MB", self.number() / 1e6),
            Self::Count(count) => count.to_string(),
        };
        f.pad(&text)
    }
}

/// The measured times of one thing.
pub struct Times(Vec<Duration>);

impl Times {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    fn at(&self, percent: usize) -> Amount {
        let last = self.0.len().saturating_sub(1);
        Amount::Time(
            self.0.get(self.0.len() * percent / 100).or(self.0.get(last)).copied().unwrap_or_default(),
        )
    }

    fn p50(&self) -> Amount {
        self.at(50)
    }

    fn p95(&self) -> Amount {
        self.at(95)
    }

    /// Returns a row of these times.
    fn row(&self, what: impl Into<String>, comparison: Comparison, aim: Option<Aim>) -> Row {
        Row { what: what.into(), ours: self.p50(), p95: Some(self.p95()), comparison, aim }
    }

    /// Returns these times as a comparison.
    fn comparison(&self, name: impl Into<String>) -> Comparison {
        Comparison::Measured(name.into(), self.p50())
    }
}

/// One of the functions that are measured in turn; it returns the time it took.
type Side<'a> = &'a mut dyn FnMut() -> Result<Duration, Trouble>;

/// Measures functions in turn, so that a disturbance affects all of them. The first round only warms up.
fn in_turn<const SIDES: usize>(runs: usize, sides: [Side; SIDES]) -> Result<[Times; SIDES], Trouble> {
    let mut sides = sides.map(|side| (side, Vec::with_capacity(runs)));
    for run in 0..=runs {
        for (side, times) in &mut sides {
            let took = side()?;
            if run > 0 {
                times.push(took);
            }
        }
    }
    Ok(sides.map(|(_, times)| Times::new(times)))
}

fn timed<T>(act: impl FnOnce() -> Result<T, Trouble>) -> Result<Duration, Trouble> {
    let began = Instant::now();
    act()?;
    Ok(began.elapsed())
}

/// A folder for files to measure with, deleted afterwards, cargo's target folder, and the length of long runs.
pub struct Scratch {
    dir: tempfile::TempDir,
    /// The folder that cargo builds into.
    target: PathBuf,
    /// The calls of each client, where many call a server at once.
    calls: usize,
}

impl Scratch {
    /// Creates a folder below cargo's target folder: that is on a disk, which a temporary one may not be.
    ///
    /// # Errors
    /// When it can't be created.
    pub fn new() -> Result<Self, Trouble> {
        let program = std::env::current_exe()?;
        let target = program.ancestors().nth(2).ok_or("this program lies in no folder")?.to_owned();
        let dir = tempfile::Builder::new().prefix("speed-").tempdir_in(&target)?;
        Ok(Self::within(dir, target))
    }

    fn within(dir: tempfile::TempDir, target: PathBuf) -> Self {
        Self { dir, target, calls: 1_000 }
    }

    /// Changes how often each client calls a server that many call at once: 1,000 times by default.
    #[must_use]
    pub fn with_calls(self, calls: usize) -> Self {
        Self { calls, ..self }
    }

    /// Creates an empty folder.
    fn folder(&self, name: &str) -> Result<PathBuf, io::Error> {
        let folder = self.dir.path().join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Creates a file of lines of 80 bytes, each with its number.
    fn lines(&self, folder: &str, name: &str, lines: usize) -> Result<PathBuf, io::Error> {
        let path = self.folder(folder)?.join(name);
        let text: String = (1..=lines).map(line).collect();
        fs::write(&path, text)?;
        Ok(path)
    }
}

/// Returns a line of 80 bytes with its break.
fn line(number: usize) -> String {
    format!(
        "{number:>9} let value = table.get({number:>9}).copied().unwrap_or_default(); // {:>5}\n",
        number % 9973
    )
}

/// Everything that a call goes through, on this workspace, with one secret to mask.
struct Fixture {
    tokio: tokio::runtime::Runtime,
    session: Session,
}

impl Fixture {
    fn open(scratch: &Scratch, workspace: &Path, tools: Vec<Arc<dyn AnyTool>>) -> Result<Self, Trouble> {
        Self::with(scratch, workspace, tools, Policy::default(), Commands::default())
    }

    fn with(
        scratch: &Scratch,
        workspace: &Path,
        tools: Vec<Arc<dyn AnyTool>>,
        policy: Policy,
        commands: Commands,
    ) -> Result<Self, Trouble> {
        Self::with_files(scratch, workspace, tools, policy, commands, ToolFiles::default())
    }

    fn with_files(
        scratch: &Scratch,
        workspace: &Path,
        tools: Vec<Arc<dyn AnyTool>>,
        policy: Policy,
        commands: Commands,
        tool_files: ToolFiles,
    ) -> Result<Self, Trouble> {
        let settings = Settings {
            network: Default::default(),
            tool_files,
            workspace: workspace.to_owned(),
            roots: Vec::<RootSpec>::new(),
            state: scratch.folder("state")?,
            config: scratch.folder("config")?,
            policy,
            other_names: OtherNames::Refuse,
            allowed: None,
            deadline: DEADLINE,
            secrets: Secrets::collect([("API_TOKEN", "correct-horse-battery-staple")], []),
            commands,
        };
        // As in the program.
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let runtime = Runtime::open(settings, tools)?;
        tokio.block_on(runtime.load_tools());
        let session = runtime.session(None, "bench", Arc::new(Unattended));
        let fixture = Self { tokio, session };
        // Work that opening has left must not count as part of a call.
        fixture.tokio.block_on(fixture.session.runtime().store().flush())?;
        Ok(fixture)
    }

    /// Returns the duration of a call; a fault is an error.
    fn call(&self, tool: &str, arguments: Value) -> Result<Duration, Trouble> {
        let call = Call::new(tool, arguments);
        self.tokio.block_on(async {
            let began = Instant::now();
            let answer = self.session.call(call).await;
            let took = began.elapsed();
            if answer.result.is_err() { Err(answer.as_text().into()) } else { Ok(took) }
        })
    }
}
