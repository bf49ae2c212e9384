//! MCP session backend: the tools, prompts and resources that a client gets.

mod jobs;
mod journal;
mod outputs;
mod prompts;
#[cfg(feature = "web")]
mod views;

use std::{future::Future, sync::Arc};

use agent::profiles::Profiles;
use kit::{
    Fault, Kind, Part, Spec,
    services::{Jobs, NotLoaded},
};
use parking_lot::Mutex;
use runtime::{Answer, Call, Event, Session, truncate::kept_handle};
use serde_json::Value;
use serve::{
    Abilities, Backend, Changes, Client, Content, Document, Level, Line, Notice, Pattern, Prompt, Subject,
};
use tokio::sync::{broadcast, watch};

use crate::{Opened, client_services::ClientSlots, verbs::in_short};

/// The maximum number of notices that are queued for a client.
const NOTICES: usize = 64;

/// The address prefix of spilled outputs.
const OUTPUTS: &str = "haft://outputs/";

/// The address prefix of files that the session shared.
const FILES: &str = "haft://files/";

/// The address prefix of jobs.
const JOBS: &str = "haft://jobs/";

/// The address of the session's calls.
const JOURNAL: &str = "haft://journal";

/// The maximum size of a shown document, in bytes; a longer one says where the rest is.
const SHOWN: usize = 1 << 20;

/// One session's tools, and the resources and prompts that a client may read. Cheap to clone.
#[derive(Clone)]
pub struct McpBackend {
    session: Session,
    slots: Arc<ClientSlots>,
    toolset: Arc<str>,
    profiles: Profiles,
    notices: broadcast::Sender<Notice>,
    /// Notices that wait for the first subscriber.
    unsent: Arc<Mutex<Vec<Notice>>>,
    /// Counts changes of the list of documents.
    documents: watch::Sender<u64>,
    /// Counts finished calls.
    calls: watch::Sender<u64>,
}

impl McpBackend {
    /// Creates the backend of a session, which reaches its person through `slots`. Needs a tokio runtime.
    pub fn new(session: Session, opened: &Opened, slots: Arc<ClientSlots>) -> Self {
        session.files().serve_at(FILES);
        let this = Self {
            session,
            slots,
            toolset: opened.toolset.as_str().into(),
            profiles: opened.profiles.clone(),
            notices: broadcast::Sender::new(NOTICES),
            unsent: Arc::default(),
            documents: watch::Sender::default(),
            calls: watch::Sender::default(),
        };
        // These tasks end with the session's jobs, or with the last client: they must not keep the session alive.
        let (mut jobs, documents) = (this.session.job_changes(), this.documents.clone());
        tokio::spawn(async move {
            while jobs.changed().await.is_ok() {
                bump(&documents);
            }
        });
        let (mut events, notices) = (this.session.events(), this.notices.clone());
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                // There may be no subscriber.
                let _ = notices.send(of_job(&event));
            }
        });
        this
    }

    /// Returns a function that notifies clients of a tool file that could not be loaded.
    pub fn report_not_loaded(&self) -> impl Fn(&NotLoaded) + Send + 'static {
        let (notices, unsent) = (self.notices.clone(), self.unsent.clone());
        move |it| {
            let data = Value::from(in_short(it));
            let notice = Notice { level: Level::Warning, logger: "tools".to_owned(), data };
            let mut unsent = unsent.lock();
            // Each error is sent once, and most files fail before the client has sent its first message.
            if let Err(broadcast::error::SendError(notice)) = notices.send(notice)
                && unsent.len() < NOTICES
            {
                unsent.push(notice);
            }
        }
    }

    fn report_denied(&self, tool: &str, fault: &Fault) {
        let why = fault.what.lines().next().unwrap_or_default();
        let data = Value::from(format!("{tool}: {why}"));
        let _ = self.notices.send(Notice { level: Level::Notice, logger: "policy".to_owned(), data });
    }

    /// Returns the text as a model would get it: secrets redacted, hidden characters escaped.
    fn shown(&self, text: &str) -> String {
        kit::escape::visible(&self.session.runtime().masked(text)).0.into_owned()
    }

    /// Reads the resource at an address. Blocks.
    fn look(&self, uri: &str) -> Result<Vec<Content>, Fault> {
        if let Some(job) = uri.strip_prefix(JOBS) {
            return self.job(uri, job);
        }
        if let Some(handle) = uri.strip_prefix(OUTPUTS) {
            return self.output(uri, handle);
        }
        if let Some(file) = uri.strip_prefix(FILES) {
            return self.file(uri, file);
        }
        match uri.strip_prefix(JOURNAL).map(|rest| rest.strip_prefix('/').unwrap_or(rest)) {
            Some("") => self.journal(uri),
            Some(call) => self.call_record(uri, call),
            None => Err(Fault::not_found(format!("there is no `{}`", in_brief(uri)))
                .next("`resources/list` and `resources/templates/list` list what there is.")),
        }
    }
}

impl Backend for McpBackend {
    fn specs(&self) -> Vec<Spec> {
        Backend::specs(&self.session)
    }

    fn has(&self, name: &str) -> bool {
        Backend::has(&self.session, name)
    }

    fn find(&self, name: &str) -> impl Future<Output = bool> + Send {
        self.session.find(name)
    }

    fn why_missing(&self, name: &str) -> Option<String> {
        Backend::why_missing(&self.session, name)
    }

    fn settled(&self) -> impl Future<Output = ()> + Send {
        Backend::settled(&self.session)
    }

    /// The two prompts never change; only the completions of their arguments do.
    fn changes(&self) -> Changes {
        Changes { documents: Some(self.documents.subscribe()), ..Backend::changes(&self.session) }
    }

    fn abilities(&self) -> Abilities {
        Abilities { watch: true, complete: true, log: true }
    }

    fn declares(&self, name: &str) -> bool {
        self.session.catalog().get(name).is_some_and(|it| it.spec().output.is_some())
    }

    fn notices(&self) -> Option<broadcast::Receiver<Notice>> {
        let mut unsent = self.unsent.lock();
        let listening = self.notices.subscribe();
        // The new subscriber receives all of them.
        unsent.drain(..).for_each(|notice| drop(self.notices.send(notice)));
        Some(listening)
    }

    fn new_call_id(&self) -> Option<String> {
        Some(self.session.new_call_id())
    }

    async fn call(&self, call: Call, client: Client) -> Answer {
        let tool = call.tool.clone();
        if let Some(id) = &call.id {
            self.slots.note(id, &client, call.progress.clone());
        }
        let mut answer = Backend::call(&self.session, call, client).await;
        match &mut answer.result {
            Ok(output) => {
                // A link costs about 30 tokens, beside a truncated text of about 16,000; and a person can open it.
                let links: Vec<Part> = output.parts.iter().filter_map(kept_whole).collect();
                if !links.is_empty() || output.parts.iter().any(is_file) {
                    bump(&self.documents);
                }
                output.parts.extend(links);
            }
            Err(fault) if fault.kind == Kind::Denied => self.report_denied(&tool, fault),
            Err(_) => {}
        }
        bump(&self.calls);
        answer
    }

    fn promote(&self, call: &str) -> Result<String, Fault> {
        self.session.promote(call)
    }

    fn job_of(&self, call: &str) -> Option<String> {
        self.session.job_of(call)
    }

    fn jobs(&self) -> Option<Arc<dyn Jobs>> {
        Some(self.session.job_table())
    }

    fn documents(&self) -> Result<Vec<Document>, Fault> {
        let mut documents = vec![self.journal_document()];
        documents.extend(self.job_documents());
        documents.extend(self.output_documents()?);
        documents.extend(self.file_documents()?);
        Ok(documents)
    }

    fn patterns(&self) -> Vec<Pattern> {
        let pattern = |uri: &str, name: &str, description: &str, mime: Option<&str>| Pattern {
            uri: uri.to_owned(),
            name: name.to_owned(),
            description: description.to_owned(),
            mime: mime.map(str::to_owned),
        };
        vec![
            pattern(
                "haft://jobs/{job}",
                "job",
                "How a background job stands, and what it wrote.",
                Some("text/plain"),
            ),
            pattern(
                "haft://journal/{call}",
                "call",
                "One call: its arguments, and what came of it.",
                Some("text/plain"),
            ),
            pattern(
                "haft://outputs/{handle}",
                "output",
                "The whole of an output that was too long to show.",
                None,
            ),
            pattern("haft://files/{file}", "file", "A file that was shared, for a day.", None),
        ]
    }

    async fn read(&self, uri: &str, _client: Client) -> Result<Vec<Content>, Fault> {
        let (this, uri) = (self.clone(), uri.to_owned());
        aside(move || this.look(&uri)).await
    }

    fn watch(&self, uri: &str) -> Option<watch::Receiver<u64>> {
        if uri == JOURNAL {
            return Some(self.calls.subscribe());
        }
        self.watch_job(uri.strip_prefix(JOBS)?)
    }

    #[cfg(feature = "web")]
    fn views(&self) -> Vec<serve::View> {
        self.all_views()
    }

    #[cfg(feature = "web")]
    async fn view_data(&self, tool: &str, answer: &Answer) -> Option<Value> {
        self.data_of(tool, answer).await
    }

    fn prompts(&self) -> Vec<Prompt> {
        prompts::all()
    }

    async fn prompt(
        &self,
        name: &str,
        arguments: Vec<(String, String)>,
        _client: Client,
    ) -> Result<Vec<Line>, Fault> {
        Backend::settled(&self.session).await;
        let (this, name) = (self.clone(), name.to_owned());
        aside(move || this.fill(&name, &arguments)).await
    }

    fn complete(&self, of: &Subject, argument: &str, begun: &str) -> Vec<String> {
        let all = match of {
            Subject::Prompt(prompt) => self.values(prompt, argument),
            Subject::Documents(pattern) => match (pattern.as_str(), argument) {
                ("haft://jobs/{job}", "job") => self.job_ids(),
                ("haft://outputs/{handle}", "handle") => self.handles(),
                ("haft://journal/{call}", "call") => self.call_ids(),
                ("haft://files/{file}", "file") => self.file_ids(),
                _ => Vec::new(),
            },
        };
        likeliest(all, begun)
    }

    fn is_working(&self) -> bool {
        self.session.has_running_jobs()
    }

    fn end(&self) -> impl Future<Output = ()> + Send {
        self.session.end()
    }
}

/// Returns the items with this prefix, then those that contain it, each in the given order.
fn likeliest(all: Vec<String>, begun: &str) -> Vec<String> {
    let begun = begun.to_lowercase();
    let (mut first, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|it| it.to_lowercase().starts_with(&begun));
    first.extend(others.into_iter().filter(|it| it.to_lowercase().contains(&begun)));
    first
}

/// Returns a link to the whole of a truncated text.
fn kept_whole(part: &Part) -> Option<Part> {
    let Part::Text { text } = part else { return None };
    let handle = kept_handle(text)?;
    let mime = Some("text/plain".to_owned());
    Some(Part::Link { uri: format!("{OUTPUTS}{handle}"), name: handle.to_owned(), mime, bytes: None })
}

/// Returns whether the part is a link to a shared file.
fn is_file(part: &Part) -> bool {
    matches!(part, Part::Link { uri, .. } if uri.starts_with(FILES))
}

/// Returns a notice, one line, of a job that ended or waits.
fn of_job(event: &Event) -> Notice {
    let name = if event.title.is_empty() { &event.tool } else { &event.title };
    let failed = event.state == "error" || event.exit.is_some_and(|exit| exit != 0);
    let exit = event.exit.map(|exit| format!(", exit {exit}")).unwrap_or_default();
    let line = format!("{} {}{exit}, {:.1} s: {name}", event.job, event.state, event.took.as_secs_f64());
    let level = if failed { Level::Notice } else { Level::Info };
    Notice { level, logger: "jobs".to_owned(), data: Value::from(line) }
}

fn bump(number: &watch::Sender<u64>) {
    number.send_modify(|it| *it += 1);
}

/// Truncates an address or a name for an error.
fn in_brief(text: &str) -> &str {
    text.get(..text.floor_char_boundary(200)).unwrap_or_default()
}

async fn aside<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let looked = tokio::task::spawn_blocking(look).await;
    looked.unwrap_or_else(|error| Err(Fault::bug(format!("the look at it was lost: {error}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_so_comes_before_what_has_it_within() {
        let all = ["regrep", "Grep", "glob", "grepper"].map(str::to_owned).to_vec();
        assert_eq!(likeliest(all.clone(), "grep"), ["Grep", "grepper", "regrep"]);
        assert_eq!(likeliest(all.clone(), ""), all);
        assert!(likeliest(all, "x").is_empty());
    }
}
