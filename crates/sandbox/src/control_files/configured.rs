//! Files that a git configuration makes programs run: hooks by `core.hooksPath`, filters, drivers, aliases,
//! included files.
//!
//! Read from the configuration of the machine, of the person and of every repository in or around the roots.
//! A value is split as a shell would; a word that names a place in a root is a control file. A key that is
//! not known to be harmless counts as one that runs something.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fmt, fs,
    path::{Component, Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use kit::deliberate_faults::is_broken;
use parking_lot::Mutex;

use super::{
    git_config::{Configuration, Entry, expand, read_small},
    index::Index,
    repository::{common_of, folder_of, is_git_folder, is_plain},
};

/// The hooks that git knows: <https://git-scm.com/docs/githooks>.
const HOOKS: &[&str] = &[
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-prepare-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "post-index-change",
];

/// Programs whose first non-option argument is code.
const INTERPRETERS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "fish", "env", "exec", "command", "nohup", "time", "sudo", "python",
    "python2", "python3", "node", "deno", "bun", "ruby", "perl", "php", "lua", "Rscript", "julia", "awk",
    "make", "npx", "uv", "uvx", "run", ".", "source",
];

/// A search is repeated after this many times its own duration.
const RARELY: u32 = 20;

/// Minimum time between two searches.
const FRESH: Duration = Duration::from_secs(2);

/// The files that git configurations name. Cheap to clone; all clones share their state.
#[derive(Clone, Default)]
pub struct Configured {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    roots: Vec<PathBuf>,
    /// Files that count for every repository.
    everywhere: Vec<PathBuf>,
    home: Option<PathBuf>,
    index: Index,
    found: Mutex<Option<Found>>,
    /// Further files that another configuration names.
    also: OnceLock<BTreeSet<PathBuf>>,
}

struct Found {
    at: Instant,
    took: Duration,
    paths: BTreeSet<PathBuf>,
}

impl fmt::Debug for Configured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configured").field("roots", &self.inner.roots).finish_non_exhaustive()
    }
}

/// All values are equal: it is a cache of what is on disk, not a setting.
impl PartialEq for Configured {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Configured {}

impl Configured {
    /// Creates it for these roots, with haft's own environment.
    pub fn new(roots: Vec<PathBuf>, variables: &[(String, String)], index: Index) -> Self {
        let home = crate::home::home(variables);
        let everywhere = everywhere(variables, home.as_deref());
        let inner = Inner { roots, everywhere, home, index, found: Mutex::default(), also: OnceLock::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Adds files in the roots that another configuration names as something to run, such as hooks of haft.
    /// Only the first call has an effect.
    pub fn also(&self, files: Vec<PathBuf>) {
        let _ = self.inner.also.set(files.into_iter().collect());
    }

    /// Returns whether a configuration names this file, or a folder around it, as something to run or to read.
    pub fn names(&self, path: &Path) -> bool {
        if self.inner.roots.is_empty() || is_broken("git-configuration") {
            return false;
        }
        if self.inner.also.get().is_some_and(|it| it.contains(path)) {
            return true;
        }
        let around = path.ancestors().skip(1).map(Path::to_owned);
        let near = self.named_by(around.filter(|it| it.join(".git").exists() || is_git_folder(it)));
        let is = |named: &PathBuf| path.starts_with(named);
        if near.iter().any(is) {
            return true;
        }
        let mut found = self.inner.found.lock();
        let is_old = |it: &Found| it.at.elapsed() > FRESH.max(it.took * RARELY);
        if found.as_ref().is_none_or(is_old) {
            let began = Instant::now();
            let paths = self.paths();
            *found = Some(Found { at: Instant::now(), took: began.elapsed(), paths });
        }
        found.as_ref().is_some_and(|it| it.paths.iter().any(is))
    }

    /// Returns all paths in the roots that a configuration names, whether they exist or not.
    pub(crate) fn paths(&self) -> BTreeSet<PathBuf> {
        let roots = &self.inner.roots;
        let repositories = roots.iter().flat_map(|root| self.inner.index.scan(root).repositories);
        self.paths_by(repositories.collect::<Vec<_>>().iter())
    }

    /// Like [`paths`](Self::paths), with the repositories in the roots, which the caller has found.
    pub(crate) fn paths_by<'a>(&self, repositories: impl Iterator<Item = &'a PathBuf>) -> BTreeSet<PathBuf> {
        if is_broken("git-configuration") {
            return BTreeSet::new();
        }
        let mut tops: BTreeSet<PathBuf> = BTreeSet::new();
        for root in &self.inner.roots {
            tops.extend(root.ancestors().filter(|it| it.join(".git").exists()).map(Path::to_owned));
        }
        tops.extend(repositories.map(|git| match git.file_name() {
            Some(name) if name.eq_ignore_ascii_case(".git") => git.parent().unwrap_or(git).to_owned(),
            _ => git.clone(),
        }));
        self.named_by(tops.into_iter())
    }

    /// Returns the paths in the roots that the repositories with these worktrees, or these bare ones, name.
    fn named_by(&self, tops: impl Iterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
        let mut named = BTreeSet::new();
        for top in tops {
            let git = if is_git_folder(&top) { Some(top.clone()) } else { folder_of(&top.join(".git")) };
            if let Some(git) = git {
                self.add(&top, &git, &mut named);
            }
        }
        named.extend(self.inner.also.get().into_iter().flatten().cloned());
        let in_a_root =
            |path: &PathBuf| self.inner.roots.iter().any(|root| path.starts_with(root) && path != root);
        named.into_iter().flat_map(|it| places(&it)).filter(in_a_root).collect()
    }

    fn add(&self, top: &Path, git: &Path, named: &mut BTreeSet<PathBuf>) {
        let home = self.inner.home.as_deref();
        let mut read = Configuration::default();
        for file in &self.inner.everywhere {
            read.read(file, home);
        }
        let common = common_of(git).unwrap_or_else(|| git.to_owned());
        for file in [common.join("config"), git.join("config.worktree")] {
            read.read(&file, home);
        }
        let modules = common.join("modules");
        for module in submodules(&modules) {
            let mut of_module = Configuration::default();
            of_module.read(&module.join("config"), home);
            // Its own worktree is found separately; this is for one that is elsewhere.
            self.add_all(&of_module, &module, named);
        }
        self.add_all(&read, top, named);
        add_links(&common.join("hooks"), named);
    }

    fn add_all(&self, read: &Configuration, top: &Path, named: &mut BTreeSet<PathBuf>) {
        let home = self.inner.home.as_deref();
        named.extend(read.included.iter().cloned());
        for entry in read.entries.iter().filter(|it| !is_plain(it)) {
            match (entry.section.as_str(), entry.key.as_str()) {
                ("core", "hookspath") | ("init", "templatedir") => {
                    self.add_hooks(&expand(&entry.value, top, home), named);
                }
                ("include" | "includeif", "path") => {}
                // Only a file is run; a folder is only the working directory.
                _ => named
                    .extend(words(entry).iter().map(|it| expand(it, top, home)).filter(|it| !it.is_dir())),
            }
        }
    }

    /// Adds a folder of hooks. If it is a root, or around one, adds only the hooks that git would run.
    fn add_hooks(&self, folder: &Path, named: &mut BTreeSet<PathBuf>) {
        let folder = tidy(folder);
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        if self.inner.roots.iter().any(|root| root.starts_with(&real)) {
            named.extend(HOOKS.iter().map(|it| folder.join(it)));
        } else {
            add_links(&folder, named);
            named.insert(folder);
        }
    }
}

/// Returns the configuration files that apply to every repository.
fn everywhere(variables: &[(String, String)], home: Option<&Path>) -> Vec<PathBuf> {
    let value =
        |name: &str| variables.iter().find(|(it, value)| it == name && !value.is_empty()).map(|it| &it.1);
    let mut files = vec![value("GIT_CONFIG_SYSTEM").map_or_else(|| "/etc/gitconfig".into(), PathBuf::from)];
    if let Some(global) = value("GIT_CONFIG_GLOBAL") {
        files.push(PathBuf::from(global));
        return files;
    }
    let config = value("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| home.map(|it| it.join(".config")));
    files.extend(config.map(|it| it.join("git/config")));
    files.extend(home.map(|it| it.join(".gitconfig")));
    files
}

/// Returns the git folders of submodules, whose names may contain slashes.
pub(crate) fn submodules(modules: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![modules.to_owned()]);
    while let Some(folder) = folders.pop() {
        if is_git_folder(&folder) {
            folders.push(folder.join("modules"));
            found.push(folder);
            continue;
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(entries.filter(|it| it.file_type().is_ok_and(|it| it.is_dir())).map(|it| it.path()));
    }
    found
}

/// Adds the targets of the symlinks in a folder of hooks.
fn add_links(folder: &Path, named: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|it| it.is_symlink())
            && let Ok(to) = fs::read_link(entry.path())
        {
            named.insert(folder.join(to));
        }
    }
}

/// Returns this path without `..`, and its target.
fn places(path: &Path) -> Vec<PathBuf> {
    let tidy = tidy(path);
    let mut real = tidy.canonicalize().ok();
    if real.is_none()
        && let (Some(folder), Some(name)) = (tidy.parent(), tidy.file_name())
    {
        real = folder.canonicalize().ok().map(|it| it.join(name));
    }
    let mut places = vec![tidy];
    places.extend(real.filter(|it| !places.contains(it)));
    places
}

fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(tidy.pop()),
            Component::CurDir => {}
            other => tidy.push(other),
        }
    }
    tidy
}

/// Returns the words of a value that may be a program, or the code that one runs.
fn words(entry: &Entry) -> Vec<String> {
    let value = entry.value.strip_prefix('!').unwrap_or(&entry.value);
    let is_alias = entry.section == "alias";
    if is_alias && !entry.value.starts_with('!') {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut after_interpreter = false;
    for token in tokens(value) {
        match token {
            Token::Break => after_interpreter = false,
            Token::Word(word) => {
                let name = Path::new(&word).file_name().and_then(OsStr::to_str).unwrap_or_default();
                // `--rcfile=x`, `VARIABLE=x`.
                let plain = word.split_once('=').map_or(word.as_str(), |it| it.1).to_owned();
                // A bare name is looked up on `PATH`, unless an interpreter takes it as code.
                if after_interpreter || plain.contains('/') {
                    found.push(plain);
                }
                let is_option = word.starts_with('-') || word.contains('=');
                after_interpreter = INTERPRETERS.contains(&name) || (after_interpreter && is_option);
            }
        }
    }
    found.retain(|it| {
        !it.is_empty() && !it.starts_with('-') && !it.contains(['$', '*', '`']) && it.len() < 4096
    });
    found
}

enum Token {
    Word(String),
    /// The end of a command.
    Break,
}

/// Splits a command line into words, without quotes: more than a shell would find, never less.
fn tokens(text: &str) -> Vec<Token> {
    let (mut tokens, mut word) = (Vec::new(), String::new());
    let push = |tokens: &mut Vec<Token>, word: &mut String| {
        if !word.is_empty() {
            tokens.push(Token::Word(std::mem::take(word)));
        }
    };
    for letter in text.chars() {
        match letter {
            ';' | '|' | '&' | '(' | ')' | '{' | '}' | '\n' | '<' | '>' => {
                push(&mut tokens, &mut word);
                tokens.push(Token::Break);
            }
            '"' | '\'' | '\\' => {}
            letter if letter.is_whitespace() => push(&mut tokens, &mut word),
            letter => word.push(letter),
        }
    }
    push(&mut tokens, &mut word);
    tokens
}

/// Returns the worktrees of submodules that a `.gitmodules` in this folder names.
pub(crate) fn worktrees_of_submodules(root: &Path) -> Vec<PathBuf> {
    let text = read_small(&root.join(".gitmodules")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let paths = text.lines().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "path").then(|| tidy(&root.join(value.trim().trim_matches('"'))))
    });
    paths.filter(|it| it.starts_with(root) && it != root).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn repository(git: &Path, configuration: &str) {
        for folder in ["objects", "refs", "hooks"] {
            fs::create_dir_all(git.join(folder)).unwrap();
        }
        fs::write(git.join("HEAD"), "").unwrap();
        fs::write(git.join("config"), configuration).unwrap();
    }

    fn named(root: &Path, home: Option<&Path>) -> Vec<String> {
        let home = home.map(|it| ("HOME".to_owned(), it.display().to_string()));
        let configured =
            Configured::new(vec![root.to_owned()], &home.into_iter().collect::<Vec<_>>(), Index::default());
        configured.paths().iter().map(|it| it.strip_prefix(root).unwrap().display().to_string()).collect()
    }

    #[test]
    fn programs_that_a_configuration_runs_are_named_and_mentioned_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        repository(
            &root.join(".git"),
            "[core]\nhooksPath = .githooks\nfsmonitor = tools/watch --all\nsshCommand = ssh -F none\n\
             [filter \"x\"]\nclean = python3 -u tools/clean.py %f\nsmudge = cat\n\
             [diff \"y\"]\ntextconv = \"sh -c './show \\\"$1\\\"' -\"\n\
             [merge \"z\"]\ndriver = ./merge.sh %A\n[alias]\nco = checkout\nx = !FOO=1 ./alias && node a/b.js\n\
             [include]\npath = ../shared.inc\n[remote \"o\"]\nurl = ../other\n[branch \"main\"]\nmerge = refs/heads/main\n",
        );
        fs::write(root.join("shared.inc"), "[credential]\nhelper = !~/helper\n[pager]\nlog = ./page\n")
            .unwrap();
        let expected = [
            ".githooks",
            "a/b.js",
            "alias",
            "merge.sh",
            "page",
            "shared.inc",
            "show",
            "tools/clean.py",
            "tools/watch",
        ];
        let mut found = named(&root, None);
        found.retain(|it| !it.starts_with("~"));
        assert_eq!(found, expected);
    }

    #[test]
    fn nested_repositories_worktrees_and_the_person_s_own_file_count() {
        let dir = tempfile::tempdir().unwrap();
        let (root, home) = (dir.path().canonicalize().unwrap().join("ws"), dir.path().join("home"));
        repository(&root.join("a/b/.git"), "[core]\nhooksPath = ../../outer\n");
        repository(&root.join("bare"), "[core]\nhooksPath = h\n");
        fs::create_dir(&home).unwrap();
        fs::write(home.join(".gitconfig"), "[core]\nhooksPath = .hooks\n").unwrap();
        assert_eq!(named(&root, Some(&home)), ["a/b/.hooks", "bare/.hooks", "bare/h", "outer"]);
    }

    #[test]
    fn a_root_as_the_folder_of_hooks_has_control_files_by_name_and_links_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        repository(&root.join(".git"), "[core]\nhooksPath = .\n");
        std::os::unix::fs::symlink("../../scripts/check", root.join(".git/hooks/pre-commit")).unwrap();
        let found = named(&root, None);
        assert!(
            found.contains(&"pre-push".to_owned()) && found.contains(&"scripts/check".to_owned()),
            "{found:?}"
        );
        assert_eq!(found.len(), HOOKS.len() + 1);
    }
}
