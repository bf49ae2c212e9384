//! Specs of Python files, read in a separate process.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{
    StreamExt,
    stream::{self, FuturesUnordered},
};
use kit::{Fault, Kind, Output, Touches, procs::Procs};
use serde::Serialize;
use tokio::time::timeout;

use super::{
    Described, Version,
    compiled::Compiled,
    failure,
    host::{Asked, Host, HostMessage, Lost, Mode},
    interpreter,
    uv::{self, Environments, Provided},
};
use crate::{arguments, execution::Execution};

/// Time without any answer after which haft gives up; the process limits each file to 10 s.
const SILENCE: Duration = Duration::from_secs(30);
/// Limit of open requests; the process handles them one by one.
const AT_ONCE: usize = 16;
/// Limit of files whose packages are fetched at the same time.
const PROVIDED_AT_ONCE: usize = 4;
/// Bytes of output shown for a file whose process ended.
const PRINTED: usize = 4 << 10;

/// Describes these files in a separate process. Returns for each its tools, or the traceback.
pub(crate) async fn describe(
    execution: &Execution,
    files: &[Arc<Version>],
) -> Vec<Result<Vec<Described>, String>> {
    let mut asking = Asking { files, said: files.iter().map(|_| None).collect() };
    let mut by_packages: BTreeMap<Option<PathBuf>, (Option<Provided>, VecDeque<usize>)> = BTreeMap::new();
    let providing: Vec<_> = files.iter().map(|version| packages(execution, version)).collect();
    let provided = stream::iter(providing).buffered(PROVIDED_AT_ONCE);
    for (at, provided) in provided.collect::<Vec<_>>().await.into_iter().enumerate() {
        match provided {
            Ok(provided) => {
                let folder = provided.as_ref().map(|it| it.folder.clone());
                by_packages.entry(folder).or_insert((provided, VecDeque::new())).1.push_back(at);
            }
            Err(fault) => asking.settle(at, Err(fault.as_text())),
        }
    }
    for (provided, those) in by_packages.into_values() {
        asking.ask(execution, provided.as_ref(), those).await;
    }
    let unasked = || Err("it was not asked".to_owned());
    asking.said.into_iter().map(|it| it.unwrap_or_else(unasked)).collect()
}

/// The files to describe, and the results.
struct Asking<'a> {
    files: &'a [Arc<Version>],
    said: Vec<Option<Result<Vec<Described>, String>>>,
}

impl Asking<'_> {
    fn settle(&mut self, at: usize, said: Result<Vec<Described>, String>) {
        if let Some(it) = self.said.get_mut(at) {
            it.get_or_insert(said);
        }
    }

    /// Describes the files with these indices, which need the same packages.
    async fn ask(&mut self, execution: &Execution, packages: Option<&Provided>, mut open: VecDeque<usize>) {
        // If the process ended, the first file without an answer may be the reason: haft describes that one
        // alone.
        let mut alone = false;
        while let Some(first) = open.front().copied() {
            let batch: Vec<usize> = if alone { vec![first] } else { open.iter().copied().collect() };
            let lost = match describer(execution, packages).await {
                Ok(describer) => describer.describe(self, &batch).await,
                Err(fault) => Some(fault.as_text()),
            };
            if alone || batch.len() == 1 {
                self.settle(
                    first,
                    Err(lost.unwrap_or_else(|| "it was asked, and nothing came back".to_owned())),
                );
            }
            alone = true;
            open.retain(|it| self.said.get(*it).is_some_and(Option::is_none));
        }
    }
}

/// Returns the environment with the packages of a file; nothing if it needs none.
async fn packages(execution: &Execution, version: &Version) -> Result<Option<Provided>, Fault> {
    let granted = || execution.lasting_hosts();
    uv::provide(execution, &Environments::of(execution), &version.path, &version.source, granted).await
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
        let source = String::from_utf8_lossy(&version.source);
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

    /// Describes the files with these indices. Returns the reason why answers are missing, if any are.
    async fn describe(&self, asking: &mut Asking<'_>, batch: &[usize]) -> Option<String> {
        let files = asking.files;
        let mut rest = batch.iter();
        let mut asked = FuturesUnordered::new();
        loop {
            while asked.len() < AT_ONCE
                && let Some(at) = rest.next()
                && let Some(version) = files.get(*at)
            {
                match self.ask("describe", version, None) {
                    Ok(mut it) => asked.push(async move { (*at, it.answer().await) }),
                    Err(lost) => return Some(self.went(version, &lost)),
                }
            }
            let (at, answer) = match timeout(SILENCE, asked.next()).await {
                Ok(next) => next?,
                Err(_) => return Some(still(SILENCE)),
            };
            match answer {
                Ok(answer) => asking.settle(at, outcome(answer)),
                Err(lost) => return Some(self.went(files.get(at)?, &lost)),
            }
        }
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
