//! Tools for jobs, and the text form of a job.

mod continue_job;
#[expect(clippy::module_inception, reason = "one file is one tool, and this tool has its family's name")]
mod jobs;
mod read_job;
mod stop_task;
mod wait;

use std::{fmt, sync::Arc, time::Duration};

pub(crate) use continue_job::ContinueJob;
use kit::{AnyTool, Cx, Output, Part, erase, services::Job};
pub(crate) use read_job::ReadJob;
use serde::{Deserialize, Deserializer, de};
pub(crate) use stop_task::StopTask;
pub(crate) use wait::Wait;

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<jobs::Jobs>(),
        erase::<read_job::ReadJob>(),
        erase::<wait::Wait>(),
        erase::<stop_task::StopTask>(),
        erase::<ContinueJob>(),
    ]
}

/// Formats `job_3 done, exit 0, 12.3 s: npm test`.
fn headline(job: &Job) -> String {
    let exit = match job.result.as_deref() {
        Some(Ok(output)) => output.exit,
        Some(Err(fault)) => fault.seen.as_deref().and_then(|seen| seen.exit),
        None => None,
    };
    let exit = exit.map(|exit| format!(", exit {exit}")).unwrap_or_default();
    format!("{} {}{exit}, {}: {}", job.id, job.state.name(), seconds(job.took), name(job))
}

/// Returns its title for people.
fn name(job: &Job) -> &str {
    if job.title.is_empty() { &job.tool } else { &job.title }
}

/// Formats a duration: `12.3 s`, or `75 s` for a long one.
fn seconds(took: Duration) -> String {
    if took < Duration::from_secs(60) {
        format!("{:.1} s", took.as_secs_f64())
    } else {
        format!("{} s", took.as_secs())
    }
}

/// Formats the headline, these lines, and then the job's result, its question while it waits, or at most
/// `bytes` of its output.
fn report(cx: &Cx, job: &Job, lines: &[String], bytes: usize) -> Output {
    let mut text = headline(job);
    for line in lines {
        text.push('\n');
        text.push_str(line);
    }
    let mut output = Output::text(text);
    match (job.result.as_deref(), job.said.as_deref()) {
        (Some(Ok(result)), _) => {
            output.parts.extend(result.parts.iter().filter(|part| !is_empty(part)).cloned());
            output.exit = result.exit;
        }
        (Some(Err(fault)), _) => {
            output.parts.push(Part::Text { text: fault.as_text() });
            let others = fault.seen.iter().flat_map(|seen| &seen.parts);
            output.parts.extend(others.filter(|part| !matches!(part, Part::Text { .. })).cloned());
        }
        (None, Some(said)) => output.parts.extend(said.parts.iter().cloned()),
        (None, None) => output.parts.push(Part::Text { text: written(cx, job, bytes) }),
    }
    output
}

fn is_empty(part: &Part) -> bool {
    matches!(part, Part::Text { text } if text.is_empty())
}

/// Returns a job's output until now: a little of the beginning and more of the end.
fn written(cx: &Cx, job: &Job, bytes: usize) -> String {
    let Some(output) = &job.live.output else { return "it shows no output before its end".to_owned() };
    let total = output.total();
    if total == 0 {
        return "it has written nothing yet".to_owned();
    }
    if total <= bytes as u64 {
        return output.tail(bytes).text;
    }
    let head = output.read(0, bytes / 5);
    let tail = output.tail(bytes - bytes / 5);
    // The head may be longer than requested, and then reaches into the tail.
    let head_text = head.text.get(..head.text.floor_char_boundary(bytes / 5)).unwrap_or_default();
    let out = tail.bytes.start.saturating_sub(head_text.len() as u64);
    let whole = tail.handle.map(|handle| format!("; all of it: {handle}")).unwrap_or_default();
    let gap = if head_text.ends_with('\n') { "" } else { "\n" };
    let pages = cx.named("[?; `tool:read_job` with `arg:read_job.offset` pages?]");
    format!("{head_text}{gap}[about {out} of {total} bytes left out{whole}{pages}]\n{}", tail.text)
}

/// The id of a job: `job_3`, or its number.
struct Id(String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl de::Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a job's id such as `job_3`")
    }

    fn visit_str<E>(self, text: &str) -> Result<Id, E> {
        Ok(Id(text.to_owned()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Id, E> {
        Ok(Id(number.to_string()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Id, E> {
        Err(E::invalid_value(de::Unexpected::Signed(number), &self))
    }
}

#[cfg(test)]
mod tests;
