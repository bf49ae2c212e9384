//! Operations between turns: compacts the conversation, and removes its newest turns.

use kit::Fault;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentError};
use crate::{
    compaction::{Shorten, weight},
    loop_detection::{LoopDetector, changing},
    model::{Piece, Usage},
    transcript::Message,
};

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compacted {
    /// Approximate number of tokens of the next request, before the compaction.
    pub before: u64,
    /// Approximate number of tokens after it.
    pub after: u64,
    /// The tokens that the summary used.
    pub usage: Usage,
    /// The cost in dollars, where it is known.
    pub cost: Option<f64>,
}

/// The result of a rewind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rewound {
    /// The number of removed turns.
    pub turns: usize,
    /// The person's words at the beginning of the first removed turn, to edit and send again.
    pub said: String,
    /// The calls in these turns that changed files and were not undone, the newest first. The files are as
    /// the calls left them; undoing the calls in this order restores them.
    pub changed: Vec<ChangedBy>,
}

/// A call that changed files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedBy {
    /// Its id in the journal, for undo.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// The session that made it, where that is another one: it was made before a fork, and is undone with `haft undo --call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<String>,
    /// The files, relative to the workspace where they are in it.
    pub files: Vec<String>,
}

impl Agent {
    /// Adds a text of the model for the person, which the end of an earlier process cut off.
    pub fn tell_cut_off(&mut self, text: String) {
        self.transcript.tell(&Message::Model { text, cut_off: true });
    }

    /// Gives the model these pieces with the next message, unless they wait for it already.
    pub fn give_next(&mut self, pieces: Vec<Piece>) {
        let waiting = self.transcript.notes();
        if !pieces.is_empty() && !waiting.windows(pieces.len()).any(|it| it == pieces) {
            self.transcript.show(pieces);
        }
    }

    /// Replaces the whole conversation with a summary, on the person's request; `extra` is what they want of
    /// it ("keep the names of the tests"). The whole stays readable under a handle that the summary names.
    ///
    /// # Errors
    /// When there is too little to compact, the compaction is cancelled, the model writes no summary, or the
    /// conversation can't be written. The conversation then stays as it was.
    pub async fn compact(
        &mut self,
        extra: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Compacted, AgentError> {
        self.transcript.mend(&self.session)?;
        let model = self.steering.model();
        let specs: Vec<_> = self.session.catalog().listed().cloned().collect();
        let mut usage = Usage::default();
        let shorten = Shorten {
            session: &self.session,
            host: &self.host,
            model: &model,
            transcript: &mut self.transcript,
            rate: self.rate,
            beside: weight(&self.steering.system(), &specs, &[]),
            cancel,
        };
        let (before, after) = shorten.by_hand(extra, &mut usage).await?;
        // The model can no longer read the earlier results.
        self.loops.forget();
        self.estimate_size();
        self.transcript.written().await?;
        let cost = model.abilities().price.map(|it| usage.cost(&it));
        Ok(Compacted { before, after, usage, cost })
    }

    /// Returns the person's words at the beginning of each turn that [`rewind`](Self::rewind) can remove,
    /// oldest first.
    pub fn turns(&self) -> Vec<String> {
        self.transcript.turns().iter().map(|it| words(it)).collect()
    }

    /// Removes the person's newest turns from the conversation, with everything said and done in them: the
    /// model no longer knows of them, also in later processes. The journal keeps its records, and files stay
    /// as they are.
    ///
    /// # Errors
    /// When there are fewer turns, or the rewind can't be written.
    pub async fn rewind(&mut self, turns: usize) -> Result<Rewound, AgentError> {
        self.transcript.mend(&self.session)?;
        let back = self.transcript.rewind(turns)?;
        let changing = changing(self.session.catalog().specs());
        self.loops = LoopDetector::of(self.transcript.items(), |tool| changing.contains(tool));
        self.counted = None;
        self.estimate_size();
        self.transcript.written().await?;
        let changed = self.left_of(back.calls)?;
        Ok(Rewound { turns, said: words(&back.said), changed })
    }

    /// Returns the changes of these calls that can still be undone.
    fn left_of(&self, calls: Vec<String>) -> Result<Vec<ChangedBy>, Fault> {
        let runtime = self.session.runtime();
        let workspace = runtime.roots().workspace();
        let left = runtime.store().left_to_undo(calls)?;
        let changed = left.into_iter().map(|it| {
            let name = |path: std::path::PathBuf| {
                path.strip_prefix(workspace).unwrap_or(&path).display().to_string()
            };
            let own = self.session.name();
            let below = it.session.strip_prefix(own).is_some_and(|it| it.is_empty() || it.starts_with('/'));
            let elsewhere = (!below).then_some(it.session);
            let files = it.files.into_iter().map(name).collect();
            ChangedBy { call: it.call, tool: it.tool, elsewhere, files }
        });
        Ok(changed.collect())
    }
}

/// Returns the person's words of their input: they are its last piece.
fn words(given: &[Piece]) -> String {
    match given.last() {
        Some(Piece::Text { text }) => text.clone(),
        _ => String::new(),
    }
}
