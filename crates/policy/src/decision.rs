//! Policy: allows, asks about or denies what a call wants.
//!
//! Decided from what the call would touch, with links resolved; of a command from every
//! part of it that may run.
//! Deny wins over ask, ask wins over allow. What is decided here is enforced by the
//! kit's hands: they open nothing that was not granted.

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
    pub says: String,
    /// Grants by which the call would not be asked about the next time. Where there are
    /// none, only this very call can be allowed.
    pub offers: Vec<Effect>,
    /// Whether a rule that denies may be meant: allowing without asking does not settle it.
    pub firm: bool,
}

/// What to do where a person has to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approve {
    /// Ask, where there is somebody to ask; otherwise deny.
    #[default]
    Ask,
    /// The same, and ask before each change of a file.
    AskEdits,
    /// Allow without asking.
    Auto,
    /// Deny without asking.
    Never,
}

impl Approve {
    /// As configuration and the command line say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AskEdits => "ask-edits",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }

    /// Is a person asked?
    pub fn asks(self) -> bool {
        matches!(self, Self::Ask | Self::AskEdits)
    }
}

/// Whether the open web may be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Web {
    /// Not at all.
    None,
    /// Each host after approval.
    Ask,
    /// Public addresses that the person, a search result or a page named; a host that the model composed an address for
    /// after approval.
    #[default]
    Known,
    /// All of it that is public, without a question.
    Public,
}

/// The rules of one server. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// What may be changed at all.
    pub sandbox: SandboxMode,
    /// What to do where a person has to be asked.
    pub approve: Approve,
    /// What the configuration says about commands.
    pub commands: Arc<Rules>,
    /// The hosts that the configuration allows.
    pub hosts: Arc<[String]>,
    /// Whether the open web may be looked at. Where nobody decided it, [`Web::Known`] where somebody can be asked, otherwise
    /// [`Web::Public`].
    pub web: Option<Web>,
    /// The workspace, which grants to write are relative to.
    pub workspace: Arc<Path>,
    /// Tools that are called only once a session has read their manual.
    pub manual_first: Arc<[String]>,
    /// What git's configuration runs, which makes a file a control file. Found on disk; the runtime sets it.
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

/// One thing that a call wants, with its place resolved.
#[derive(Debug, Clone)]
pub enum Want {
    /// A place in the file system.
    Place(Location, Access),
    /// To make a change of a file that is about to land there.
    Change {
        /// Where.
        location: Location,
        /// The workspace's own tool whose file this is, where the call was granted to write that tool.
        tool: Option<String>,
    },
    /// A command.
    Run(String),
    /// To run outside the sandbox.
    Unconfined,
    /// A host.
    Net(String),
    /// To look at what a host shows to everybody.
    Web {
        /// Which.
        host: String,
        /// The session came across this very address, or a person configured it: see [`Address`](kit::Address).
        known: bool,
    },
    /// To start a server that the person's own file does not name.
    Server {
        /// What it is, and what starts it.
        about: String,
        /// By which it is granted for longer than a call.
        grant: Option<String>,
    },
    /// To write or delete the workspace's own tool of this name.
    Tool(String),
}

impl Want {
    /// The host that it is about, if it is about one.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Net(host) | Self::Web { host, .. } => Some(host),
            Self::Place(..)
            | Self::Change { .. }
            | Self::Run(_)
            | Self::Unconfined
            | Self::Server { .. }
            | Self::Tool(_) => None,
        }
    }
}

impl Policy {
    /// What becomes of a call that wants these things, and has no grant.
    pub fn decide(&self, wants: &[Want]) -> Decision {
        self.settle(self.weigh(wants, &[]).0)
    }

    /// What the rules and these grants say, before it is settled whether anybody is asked;
    /// and the grants that were needed.
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

    /// Is a person asked about this, whatever else the call wants?
    pub fn asks(&self, want: &Want) -> bool {
        matches!(self.weigh(std::slice::from_ref(want), &[]).0, Decision::Ask(_))
    }

    /// What becomes of a question where nobody is to be asked.
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
            // That it lies below a root was found when it was located.
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
            // The command is what is asked about.
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
            // What a model may run in the sandbox it may also keep: a tool runs there, and has no more.
            Want::Tool(_) if self.sandbox != SandboxMode::Full => Decision::Allow,
            Want::Tool(name) => Decision::Ask(Rule::new(
                "own_tools",
                name,
                "where no sandbox contains it, a tool is written only after approval",
            )),
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
                // That nobody is asked about hosts was not said of what listens behind the person's own door.
                rule.firm = private;
                // A port would grant a private address too, which nobody was asked about.
                let name = if composed { split_port(host).0 } else { host.as_str() }.to_ascii_lowercase();
                // A yes to a look is none to speak.
                let offer = if looks { Effect::Web(name) } else { Effect::Net(name) };
                rule.offers.extend(is_host(host).then_some(offer));
                Decision::Ask(rule)
            }
        }
    }

    /// Every change is asked about, but for those that a person allowed for longer.
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

impl Rule {
    fn new(name: &'static str, about: &str, says: &str) -> Self {
        Self { name, about: about.to_owned(), says: says.to_owned(), offers: Vec::new(), firm: false }
    }

    /// Makes one question of two.
    fn join(&mut self, other: Self) {
        self.firm |= other.firm;
        // One of them can't be granted for longer: then neither can the call.
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
