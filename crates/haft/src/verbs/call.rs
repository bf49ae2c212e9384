//! `haft call`: one call of a tool, or a batch of them, printed as a model would read it.

mod on;

use std::{
    io::{BufRead, Read},
    path::Path,
    process::ExitCode,
};

use clap::Args;
use kit::{Body, Fault, Kind, Part};
use runtime::{Answer, Arguments, Session};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::{Receiver, channel};
use tokio_util::sync::CancellationToken;

use super::{FAULT, SHELL_SESSION, finish, in_short, manual::needs_agent, report_ignored, strict::Strict};
use crate::{
    Options, Place,
    ask::{self, approver},
    print,
    remote::OfWorker,
    terminal::interrupt::{self, STOPPED},
    workspace_check::{self, Asking},
};
use on::On;

#[derive(Args)]
pub struct Call {
    /// Name of the tool
    #[arg(required_unless_present = "batch")]
    tool: Option<String>,
    /// Arguments as JSON; `-` reads them from standard input [default: {}]
    arguments: Option<String>,
    /// Run many calls in one session: lines of {"tool": …, "arguments": …} from this file, or `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "tool")]
    batch: Option<String>,
    /// Print the whole result as JSON, one line per call
    #[arg(long)]
    json: bool,
    /// Run a command where its changes are kept nowhere, and list them (`shell` only)
    #[arg(long, conflicts_with = "batch")]
    preview: bool,
    #[command(flatten)]
    strict: Strict,
    #[command(flatten)]
    remote: On,
    #[command(flatten)]
    of_worker: OfWorker,
}

/// The context of calls: session, toolset and cancellation.
struct With<'a> {
    session: &'a Session,
    toolset: &'a str,
    cancel: &'a CancellationToken,
}

/// One line of a batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    tool: String,
    #[serde(default)]
    arguments: Option<Value>,
}

impl Call {
    /// # Errors
    /// When no runtime can be opened; a call's own fault is printed.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        // haft reads the arguments before it handles signals: nothing runs yet, and Ctrl-C simply ends the program.
        let arguments = match self.arguments.as_deref() {
            Some("-") => read_all()?,
            Some(text) => text.to_owned(),
            None => String::new(),
        };
        let arguments = if self.preview { previewed(self.tool.as_deref(), &arguments)? } else { arguments };
        if let Some(labels) = &self.remote.on {
            return self.elsewhere(labels.clone(), &arguments, options, place).await;
        }
        let narrowed = self.of_worker.narrow(options)?;
        let options = narrowed.as_ref().unwrap_or(options);
        if self.batch.is_some() || self.tool.as_deref().is_some_and(tools::runs_commands) {
            sandbox::places::look_ahead();
        }
        workspace_check::check(options, place, Asking::Possible)?;
        let cancel = CancellationToken::new();
        interrupt::watch(cancel.clone(), || ()).map_err(|error| {
            Fault::new(
                Kind::Unavailable,
                format!("signals can't be handled, so Ctrl-C would not stop the call: {error}"),
            )
        })?;
        let opened = options.open(place)?;
        opened.runtime.plugins().asks(approver());
        self.strict.require(&opened, place).await?;
        report_ignored(&opened, self.strict.strict);
        opened.runtime.load_tools().await;
        let name = options.session.as_deref().unwrap_or(SHELL_SESSION);
        let session = opened.runtime.session(Some(name), "cli", approver());
        let with = With { session: &session, toolset: &opened.toolset, cancel: &cancel };
        let worst = match &self.batch {
            Some(file) => self.batch(&with, file).await,
            None => self.single(&with, arguments).await,
        };
        let ending = session.running_jobs();
        if !ending.is_empty() {
            let (were, their) = if ending.len() == 1 { ("was", "its") } else { ("were", "their") };
            let jobs = ending.join(", ");
            print::err(&format!(
                "haft: {jobs} {were} stopped: `haft call` ends with {their} jobs; `--batch` or `haft mcp` keeps a session"
            ));
        }
        finish(&session).await;
        let good = worst?;
        if cancel.is_cancelled() {
            // The answer of a single call already contains the fault.
            if self.batch.is_some() {
                print::err("haft: stopped");
            }
            return Ok(ExitCode::from(STOPPED));
        }
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(FAULT) })
    }

    async fn single(&self, with: &With<'_>, arguments: String) -> Result<bool, Fault> {
        let tool = self.tool.clone().unwrap_or_default();
        let mut answer = called(with, &tool, Arguments::Raw(arguments)).await;
        if self.of_worker.is_given() {
            without_jobs(&mut answer, &with.session.running_jobs());
        }
        if let Some(line) = with.session.runtime().plugins().lapsed_of(&tool) {
            print::err(&format!("haft: {line}"));
        }
        for failure in with.session.catalog().failed().iter().filter(|it| it.older_serves) {
            if Path::new(&failure.tool).file_stem().is_some_and(|it| it == tool.as_str()) {
                print::err(&format!("haft: {}", in_short(&failure.not_loaded())));
            }
        }
        match self.json {
            // The sender prints what a model would read.
            true if self.of_worker.is_given() => {
                let mut whole = whole(&tool, &answer);
                if let Value::Object(all) = &mut whole {
                    all.insert("text".to_owned(), json!(read(&answer)));
                }
                print::json(&whole);
            }
            true => print::json(&whole(&tool, &answer)),
            false => print::out(&read(&answer)),
        }
        Ok(answer.result.is_ok())
    }

    async fn batch(&self, with: &With<'_>, file: &str) -> Result<bool, Fault> {
        let mut good = true;
        let mut lines = lines(file)?;
        let mut number = 0;
        loop {
            let line = tokio::select! {
                biased;
                () = with.cancel.cancelled() => None,
                line = lines.recv() => line,
            };
            let Some(line) = line.transpose()? else { break };
            number += 1;
            if line.trim().is_empty() {
                continue;
            }
            let (tool, answer) = match serde_json::from_str::<Line>(&line) {
                Ok(Line { tool, arguments }) => {
                    let arguments = Arguments::Json(arguments.unwrap_or_else(|| json!({})));
                    let answer = called(with, &tool, arguments).await;
                    (tool, answer)
                }
                Err(error) => (String::new(), misread(number, &error)),
            };
            good &= answer.result.is_ok();
            if self.json {
                print::json(&whole(&tool, &answer));
            } else {
                let how = answer.result.as_ref().map_or_else(|fault| fault.kind.name(), |_| "ok");
                print::out(&format!("## {number} {tool}: {how}\n{}", read(&answer)));
            }
        }
        Ok(good)
    }
}

/// Adds the argument that makes a call a preview.
fn previewed(tool: Option<&str>, arguments: &str) -> Result<String, Fault> {
    if tool != Some("shell") {
        return Err(Fault::bad_args("`--preview` is for `shell` only; nothing was run")
            .next("Write the command as haft call --preview shell '{\"command\": \"…\"}'."));
    }
    match serde_json::from_str(arguments) {
        Ok(Value::Object(mut arguments)) => {
            arguments.insert("preview".to_owned(), Value::Bool(true));
            Ok(Value::Object(arguments).to_string())
        }
        _ => Err(Fault::bad_args("with `--preview` the arguments have to be a JSON object; nothing was run")
            .next("Such as '{\"command\": \"…\"}'.")),
    }
}

/// Makes a call. The fault for a tool that only agents and MCP clients have says so.
async fn called(with: &With<'_>, tool: &str, arguments: Arguments) -> Answer {
    if ask::somebody() {
        with.session.add_person_words(&match &arguments {
            Arguments::Raw(text) => text.clone(),
            Arguments::Json(value) => value.to_string(),
        });
    }
    let cancel = with.cancel.child_token();
    let call = runtime::Call { arguments, cancel, ..runtime::Call::new(tool, Value::Null) };
    let mut answer = with.session.call(call).await;
    if matches!(&answer.result, Err(fault) if fault.kind == Kind::NotFound)
        && !with.session.catalog().has(tool)
        && let Some(fault) = needs_agent(with.toolset, tool)
    {
        answer.result = Err(fault);
    }
    answer
}

/// Changes the answer of a call on a worker that left jobs behind, as they end with it: a command that had not ended has failed.
fn without_jobs(answer: &mut Answer, jobs: &[String]) {
    let (Ok(output), false) = (&answer.result, jobs.is_empty()) else { return };
    let jobs = jobs.join(", ");
    if output.exit.is_some() {
        answer.notes.push(format!("{jobs} was stopped on the worker: nothing runs on after a call there"));
        return;
    }
    let what = "the command had not ended when its time was over, and was stopped on the worker: it happened in part";
    let fault = Fault::new(Kind::Timeout, what)
        .next("Give it a longer `wait_ms` (at most 3600000), or send a session: `haft run --on LABELS`.");
    let mut seen = output.clone();
    for part in &mut seen.parts {
        if let Part::Text { text } = part {
            text.truncate(output_before_job(text).len());
        }
    }
    answer.result = Err(fault.seen(seen));
}

/// Returns the output of a command that goes on as a job, without the lines at its end about that job.
fn output_before_job(text: &str) -> &str {
    let is_about_job = |line: &str| line.starts_with('[') && line.trim_end().ends_with(']');
    match text.rfind("[still running after ") {
        Some(at) if text.get(at..).is_some_and(|it| it.lines().all(is_about_job)) => {
            text.get(..at).unwrap_or_default().trim_end_matches('\n')
        }
        _ => text,
    }
}

/// Returns the answer for a batch line that is not a call; the lines after it still run.
fn misread(number: usize, error: &serde_json::Error) -> Answer {
    let fault = Fault::bad_args(format!("line {number} is not a call: {error}; it was not run"))
        .next("A line is {\"tool\": \"read\", \"arguments\": {\"path\": \"…\"}}.".to_owned());
    let (notes, changes) = (Vec::new(), Vec::new());
    Answer { id: String::new(), result: Err(fault), notes, changes, took: std::time::Duration::ZERO }
}

/// Returns the text that a model reads, with a line for each part that is not text.
fn read(answer: &Answer) -> String {
    match &answer.result {
        Ok(output) if output.parts.iter().any(|part| !matches!(part, Part::Text { .. })) => {
            let lines = output.parts.iter().map(line);
            let notes = answer.notes.iter().map(|note| format!("note: {note}"));
            lines.chain(notes).collect::<Vec<_>>().join("\n")
        }
        Ok(_) => answer.as_text(),
        Err(fault) => {
            let seen = fault.seen.iter().flat_map(|seen| &seen.parts);
            // The fault already contains the text parts of the output.
            let others = seen.filter(|part| !matches!(part, Part::Text { .. })).map(line);
            [answer.as_text()].into_iter().chain(others).collect::<Vec<_>>().join("\n")
        }
    }
}

fn line(part: &Part) -> String {
    match part {
        Part::Text { text } => text.clone(),
        Part::Image { mime, data } => {
            format!("[image: {mime}, {} bytes; --json has its data]", data.len())
        }
        Part::Audio { mime, data } => {
            format!("[sound: {mime}, {} bytes; --json has its data]", data.len())
        }
        Part::Resource { uri, body: Body::Text(text), .. } => format!("[{uri}]\n{text}"),
        Part::Resource { uri, body: Body::Bytes(data), .. } => {
            format!("[{uri}: {} bytes; --json has them]", data.len())
        }
        Part::Link { uri, name, .. } => format!("[link: {uri} ({name})]"),
    }
}

/// Returns the whole result of a call as JSON.
fn whole(tool: &str, answer: &Answer) -> Value {
    let mut whole = Map::new();
    let mut put = |name: &str, value: Value| drop(whole.insert(name.to_owned(), value));
    put("id", json!(answer.id));
    put("tool", json!(tool));
    put("ok", json!(answer.result.is_ok()));
    put("ms", json!(answer.took.as_secs_f64() * 1000.0));
    match &answer.result {
        Ok(output) => {
            put("content", json!(output.parts));
            if let Some(structured) = &output.structured {
                put("structured", structured.clone());
            }
            if let Some(exit) = output.exit {
                put("exit", json!(exit));
            }
        }
        Err(fault) => put(
            "fault",
            json!({
                "kind": fault.kind,
                "what": fault.what,
                "next": fault.next,
                "seen": fault.seen.as_ref().map(|seen| &seen.parts),
            }),
        ),
    }
    if !answer.notes.is_empty() {
        put("notes", json!(answer.notes));
    }
    Value::Object(whole)
}

fn read_all() -> Result<String, Fault> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| unreadable("standard input", &error))?;
    Ok(text)
}

/// Returns the lines of a file as they arrive; `-` is standard input.
fn lines(file: &str) -> Result<Receiver<Result<String, Fault>>, Fault> {
    let name = if file == "-" { "standard input".to_owned() } else { format!("`{file}`") };
    let reader: Box<dyn BufRead + Send> = if file == "-" {
        Box::new(std::io::BufReader::new(std::io::stdin()))
    } else {
        let opened = std::fs::File::open(file).map_err(|error| unreadable(&name, &error))?;
        Box::new(std::io::BufReader::new(opened))
    };
    let (tell, lines) = channel(1);
    // A separate thread: a read can't be cancelled, and must not delay a person who stops the batch.
    std::thread::spawn(move || {
        for line in reader.lines() {
            let line = line.map_err(|error| unreadable(&name, &error));
            let is_last = line.is_err();
            if tell.blocking_send(line).is_err() || is_last {
                break;
            }
        }
    });
    Ok(lines)
}

fn unreadable(what: &str, error: &std::io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("can't read {what}: {error}"))
}
