//! MCP resources of jobs: their state and output.

use std::time::Duration;

use kit::{
    Body, Fault, Output, Part,
    services::{Job, Transcript},
};
use serve::{Content, Document};
use tokio::{sync::watch, time::sleep};

use super::{JOBS, McpBackend, OUTPUTS, SHOWN, bump};

/// The minimum interval between updates of a job's output.
const PACE: Duration = Duration::from_millis(200);

impl McpBackend {
    pub(super) fn job_documents(&self) -> impl Iterator<Item = Document> {
        self.session.job_table().list().into_iter().rev().map(|job| Document {
            uri: format!("{JOBS}{}", job.id),
            name: job.id.clone(),
            description: headline(&job),
            mime: Some("text/plain".to_owned()),
            bytes: None,
        })
    }

    /// Returns the ids of the jobs, the newest first.
    pub(super) fn job_ids(&self) -> Vec<String> {
        self.session.job_table().list().into_iter().rev().map(|job| job.id).collect()
    }

    pub(super) fn job(&self, uri: &str, id: &str) -> Result<Vec<Content>, Fault> {
        let job = self.find_job(id)?;
        let mut text = headline(&job);
        text.push('\n');
        text.push_str(&state_text(&job));
        let content =
            |mime: &str, body: Body| Content { uri: uri.to_owned(), mime: Some(mime.to_owned()), body };
        let mut contents = vec![content("text/plain", Body::Text(self.shown(&text)))];
        let parts = job.result.as_deref().and_then(|it| it.as_ref().ok()).map(|it| it.parts.as_slice());
        for part in parts.unwrap_or_default() {
            if let Part::Image { mime, data } | Part::Audio { mime, data } = part {
                contents.push(content(mime, Body::Bytes(data.clone())));
            }
        }
        Ok(contents)
    }

    /// Returns a number that changes while the job writes, and when its state does.
    pub(super) fn watch_job(&self, id: &str) -> Option<watch::Receiver<u64>> {
        // Subscribed before the job is found, so that no end is missed.
        let mut changes = self.session.job_changes();
        let mut job = self.find_job(id).ok()?;
        let (sender, receiver) = watch::channel(0);
        if job.state.is_over() {
            return Some(receiver);
        }
        let (id, session) = (id.to_owned(), self.session.weak());
        tokio::spawn(async move {
            let mut seen = job.live.output.as_deref().map_or(0, Transcript::total);
            while !job.state.is_over() {
                let output = job.live.output.clone();
                let grown = async {
                    match &output {
                        Some(output) if output.grown(seen).await => {}
                        // Without growing output, the other branches detect changes.
                        _ => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = sender.closed() => return,
                    changed = changes.changed() => if changed.is_err() { return },
                    () = grown => {}
                    // A tool may begin to write at any time, without a notification.
                    () = sleep(5 * PACE), if output.is_none() => {}
                }
                let Some(now) =
                    session.get().and_then(|it| it.job_table().list().into_iter().find(|it| it.id == id))
                else {
                    return;
                };
                let written = now.live.output.as_deref().map_or(0, Transcript::total);
                if written != seen || now.state != job.state {
                    bump(&sender);
                }
                (seen, job) = (written, now);
                sleep(PACE).await;
            }
        });
        Some(receiver)
    }

    /// Finds a job without marking its end as reported to the model: the client shows it to a person.
    fn find_job(&self, id: &str) -> Result<Job, Fault> {
        let jobs = self.session.job_table();
        match jobs.list().into_iter().find(|it| it.id == id) {
            Some(job) => Ok(job),
            None => {
                jobs.get(id).and_then(|job| Err(Fault::not_found(format!("`{id}` is written `{}`", job.id))))
            }
        }
    }
}

/// Returns a line such as `job_3 done, exit 0, 12.3 s: npm test`.
fn headline(job: &Job) -> String {
    let exit = match job.result.as_deref() {
        Some(Ok(output)) => output.exit,
        Some(Err(fault)) => fault.seen.as_deref().and_then(|it| it.exit),
        None => None,
    };
    let exit = exit.map(|exit| format!(", exit {exit}")).unwrap_or_default();
    let name = if job.title.is_empty() { &job.tool } else { &job.title };
    format!("{} {}{exit}, {:.1} s: {name}", job.id, job.state.name(), job.took.as_secs_f64())
}

/// Returns the job's error, or its output until now, or its result, or the text with which it waits.
fn state_text(job: &Job) -> String {
    let written = job.live.output.as_deref().filter(|it| it.total() > 0);
    match (job.result.as_deref(), written) {
        (Some(Err(fault)), _) => fault.as_text(),
        (Some(Ok(output)), None) => output.as_text(),
        (_, Some(written)) => whole(written),
        (None, None) => job.said.as_deref().map(Output::as_text).unwrap_or_default(),
    }
}

/// Returns the whole output, or the end of it with the address of the rest.
fn whole(written: &dyn Transcript) -> String {
    let slice = written.tail(SHOWN);
    if slice.bytes.start == 0 {
        return slice.text;
    }
    let all = slice.handle.map(|handle| format!("; all of it: {OUTPUTS}{handle}")).unwrap_or_default();
    format!("[bytes {}-{} of {}{all}]\n{}", slice.bytes.start, slice.bytes.end, slice.total, slice.text)
}
