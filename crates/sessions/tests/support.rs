//! A workspace with sessions whose model does what its prompts say.

use std::{path::Path, time::Duration};

use kit::redact::Secrets;
use serde_json::{Value, json};
use sessions::{Event, Fold, Handle, Operation, Prompt, Row, Watcher, testing::ScriptOpener};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A workspace `ws`, and state that nobody else has.
pub(crate) struct TestWorkspace {
    folder: tempfile::TempDir,
}

impl TestWorkspace {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("ws")).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns an opener that acts as a process of its own on this workspace, but for its process id.
    pub(crate) fn process(&self) -> ScriptOpener {
        process(self.path())
    }
}

pub(crate) fn process(folder: &Path) -> ScriptOpener {
    let secrets = Secrets::collect([("A_TOKEN", "hunter2hunter2")], []);
    ScriptOpener::new(&folder.join("ws"), &folder.join("state"), secrets).unwrap()
}

/// A prompt that has the model answer so.
pub(crate) fn prompt(answers: &[Value]) -> Operation {
    Operation::Prompt(Prompt::new(json!(answers).to_string()))
}

/// Rows until one is this; all of them.
pub(crate) async fn until(watcher: &mut Watcher, is: impl Fn(&Event) -> bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let reading = async {
        loop {
            let row = watcher.next().await.unwrap();
            let found = is(&row.event);
            rows.push(row);
            if found {
                return;
            }
        }
    };
    let done = tokio::time::timeout(TIMEOUT, reading).await;
    assert!(done.is_ok(), "it did not come after {rows:#?}");
    rows
}

/// The fold of all that a session has on the disk.
pub(crate) async fn folded(handle: &Handle) -> Fold {
    let (mut fold, mut watcher) = (Fold::new(), handle.watch(0));
    while let Some(row) = watcher.try_next().await.unwrap() {
        fold.add(&row);
    }
    fold
}

/// Rows come in order, and every number is covered once it was reached.
pub(crate) fn check_order(rows: &[Row], after: u64) {
    let mut last = after;
    for row in rows {
        assert!(row.seq > last && row.first <= row.seq, "{} after {last}", row.seq);
        last = row.seq;
    }
}

pub(crate) fn is_end(event: &Event) -> bool {
    matches!(event, Event::TurnEnded(_))
}
