//! The calls that each contestant gets, in its own words.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    super::{Trouble, line},
    install::Peer,
};

/// Lines of the file that is read whole: 4 kB.
const SMALL: usize = 50;
/// Lines of the file that is edited: 1 MB.
const MEDIUM: usize = 13_000;
/// Lines of the file of which a range is read: 100 MB.
const LARGE: usize = 1_250_000;
/// Files of the tree that is searched.
const TREE: usize = 5_000;

/// A contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Haft,
    /// haft as `cargo build --release` makes it, where the other one is of the `dist` profile.
    Release,
    Peer(Peer),
    /// The server in C, which answers every request with the same short result.
    Floor,
}

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Ping,
    Read,
    Range,
    Edit,
    Search,
    Glob,
    Shell,
    Python,
    Own,
}

impl Task {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ping => "`ping`",
            Self::Read => "read 4 kB",
            Self::Range => "50 lines in the middle of 100 MB",
            Self::Edit => "edit a line in 1 MB",
            Self::Search => "search 5,000 files",
            Self::Glob => "find 1 % of 5,000 files by name",
            Self::Shell => "shell `true`",
            Self::Python => "python `1+1`",
            Self::Own => "a tool of one's own, in Python",
        }
    }
}

impl Who {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Haft => "haft",
            Self::Release => "haft, the release profile",
            Self::Peer(peer) => peer.name(),
            Self::Floor => "a server in C",
        }
    }

    /// Returns the parameters of this contestant's call; nothing where it has no such tool. `turn` counts calls.
    pub(super) fn call(self, task: Task, at: &Workspace, turn: usize) -> Option<Value> {
        let (old, new) = (format!("// {turn} "), format!("// {} ", turn + 1));
        let path = |name: &str| at.folder.join(name);
        let edited = at.edited(self);
        let (tool, arguments) = match (task, self) {
            (Task::Ping, _) | (_, Self::Floor) => return None,
            (Task::Read, Self::Haft | Self::Release) => ("read", json!({"path": "small.rs"})),
            (Task::Read, Self::Peer(Peer::FastMcp)) => ("read", json!({"path": "small.rs"})),
            (Task::Read, Self::Peer(Peer::Commander)) => ("read_file", json!({"path": path("small.rs")})),
            (Task::Read, Self::Peer(_)) => ("read_text_file", json!({"path": path("small.rs")})),

            (Task::Range, Self::Haft | Self::Release) => {
                ("read", json!({"path": "large.rs", "offset": LARGE / 2, "limit": 50}))
            }
            (Task::Range, Self::Peer(Peer::Rust)) => {
                ("read_file_lines", json!({"path": path("large.rs"), "offset": LARGE / 2, "limit": 50}))
            }
            (Task::Range, Self::Peer(Peer::FastMcp)) => {
                ("lines", json!({"path": "large.rs", "start": LARGE / 2, "count": 50}))
            }
            (Task::Range, Self::Peer(Peer::Commander)) => {
                ("read_file", json!({"path": path("large.rs"), "offset": LARGE / 2, "length": 50}))
            }
            (Task::Range, Self::Peer(Peer::Node)) => return None,

            (Task::Edit, Self::Haft | Self::Release) => {
                ("edit", json!({"path": edited, "old": old, "new": new}))
            }
            (Task::Edit, Self::Peer(Peer::FastMcp)) => {
                ("edit", json!({"path": edited, "old": old, "new": new}))
            }
            (Task::Edit, Self::Peer(Peer::Commander)) => {
                ("edit_block", json!({"file_path": path(&edited), "old_string": old, "new_string": new}))
            }
            (Task::Edit, Self::Peer(_)) => {
                ("edit_file", json!({"path": path(&edited), "edits": [{"oldText": old, "newText": new}]}))
            }

            (Task::Search, Self::Haft | Self::Release) => {
                ("grep", json!({"pattern": "needle_in_it", "path": "tree"}))
            }
            (Task::Search, Self::Peer(Peer::Rust)) => (
                "search_files_content",
                json!({"path": path("tree"), "pattern": "*.rs", "query": "needle_in_it"}),
            ),
            (Task::Glob, Self::Haft | Self::Release) => ("glob", json!({"pattern": "tree/**/*_77.rs"})),
            (Task::Glob, Self::Peer(Peer::Rust | Peer::Node)) => {
                ("search_files", json!({"path": path("tree"), "pattern": "**/*_77.rs"}))
            }
            (Task::Search | Task::Glob, Self::Peer(_)) => return None,

            (Task::Shell, Self::Haft | Self::Release) => ("shell", json!({"command": "true"})),
            (Task::Shell, Self::Peer(Peer::FastMcp)) => ("shell", json!({"command": "true"})),
            (Task::Shell, Self::Peer(Peer::Commander)) => {
                ("start_process", json!({"command": "true", "timeout_ms": 5_000}))
            }
            (Task::Python, Self::Haft | Self::Release) => ("python", json!({"code": "1+1"})),
            (Task::Python, Self::Peer(Peer::FastMcp)) => ("python", json!({"code": "1+1"})),
            (Task::Own, Self::Haft | Self::Release) => ("shout", json!({"text": "good morning"})),
            (Task::Own, Self::Peer(Peer::FastMcp)) => ("shout", json!({"text": "good morning"})),
            (Task::Shell | Task::Python | Task::Own, Self::Peer(_)) => return None,
        };
        Some(json!({"name": tool, "arguments": arguments}))
    }
}

/// The files that all contestants work on.
pub(super) struct Workspace {
    pub(super) folder: PathBuf,
}

impl Workspace {
    /// Creates the workspace with the small file alone.
    pub(super) fn new(folder: PathBuf) -> Result<Self, Trouble> {
        fs::write(folder.join("small.rs"), lines(SMALL))?;
        Ok(Self { folder })
    }

    /// Writes the files of the longer calls: 100 MB, a tree, and for each contestant a file to edit.
    pub(super) fn fill(&self) -> Result<(), Trouble> {
        fs::write(self.folder.join("large.rs"), lines(LARGE))?;
        let body = lines(MEDIUM);
        let (before, after) = body.split_at(line(1).len() * MEDIUM / 2);
        let all = [Who::Haft, Who::Release, Who::Floor].into_iter().chain(Peer::ALL.map(Who::Peer));
        for who in all {
            fs::write(self.folder.join(self.edited(who)), format!("{before}// 0 edited\n{after}"))?;
        }
        self.tree()
    }

    /// The file that this contestant edits.
    pub(super) fn edited(&self, who: Who) -> String {
        format!("edited-{}.rs", who.name().replace([' ', ','], "-"))
    }

    fn tree(&self) -> Result<(), Trouble> {
        for number in 0..TREE {
            let folder = self.folder.join(format!("tree/module_{}", number / 100));
            if number % 100 == 0 {
                fs::create_dir_all(&folder)?;
            }
            let mut text: String = (1..=60).map(|at| line(number * 60 + at)).collect();
            if number % 500 == 77 {
                text.push_str("fn needle_in_it() {}\n");
            }
            fs::write(folder.join(format!("file_{}.rs", number % 100)), text)?;
        }
        Ok(())
    }
}

fn lines(many: usize) -> String {
    (1..=many).map(line).collect()
}

/// Writes, syncs and renames a file of the same size as the edited one: the least that an edit that lasts can do.
pub(super) fn durable_write(at: &Workspace) -> Result<(), Trouble> {
    let path: PathBuf = at.folder.join(at.edited(Who::Floor));
    let text = fs::read(&path)?;
    let beside: &Path = &path.with_extension("new");
    let file = fs::File::create(beside)?;
    std::io::Write::write_all(&mut &file, &text)?;
    file.sync_all()?;
    fs::rename(beside, &path)?;
    fs::File::open(&at.folder)?.sync_all()?;
    Ok(())
}
