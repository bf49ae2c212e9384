//! Specs of Python files, read in a separate process.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{
    StreamExt,
    future::join_all,
    stream::{self, FuturesUnordered},
};
use kit::{Fault, Kind, Output, Touches, procs::Procs};
use serde::Serialize;
use tokio::time::timeout;

use super::{
    Described, Version,
    compiled::Compiled,
    failure,
    host::{Asked, Host, HostMessage, Lost, Mode, Why},
    interpreter,
    load::{Queue, Share},
    uv::{self, Environments, Provided},
};
use crate::{arguments, execution::Execution};

/// Time without any answer after which haft gives up; the process limits each file to 10 s.
const SILENCE: Duration = Duration::from_secs(30);
/// Limit of open requests of a process; it handles four at a time.
const AT_ONCE: usize = 8;
/// Limit of processes that describe files of one folder at the same time.
const PROCESSES: usize = 4;
/// Number of files for which one process is enough.
const SEVERAL: usize = 16;
/// Limit of files whose packages are fetched at the same time.
const PROVIDED_AT_ONCE: usize = 4;
/// Bytes of output shown for a file whose process ended.
const PRINTED: usize = 4 << 10;

/// Describes these files in separate processes. Sends for each, with its place, its tools or the traceback: each
/// as soon as it is known, those that a call waits for first.
pub(crate) async fn describe(
    execution: &Execution,
    files: &[Arc<Version>],
    queue: &Queue,
    tell: &(dyn Fn(usize, Outcome) + Sync),
) {
    let asking =
        Asking { execution, files, said: files.iter().map(|_| AtomicBool::new(false)).collect(), tell };
    let environments = Environments::of(execution);
    let needs_packages = |version: &Version| {
        let source = version.source.text();
        source.is_ok_and(|it| {
            uv::wanted(&it).map_or(true, |it| it.is_some_and(|it| environments.is_needed(&it)))
        })
    };
    let (mut plain, mut with_packages) = (Vec::new(), Vec::new());
    for (at, version) in files.iter().enumerate() {
        if needs_packages(version) { with_packages.push(at) } else { plain.push(at) }
    }
    let share = |those: Vec<usize>| {
        let path = |at: usize| files.get(at).map(|it| (at, it.path.clone()));
        queue.share(those.into_iter().filter_map(path))
    };
    let processes = if plain.len() > SEVERAL { processes() } else { 1 };
    let plain = share(plain);
    let plain = join_all((0..processes).map(|_| asking.ask(None, &plain)));
    // Fetching packages may take minutes: the other files don't wait for it.
    let packages = async {
        let mut by_packages: BTreeMap<Option<PathBuf>, (Option<Provided>, Vec<usize>)> = BTreeMap::new();
        let providing =
            with_packages.iter().filter_map(|at| files.get(*at)).map(|it| packages(execution, it));
        let provided = stream::iter(providing.collect::<Vec<_>>()).buffered(PROVIDED_AT_ONCE);
        for (at, provided) in with_packages.iter().zip(provided.collect::<Vec<_>>().await) {
            match provided {
                Ok(provided) => {
                    let folder = provided.as_ref().map(|it| it.folder.clone());
                    by_packages.entry(folder).or_insert((provided, Vec::new())).1.push(*at);
                }
                Err(fault) => asking.settle(*at, Err(fault.as_text())),
            }
        }
        for (provided, those) in by_packages.into_values() {
            asking.ask(provided.as_ref(), &share(those)).await;
        }
    };
    tokio::join!(plain, packages);
}

/// The tools of one file, or the traceback.
type Outcome = Result<Vec<Described>, String>;

/// Returns the number of processes that describe files at the same time.
fn processes() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(PROCESSES)
}

/// The files to describe.
struct Asking<'a> {
    execution: &'a Execution,
    files: &'a [Arc<Version>],
    /// Whether the result of each is known.
    said: Vec<AtomicBool>,
    tell: &'a (dyn Fn(usize, Outcome) + Sync),
}

impl Asking<'_> {
    fn settle(&self, at: usize, said: Outcome) {
        if self.said.get(at).is_some_and(|it| !it.swap(true, Ordering::AcqRel)) {
            (self.tell)(at, said);
        }
    }

    fn is_settled(&self, at: usize) -> bool {
        self.said.get(at).is_none_or(|it| it.load(Ordering::Acquire))
    }

    /// Describes files of this share in one process, which need the same packages.
    async fn ask(&self, packages: Option<&Provided>, share: &Share<'_>) {
        // If the process ended, one of the files without an answer may be the reason: haft describes each of
        // them alone.
        let mut suspects = VecDeque::new();
        while !suspects.is_empty() || !share.is_empty() {
            let alone = suspects.pop_front();
            let (left, lost) = match describer(self.execution, packages).await {
                Ok(describer) => describer.describe(self, alone, share).await,
                Err(fault) => (alone.or_else(|| share.next()).into_iter().collect(), Some(fault.as_text())),
            };
            match (left.as_slice(), lost) {
                ([one], lost) => {
                    let lost = lost.unwrap_or_else(|| "it was asked, and nothing came back".to_owned());
                    self.settle(*one, Err(lost));
                }
                _ => suspects.extend(left),
            }
        }
    }
}

/// Returns the environment with the packages of a file; nothing if it needs none.
async fn packages(execution: &Execution, version: &Version) -> Result<Option<Provided>, Fault> {
    let granted = || execution.lasting_hosts();
    let source = version.source.text()?;
    uv::provide(execution, &Environments::of(execution), &version.path, &source, granted).await
}

/// Checks code for the tool `name`, as specified by [`kit::services::Tools::check`]. The version is the one
/// that the file would have.
///
/// # Errors
/// [`Kind::BadArgs`] with all problems, or the traceback.
pub(crate) async fn check(
    execution: &Execution,
    draft: &Arc<Version>,
    name: &str,
) -> Result<Described, Fault> {
    let packages = packages(execution, draft).await?;
    let describer = describer(execution, packages.as_ref()).await?;
    let said = match describer.ask("check", draft, Some(name)) {
        Ok(mut asked) => timeout(SILENCE, asked.answer()).await,
        Err(lost) => Ok(Err(lost)),
    };
    let said = match said {
        Ok(Ok(said)) => said,
        Ok(Err(lost)) => return Err(unfit(name, &describer.went(draft, &lost))),
        Err(_) => return Err(unfit(name, &still(SILENCE))),
    };
    if let Some(described) = said.tool {
        return fit(described).map_err(|why| unfit(name, &why));
    }
    if said.missing.is_empty() {
        let fault = unfit(name, &said.error);
        return Err(if said.traceback.is_empty() { fault } else { fault.seen(Output::text(said.traceback)) });
    }
    let missing = said.missing.join(", ");
    Err(Fault::new(Kind::BadArgs, format!("the code of `{name}` lacks {missing}"))
        .hint("Write it again with all of them[?; the manual of `tool:write_tool` shows a whole tool?]."))
}

/// A process that describes files.
struct Describer<'a> {
    host: Arc<Host>,
    procs: Procs,
    workspace: &'a Path,
}

#[derive(Serialize)]
struct Request<'a> {
    op: &'static str,
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    path: &'a Path,
    folder: &'a Path,
    source: &'a str,
    workspace: &'a Path,
}

async fn describer<'a>(
    execution: &'a Execution,
    packages: Option<&Provided>,
) -> Result<Describer<'a>, Fault> {
    let workspace = execution.workspace();
    let (procs, names) = match packages {
        None => (
            execution.of_call(&Touches::run("python3"), &[]),
            interpreter::names(workspace, &execution.environment()),
        ),
        Some(Provided { python, folder, .. }) => {
            let execution = execution.reading(folder.clone());
            (execution.of_call(&Touches::run("python3"), &[]), vec![python.display().to_string()])
        }
    };
    let (_, host) = Host::start_with_any(&procs, &names, workspace, (Mode::Describe, None), |name| {
        Compiled::of(execution, name)
    })
    .await?;
    Ok(Describer { host, procs, workspace })
}

impl Describer<'_> {
    fn ask(&self, op: &'static str, version: &Version, name: Option<&str>) -> Result<Asked, Lost> {
        let source =
            version.source.text().map_err(|_| Lost { why: Why::Unneeded, begun: false, others: 0 })?;
        let source = String::from_utf8_lossy(&source);
        let (path, folder) = (&version.path, &version.folder);
        self.host.ask(None, |id, _| Request {
            op,
            id,
            name,
            path,
            folder,
            source: &source,
            workspace: self.workspace,
        })
    }

    /// Describes one file, or the files of a share. Returns the files that it has no result for, and the reason
    /// if the process is the reason.
    async fn describe(
        &self,
        asking: &Asking<'_>,
        alone: Option<usize>,
        share: &Share<'_>,
    ) -> (Vec<usize>, Option<String>) {
        let mut alone_open = alone;
        let mut next = || if alone.is_some() { alone_open.take() } else { share.next() };
        let mut taken = Vec::new();
        let mut asked = FuturesUnordered::new();
        let lost = loop {
            let mut lost = None;
            while asked.len() < AT_ONCE
                && let Some(at) = next()
                && let Some(version) = asking.files.get(at)
            {
                taken.push(at);
                match self.ask("describe", version, None) {
                    Ok(mut it) => asked.push(async move { (at, it.answer().await) }),
                    Err(why) => {
                        lost = Some(self.went(version, &why));
                        break;
                    }
                }
            }
            if lost.is_some() || asked.is_empty() {
                break lost;
            }
            let (at, answer) = match timeout(SILENCE, asked.next()).await {
                Ok(Some(next)) => next,
                Ok(None) => break None,
                Err(_) => break Some(still(SILENCE)),
            };
            match (answer, asking.files.get(at)) {
                (Ok(answer), _) => asking.settle(at, outcome(answer)),
                (Err(lost), Some(version)) => break Some(self.went(version, &lost)),
                (Err(_), None) => {}
            }
        };
        taken.retain(|at| !asking.is_settled(*at));
        (taken, lost)
    }

    /// Explains how the process ended while it described this file, with the end of its output.
    fn went(&self, version: &Version, lost: &Lost) -> String {
        let printed = self.host.printed();
        printed.catch_up();
        let printed = printed.tail(PRINTED).text;
        let file = version.path.display().to_string();
        failure::not_imported(&file, lost, printed.trim_end(), &self.procs).as_text()
    }
}

fn outcome(said: HostMessage) -> Result<Vec<Described>, String> {
    match (said.op.as_str(), said.traceback.trim_end()) {
        ("described", _) => {
            let is_one = said.tools.len() == 1;
            let with_name = |name: &str, why: String| if is_one { why } else { format!("`{name}`: {why}") };
            let fit = |it: Described| {
                let name = it.name.clone();
                fit(it).map_err(|why| with_name(&name, why))
            };
            said.tools.into_iter().map(fit).collect()
        }
        (_, "") => Err(said.error),
        (_, traceback) if traceback.ends_with(&said.error) => Err(traceback.to_owned()),
        (_, traceback) => Err(format!("{}\n{traceback}", said.error)),
    }
}

/// Adjusts a tool's schema so that every client accepts it.
fn fit(mut tool: Described) -> Result<Described, String> {
    tool.notes.extend(arguments::fitted(&mut tool.schema)?);
    Ok(tool)
}

fn unfit(name: &str, why: &str) -> Fault {
    Fault::new(Kind::BadArgs, format!("the code of `{name}` can't be a tool: {why}"))
}

fn still(after: Duration) -> String {
    format!("nothing was heard of it within {} s", after.as_secs())
}
