//! May this call run?
//!
//! Decided from what the call would touch, with links resolved, never from its text.
//! Deny wins over ask, ask wins over allow. What is decided here is enforced by the
//! kit's hands: they open nothing that was not granted.

use std::{
    ffi::OsStr,
    fmt,
    path::{Component, Path},
};

use kit::files::{Access, Location};
use serde::{Deserialize, Serialize};

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person is asked first.
    Ask(Rule),
    /// It does not run.
    Deny(Rule),
}

/// Why a call is asked about or denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The rule's name, as configuration and messages use it.
    pub name: &'static str,
    /// What it is about in this call: a path, a command.
    pub about: String,
    /// What the rule says, in one sentence.
    pub says: &'static str,
}

/// What to do where a person has to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approve {
    /// Ask, where there is somebody to ask; otherwise deny.
    #[default]
    Ask,
    /// Allow without asking.
    Auto,
    /// Deny without asking.
    Never,
}

/// What may be changed at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    /// Nothing.
    ReadOnly,
    /// What lies below the roots.
    #[default]
    Workspace,
    /// For files the same as `Workspace`; commands run unconfined.
    Full,
}

/// The rules of one server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy {
    /// What may be changed at all.
    pub sandbox: Sandbox,
    /// What to do where a person has to be asked.
    pub approve: Approve,
}

/// One thing that a call wants, with its place resolved.
#[derive(Debug, Clone)]
pub enum Want {
    /// A place in the file system.
    Place(Location, Access),
    /// A command.
    Run(String),
    /// To run outside the sandbox.
    Unconfined,
    /// A host.
    Net(String),
}

impl Policy {
    /// What becomes of a call that wants these things.
    pub fn decide(&self, wants: &[Want]) -> Decision {
        let decisions = wants.iter().map(|want| self.judge(want));
        let strictest = decisions.max_by_key(|decision| match decision {
            Decision::Allow => 0,
            Decision::Ask(_) => 1,
            Decision::Deny(_) => 2,
        });
        match strictest.unwrap_or(Decision::Allow) {
            Decision::Ask(_) if self.approve == Approve::Auto => Decision::Allow,
            Decision::Ask(rule) if self.approve == Approve::Never => Decision::Deny(rule),
            decision => decision,
        }
    }

    fn judge(&self, want: &Want) -> Decision {
        match want {
            // That it lies below a root was found when it was located.
            Want::Place(_, Access::Read) => Decision::Allow,
            Want::Place(location, Access::Write) => self.judge_write(location),
            Want::Run(command) => Decision::Ask(Rule {
                name: "run",
                about: command.clone(),
                says: "a command is started only after approval",
            }),
            Want::Unconfined => Decision::Ask(Rule {
                name: "unconfined",
                about: "this call".to_owned(),
                says: "a command leaves the sandbox only after approval",
            }),
            Want::Net(host) => Decision::Ask(Rule {
                name: "net",
                about: host.clone(),
                says: "a host is contacted only after approval",
            }),
        }
    }

    fn judge_write(&self, location: &Location) -> Decision {
        let deny = |name, says| Decision::Deny(Rule { name, about: location.to_string(), says });
        if self.sandbox == Sandbox::ReadOnly {
            return deny("sandbox", "with `--sandbox read-only` nothing is changed");
        }
        if location.is_read_only() {
            return deny("read_only_root", "this root was added as read-only");
        }
        if is_control_file(location.relative()) || lies_in_a_git_folder(&location.absolute()) {
            return Decision::Ask(Rule {
                name: "control_files",
                about: location.to_string(),
                says: "files that decide what other programs run are changed only after approval",
            });
        }
        Decision::Allow
    }
}

/// Anything in a folder of this name, and what has this name itself: git's, editors', agents', builds'.
const CONTROL_FOLDERS: &[&str] = &[
    ".git",
    ".hg",
    ".haft",
    ".vscode",
    ".idea",
    ".husky",
    ".devcontainer",
    ".zed",
    ".ssh",
    ".claude",
    ".cursor",
    ".codex",
    ".gemini",
    ".opencode",
    ".windsurf",
    ".nav",
    ".cargo",
];

/// Files that programs, shells and builds run or obey without being asked.
const CONTROL_NAMES: &[&str] = &[
    "haft.toml",
    ".mcp.json",
    ".gitmodules",
    ".gitconfig",
    ".gitattributes",
    ".envrc",
    ".direnvrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".xprofile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".kshrc",
    "config.fish",
    ".inputrc",
    ".xinitrc",
    ".xsession",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".gdbinit",
    ".lldbinit",
    ".tmux.conf",
    ".emacs",
    ".screenrc",
    ".ripgreprc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".netrc",
    ".curlrc",
    ".pre-commit-config.yaml",
    "lefthook.yml",
];

/// Files by which a change of text becomes a command that somebody's program runs.
/// Compared without regard to case, since some file systems see no difference.
pub(crate) fn is_control_file(path: &Path) -> bool {
    let is = |name: &OsStr, one: &str| name.to_str().is_some_and(|name| name.eq_ignore_ascii_case(one));
    let parts = || {
        path.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
        })
    };
    // `.config/git/config`, `.config/nvim/init.lua` and their like.
    let below_config = parts().zip(parts().skip(1)).any(|(one, next)| {
        is(one, ".config") && ["git", "nvim", "fish", "systemd", "autostart"].iter().any(|it| is(next, it))
    });
    below_config
        || path.file_name().is_some_and(|name| CONTROL_NAMES.iter().any(|it| is(name, it)))
        || parts().any(|part| CONTROL_FOLDERS.iter().any(|it| is(part, it)))
}

/// Is this in what git keeps of a repository, whatever that folder is called: a bare
/// repository, one kept apart from its work tree, or a root that is `.git` itself?
fn lies_in_a_git_folder(path: &Path) -> bool {
    path.ancestors().skip(1).any(|folder| {
        folder.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
            || (folder.join("HEAD").is_file()
                && folder.join("objects").is_dir()
                && folder.join("refs").is_dir())
    })
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {} (rule `{}`)", self.about, self.says, self.name)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::{
        files::{OtherNames, RootSpec, Roots},
        testing::Room,
    };

    use super::*;

    fn decide(policy: Policy, room: &Room, path: &str) -> String {
        let spec = RootSpec { path: room.path().to_owned(), read_only: false };
        let roots = Roots::open(&[spec], OtherNames::Refuse).unwrap();
        match policy.decide(&[Want::Place(roots.locate(path).unwrap(), Access::Write)]) {
            Decision::Allow => "allow".to_owned(),
            Decision::Ask(rule) => format!("ask {}", rule.name),
            Decision::Deny(rule) => format!("deny {}", rule.name),
        }
    }

    #[test]
    fn control_files_are_asked_about_under_any_name() {
        let room = Room::new(
            "//- .git/config\n\n//- sub/x\n\n//- bare.store/HEAD\n\n//- bare.store/objects/x\n\n//- bare.store/refs/x\n\n",
        );
        std::os::unix::fs::symlink(".git/config", room.path().join("innocent")).unwrap();
        std::os::unix::fs::symlink(".git", room.path().join("folder")).unwrap();
        for path in [
            ".git/config",
            ".git/hooks/pre-commit",
            ".git",
            "sub/.git/config",
            "innocent",
            "folder/hooks/post-checkout",
            "sub/../.GIT/config",
            "haft.toml",
            ".haft/tools/x.py",
            ".mcp.json",
            "sub/.mcp.json",
            ".bashrc",
            ".config/git/config",
            ".cargo/config.toml",
            ".codex/config.toml",
            "bare.store/config",
            "bare.store/hooks/post-checkout",
        ] {
            assert_eq!(decide(Policy::default(), &room, path), "ask control_files", "{path}");
        }
        for path in ["src/main.rs", ".gitignore", "git/config", "x.mcp.json", ".github/workflows/ci.yml"] {
            assert_eq!(decide(Policy::default(), &room, path), "allow", "{path}");
        }
    }

    #[test]
    fn the_strictest_answer_wins_and_approval_settles_what_is_asked() {
        let room = Room::empty();
        let with = |sandbox, approve| Policy { sandbox, approve };
        assert_eq!(decide(with(Sandbox::ReadOnly, Approve::Auto), &room, "a"), "deny sandbox");
        assert_eq!(
            decide(with(Sandbox::Workspace, Approve::Never), &room, ".mcp.json"),
            "deny control_files"
        );
        assert_eq!(decide(with(Sandbox::Workspace, Approve::Auto), &room, ".mcp.json"), "allow");
    }
}
