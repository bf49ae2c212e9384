//! Deletions of a command that are too much at once: put back, asked about, and done again after a yes.
//!
//! The check runs when all processes of a direct command have ended. A yes does not run the command again: the
//! undo is undone.

use std::{
    collections::{HashMap, HashSet},
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use ignore::WalkBuilder;
use kit::{
    Fault, Touches,
    tracking::{BeforeImage, Node},
};
use policy::Rule;
use store::{
    journal::{Begun, Durability, Ended},
    tracked::{Entry, Fold, Settled},
};

use super::questions::{About, Answered, Asking};
use crate::{
    execution::Execution,
    session_state::SessionState,
    too_much::{
        self, Loss, TooMuch,
        git::{self, Gone},
        ignored::Rules,
    },
};

/// The name of the rule.
pub(super) const RULE: &str = "too_much";

/// The longest file of ignore rules that is read.
const RULES: u64 = 1 << 20;

/// A call whose command has ended, with all its processes.
pub(super) struct Deletions<'a> {
    pub(super) session: &'a Arc<SessionState>,
    pub(super) call: &'a str,
}

/// The changes of a call, read from its log.
struct Changes {
    fold: Fold,
    settled: Settled,
    /// The folder of its log, with the images.
    folder: PathBuf,
}

impl Deletions<'_> {
    /// Returns what is too much in the changes of the call.
    ///
    /// # Errors
    /// When the log of its changes can't be read.
    pub(super) async fn too_much(&self) -> Result<Option<TooMuch>, Fault> {
        let (session, call) = (self.session.clone(), self.call.to_owned());
        let read = tokio::task::spawn_blocking(move || candidates(&session, &call));
        let Some(found) = read.await.map_err(|error| Fault::bug(error.to_string()))?? else {
            return Ok(None);
        };
        let Candidates { mut files, gone, history } = found;
        let limits = self.session.execution().ask_limits();
        let mut limit = None;
        if too_much::may_be_too_much(files.len() as u64, limits) {
            let execution = self.session.execution().of_check();
            let roots = execution.roots();
            let recoverable = git::recoverable(&execution.checking(), &roots, gone).await;
            files.retain(|it| !recoverable.contains(it));
            let count = files.len() as u64;
            let counted = move |most: u64| files_in(&roots, most);
            let judged = tokio::task::spawn_blocking(move || too_much::exceeded(count, limits, counted));
            limit = judged.await.map_err(|error| Fault::bug(error.to_string()))?;
            if limit.is_none() {
                files.clear();
            }
        } else {
            files.clear();
        }
        Ok((!files.is_empty() || !history.is_empty()).then_some(TooMuch { files, limit, history }))
    }

    /// Puts everything back that the call changed, asks the person about its title, arguments and deletions, and does
    /// it again after a yes. Returns the decision for the journal.
    ///
    /// # Errors
    /// [`Kind::Denied`](kit::Kind::Denied) when the person says no or nobody is there; nothing is changed then.
    pub(super) async fn ask(
        &self,
        too_much: &TooMuch,
        asking: Asking<'_>,
        (title, arguments): (&str, &str),
    ) -> Result<String, Fault> {
        let workspace = self.session.runtime().roots().workspace().to_owned();
        let by = self.session.store().call_id();
        let left = self.reversed(self.call, &by).await?;
        let rule = Rule {
            name: RULE,
            about: too_much.summary(&workspace),
            says: match too_much.limit {
                Some(limit) => {
                    format!("that is more than a command may delete unasked ([undo] {})", limit.key())
                }
                None => "a command may not do that to the history of a repository unasked".to_owned(),
            },
            offers: Vec::new(),
            firm: true,
        };
        let effects = [vec![format!("run {title}")], too_much.lines(&workspace)].concat();
        let about = About { rule: &rule, arguments, effects, changes: Vec::new() };
        let unasked = self.session.grants().is_unattended() || !self.session.policy().approve.asks();
        let answered = match unasked {
            true => Ok(Answered {
                decision: format!("denied: {RULE}"),
                allowed: Err(Fault::denied(format!("{rule}; nobody is asked here"))),
            }),
            false => asking.ask(about).await,
        };
        let refused = match answered {
            Ok(Answered { decision, allowed: Ok(()) }) => {
                let again = self.session.store().call_id();
                let left = self.reversed(&by, &again).await?;
                return match left.as_slice() {
                    [] => Ok(decision),
                    left => Err(Fault::denied(format!(
                        "the person allowed it, but it could not all be done again: {}",
                        left.join("; ")
                    ))),
                };
            }
            Ok(Answered { allowed: Err(fault), .. }) | Err(fault) => fault,
        };
        let outcome = match left.as_slice() {
            [] => "Everything that the command changed was put back: nothing was changed.".to_owned(),
            left => format!("What the command changed was put back, but for: {}.", left.join("; ")),
        };
        let next = match too_much.limit {
            Some(limit) => format!(
                "Delete less at a time, name exactly the files that have to go, or ask the person. A person can raise `{}` of \
                 `[undo]` in their own haft.toml.",
                limit.key()
            ),
            None => "Leave the history to git's own commands, or ask the person.".to_owned(),
        };
        Err(Fault { next: None, ..refused }.next(format!("{outcome} {next}")))
    }

    /// Undoes `call` on behalf of `by`, which is a call of the session of its own; returns what was left alone.
    async fn reversed(&self, call: &str, by: &str) -> Result<Vec<String>, Fault> {
        let store = self.session.store().clone();
        let began = Instant::now();
        let begun = Begun {
            call: by.to_owned(),
            session: self.session.name().to_owned(),
            tool: "undo".to_owned(),
            arguments: format!("{{\"call\":\"{call}\"}}"),
            touches: Touches::exclusive(),
            decision: format!("allowed: {RULE}"),
        };
        store.journal().begin(begun, Durability::Wait).await?;
        let tracked = store.tracked();
        let (call, of) = (call.to_owned(), by.to_owned());
        let work = move || {
            let report = tracked.undo_call(&call, &of)?;
            // The undo is a call of its own: settled, it can be undone.
            tracked.settle(&of, false)?;
            Ok::<_, Fault>(report.left)
        };
        let result = tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|error| Err(Fault::bug(error.to_string())));
        store.journal().end_later(Ended::of(by, self.session.name(), &result, began.elapsed()))?;
        result
    }
}

/// The losses that may be too much.
struct Candidates {
    /// Files that git does not ignore and that were there before the session.
    files: Vec<PathBuf>,
    /// The contents of those files, where they are kept.
    gone: Vec<Gone>,
    history: Vec<PathBuf>,
}

fn candidates(session: &SessionState, call: &str) -> Result<Option<Candidates>, Fault> {
    let tracked = session.store().tracked();
    if tracked.depth(call)? % 2 == 1 {
        // An undo makes again what was there before.
        return Ok(None);
    }
    let Some(settled) = tracked.settle(call, false)? else { return Ok(None) };
    let Some(fold) = tracked.fold(call)? else { return Ok(None) };
    let changes = Changes { fold, settled, folder: session.store().tracked_folder().join(call) };
    let losses = changes.losses();
    // Each with the `HEAD` of its repository, under its name before the call.
    let head = |path: &Path| too_much::repository_of_history(path).0.join("HEAD");
    let of_losses = losses.iter().map(|it| &it.0).filter(|it| too_much::is_of_history(it));
    let before = of_losses.map(|it| it.path.clone()).chain(changes.fold.history_moved_away());
    let after = changes.history_of_git().chain(changes.refs_over_packed_ones());
    let mut history: Vec<(PathBuf, PathBuf)> = before
        .map(|path| (path.clone(), head(&path)))
        .chain(after.map(|path| (path.clone(), changes.fold.original_now(&head(&path)))))
        .collect();
    history.sort_unstable();
    history.dedup_by(|one, other| one.0 == other.0);
    let countable = too_much::countable(losses.iter().map(|it| &it.0)).count() as u64;
    let limits = session.execution().ask_limits();
    let may_be_too_much = too_much::may_be_too_much(countable, limits);
    if !may_be_too_much && history.is_empty() {
        return Ok(None);
    }
    let earlier = earlier_changes(session, call)?;
    let (own, rules_before) = (made_by(&earlier), rules_before(&earlier));
    let before = |path: &Path| {
        let edited = session.store().before_edits(session.name(), path).ok().flatten();
        rules_before.get(path).cloned().or(edited).or_else(|| changes.content(path))
    };
    let is_repository = |folder: &Path| changes.had_repository(folder);
    let mut rules = Rules::new(session.execution().roots(), &before, &is_repository);
    history.retain(|(path, head)| {
        let (_, worktree) = too_much::repository_of_history(path);
        !own.contains(head) && !changes.fold.is_new(head) && !rules.ignores_folder(&worktree)
    });
    let history = history.into_iter().map(|it| it.0).collect();
    let (mut files, mut gone) = (Vec::new(), Vec::new());
    for (loss, entry) in losses.iter().filter(|_| may_be_too_much) {
        let counts = too_much::countable([loss]).next().is_some();
        if !counts || own.contains(&loss.path) || rules.ignores(&loss.path) {
            continue;
        }
        files.push(loss.path.clone());
        if let (Some(image), Node::File(about)) = (changes.image(entry), &entry.node) {
            gone.push(Gone { path: loss.path.clone(), image, bytes: about.size });
        }
    }
    Ok(Some(Candidates { files, gone, history }))
}

impl Changes {
    /// Returns the files that were there before and are not as they were.
    fn losses(&self) -> Vec<(Loss, &Entry)> {
        let entries = self.fold.entries.iter().zip(&self.settled.left);
        let losses = entries.filter_map(|(entry, left)| {
            let became = too_much::became(&entry.node, left.node.as_ref()?)?;
            if became == too_much::Became::Deleted && self.has_another_name(entry) {
                return None;
            }
            Some((
                Loss { path: self.fold.original(entry), became, by_git: entry.git && !entry.after_git },
                entry,
            ))
        });
        losses.collect()
    }

    /// Returns whether a file that is gone from its path was only renamed: then its inode has another name than
    /// that of the image.
    fn has_another_name(&self, entry: &Entry) -> bool {
        let (BeforeImage::Linked(_), Node::File(about)) = (&entry.kept, &entry.node) else { return false };
        let image = self.image(entry).and_then(|it| std::fs::symlink_metadata(it).ok());
        image.is_some_and(|it| (it.dev(), it.ino()) == about.identity && it.nlink() > 1 && about.links == 1)
    }

    fn image(&self, entry: &Entry) -> Option<PathBuf> {
        match entry.kept {
            BeforeImage::Linked(number) | BeforeImage::Copied(number) => {
                Some(self.folder.join(number.to_string()))
            }
            BeforeImage::Nothing | BeforeImage::Length | BeforeImage::Metadata | BeforeImage::Not(_) => None,
        }
    }

    /// Returns the content of a file before the call, if the call changed it; of one that was not there, an empty one.
    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let entry = self.fold.entries.iter().find(|it| self.fold.original(it) == path)?;
        let about = match &entry.node {
            Node::File(about) => about,
            Node::Absent => return Some(Vec::new()),
            Node::Folder(_) | Node::Link { .. } | Node::Special(_) => return None,
        };
        let file = match entry.kept {
            // It was appended to, and still begins like that.
            BeforeImage::Length => self.fold.present(&entry.path, entry.segment),
            _ => self.image(entry)?,
        };
        let mut content = Vec::new();
        std::fs::File::open(file).ok()?.take(about.size.min(RULES)).read_to_end(&mut content).ok()?;
        Some(content)
    }

    /// Returns the parts of a history that git itself made in this call, and another program then deleted or rewrote:
    /// after `git gc`, they are all there is.
    fn history_of_git(&self) -> impl Iterator<Item = PathBuf> {
        let made = self.fold.entries.iter().filter(|it| it.after_git && it.node == Node::Absent);
        made.map(|it| self.fold.present(&it.path, it.segment)).filter(|it| too_much::part_of_history(it))
    }

    /// Returns the refs that another program than git wrote, and that hide one of the same name in `packed-refs`.
    fn refs_over_packed_ones(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for (entry, left) in self.fold.entries.iter().zip(&self.settled.left) {
            let path = self.fold.present(&entry.path, entry.segment);
            let is_new = entry.node == Node::Absent && matches!(left.node, Some(Node::File(_)));
            if !is_new || entry.git || !too_much::part_of_history(&path) {
                continue;
            }
            let (repository, _) = too_much::repository_of_history(&path);
            let Ok(name) = path.strip_prefix(&repository) else { continue };
            let packed = repository.join("packed-refs");
            let text = self.content(&packed).filter(|it| !it.is_empty());
            let text = text.or_else(|| std::fs::read(&packed).ok()).unwrap_or_default();
            let name = format!(" {}", name.display());
            if String::from_utf8_lossy(&text).lines().any(|line| line.ends_with(&name)) {
                found.push(path);
            }
        }
        found
    }

    /// Returns whether a folder held a repository before the call.
    fn had_repository(&self, folder: &Path) -> bool {
        let git = folder.join(".git");
        let existed = |it: &Entry| it.node != Node::Absent && self.fold.original(it).starts_with(&git);
        std::fs::symlink_metadata(&git).is_ok() || self.fold.entries.iter().any(existed)
    }
}

/// Returns the files that earlier calls of the session created.
pub(super) fn made_by_session(session: &SessionState, call: &str) -> Result<HashSet<PathBuf>, Fault> {
    Ok(made_by(&earlier_changes(session, call)?))
}

/// Returns the changes of the session's other calls, oldest first. An undo makes files again that were there before:
/// it is none of them.
fn earlier_changes(session: &SessionState, call: &str) -> Result<Vec<Changes>, Fault> {
    let tracked = session.store().tracked();
    let mut calls = tracked.open_calls(Some(session.name()))?;
    calls.reverse();
    let mut found = Vec::new();
    for earlier in calls.iter().filter(|it| it.call != call && it.depth == 0) {
        let Some(fold) = tracked.fold(&earlier.call)? else { continue };
        let folder = session.store().tracked_folder().join(&earlier.call);
        found.push(Changes { fold, settled: Settled::default(), folder });
    }
    Ok(found)
}

/// Returns the files that these calls created.
fn made_by(earlier: &[Changes]) -> HashSet<PathBuf> {
    let mut made = HashSet::new();
    let mut existed: HashMap<PathBuf, bool> = HashMap::new();
    for Changes { fold, .. } in earlier {
        for entry in &fold.entries {
            let path = fold.present(&entry.path, entry.segment);
            // What was there before the first change counts as the person's, whatever replaced it.
            let first = *existed.entry(path.clone()).or_insert(entry.node != Node::Absent);
            if !first {
                made.insert(path);
            }
        }
    }
    made
}

/// Returns the ignore rules that these calls changed, as they were before that: what a session has git ignore is not
/// ignored in it.
fn rules_before(earlier: &[Changes]) -> HashMap<PathBuf, Vec<u8>> {
    let mut rules = HashMap::new();
    for changes in earlier {
        let paths = changes.fold.entries.iter().map(|it| changes.fold.original(it));
        for path in paths.filter(|it| it.ends_with(".gitignore") || it.ends_with(".git/info/exclude")) {
            if let Some(content) = changes.content(&path) {
                rules.entry(path).or_insert(content);
            }
        }
    }
    rules
}

/// Counts the files of these folders that git does not ignore, up to a maximum.
fn files_in(roots: &[PathBuf], most: u64) -> u64 {
    let mut count = 0;
    for root in roots {
        let walk = WalkBuilder::new(root).hidden(false).parents(false).follow_links(false).build();
        for entry in walk.flatten() {
            if entry.file_type().is_some_and(|it| it.is_file()) && !too_much::is_in_git_folder(entry.path()) {
                count += 1;
                if count >= most {
                    return count;
                }
            }
        }
    }
    count
}

impl Execution {
    /// Returns the starter of commands that only read.
    fn checking(&self) -> kit::procs::Procs {
        self.of_call(&kit::Touches::run("git"), &[])
    }
}
