//! Policy: allows, asks about or denies a call.
//!
//! It decides from the resources that the call declares, with symlinks resolved; for a command, from every
//! part of it that may run. Deny takes precedence over ask, and ask over allow. `kit` enforces the decision:
//! it opens nothing that was not granted.

use std::{fmt, path::Path, sync::Arc};

use kit::{
    effect::{Effect, host_matches, is_host},
    files::{Access, Location},
    net::{says_private, split_port},
};
use sandbox::control_files::{configured::Configured, is_control_file_in};
use serde::{Deserialize, Serialize};

use crate::commands::{Case, Judged, Placement, Rules};
use sandbox::SandboxMode;

/// The decision on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call runs.
    Allow,
    /// A person is asked first.
    Ask(Rule),
    /// The call is refused.
    Deny(Rule),
}

/// The reason why a call is asked about or denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The rule's name, as configuration and messages use it.
    pub name: &'static str,
    /// The subject in this call: a path, a command.
    pub about: String,
    /// The rule's message, in one sentence.
    pub says: String,
    /// Grants that would allow the call the next time. If empty, only this call can be allowed.
    pub offers: Vec<Effect>,
    /// Whether a denying rule may apply: `--approve auto` does not decide it.
    pub firm: bool,
}

/// The approval mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approve {
    /// Ask a person; deny if none can be asked.
    #[default]
    Ask,
    /// Like `Ask`, and ask before each file change too.
    AskEdits,
    /// Allow without asking.
    Auto,
    /// Deny without asking.
    Never,
}

impl Approve {
    /// Returns its name in the configuration and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AskEdits => "ask-edits",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }

    /// Returns whether a person is asked.
    pub fn asks(self) -> bool {
        matches!(self, Self::Ask | Self::AskEdits)
    }
}

/// The access to the open web.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Web {
    /// None.
    None,
    /// Each host after approval.
    Ask,
    /// Public addresses that the person, a search result or a page named; an address that the model composed,
    /// after approval of its host.
    #[default]
    Known,
    /// All public addresses, without approval.
    Public,
}

/// The rules of one runtime. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The files that may be changed at all.
    pub sandbox: SandboxMode,
    /// The approval mode.
    pub approve: Approve,
    /// The rules on commands.
    pub commands: Arc<Rules>,
    /// The hosts that the configuration allows.
    pub hosts: Arc<[String]>,
    /// The access to the open web. If not configured, [`Web::Known`] if a person can be asked, otherwise
    /// [`Web::Public`].
    pub web: Option<Web>,
    /// The workspace, which grants to write are relative to.
    pub workspace: Arc<Path>,
    /// Tools that can be called only after the session has read their manual.
    pub manual_first: Arc<[String]>,
    /// Files that git's configuration runs, which makes them control files. Found on disk; the runtime sets it.
    pub configured: Configured,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            sandbox: SandboxMode::default(),
            approve: Approve::default(),
            commands: Arc::default(),
            hosts: Arc::default(),
            web: None,
            workspace: Path::new("").into(),
            manual_first: Arc::default(),
            configured: Configured::default(),
        }
    }
}

/// The name of the rule about addresses that a model composed.
pub const COMPOSED: &str = "composed";

/// One resource of a call, resolved.
#[derive(Debug, Clone)]
pub enum Want {
    /// A place in the file system.
    Place(Location, Access),
    /// A file change that is about to be made.
    Change {
        /// Its place.
        location: Location,
        /// The workspace's own tool whose file this is, if the call was granted to write that tool.
        tool: Option<String>,
    },
    /// A command.
    Run(String),
    /// Running outside the sandbox.
    Unconfined,
    /// A host.
    Net(String),
    /// Reading public pages of a host.
    Web {
        /// The host.
        host: String,
        /// Whether the session has seen this exact address, or a person configured it: see [`Address`](kit::Address).
        known: bool,
    },
    /// Starting a server that the person's own configuration does not name.
    Server {
        /// Its name and its command.
        about: String,
        /// The grant that allows it for longer than this call.
        grant: Option<String>,
    },
    /// Writing or deleting the workspace's own tool of this name.
    Tool(String),
    /// Making a trigger, with these grants for its turns.
    Trigger {
        /// Its event or its schedule.
        about: String,
        /// The grants of its turns.
        grants: Vec<Effect>,
    },
}

impl Want {
    /// Returns its host, if it has one.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Net(host) | Self::Web { host, .. } => Some(host),
            Self::Place(..)
            | Self::Change { .. }
            | Self::Run(_)
            | Self::Unconfined
            | Self::Server { .. }
            | Self::Tool(_)
            | Self::Trigger { .. } => None,
        }
    }
}

impl Policy {
    /// Decides on a call with these resources, without grants.
    pub fn decide(&self, wants: &[Want]) -> Decision {
        self.settle(self.weigh(wants, &[]).0)
    }

    /// Evaluates the rules with these grants, before the approval mode applies; returns the decision and the
    /// grants that it needed.
    pub(crate) fn weigh(&self, wants: &[Want], grants: &[&Effect]) -> (Decision, Vec<usize>) {
        let leaves =
            self.sandbox != SandboxMode::Full && wants.iter().any(|it| matches!(it, Want::Unconfined));
        let placement = Placement { contained: self.sandbox != SandboxMode::Full && !leaves, leaves };
        let runs = wants.iter().any(|it| matches!(it, Want::Run(_)));
        let mut used = Vec::new();
        let mut question: Option<Rule> = None;
        for want in wants {
            match self.judge(want, placement, runs, grants, &mut used) {
                Decision::Allow => {}
                Decision::Deny(rule) => return (Decision::Deny(rule), Vec::new()),
                Decision::Ask(rule) => match &mut question {
                    None => question = Some(rule),
                    Some(first) => first.join(rule),
                },
            }
        }
        match question {
            Some(rule) => (Decision::Ask(rule), Vec::new()),
            None => (Decision::Allow, used),
        }
    }

    /// Returns whether a person is asked about this resource alone.
    pub fn asks(&self, want: &Want) -> bool {
        matches!(self.weigh(std::slice::from_ref(want), &[]).0, Decision::Ask(_))
    }

    /// Applies the approval mode to a decision.
    pub(crate) fn settle(&self, decision: Decision) -> Decision {
        match decision {
            Decision::Ask(rule) if self.approve == Approve::Auto && !rule.firm => Decision::Allow,
            Decision::Ask(rule) if !self.approve.asks() => Decision::Deny(rule),
            decision => decision,
        }
    }

    fn judge(
        &self,
        want: &Want,
        placement: Placement,
        runs: bool,
        grants: &[&Effect],
        used: &mut Vec<usize>,
    ) -> Decision {
        let mut granted = |allows: &dyn Fn(&Effect) -> bool| {
            let found = grants.iter().position(|it| allows(it));
            used.extend(found);
            found.is_some()
        };
        match want {
            // Resolution has already checked that it lies below a root.
            Want::Place(_, Access::Read) => Decision::Allow,
            Want::Place(location, Access::Write) => match self.judge_write(location) {
                Decision::Ask(_) if granted(&|it| it.allows_write(location, &self.workspace)) => {
                    Decision::Allow
                }
                decision => decision,
            },
            Want::Change { location, tool } => {
                let place = match tool {
                    Some(tool) => Want::Tool(tool.clone()),
                    None => Want::Place(location.clone(), Access::Write),
                };
                match self.judge(&place, placement, runs, grants, used) {
                    Decision::Allow if self.approve == Approve::AskEdits => {
                        self.judge_edit(location, grants, used)
                    }
                    decision => decision,
                }
            }
            Want::Run(command) => match self.commands.judge(command, placement, grants) {
                Judged::Runs(by) => {
                    used.extend(by);
                    Decision::Allow
                }
                Judged::Ask(case) => Decision::Ask(case.into()),
                Judged::Deny(case) => Decision::Deny(case.into()),
            },
            Want::Unconfined if self.sandbox == SandboxMode::ReadOnly => Decision::Deny(Rule::new(
                "sandbox",
                "outside the sandbox",
                "with `--sandbox read-only` nothing leaves the sandbox",
            )),
            // The approval is about the command.
            Want::Unconfined if runs || self.sandbox == SandboxMode::Full => Decision::Allow,
            Want::Unconfined => Decision::Ask(Rule::new(
                "unconfined",
                "this call",
                "a call leaves the sandbox only after approval",
            )),
            Want::Tool(_) if self.sandbox == SandboxMode::ReadOnly => Decision::Deny(Rule::new(
                "sandbox",
                "this tool",
                "with `--sandbox read-only` nothing is changed, by tool files neither",
            )),
            // A model may keep as a tool whatever it may run in the sandbox: a tool runs there, with no
            // further rights.
            Want::Tool(_) if self.sandbox != SandboxMode::Full => Decision::Allow,
            Want::Tool(name) => Decision::Ask(Rule::new(
                "own_tools",
                name,
                "where no sandbox contains it, a tool is written only after approval",
            )),
            Want::Trigger { .. } if self.sandbox == SandboxMode::ReadOnly => Decision::Deny(Rule::new(
                "sandbox",
                "this trigger",
                "with `--sandbox read-only` nothing is set up that works later",
            )),
            Want::Trigger { about, grants } => {
                let mut rule = Rule::new(
                    "trigger",
                    about,
                    "a trigger begins turns that nobody attends, so it is made only after approval",
                );
                // `--approve auto` does not cover private addresses, also not those of later turns.
                rule.firm = grants.iter().any(|it| match it {
                    Effect::Net(host) | Effect::Web(host) => says_private(split_port(host).0),
                    _ => false,
                });
                Decision::Ask(rule)
            }
            Want::Server { grant: Some(grant), .. }
                if granted(&|it| matches!(it, Effect::Server(server) if server == grant)) =>
            {
                Decision::Allow
            }
            Want::Server { about, grant } => {
                let mut rule = Rule::new(
                    "mcp_server",
                    about,
                    "a server that is not in your own haft.toml is started only after approval",
                );
                rule.offers.extend(grant.clone().map(Effect::Server));
                Decision::Ask(rule)
            }
            Want::Net(host) | Want::Web { host, .. } => {
                let looks = matches!(want, Want::Web { .. });
                let known = matches!(want, Want::Web { known: true, .. });
                let (web, private) = (self.web.unwrap_or_default(), says_private(split_port(host).0));
                if looks && !private && (web == Web::Public || known && web == Web::Known) {
                    return Decision::Allow;
                }
                let allowed = self.hosts.iter().any(|it| host_matches(it, host))
                    || granted(&|it| if looks { it.allows_look(host) } else { it.allows_host(host) });
                if allowed {
                    return Decision::Allow;
                }
                if looks && web == Web::None {
                    return Decision::Deny(Rule::new(
                        "web",
                        host,
                        "with `web = \"none\"` in `[net]` only hosts in its `allow` are looked at",
                    ));
                }
                let composed = looks && !private && web == Web::Known;
                let mut rule = if composed {
                    Rule::new(
                        COMPOSED,
                        host,
                        "the model made up this address; whatever it contains would be sent there",
                    )
                } else if private {
                    Rule::new(
                        "private_net",
                        host,
                        "an address of this machine or of a private network is contacted only after approval",
                    )
                } else {
                    Rule::new("net", host, "a host is contacted only after approval")
                };
                // `--approve auto` does not cover private addresses.
                rule.firm = private;
                // A grant with a port would also cover a private address, which nobody approved.
                let name = if composed { split_port(host).0 } else { host.as_str() }.to_ascii_lowercase();
                // An approval to read does not include sending.
                let offer = if looks { Effect::Web(name) } else { Effect::Net(name) };
                rule.offers.extend(is_host(host).then_some(offer));
                Decision::Ask(rule)
            }
        }
    }

    /// Asks about every file change, except for those that a person allowed for longer.
    fn judge_edit(&self, location: &Location, grants: &[&Effect], used: &mut Vec<usize>) -> Decision {
        if let Some(found) = grants.iter().position(|it| it.allows_edit(location, &self.workspace)) {
            used.push(found);
            return Decision::Allow;
        }
        let mut rule = Rule::new(
            "ask_edits",
            &location.to_string(),
            "with `--approve ask-edits` each change of a file needs approval",
        );
        if location.absolute().starts_with(&self.workspace) {
            rule.offers.push(Effect::Edit(".".to_owned()));
        }
        Decision::Ask(rule)
    }

    fn judge_write(&self, location: &Location) -> Decision {
        let deny = |name, says| Decision::Deny(Rule::new(name, &location.to_string(), says));
        if self.sandbox == SandboxMode::ReadOnly {
            return deny("sandbox", "with `--sandbox read-only` nothing is changed");
        }
        if location.is_read_only() {
            return deny("read_only_root", "this root was added as read-only");
        }
        let path = location.absolute();
        if is_control_file_in(&location.root_path(), &path)
            || lies_in_a_git_folder(&path)
            || self.configured.names(&path)
        {
            let mut rule = Rule::new(
                "control_files",
                &location.to_string(),
                "files that decide what other programs run are changed only after approval",
            );
            let inside = path.strip_prefix(&self.workspace).ok().map(|it| it.display().to_string());
            rule.offers.extend(inside.filter(|it| !it.is_empty()).map(Effect::Write));
            return Decision::Ask(rule);
        }
        Decision::Allow
    }
}

/// Returns whether this lies in a git folder of any name: a bare repository, one apart from its work tree, or
/// a root that is `.git` itself.
fn lies_in_a_git_folder(path: &Path) -> bool {
    path.ancestors().skip(1).any(|folder| {
        folder.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
            || (folder.join("HEAD").is_file()
                && folder.join("objects").is_dir()
                && folder.join("refs").is_dir())
    })
}

impl Rule {
    /// Returns whether it forbids, so that no grant would allow the call.
    pub fn is_deny(&self) -> bool {
        ["sandbox", "read_only_root", "command_deny", "not_allowed", "web"].contains(&self.name)
    }

    fn new(name: &'static str, about: &str, says: &str) -> Self {
        Self { name, about: about.to_owned(), says: says.to_owned(), offers: Vec::new(), firm: false }
    }

    /// Merges two questions into one.
    fn join(&mut self, other: Self) {
        self.firm |= other.firm;
        // If one of them can't be granted for longer, neither can the call.
        if self.offers.is_empty() || other.offers.is_empty() {
            self.offers.clear();
            return;
        }
        for offer in other.offers {
            if !self.offers.contains(&offer) {
                self.offers.push(offer);
            }
        }
    }
}

impl From<Case> for Rule {
    fn from(case: Case) -> Self {
        let Case { name, about, says, offers, firm } = case;
        Self { name, about, says, offers, firm }
    }
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
        testing::TestWorkspace,
    };

    use super::*;

    fn decide(policy: &Policy, test_ws: &TestWorkspace, path: &str) -> String {
        let spec = RootSpec { path: test_ws.path().to_owned(), read_only: false };
        let roots = Roots::open(&[spec], OtherNames::Refuse).unwrap();
        match policy.decide(&[Want::Place(roots.locate(path).unwrap(), Access::Write)]) {
            Decision::Allow => "allow".to_owned(),
            Decision::Ask(rule) => format!("ask {}", rule.name),
            Decision::Deny(rule) => format!("deny {}", rule.name),
        }
    }

    #[test]
    fn control_files_are_asked_about_under_any_name() {
        let test_ws = TestWorkspace::new(
            "//- .git/config\n\n//- sub/x\n\n//- bare.store/HEAD\n\n//- bare.store/objects/x\n\n//- bare.store/refs/x\n\n",
        );
        std::os::unix::fs::symlink(".git/config", test_ws.path().join("innocent")).unwrap();
        std::os::unix::fs::symlink(".git", test_ws.path().join("folder")).unwrap();
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
            assert_eq!(decide(&Policy::default(), &test_ws, path), "ask control_files", "{path}");
        }
        for path in ["src/main.rs", ".gitignore", "git/config", "x.mcp.json", ".github/workflows/ci.yml"] {
            assert_eq!(decide(&Policy::default(), &test_ws, path), "allow", "{path}");
        }
    }

    #[test]
    fn the_strictest_answer_wins_and_approval_settles_what_is_asked() {
        let test_ws = TestWorkspace::empty();
        let with = |sandbox, approve| Policy { sandbox, approve, ..Policy::default() };
        assert_eq!(decide(&with(SandboxMode::ReadOnly, Approve::Auto), &test_ws, "a"), "deny sandbox");
        assert_eq!(
            decide(&with(SandboxMode::Workspace, Approve::Never), &test_ws, ".mcp.json"),
            "deny control_files"
        );
        assert_eq!(decide(&with(SandboxMode::Workspace, Approve::Auto), &test_ws, ".mcp.json"), "allow");
    }
}
