//! Trusted workspaces: a person's word for their configuration and tools.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use kit::{Fault, Kind};
use rustix::fs::OFlags;

use super::{DOT_MCP, FILE, files::bounded};

/// The workspaces that the person has trusted: the configuration of each by its exact text, its tools by its path. One
/// line says one thing, and a line that a trust has ended takes back those before it.
pub struct Trust {
    file: PathBuf,
}

impl Trust {
    /// The list kept in this state folder.
    pub fn in_state(state: &Path) -> Self {
        Self { file: state.join("trusted") }
    }

    /// Is the workspace's configuration trusted as it is now?
    pub fn holds(&self, workspace: &Path) -> bool {
        self.has(workspace, &mark(workspace))
    }

    /// May the workspace's tools run? That was said of all that the person who works there puts there.
    pub fn holds_tools(&self, workspace: &Path) -> bool {
        self.has(workspace, &mark_of_tools(workspace))
    }

    /// May the servers be started that the workspace's `.mcp.json` names as it is now?
    pub fn holds_servers(&self, workspace: &Path) -> bool {
        self.has(workspace, &mark_of_servers(workspace))
    }

    /// Trusts all of these.
    ///
    /// # Errors
    /// When the list can't be written.
    pub fn add(&self, workspace: &Path) -> Result<(), Fault> {
        self.put(workspace, &mark(workspace))?;
        if workspace.join(DOT_MCP).exists() {
            self.put(workspace, &mark_of_servers(workspace))?;
        }
        self.put(workspace, &mark_of_tools(workspace))
    }

    /// Takes back whatever trust there is in the workspace. False if there was none.
    ///
    /// # Errors
    /// When the list can't be written.
    pub fn end(&self, workspace: &Path) -> Result<bool, Fault> {
        let name = name_of(workspace);
        let is_of_it = |line: &String| line.split_once(' ').is_some_and(|(_, it)| it == name);
        let is_trusted = self.lines(workspace).iter().any(is_of_it);
        if is_trusted {
            self.write(&mark_of_end(workspace))?;
        }
        Ok(is_trusted)
    }

    /// The file that has the list.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The lines of the list that count for this workspace: those after its last end.
    fn lines(&self, workspace: &Path) -> Vec<String> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let end = mark_of_end(workspace);
        let mut lines: Vec<String> =
            text.lines().rev().take_while(|it| *it != end).map(str::to_owned).collect();
        lines.reverse();
        lines
    }

    fn has(&self, workspace: &Path, mark: &str) -> bool {
        self.lines(workspace).iter().any(|line| line == mark)
    }

    fn put(&self, workspace: &Path, mark: &str) -> Result<(), Fault> {
        if self.has(workspace, mark) { Ok(()) } else { self.write(mark) }
    }

    fn write(&self, mark: &str) -> Result<(), Fault> {
        use io::Write;
        let write = || {
            if let Some(folder) = self.file.parent() {
                fs::create_dir_all(folder)?;
            }
            // One line in one write: two that add at once both stay whole.
            let mut file = fs::OpenOptions::new().append(true).create(true).open(&self.file)?;
            file.write_all(format!("{mark}\n").as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error: io::Error| {
            Fault::new(Kind::Unavailable, format!("can't write `{}`: {error}", self.file.display()))
                .caused_by(error)
        })
    }
}

/// What says that the tools of this workspace may run. No hash looks like it.
fn mark_of_tools(workspace: &Path) -> String {
    format!("tools {}", name_of(workspace))
}

/// What says that the servers may be started that this text names.
fn mark_of_servers(workspace: &Path) -> String {
    let text = bounded(&workspace.join(DOT_MCP), OFlags::NOFOLLOW).unwrap_or_default();
    format!("servers:{} {}", blake3::hash(&text).to_hex(), name_of(workspace))
}

/// What says that nothing before it counts for this workspace.
fn mark_of_end(workspace: &Path) -> String {
    format!("end {}", name_of(workspace))
}

/// The workspace's path, on one line.
fn name_of(workspace: &Path) -> String {
    workspace.display().to_string().escape_default().to_string()
}

/// A text that changes with the configuration: a later pull doesn't inherit the trust.
pub(super) fn mark(workspace: &Path) -> String {
    let text = bounded(&workspace.join(FILE), OFlags::NOFOLLOW).unwrap_or_default();
    let hash = blake3::hash(&text).to_hex();
    format!("{hash} {}", name_of(workspace))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_trust_that_ended_can_begin_again() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("one more"));
        let trust = Trust::in_state(dir.path());
        assert!(!trust.end(&one).unwrap(), "there was none");
        for _ in 0..2 {
            trust.add(&one).unwrap();
            trust.add(&other).unwrap();
            assert!(trust.holds(&one) && trust.holds_tools(&one));
            assert!(trust.end(&one).unwrap());
            assert!(!trust.end(&one).unwrap());
            assert!(!trust.holds(&one) && !trust.holds_tools(&one));
            assert!(trust.holds(&other) && trust.holds_tools(&other), "that of another is its own");
        }
    }
}
