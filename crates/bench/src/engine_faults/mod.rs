//! Work on engines under faults: workers, senders and servers are killed and stopped at random times, workers are cut off, wall
//! clocks jump, the disk is full or slow.
//!
//! The oracle is outside of haft: each piece of work appends a line to a file, each worker a line for each result that was
//! accepted, each sender a line for each answer. Afterwards the files are compared.

mod check;
mod networks;
mod run;
mod sender;
mod servers;
mod surroundings;
mod worker;

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use engine::Options;

pub use check::Counts;
pub use run::{Fault, Load, Place, run};
pub use sender::run_sender;
pub use worker::run_worker;

/// The error of a run.
pub type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// The length of the leases.
pub const LEASE: Duration = Duration::from_secs(1);

/// The files of a run, which all its processes share.
#[derive(Clone)]
struct Files {
    folder: PathBuf,
}

impl Files {
    fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// `KEY RESULT`, once for each time that a piece of work happened.
    fn effects(&self) -> PathBuf {
        self.folder.join("effects")
    }

    /// `KEY RESULT`, for each result that the engine accepted from a worker.
    fn accepted(&self) -> PathBuf {
        self.folder.join("accepted")
    }

    /// `KEY OUTCOME`, for each answer that a sender had.
    fn answers(&self) -> PathBuf {
        self.folder.join("answers")
    }

    /// `KEY`, before it is offered.
    fn offers(&self) -> PathBuf {
        self.folder.join("offers")
    }

    /// While it is there, senders offer nothing new.
    fn end(&self) -> PathBuf {
        self.folder.join("end")
    }
}

/// Appends one line in one write.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = File::options().append(true).create(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// Returns the whole lines of a file, each cut at its first space.
fn lines(path: &Path) -> io::Result<Vec<(String, String)>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let parts = text.lines().map(|it| it.split_once(' ').unwrap_or((it, "")));
    Ok(parts.map(|(key, rest)| (key.to_owned(), rest.to_owned())).collect())
}

fn options(nkey: &str) -> Options {
    let nkey = Some(PathBuf::from(nkey)).filter(|it| !it.as_os_str().is_empty());
    let replicas = std::env::var("HAFT_FAULTS_REPLICAS").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    Options { lease: LEASE, nkey, replicas, ..Options::default() }
}

/// Opens the engine, however long its server is away.
async fn opened(url: &str, state: &Path, nkey: &str) -> std::sync::Arc<dyn engine::Engine> {
    loop {
        match engine::open(url, state, options(nkey)).await {
            Ok(engine) => return engine,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Every fourth piece of work is idempotent.
fn is_idempotent(step: u64) -> bool {
    step.is_multiple_of(4)
}
