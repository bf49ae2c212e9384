//! Questions of tool files: the requests that a tool may make to haft during its call.
//!
//! They are about the session's scratchpad, the files that the session has read, the caller, the jobs, and channels.
//! `host/questions.py` is at the other end.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use kit::{
    Cx, Fault, Files, Kind, Output, Pad,
    seen::Whole,
    services::{ChannelRequest, Job, Task, TaskEnd},
    text::Text,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer_schema::AnswerSchema;

/// Limit of a file that haft compares with what was read of it, in bytes.
const LARGEST: u64 = 64 << 20;

/// Limits of recorded reads: bytes of a path, and number of paths.
const LONGEST: usize = 4096;
const MOST: usize = 10_000;

/// A question.
#[derive(Debug, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum Question {
    /// The text of a section, or null.
    ScratchpadGet {
        key: String,
    },
    ScratchpadSet {
        key: String,
        value: String,
    },
    /// True if the section existed.
    ScratchpadDelete {
        key: String,
    },
    /// The names of the sections.
    ScratchpadKeys,
    /// The record of a file, or null if the session has not read it.
    ReadState {
        path: PathBuf,
    },
    /// Records that a tool file has read a file.
    RecordRead {
        path: PathBuf,
        record: Record,
    },
    /// Forgets the reads that tool files have recorded.
    ForgetReads,
    /// The caller's identity, and how its model writes calls.
    Context,
    Jobs,
    /// About channels and the shared state of the group.
    Channel {
        request: ChannelRequest,
    },
    /// The report of an agent on a task; answered by [`reply_of_agent`].
    Agent(AgentTask),
}

/// A task for an agent.
#[derive(Debug, Deserialize)]
pub(super) struct AgentTask {
    profile: Option<String>,
    task: String,
    system: Option<String>,
    briefing: Option<String>,
    steps: Option<usize>,
    seconds: Option<f64>,
    tokens: Option<u64>,
    answer_schema: Option<Value>,
}

/// An answer on the wire.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    op: &'static str,
    number: u64,
    value: Value,
    error: Option<String>,
}

/// Answers a question of a call, which may be over. Blocks.
pub(super) fn reply(cx: Option<Cx>, number: u64, question: Option<Question>) -> Answer {
    let answer = match (cx, question) {
        (Some(cx), Some(question)) => answer(&cx, question),
        _ => Err(Fault::bad_args("the call is over")),
    };
    let (value, error) = match answer {
        Ok(value) => (value, None),
        Err(fault) => (Value::Null, Some(fault.as_text())),
    };
    Answer { op: "answer", number, value, error }
}

/// Answers a question that an agent works on. The agent stops with the call.
pub(super) async fn reply_of_agent(cx: Option<Cx>, number: u64, task: AgentTask) -> Answer {
    let answer = match cx {
        Some(cx) => report(&cx, task).await,
        None => Err(Fault::bad_args("the call is over")),
    };
    let (value, error) = match answer {
        Ok(value) => (value, None),
        Err(fault) => (Value::Null, Some(fault.as_text())),
    };
    Answer { op: "answer", number, value, error }
}

/// The number of answers of an agent that may miss the schema.
const MISSES: usize = 2;

async fn report(cx: &Cx, asked: AgentTask) -> Result<Value, Fault> {
    let AgentTask { profile, task: prompt, system, briefing, steps, seconds, tokens, answer_schema } = asked;
    let schema = answer_schema.map(|it| AnswerSchema::parse(&it.to_string())).transpose()?;
    let time = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
    let keep_system = system.is_some();
    let mut task = Task {
        profile,
        prompt: prompt.clone(),
        briefing,
        system,
        keep_system,
        steps,
        time,
        tokens,
        on: None,
    };
    let mut misses = 0;
    loop {
        if let Some(schema) = &schema {
            task.prompt.push_str(&format!(
                "\n\nYour last answer must be one JSON value, and nothing else, that matches this schema:\n{}",
                schema.schema()
            ));
        }
        let report = cx.agents().delegate(task.clone(), cx).await?;
        let value = schema.as_ref().map(|it| it.fit(&report.text)).transpose();
        let problems = match value {
            Ok(value) => {
                let ended = match report.ended {
                    TaskEnd::Completed => "completed".to_owned(),
                    TaskEnd::Limit(limit) => format!("limit: {limit}"),
                };
                return Ok(json!({
                    "text": report.text, "value": value, "agent": report.agent, "ended": ended,
                    "steps": report.steps, "tokens": report.tokens, "cost": report.cost,
                }));
            }
            Err(problems) => problems,
        };
        misses += 1;
        if misses >= MISSES {
            let what = format!("the answer of {} does not match the schema: {problems}", report.agent);
            return Err(Fault::new(Kind::Failed, what).seen(Output::text(report.text)));
        }
        task.prompt = format!("{prompt}\n\nAn earlier answer did not match the schema: {problems}");
    }
}

fn answer(cx: &Cx, question: Question) -> Result<Value, Fault> {
    let pad = Pad(cx);
    Ok(match question {
        Question::ScratchpadGet { key } => json!(pad.get(&key)?),
        Question::ScratchpadSet { key, value } => json!(pad.put(&key, value, false)?),
        Question::ScratchpadDelete { key } => json!(pad.clear(&key)?),
        Question::ScratchpadKeys => json!(pad.sections()?),
        Question::ReadState { path } => json!(read_state(cx, &path)),
        Question::RecordRead { path, record } => {
            keep(&mut cx.shelf().get::<Recorded>().0.lock(), path, record)?;
            Value::Null
        }
        Question::ForgetReads => {
            cx.shelf().get::<Recorded>().0.lock().clear();
            Value::Null
        }
        Question::Context => {
            let profiles = cx.agents().profiles().known;
            let current = profiles.into_iter().find(|it| it.current).map(|it| it.name);
            json!({
                "agent": current,
                "tool_format": cx.agents().tool_format(),
                "creature": cx.messages().own().ok().map(|it| it.id),
            })
        }
        // The thread is one that may block.
        Question::Channel { request } => {
            tokio::runtime::Handle::current().block_on(cx.messages().request(request))?
        }
        Question::Agent(_) => return Err(Fault::bug("an agent's task is answered elsewhere")),
        Question::Jobs => json!(cx.jobs().list().iter().map(job).collect::<Vec<_>>()),
    })
}

/// Stores a record, within limits, since a tool file may send any number.
fn keep(records: &mut HashMap<PathBuf, Record>, path: PathBuf, record: Record) -> Result<(), Fault> {
    if path.as_os_str().len() > LONGEST {
        return Err(Fault::bad_args(format!(
            "the path has {} bytes; at most {LONGEST} are kept",
            path.as_os_str().len()
        )));
    }
    if records.len() >= MOST && !records.contains_key(&path) {
        return Err(Fault::new(Kind::TooBig, format!("{MOST} files are recorded as read; no more are kept")));
    }
    records.insert(path, record);
    Ok(())
}

/// Restores what a session saw of a file in another process. It is on the session's shelf.
pub(crate) struct Recall(Box<dyn Fn(&Path) + Send + Sync>);

impl Recall {
    pub(crate) fn new(recall: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        Self(Box::new(recall))
    }
}

/// The reads that tool files have recorded, in one session.
#[derive(Default)]
struct Recorded(Mutex<HashMap<PathBuf, Record>>);

/// The record of a read: KohakuTerrarium's format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The modification time of the file at that read.
    mtime_ns: i64,
    /// Whether only a part was read.
    partial: bool,
    timestamp: f64,
}

/// Returns the session's record of a file: from its own views, which compare contents, or from a tool file's
/// record. Returns nothing for a file that the session's file tools would not read.
fn read_state(cx: &Cx, path: &Path) -> Option<Record> {
    let recorded = cx.shelf().get::<Recorded>().0.lock().get(path).cloned();
    let files = readable(cx, path)?;
    let open = files.open(path.to_str()?).ok()?;
    let mtime_ns = i64::try_from(open.identity.modified_ns).unwrap_or_default();
    if let Some(recall) = cx.shelf().find::<Recall>() {
        (recall.0)(path);
    }
    if recorded.as_ref().is_some_and(|it| it.mtime_ns == mtime_ns) || !cx.views().knows(path) {
        return recorded;
    }
    let seen = match open.identity.size <= LARGEST {
        true => {
            let loaded = open.load(path.to_str()?, LARGEST).ok()?;
            Text::share(loaded.bytes).map_or(Whole::Changed, |text| cx.views().whole(path, &text))
        }
        false => Whole::Changed,
    };
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64();
    let record = |mtime_ns, partial| Some(Record { mtime_ns, partial, timestamp: now });
    match seen {
        Whole::Yes => record(mtime_ns, false),
        Whole::Partly { .. } => record(mtime_ns, true),
        // No file has this time, so the comparison finds a change.
        Whole::Changed => record(0, false),
        Whole::Never => recorded,
    }
}

/// Returns file access limited to this file, by the rules of the session's roots.
fn readable(cx: &Cx, path: &Path) -> Option<Files> {
    let roots = cx.files().roots();
    Some(Files::reading(roots.clone(), roots.locate(path.to_str()?).ok()?))
}

/// Renders a job as KohakuTerrarium's store does.
fn job(job: &Job) -> Value {
    let result = job.result.as_ref().map(|it| match &**it {
        Ok(output) => json!({"output": output.as_text(), "error": null}),
        Err(fault) => json!({"output": "", "error": fault.as_text()}),
    });
    json!({
        "job_id": job.id,
        "type_name": job.tool,
        "title": job.title,
        "state": job.state.name(),
        "seconds": job.took.as_secs_f64(),
        "result": result,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::{Touches, testing::TestWorkspace};

    use super::*;

    fn record() -> Record {
        Record { mtime_ns: 1, partial: false, timestamp: 0.0 }
    }

    #[test]
    fn unreadable_file_has_no_read_state() {
        let (test_ws, elsewhere) =
            (TestWorkspace::new("//- a.txt\none\n"), TestWorkspace::new("//- b.txt\ntwo\n"));
        let cx = test_ws.cx_for(&Touches::none());
        let (inside, outside) = (test_ws.path().join("a.txt"), elsewhere.path().join("b.txt"));
        let link = test_ws.path().join("link");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        for path in [&inside, &outside, &link, &test_ws.path().join("absent")] {
            let question = Question::RecordRead { path: path.clone(), record: record() };
            assert_eq!(answer(&cx, question).unwrap(), Value::Null);
        }
        assert_eq!(read_state(&cx, &inside), Some(record()));
        for path in [&outside, &link, &test_ws.path().join("absent")] {
            assert_eq!(read_state(&cx, path), None, "{}", path.display());
        }
    }

    #[test]
    fn records_are_bounded_in_number_and_length() {
        let mut records = HashMap::new();
        assert_eq!(
            keep(&mut records, "a".repeat(LONGEST + 1).into(), record()).unwrap_err().kind,
            Kind::BadArgs
        );
        for at in 0..MOST {
            keep(&mut records, at.to_string().into(), record()).unwrap();
        }
        assert_eq!(keep(&mut records, "one more".into(), record()).unwrap_err().kind, Kind::TooBig);
        keep(&mut records, "0".into(), record()).unwrap();
    }
}
