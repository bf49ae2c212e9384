//! Commands at once: which calls wait for a running command, and what calls learn of each other.
//!
//! A model that sends several commands in one message says that none depends on another, so they run together. The
//! order of the message is kept where that costs little, and where a mistake is likely:
//!
//! - A command waits for every write before it: it sees the new content.
//! - A command waits at most [`QUICK`] for a command before it that has just begun. Most commands are quicker
//!   than that, so they run in order.
//! - Commands that call the same one of [`PROGRAMS`] take turns.
//! - A write waits for a command before it that has the file open for writing, has changed it or names it, or
//!   that has just begun, and so can't have opened it yet. It does not wait for other commands.
//!
//! All this needs to know what a command changes. Calls whose changes are not tracked hold [`Key::World`] alone: those
//! outside the sandbox, tools that are files and declare nothing, MCP servers, and systems without the change tracker.
//! Calls that run in one lasting process (a `bash`, the interpreter of `python`) take turns by a key of the session: only
//! the process is known that makes a change. What two calls changed at the same time is named in their
//! answers, not prevented.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout;

use super::{Hold, Key, Locks, Who};

/// Time in which a command that has just begun is expected to end, or to open its files.
const QUICK: Duration = Duration::from_millis(100);

/// Interval between two looks at the files of commands that a call waits for.
const LOOK: Duration = Duration::from_secs(1);

/// Programs whose commands take turns. Each keeps one state for a folder (an index, a lock file, build results) that
/// two commands at once would spoil, and often needs the result of its previous command: `npm install`, `npm test`.
const PROGRAMS: [&str; 28] = [
    "apt",
    "apt-get",
    "bazel",
    "bundle",
    "bun",
    "cargo",
    "cmake",
    "composer",
    "dnf",
    "docker",
    "dotnet",
    "git",
    "go",
    "gradle",
    "gradlew",
    "hg",
    "make",
    "meson",
    "mix",
    "mvn",
    "ninja",
    "npm",
    "pip",
    "pnpm",
    "poetry",
    "terraform",
    "uv",
    "yarn",
];

/// Limit of remembered calls that ended beside a call.
const REMEMBERED: usize = 100;

/// The part of acquired locks that is about commands.
#[derive(Default)]
pub(super) struct State {
    /// When it began its work.
    began: Option<Instant>,
    /// The command that it waits for.
    pub(super) waits_for: Option<Who>,
    /// The calls that have ended while it held its locks.
    ended: Vec<(Other, Arc<[PathBuf]>)>,
}

/// A call that ran beside another one.
#[derive(Debug, Clone)]
pub(crate) struct Other {
    /// The call.
    pub(crate) who: Who,
    /// Whether it is a command that began before the other call did.
    pub(crate) began_before: bool,
}

/// The calls that ran beside one.
#[derive(Debug, Default)]
pub(crate) struct Overlaps {
    /// Those that have ended, each with the files that it changed.
    pub(crate) ended: Vec<(Other, Arc<[PathBuf]>)>,
    /// Commands that still run.
    pub(crate) running: Vec<Other>,
    /// The process that the call shares with others.
    pub(crate) process: Option<&'static str>,
}

/// Makes the locks of an exclusive call those of a command with this text. Where it is `free`, it waits for no other
/// command, and no other call waits for it.
pub(crate) fn as_command(locks: &mut Vec<(Key, Hold)>, command: &str, free: bool) {
    let hold = if free { Hold::Free } else { Hold::Command };
    locks.retain(|(key, _)| *key != Key::World);
    locks.push((Key::World, hold));
    if free {
        return;
    }
    let is_end = |it: char| !(it.is_alphanumeric() || "_-./".contains(it));
    let words = || command.split(is_end).map(|word| word.rsplit('/').next().unwrap_or(word));
    let called = PROGRAMS.iter().filter(|program| words().any(|it| it == **program));
    locks.extend(called.map(|it| (Key::Program(it), Hold::Alone)));
}

/// Returns whether the text of a command contains the name of this file as a word.
fn names(command: &str, path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|it| it.to_str()) else { return false };
    let joins = |it: char| it.is_alphanumeric() || "_-".contains(it);
    command.match_indices(name).any(|(at, _)| {
        let before = command.get(..at).and_then(|it| it.chars().next_back());
        let mut after = command.get(at + name.len()..).unwrap_or_default().chars();
        let goes_on = match after.next() {
            Some('.') => after.next().is_some_and(joins),
            next => next.is_some_and(joins),
        };
        !goes_on && !before.is_some_and(|it| joins(it) || it == '.')
    })
}

/// Returns how a call shares [`Key::World`].
fn hold(keys: &[(Key, Hold)]) -> Option<Hold> {
    keys.iter().find(|it| it.0 == Key::World).map(|it| it.1)
}

/// Returns whether this is a command.
fn is_command(keys: &[(Key, Hold)]) -> bool {
    matches!(hold(keys), Some(Hold::Command | Hold::Free))
}

fn is_earlier(one: Option<Instant>, other: Option<Instant>) -> bool {
    one.is_some_and(|one| other.is_none_or(|other| one < other))
}

impl Locks {
    /// Waits for commands that were called before this call, as the rule above says. `has_changed` says whether the call
    /// of this id has this file open for writing, or has changed it.
    pub(crate) async fn wait_for_commands(
        &mut self,
        writes: &[PathBuf],
        has_changed: impl Fn(&str, &Path) -> bool + Sync,
    ) {
        let granted = Instant::now();
        let has = |it: &Who, path: &PathBuf| {
            it.command.as_ref().is_some_and(|text| names(text, path)) || has_changed(&it.call, path)
        };
        let released = self.schedule.released.clone();
        loop {
            let mut release = std::pin::pin!(released.notified());
            release.as_mut().enable();
            let (hold, before) = self.commands_before();
            let is_new = |began: Option<Instant>| began.is_none_or(|it| it.elapsed() < QUICK);
            let blocks = |(who, began): &&(Who, Option<Instant>)| match hold {
                Some(Hold::Command) => is_new(*began) && granted.elapsed() < QUICK,
                Some(Hold::Shared) => is_new(*began) || writes.iter().any(|path| has(who, path)),
                Some(Hold::Alone | Hold::Free) | None => false,
            };
            let Some((who, began)) = before.iter().find(blocks) else { break };
            self.with_own(|it| it.waits_for = Some(who.clone()));
            let _ = timeout(if is_new(*began) { QUICK / 4 } else { LOOK }, release).await;
        }
        self.waited += granted.elapsed();
        self.with_own(|it| {
            it.waits_for = None;
            it.began = Some(Instant::now());
        });
    }

    /// Tells the calls that run beside this one which files it has changed.
    pub(crate) fn changed(&self, paths: &[PathBuf]) {
        let mut state = self.schedule.state.lock();
        let Some(own) = state.held.iter().find(|it| it.ticket == self.ticket) else { return };
        if hold(&own.keys).is_none() {
            return;
        }
        let (who, of_command, began) = (own.who.clone(), is_command(&own.keys), own.of_commands.began);
        let mut changed: Option<Arc<[PathBuf]>> = None;
        for other in state.held.iter_mut().filter(|it| it.ticket != self.ticket) {
            // Two writes are kept apart by the locks of their files.
            let concerns = is_command(&other.keys) || of_command && hold(&other.keys).is_some();
            if concerns && other.of_commands.ended.len() < REMEMBERED {
                let changed = changed.get_or_insert_with(|| paths.into()).clone();
                let began_before = of_command && is_earlier(began, other.of_commands.began);
                other.of_commands.ended.push((Other { who: who.clone(), began_before }, changed));
            }
        }
    }

    /// Returns the calls that ran beside this one, which shares the world.
    pub(crate) fn overlaps(&self) -> Overlaps {
        let mut state = self.schedule.state.lock();
        let Some(own) = state.held.iter_mut().find(|it| it.ticket == self.ticket) else {
            return Overlaps::default();
        };
        if hold(&own.keys).is_none() {
            return Overlaps::default();
        }
        let process = own.who.process;
        let (ended, began) = (std::mem::take(&mut own.of_commands.ended), own.of_commands.began);
        let others = state.held.iter().filter(|it| it.ticket != self.ticket && is_command(&it.keys));
        let running = others
            .filter(|it| it.of_commands.began.is_some())
            .map(|it| Other { who: it.who.clone(), began_before: is_earlier(it.of_commands.began, began) });
        Overlaps { running: running.collect(), ended, process }
    }

    /// Returns how this call shares the world, and the commands before it, each with when it began.
    fn commands_before(&self) -> (Option<Hold>, Vec<(Who, Option<Instant>)>) {
        let state = self.schedule.state.lock();
        let own = state.held.iter().find(|it| it.ticket == self.ticket).and_then(|it| hold(&it.keys));
        let before = state.held.iter().filter(|it| it.ticket < self.ticket);
        let commands = before.filter(|it| hold(&it.keys) == Some(Hold::Command));
        (own, commands.map(|it| (it.who.clone(), it.of_commands.began)).collect())
    }

    fn with_own(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.schedule.state.lock();
        if let Some(own) = state.held.iter_mut().find(|it| it.ticket == self.ticket) {
            change(&mut own.of_commands);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use futures_util::FutureExt as _;

    use super::{super::Schedule, *};

    fn who(call: &str, command: &str) -> Who {
        Who {
            call: call.to_owned(),
            title: command.to_owned(),
            command: Some(command.into()),
            ..Who::default()
        }
    }

    async fn command(schedule: &Schedule, text: &str) -> Locks {
        let mut keys = vec![(Key::World, Hold::Alone)];
        as_command(&mut keys, text, false);
        schedule.lock_for(who(text, text), keys).await
    }

    async fn write(schedule: &Schedule, path: &str) -> Locks {
        let keys = vec![(Key::Path(path.into()), Hold::Alone), (Key::World, Hold::Shared)];
        schedule.lock_for(Who { call: path.to_owned(), ..Who::default() }, keys).await
    }

    async fn begin(locks: &mut Locks) {
        locks.wait_for_commands(&[], |_, _| false).await;
    }

    #[test]
    fn file_is_named_as_a_word_only() {
        let names = |command, path| names(command, Path::new(path));
        assert!(
            names("cat a", "/w/a")
                && names("python3 src/a.py", "/w/src/a.py")
                && names("cp a.py.", "/w/a.py")
        );
        assert!(names("open('out.csv')", "/w/out.csv") && names("x=é;cat é", "/w/é"));
        assert!(!names("cat a.txt ba", "/w/a") && !names("cat .env", "/w/env") && !names("cat a-b", "/w/a"));
    }

    #[tokio::test]
    async fn commands_of_one_program_take_turns_and_others_run_together() {
        let schedule = Schedule::default();
        let _install = command(&schedule, "cd web && npm install").await;
        let _other = command(&schedule, "sleep 1").now_or_never().unwrap();
        assert!(command(&schedule, "/usr/bin/npm test").now_or_never().is_none());
        assert!(command(&schedule, "cat npm-debug.log").now_or_never().is_some());
    }

    #[tokio::test]
    async fn command_waits_for_the_writes_before_it_and_a_write_for_commands_that_wait() {
        let schedule = Schedule::default();
        let first = write(&schedule, "a").await;
        let mut command = Box::pin(command(&schedule, "test"));
        assert!(command.as_mut().now_or_never().is_none());
        let mut last = Box::pin(write(&schedule, "b"));
        assert!(last.as_mut().now_or_never().is_none());
        drop(first);
        let _command = command.now_or_never().unwrap();
        assert!(last.now_or_never().is_some(), "a command that runs does not keep a write in the queue");
    }

    #[tokio::test]
    async fn write_waits_for_a_command_that_has_its_file_or_has_just_begun() {
        let schedule = Schedule::default();
        let mut running = command(&schedule, "cp b.txt c").await;
        begin(&mut running).await;
        for (path, changed, waits) in
            [("/w/a", "/w/a", true), ("/w/b.txt", "", true), ("/w/d", "", true), ("/w/d", "", false)]
        {
            if !waits {
                running.with_own(|it| it.began = it.began.and_then(|it| it.checked_sub(QUICK)));
            }
            let mut locks = write(&schedule, path).await;
            let writes = [PathBuf::from(path)];
            let has = |_: &str, path: &Path| path == Path::new(changed);
            let is_free = locks.wait_for_commands(&writes, has).now_or_never().is_some();
            assert_eq!(is_free, !waits, "{path}");
            let ahead = schedule.ahead_of(path).map(|it| it.title);
            assert_eq!(ahead.is_some(), waits);
        }
        let mut locks = write(&schedule, "/w/b.txt").await;
        let writes = [PathBuf::from("/w/b.txt")];
        let mut waiting = Box::pin(locks.wait_for_commands(&writes, |_, _| false));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(running);
        assert!(waiting.now_or_never().is_some());
    }

    #[tokio::test]
    async fn calls_learn_what_others_changed_beside_them() {
        let schedule = Schedule::default();
        let (mut one, mut other) = (command(&schedule, "one").await, command(&schedule, "other").await);
        begin(&mut one).await;
        begin(&mut other).await;
        one.changed(&["/w/a".into()]);
        let running = one.overlaps().running;
        assert!(running.len() == 1 && !running.first().unwrap().began_before);
        drop(one);
        let overlaps = other.overlaps();
        let (ended, changed) = overlaps.ended.first().unwrap();
        assert!(ended.who.title == "one" && ended.began_before && **changed == [PathBuf::from("/w/a")]);
        assert!(overlaps.running.is_empty());
    }
}
