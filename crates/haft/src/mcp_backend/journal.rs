//! MCP resources of the journal: the calls of a session.

use kit::{Body, Fault};
use serve::{Content, Document};
use store::journal::{CallRecord, Filter};

use super::{JOURNAL, McpBackend, SHOWN, in_brief};
use crate::verbs::log::{line, whole};

/// The maximum number of calls that are shown, the newest first.
const CALLS: usize = 500;

impl McpBackend {
    pub(super) fn journal_document(&self) -> Document {
        Document {
            uri: JOURNAL.to_owned(),
            name: "journal".to_owned(),
            description: "The calls of this session, the newest last.".to_owned(),
            mime: Some("text/plain".to_owned()),
            bytes: None,
        }
    }

    pub(super) fn journal(&self, uri: &str) -> Result<Vec<Content>, Fault> {
        let workspace = self.session.runtime().roots().workspace();
        let lines: Vec<String> =
            self.records(None, CALLS)?.iter().map(|record| line(record, workspace)).collect();
        // The newest calls are kept if the text is too long.
        let mut left = SHOWN;
        let shown = lines.iter().rev().take_while(|line| {
            let fits = line.len() <= left;
            left = left.saturating_sub(line.len());
            fits
        });
        let from = lines.len() - shown.count();
        let text = lines.get(from..).unwrap_or_default().concat();
        Ok(self.text(uri, if text.is_empty() { "no calls" } else { &text }))
    }

    pub(super) fn call_record(&self, uri: &str, call: &str) -> Result<Vec<Content>, Fault> {
        let records = self.records(Some(call.to_owned()), 1)?;
        let Some(record) = records.first() else {
            let what = format!("this session has no call `{}`", in_brief(call));
            return Err(Fault::not_found(what).next("`haft://journal` shows its calls."));
        };
        Ok(self.text(uri, &whole(record, self.session.runtime().roots().workspace())))
    }

    /// Returns the ids of the calls, the newest first.
    pub(super) fn call_ids(&self) -> Vec<String> {
        let records = self.records(None, CALLS).unwrap_or_default();
        records.into_iter().rev().map(|record| record.call).collect()
    }

    fn records(&self, call: Option<String>, limit: usize) -> Result<Vec<CallRecord>, Fault> {
        let session = Some(self.session.name().to_owned());
        self.session.runtime().store().journal().log(Filter { session, call, limit, ..Filter::default() })
    }

    fn text(&self, uri: &str, text: &str) -> Vec<Content> {
        let (uri, mime) = (uri.to_owned(), Some("text/plain".to_owned()));
        vec![Content { uri, mime, body: Body::Text(self.shown(text)) }]
    }
}
