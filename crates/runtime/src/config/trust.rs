//! Trusted workspaces: the configurations and tools that a person trusts.

use std::{
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use kit::{Fault, Kind};
use rustix::fs::OFlags;
use serde_json::Value;

use super::{
    Config, DOT_MCP, FILE,
    files::{bounded, text_of_another},
    hooks::{commands_in, files_named},
};

/// Claude Code's folder in a workspace.
pub const CLAUDE: &str = ".claude";

/// The files there that have hooks.
pub const CLAUDE_SETTINGS: [&str; 2] = ["settings.json", "settings.local.json"];

/// The record of trusted workspaces: the configuration of each by its exact text, its tools by its path. Each
/// line records one fact; a line that ends the trust revokes those before it.
pub struct Trust {
    file: PathBuf,
}

impl Trust {
    /// Returns the record in this state folder.
    pub fn in_state(state: &Path) -> Self {
        Self { file: state.join("trusted") }
    }

    /// Returns whether the workspace's present configuration is trusted.
    pub fn holds(&self, workspace: &Path) -> bool {
        self.has(workspace, &mark(workspace))
    }

    /// Returns whether the workspace's tools may run. This covers all tools that the person who works there
    /// adds later.
    pub fn holds_tools(&self, workspace: &Path) -> bool {
        self.has(workspace, &mark_of_tools(workspace))
    }

    /// Returns whether the servers in the workspace's present `.mcp.json` may be started.
    pub fn holds_servers(&self, workspace: &Path) -> bool {
        self.has(workspace, &mark_of_servers(workspace))
    }

    /// Returns whether the workspace's present hooks may run: those in its haft.toml and in Claude Code's
    /// settings. This covers the content of the files of the workspace that they name.
    pub fn holds_hooks(&self, workspace: &Path) -> bool {
        self.has(workspace, &mark_of_hooks(workspace))
    }

    /// Trusts the configuration, the servers, the hooks and the tools.
    ///
    /// # Errors
    /// When the list can't be written.
    pub fn add(&self, workspace: &Path) -> Result<(), Fault> {
        self.put(workspace, &mark(workspace))?;
        if workspace.join(DOT_MCP).exists() {
            self.put(workspace, &mark_of_servers(workspace))?;
        }
        if has_hooks(workspace) {
            self.put(workspace, &mark_of_hooks(workspace))?;
        }
        self.put(workspace, &mark_of_tools(workspace))
    }

    /// Revokes all trust in the workspace. Returns false if there was none.
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

    /// Returns the path of the record.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the lines that apply to this workspace: those after its last end.
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
            // A single write per line: two processes that append at once don't mix their lines.
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

/// Returns the line that trusts this workspace's tools. No hash looks like it.
fn mark_of_tools(workspace: &Path) -> String {
    format!("tools {}", name_of(workspace))
}

/// Returns the line that trusts the servers in the present text.
fn mark_of_servers(workspace: &Path) -> String {
    let text = bounded(&workspace.join(DOT_MCP), OFlags::NOFOLLOW).unwrap_or_default();
    format!("servers:{} {}", blake3::hash(&text).to_hex(), name_of(workspace))
}

/// Returns the command lines of the workspace's hooks.
fn hook_commands(workspace: &Path) -> Vec<String> {
    let own = Config::read_workspace(workspace).map(|it| it.hook).unwrap_or_default();
    let mut commands: Vec<String> = own.into_iter().filter_map(|it| it.command).collect();
    for file in CLAUDE_SETTINGS {
        let text = text_of_another(workspace, CLAUDE, file).ok().flatten().unwrap_or_default();
        let settings: Value = serde_json::from_str(&text).unwrap_or_default();
        commands.extend(settings.get("hooks").map(commands_in).unwrap_or_default());
    }
    commands
}

/// Returns whether a file of the workspace has hooks.
pub fn has_hooks(workspace: &Path) -> bool {
    !hook_commands(workspace).is_empty()
        || Config::read_workspace(workspace).is_ok_and(|it| !it.hook.is_empty())
}

/// Returns the line that trusts the workspace's hooks: the present text of the files that have them, and of
/// those that they name.
fn mark_of_hooks(workspace: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut take = |path: &Path| {
        let bytes = fs::read(path).unwrap_or_default();
        hasher.update(path.as_os_str().as_encoded_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(&bytes);
    };
    for file in CLAUDE_SETTINGS {
        take(&workspace.join(CLAUDE).join(file));
    }
    take(&workspace.join(FILE));
    // The home folder is another place than the workspace, or the workspace itself.
    let commands = hook_commands(workspace);
    commands.iter().flat_map(|it| files_named(it, workspace, Path::new("/"))).for_each(|it| take(&it));
    format!("hooks:{} {}", hasher.finalize().to_hex(), name_of(workspace))
}

/// Returns the line that revokes all earlier ones for this workspace.
fn mark_of_end(workspace: &Path) -> String {
    format!("end {}", name_of(workspace))
}

/// Returns the workspace's path, on one line. No two have the same: bytes that are not UTF-8 are spelled out.
fn name_of(workspace: &Path) -> String {
    match workspace.to_str() {
        Some(text) => text.escape_default().to_string(),
        None => workspace.as_os_str().as_bytes().escape_ascii().to_string(),
    }
}

/// Returns a line that changes with the configuration: a later pull doesn't inherit the trust.
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
    fn revoked_trust_can_be_granted_again() {
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

    #[test]
    fn trust_in_a_folder_is_none_in_another_whose_name_differs_in_bytes_that_are_not_utf_8() {
        let dir = tempfile::tempdir().unwrap();
        let folder = |name: &[u8]| dir.path().join(std::ffi::OsStr::from_bytes(name));
        let trust = Trust::in_state(dir.path());
        let (one, others) = (folder(b"a\xff"), [&b"a\xfe"[..], "a\u{fffd}".as_bytes(), b"a\\xff"]);
        trust.add(&one).unwrap();
        assert!(trust.holds_tools(&one));
        for other in others {
            assert!(!trust.holds_tools(&folder(other)) && !trust.end(&folder(other)).unwrap(), "{other:?}");
        }
        assert!(trust.end(&one).unwrap() && !trust.holds_tools(&one));
    }
}
