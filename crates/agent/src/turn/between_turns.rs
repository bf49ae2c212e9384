//! What a person does to a conversation between its turns: compacts it, or takes the newest turns back.

use kit::Fault;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentError};
use crate::{
    compaction::{Shorten, weight},
    loop_detection::{Loops, changing},
    model::{Piece, Usage},
};

/// What compacting a conversation came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compacted {
    /// About how many tokens the next request had before it.
    pub before: u64,
    /// About how many it has now.
    pub after: u64,
    /// What the summary took.
    pub usage: Usage,
    /// What that costs, in dollars, where it is known.
    pub cost: Option<f64>,
}

/// What taking turns back came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rewound {
    /// How many turns were taken back.
    pub turns: usize,
    /// What the person said at the beginning of the first of them, to say it otherwise.
    pub said: String,
    /// The calls of these turns that changed files and were not undone, the newest first. The files are as the calls left
    /// them: who wants them back undoes the calls in this order.
    pub changed: Vec<ChangedBy>,
}

/// A call that changed files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedBy {
    /// Its id in the journal, by which it is undone.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// The session that made it, where that is another one: it was made before a fork, and is undone with `haft undo --call`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<String>,
    /// The files, relative to the workspace where they are in it.
    pub files: Vec<String>,
}

impl Agent {
    /// Puts a summary in the place of all that was said, because the person wants it; `extra` is what they say about it
    /// ("keep the names of the tests"). The whole stays readable under a handle that the summary names.
    ///
    /// # Errors
    /// When there is too little to compact, it is cancelled, the model makes no summary, or what is said can't be kept. The
    /// conversation is as it was then.
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
        // The model can no longer look at what it was told before.
        self.loops.forget();
        self.estimate_size();
        self.transcript.written().await?;
        let cost = model.abilities().price.map(|it| usage.cost(&it));
        Ok(Compacted { before, after, usage, cost })
    }

    /// What the person said at the beginning of each turn that [`rewind`](Self::rewind) can take back, oldest first.
    pub fn turns(&self) -> Vec<String> {
        self.transcript.turns().iter().map(|it| words(it)).collect()
    }

    /// Takes the newest turns of the person out of the conversation, with all that was said and done in them: the model
    /// no longer knows of them, in later processes neither. The journal keeps what was done, and files stay as they are.
    ///
    /// # Errors
    /// When there are not so many turns, or it can't be kept.
    pub async fn rewind(&mut self, turns: usize) -> Result<Rewound, AgentError> {
        self.transcript.mend(&self.session)?;
        let back = self.transcript.rewind(turns)?;
        let changing = changing(self.session.catalog().specs());
        self.loops = Loops::of(self.transcript.items(), |tool| changing.contains(tool));
        self.counted = None;
        self.estimate_size();
        self.transcript.written().await?;
        let changed = self.left_of(back.calls)?;
        Ok(Rewound { turns, said: words(&back.said), changed })
    }

    /// What is left to undo of these calls.
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

/// The person's words among what they gave: they stand last.
fn words(given: &[Piece]) -> String {
    match given.last() {
        Some(Piece::Text { text }) => text.clone(),
        _ => String::new(),
    }
}
