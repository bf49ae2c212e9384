//! The status line below the prompt: model, context used, cost, mode, branch and folder.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agent::{Agent, Crew, Event, Steering, profiles::PLAN};
use policy::Approve;
use runtime::Session;
use sandbox::SandboxMode;

use super::{
    abbreviate,
    row::{Row, Style, harmless},
};

/// Refresh interval of the branch.
const LOOK: Duration = Duration::from_secs(2);

/// From this percentage of the window on, the context size is highlighted.
const NEARLY_FULL: u64 = 80;

/// Maximum length of a branch on the screen, in letters.
const BRANCH: usize = 30;

/// A longer `HEAD`, in bytes, is not read.
const HEAD: u64 = 4096;

/// The state of a conversation for the status line.
#[derive(Default)]
pub(crate) struct Status {
    of: Option<Of>,
    /// Whether a message or an answer has been counted.
    is_counted: bool,
    cost: f64,
    /// Some answers had a price, and some had none.
    priced: bool,
    unpriced: bool,
    home: PathBuf,
    branch: Option<String>,
    looked: Option<Instant>,
}

struct Of {
    session: Session,
    steering: Steering,
    crew: Option<Crew>,
}

/// The parts of the status line.
#[derive(Debug, Clone, Default)]
struct Facts {
    model: String,
    used: Option<u64>,
    /// The context size is an estimate and not counted by the provider.
    estimated: bool,
    window: u64,
    cost: Option<String>,
    /// Unusual limits of the agent, which are highlighted.
    limits: Vec<String>,
    /// The approval mode.
    asks: &'static str,
    branch: Option<String>,
    folder: String,
}

impl Status {
    /// Creates the status without a conversation.
    pub(crate) fn new(variables: &[(String, String)]) -> Self {
        let home = variables.iter().find(|it| it.0 == "HOME").map(|it| PathBuf::from(&it.1));
        Self { home: home.unwrap_or_default(), ..Self::default() }
    }

    /// Switches to the conversation of this agent.
    pub(crate) fn follow(&mut self, agent: &Agent) {
        let of =
            Of { session: agent.session().clone(), steering: agent.steering(), crew: agent.crew().cloned() };
        let is_counted = agent.transcript().steps() > 0;
        *self = Self { of: Some(of), is_counted, home: std::mem::take(&mut self.home), ..Self::default() };
    }

    /// Applies an event of the agent.
    pub(crate) fn observe(&mut self, event: &Event) {
        match event {
            Event::Used { cost, .. } => {
                self.is_counted = true;
                self.pay(*cost);
            }
            Event::Under { inner, .. } => {
                let mut inner = &**inner;
                while let Event::Under { inner: deeper, .. } = inner {
                    inner = deeper;
                }
                if let Event::Used { cost, .. } = inner {
                    self.pay(*cost);
                }
            }
            _ => {}
        }
    }

    fn pay(&mut self, cost: Option<f64>) {
        self.cost += cost.unwrap_or(0.0);
        self.priced |= cost.is_some();
        self.unpriced |= cost.is_none();
    }

    /// Returns the line in `columns` columns, or `None` without a conversation.
    pub(crate) fn row(&mut self, now: Instant, columns: usize) -> Option<Row> {
        let facts = self.facts(now)?;
        Some(facts.row(columns))
    }

    /// Returns the welcome text of a conversation, in at most two lines.
    pub(crate) fn welcome(&mut self, now: Instant, columns: usize) -> Vec<Row> {
        let Some(facts) = self.facts(now) else { return Vec::new() };
        let policy = self.of.as_ref().map(|it| it.session.runtime().policy());
        let sandbox = match policy.map(|it| it.sandbox) {
            Some(SandboxMode::ReadOnly) => "Sandbox: read-only",
            Some(SandboxMode::Full) => "No sandbox: each command after approval",
            Some(SandboxMode::Workspace) | None => "Sandbox: commands write only in this folder",
        };
        let first = Row::new("haft ", Style::BOLD)
            .with(env!("CARGO_PKG_VERSION"), Style::PLAIN)
            .with(format!(" · {} · {}", facts.model, facts.folder), Style::DIM);
        let help = "/help for help · Ctrl-D leaves";
        let whole = Row::new(format!("{sandbox} · {help}"), Style::DIM);
        let mut rows = first.wrapped(columns, 2);
        if whole.width() <= columns {
            rows.push(whole);
        } else {
            rows.extend([sandbox, help].iter().flat_map(|it| Row::new(*it, Style::DIM).wrapped(columns, 2)));
        }
        rows.push(Row::default());
        rows
    }

    fn facts(&mut self, now: Instant) -> Option<Facts> {
        let of = self.of.as_ref()?;
        let workspace = of.session.runtime().roots().workspace().to_owned();
        if self.looked.is_none_or(|it| now.saturating_duration_since(it) >= LOOK) {
            self.looked = Some(now);
            self.branch = branch(&workspace);
        }
        let policy = of.session.runtime().policy();
        let (model, used) = (of.steering.model(), of.steering.context_used());
        let mut limits = Vec::new();
        match of.crew.as_ref().and_then(Crew::profile) {
            Some(profile) if profile == PLAN => limits.push("plan mode".to_owned()),
            Some(profile) => limits.push(format!("profile {profile}")),
            None => {}
        }
        match policy.sandbox {
            SandboxMode::ReadOnly => limits.push("read-only".to_owned()),
            SandboxMode::Full => limits.push("no sandbox".to_owned()),
            SandboxMode::Workspace if of.session.limits().read_only && limits.is_empty() => {
                limits.push("read-only".to_owned());
            }
            SandboxMode::Workspace => {}
        }
        let cost = match (self.priced, self.unpriced) {
            (false, _) => None,
            (true, false) => Some(abbreviate::dollars(self.cost)),
            (true, true) => Some(format!("> {}", abbreviate::dollars(self.cost))),
        };
        Some(Facts {
            model: short_name(model.name()),
            used: self.is_counted.then_some(used.tokens),
            estimated: used.estimated,
            window: used.window,
            cost,
            limits,
            asks: asks(policy.approve),
            branch: self.branch.clone(),
            folder: folder(&workspace, &self.home),
        })
    }
}

/// Returns the approval mode in the syntax of `--approve`.
fn asks(approve: Approve) -> &'static str {
    match approve {
        Approve::Ask => "approve: ask",
        Approve::AskEdits => "approve: ask-edits",
        Approve::Auto => "approve: auto",
        Approve::Never => "approve: never",
    }
}

/// Returns the name of a model; for a script, the file name without folders.
fn short_name(name: &str) -> String {
    match name.strip_prefix("script:") {
        Some(file) => format!("script:{}", file.rsplit('/').next().unwrap_or(file)),
        None => name.to_owned(),
    }
}

/// Returns a folder, relative to the home folder if it is inside.
fn folder(path: &Path, home: &Path) -> String {
    match path.strip_prefix(home) {
        Ok(rest) if !home.as_os_str().is_empty() && rest.as_os_str().is_empty() => "~".to_owned(),
        Ok(rest) if !home.as_os_str().is_empty() => format!("~/{}", rest.display()),
        _ => path.display().to_string(),
    }
}

/// Returns the current branch or the abbreviated commit, or `None` without git. It starts no process.
fn branch(workspace: &Path) -> Option<String> {
    let git = workspace.ancestors().map(|it| it.join(".git")).find(|it| it.exists())?;
    // In a worktree and in a submodule, `.git` is a file that names the folder.
    let folder = if git.is_dir() {
        git
    } else {
        let said = read(&git)?;
        git.parent()?.join(said.trim().strip_prefix("gitdir: ")?)
    };
    let head = read(&folder.join("HEAD"))?;
    let head = head.trim();
    let name = match head.strip_prefix("ref: ") {
        Some(name) => name.strip_prefix("refs/heads/").unwrap_or(name),
        None => head.get(..8).filter(|_| head.bytes().all(|it| it.is_ascii_hexdigit()))?,
    };
    Some(abbreviate::line(name, BRANCH)).filter(|it| !it.is_empty())
}

fn read(path: &Path) -> Option<String> {
    let about = fs::metadata(path).ok()?;
    if about.is_file() && about.len() <= HEAD { fs::read_to_string(path).ok() } else { None }
}

impl Facts {
    fn row(&self, columns: usize) -> Row {
        let last = self.folder.rsplit('/').next().unwrap_or_default().to_owned();
        let provider = |it: &str| it.split_once(':').map_or(it, |(_, model)| model).to_owned();
        // The least important parts are dropped first.
        let steps: [&dyn Fn(&mut Self); 8] = [
            &|_| {},
            &|it| it.folder.clone_from(&last),
            &|it| it.folder.clear(),
            &|it| it.model = provider(&it.model),
            &|it| it.window = 0,
            &|it| it.branch = None,
            &|it| it.asks = "",
            &|it| it.cost = None,
        ];
        let mut facts = self.clone();
        for step in steps {
            step(&mut facts);
            let row = facts.whole(self.window);
            if row.width() <= columns {
                return row;
            }
        }
        facts.whole(self.window).cut(columns)
    }

    fn whole(&self, window: u64) -> Row {
        let mut parts: Vec<(String, Style)> =
            self.limits.iter().map(|it| (it.clone(), Style::ASKS)).collect();
        parts.push((self.model.clone(), Style::DIM));
        if let Some(used) = self.used {
            let percent = used.saturating_mul(100).checked_div(window).unwrap_or(0);
            let style = if percent >= NEARLY_FULL { Style::ASKS } else { Style::DIM };
            let about = if self.estimated { "~" } else { "" };
            let percent = if percent == 0 { "<1".to_owned() } else { percent.to_string() };
            let text = match self.window {
                0 => format!("{about}{percent}%"),
                window => {
                    format!(
                        "{about}{} of {} tokens ({percent}%)",
                        abbreviate::tokens(used),
                        abbreviate::tokens(window)
                    )
                }
            };
            parts.push((text, style));
        }
        let more =
            [self.cost.as_deref(), Some(self.asks), self.branch.as_deref(), Some(self.folder.as_str())];
        let more = more.into_iter().flatten().filter(|it| !it.is_empty());
        parts.extend(more.map(|it| (it.to_owned(), Style::DIM)));
        let mut row = Row::default();
        for (at, (text, style)) in parts.iter().enumerate() {
            row = row.with(if at == 0 { "  " } else { " · " }, Style::DIM).with(harmless(text), *style);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use agent::model::Usage;
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_line_fits_and_leaves_out_what_counts_least() {
        let facts = Facts {
            model: "anthropic:claude-sonnet-5-5".to_owned(),
            used: Some(24_567),
            estimated: false,
            window: 200_000,
            cost: Some("$0.12".to_owned()),
            limits: vec!["plan mode".to_owned()],
            asks: "approve: ask",
            branch: Some("main".to_owned()),
            folder: "~/work/shop".to_owned(),
        };
        let widths = [200, 100, 90, 84, 70, 60, 50, 40, 20];
        let rows: Vec<Row> = widths.iter().map(|it| facts.row(*it)).collect();
        assert!(rows.iter().zip(widths).all(|(row, columns)| row.width() <= columns));
        let rows: Vec<String> = rows.iter().map(|it| it.text().trim_start().to_owned() + "\n").collect();
        expect![[r#"
            plan mode · anthropic:claude-sonnet-5-5 · 24k of 200k tokens (12%) · $0.12 · approve: ask · main · ~/work/shop
            plan mode · anthropic:claude-sonnet-5-5 · 24k of 200k tokens (12%) · $0.12 · approve: ask · main
            plan mode · claude-sonnet-5-5 · 24k of 200k tokens (12%) · $0.12 · approve: ask · main
            plan mode · claude-sonnet-5-5 · 12% · $0.12 · approve: ask · main
            plan mode · claude-sonnet-5-5 · 12% · $0.12 · approve: ask · main
            plan mode · claude-sonnet-5-5 · 12% · $0.12 · approve: ask
            plan mode · claude-sonnet-5-5 · 12% · $0.12
            plan mode · claude-sonnet-5-5 · 12%
            plan mode · claud…
        "#]].assert_eq(&rows.concat());
        let full = Facts { used: Some(190_000), ..facts };
        assert!(full.row(200).painted(true).contains("\u{1b}[1;33m190k of 200k tokens (95%)"));
        let new = Facts { used: None, cost: None, branch: None, limits: Vec::new(), ..full };
        assert_eq!(new.row(80).text(), "  anthropic:claude-sonnet-5-5 · approve: ask · ~/work/shop");
    }

    #[test]
    fn the_branch_is_read_in_folders_worktrees_and_detached() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        assert_eq!(branch(&at("")), None);
        fs::create_dir_all(at("repo/.git/worktrees/two")).unwrap();
        fs::create_dir_all(at("repo/src")).unwrap();
        fs::create_dir_all(at("two")).unwrap();
        fs::write(at("repo/.git/HEAD"), "ref: refs/heads/fix/the-thing\n").unwrap();
        fs::write(at("repo/.git/worktrees/two/HEAD"), "0123456789abcdef0123456789abcdef01234567\n").unwrap();
        fs::write(at("two/.git"), format!("gitdir: {}\n", at("repo/.git/worktrees/two").display())).unwrap();
        assert_eq!(branch(&at("repo/src")).as_deref(), Some("fix/the-thing"));
        assert_eq!(branch(&at("two")).as_deref(), Some("01234567"));
        fs::write(at("repo/.git/HEAD"), "nonsense\u{1b}[2J").unwrap();
        assert_eq!(branch(&at("repo")), None);
    }

    #[test]
    fn the_cost_is_that_of_all_answers_also_of_agents_below() {
        let mut status = Status::default();
        let used = |cost: Option<f64>| Event::Used { usage: Usage::default(), cost };
        let below = Event::Under { agent: "explore_1".into(), inner: Box::new(used(Some(0.25))) };
        status.observe(&used(Some(0.5)));
        status.observe(&Event::Under { agent: "explore_1".into(), inner: Box::new(below) });
        assert_eq!((status.cost, status.priced, status.unpriced), (0.75, true, false));
        status.observe(&used(None));
        assert!(status.unpriced, "something had no known price");
    }

    #[test]
    fn a_folder_is_named_from_home_on() {
        let named = |path: &str, home: &str| folder(Path::new(path), Path::new(home));
        assert_eq!(named("/home/a/b", "/home/a"), "~/b");
        assert_eq!(named("/home/a", "/home/a"), "~");
        assert_eq!(named("/srv", "/home/a"), "/srv");
        assert_eq!(named("/srv", ""), "/srv");
        assert_eq!(short_name("script:/tmp/x/y.jsonl"), "script:y.jsonl");
    }
}
