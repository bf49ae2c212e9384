//! Tests: after undo the tree is as before a call, and after its redo as the call left it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod properties;
mod recorder;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    process::Command,
    sync::Arc,
};

use kit::{
    redact::Secrets,
    services::{History, Undo, Which},
    text::Content,
};

use super::*;
use crate::undo::{Restore, Scope};
use recorder::{Tool, snapshot};

/// Files on the disk, for edits.
struct Disk;

impl Restore for Disk {
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, Fault> {
        Ok(fs::read(path).ok())
    }

    fn write(&self, path: &Path, bytes: Option<&[u8]>, _: Option<&[u8]>) -> Result<(), Fault> {
        match bytes {
            Some(bytes) => fs::write(path, bytes).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        Ok(())
    }
}

/// A workspace with its store.
pub(super) struct World {
    dir: tempfile::TempDir,
    store: Store,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("w")).unwrap();
        fs::create_dir(dir.path().join("w/d")).unwrap();
        fs::write(dir.path().join("w/a"), "one\n").unwrap();
        fs::write(dir.path().join("w/d/x"), "in d\n").unwrap();
        Self::at(dir)
    }

    fn at(dir: tempfile::TempDir) -> Self {
        let store = open(dir.path());
        Self { dir, store }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("w")
    }

    /// Runs a command that makes these changes.
    fn command(&self, call: &str, work: impl FnOnce(&mut Tool)) {
        let mut tool = Tool::new(&self.store.tracked_folder().join(call), &self.root());
        work(&mut tool);
        self.store.tracked().settle(call, false).unwrap();
    }

    fn edit(&self, call: &str, name: &str, text: &str) {
        let path = self.root().join(name);
        let before = fs::read(&path).ok().map(Content::from);
        let after = Content::from(text.as_bytes());
        self.store.history("s", call).keep(&path, before.as_ref(), Some(&after)).unwrap();
        fs::write(&path, text).unwrap();
    }

    fn undo(&self, call: &str, which: Which) -> Result<String, Fault> {
        let history = self.store.history("s", call);
        self.store.undo(Scope::Workspace, history, Arc::new(Disk)).undo(which).map(|it| it.as_text())
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.root().join(name)).ok()
    }
}

pub(super) fn open(dir: &Path) -> Store {
    Store::open(&dir.join("state"), &dir.join("w"), Arc::new(Secrets::none()))
}

/// Returns the answer of an undo that put back nothing.
fn left(answer: Result<String, Fault>) -> (Fault, String) {
    let fault = answer.unwrap_err();
    let seen = fault.seen.as_ref().map(|it| it.as_text()).unwrap_or_default();
    (fault, seen)
}

/// Changes of every kind.
fn destroy(tool: &mut Tool) {
    tool.write("a", b"other\n");
    tool.remove("d/x");
    tool.remove_folder("d");
    tool.write("new", b"new\n");
    tool.create_folder("n");
    tool.write("n/y", b"y\n");
    tool.move_folder("n", "m");
    tool.write("m/z", b"z\n");
    tool.move_file("new", "newer");
    tool.set_mode("m/y", 0o600);
    tool.move_file("newer", "a");
}

#[test]
fn undo_of_a_command_gives_back_bytes_modes_and_times_and_redo_applies_it_again() {
    let world = World::new();
    symlink("a", world.root().join("link")).unwrap();
    let before = snapshot(&world.root());
    world.command("c_1", |tool| {
        destroy(tool);
        tool.remove("link");
        tool.append("a", b"more\n");
    });
    let after = snapshot(&world.root());
    let said = world.undo("u_1", Which::Last).unwrap();
    assert_eq!(snapshot(&world.root()), before, "{said}");
    assert!(said.ends_with("To redo: haft undo --call u_1"), "{said}");
    let said = world.undo("u_2", Which::Call("u_1".into())).unwrap();
    assert_eq!(snapshot(&world.root()), after, "{said}");
    world.undo("u_3", Which::Last).unwrap();
    assert_eq!(snapshot(&world.root()), before);
}

#[test]
fn edits_and_commands_have_one_order() {
    let world = World::new();
    world.edit("c_1", "a", "edited\n");
    recorder::tick();
    world.command("c_2", |tool| tool.write("a", b"by a command\n"));
    recorder::tick();
    world.edit("c_3", "b", "b\n");
    world.undo("u_1", Which::Last).unwrap();
    assert_eq!((world.text("b"), world.text("a").as_deref()), (None, Some("by a command\n")));
    world.undo("u_2", Which::Last).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("edited\n"));
    world.undo("u_3", Which::Last).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("one\n"));
    assert_eq!(world.undo("u_4", Which::Last).unwrap_err().what, "nothing left to undo in this workspace");
}

#[test]
fn a_call_with_edits_and_commands_is_undone_as_one() {
    let world = World::new();
    world.edit("c_1", "a", "edited\n");
    recorder::tick();
    world.command("c_1", |tool| tool.remove("d/x"));
    world.undo("u_1", Which::Last).unwrap();
    assert_eq!((world.text("a").as_deref(), world.text("d/x").as_deref()), (Some("one\n"), Some("in d\n")));
}

#[test]
fn what_others_changed_meanwhile_is_left_alone_and_named() {
    let world = World::new();
    world.command("c_1", |tool| {
        tool.write("a", b"by the command\n");
        tool.write("new", b"new\n");
        tool.remove("d/x");
    });
    fs::write(world.root().join("new"), "a person's\n").unwrap();
    let said = world.undo("u_1", Which::Last).unwrap();
    assert!(said.contains("left new alone: it changed since c_1"), "{said}");
    assert_eq!(world.text("new").as_deref(), Some("a person's\n"));
    assert_eq!((world.text("a").as_deref(), world.text("d/x").as_deref()), (Some("one\n"), Some("in d\n")));
}

#[test]
fn a_command_that_can_t_be_put_back_is_not_skipped_and_the_next_call_is_named() {
    let world = World::new();
    world.edit("c_1", "b", "b\n");
    recorder::tick();
    world.command("c_2", |tool| tool.write("a", b"by the command\n"));
    fs::write(world.root().join("a"), "a person's\n").unwrap();
    let (fault, seen) = left(world.undo("u_1", Which::Last));
    assert!(seen.contains("left a alone: it changed since c_2"), "{seen}");
    assert_eq!(fault.next.as_deref(), Some("The next older change is of c_1: haft undo --call c_1"));
    assert_eq!((world.text("a").as_deref(), world.text("b").as_deref()), (Some("a person's\n"), Some("b\n")));
    world.undo("u_2", Which::Call("c_1".into())).unwrap();
    assert_eq!(world.text("b"), None);
}

#[test]
fn planted_links_are_not_followed() {
    let world = World::new();
    let outside = world.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("x"), "outside\n").unwrap();
    world.command("c_1", |tool| {
        tool.write("d/x", b"changed\n");
        tool.write("d/y", b"y\n");
    });
    fs::rename(world.root().join("d"), world.root().join("kept")).unwrap();
    symlink(&outside, world.root().join("d")).unwrap();
    let (_, seen) = left(world.undo("u_1", Which::Last));
    assert!(seen.contains("left d/x alone"), "{seen}");
    assert_eq!(fs::read_to_string(outside.join("x")).unwrap(), "outside\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // A link in the place of the file itself.
    fs::remove_file(world.root().join("d")).unwrap();
    fs::rename(world.root().join("kept"), world.root().join("d")).unwrap();
    fs::remove_file(world.root().join("d/x")).unwrap();
    symlink(outside.join("x"), world.root().join("d/x")).unwrap();
    let said = world.undo("u_2", Which::Call("c_1".into())).unwrap();
    assert!(said.contains("left d/x alone: it changed since c_1"), "{said}");
    assert_eq!(fs::read_to_string(outside.join("x")).unwrap(), "outside\n");
    assert_eq!(world.text("d/y"), None);
}

#[test]
fn a_file_with_two_names_is_written_in_place_and_stays_one_file() {
    let world = World::new();
    fs::hard_link(world.root().join("a"), world.root().join("d/other")).unwrap();
    let before = snapshot(&world.root());
    let inode = fs::metadata(world.root().join("a")).unwrap().ino();
    world.command("c_1", |tool| tool.write("a", b"changed\n"));
    world.undo("u_1", Which::Last).unwrap();
    assert_eq!(snapshot(&world.root()), before);
    assert_eq!(fs::metadata(world.root().join("d/other")).unwrap().ino(), inode);
    assert_eq!(fs::metadata(world.root().join("a")).unwrap().ino(), inode);
    world.command("c_2", |tool| tool.remove("a"));
    world.undo("u_2", Which::Last).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("one\n"));
}

#[test]
fn one_file_of_a_command_is_undone_alone() {
    let world = World::new();
    world.command("c_1", |tool| {
        tool.write("a", b"changed\n");
        tool.remove("d/x");
    });
    world.undo("u_1", Which::File(world.root().join("a"))).unwrap();
    assert_eq!((world.text("a").as_deref(), world.text("d/x")), (Some("one\n"), None));
    world.undo("u_2", Which::Last).unwrap();
    assert_eq!(world.text("d/x").as_deref(), Some("in d\n"));
}

#[test]
fn a_file_that_was_replaced_by_a_rename_is_undone_alone_too() {
    let world = World::new();
    world.command("c_1", |tool| {
        tool.write("fresh", b"changed\n");
        tool.move_file("fresh", "a");
        tool.remove("d/x");
    });
    world.undo("u_1", Which::File(world.root().join("a"))).unwrap();
    assert_eq!((world.text("a").as_deref(), world.text("d/x")), (Some("one\n"), None));
    world.undo("u_2", Which::Call("c_1".into())).unwrap();
    assert_eq!((world.text("a").as_deref(), world.text("d/x").as_deref()), (Some("one\n"), Some("in d\n")));
    assert_eq!(world.text("fresh"), None);
}

#[test]
fn closed_folders_are_opened_again() {
    let world = World::new();
    let before = snapshot(&world.root());
    world.command("c_1", |tool| {
        tool.set_mode("d/x", 0);
        tool.set_mode("d", 0);
    });
    world.undo("u_1", Which::Last).unwrap();
    assert_eq!(snapshot(&world.root()), before);
}

#[test]
fn what_was_not_kept_is_said() {
    let world = World::new();
    world.command("c_1", |tool| tool.not_kept("a"));
    let (_, seen) = left(world.undo("u_1", Which::Last));
    assert!(seen.contains("left a alone: what it held before is not kept: it was larger"), "{seen}");
}

#[test]
fn a_list_shows_commands_with_what_they_changed_summed_up_by_folder() {
    let world = World::new();
    world.command("c_1", |tool| tool.write("a", b"changed\n"));
    recorder::tick();
    world.command("c_2", |tool| {
        for number in 0..30 {
            tool.write(&format!("d/{number}"), b"x");
        }
    });
    let undo = world.store.undo(Scope::Workspace, world.store.history("s", "u"), Arc::new(Disk));
    let list = undo.list(10).unwrap().as_text();
    let mut lines = list.lines();
    assert!(lines.next().unwrap().ends_with("30 files created: d/ (30)"), "{list}");
    assert!(lines.next().unwrap().ends_with("1 file changed: a"), "{list}");
}

#[test]
fn the_files_of_a_command_are_shown_with_their_contents() {
    use crate::changes::{DiffLimits, changes};
    let world = World::new();
    world.command("c_1", |tool| {
        tool.write("a", b"two\n");
        tool.move_file("d/x", "d/y");
        tool.write("binary", b"\0\x01");
    });
    let shown = |call: &str| {
        let versions = world.store.tracked().versions(call).unwrap();
        changes(&versions, &world.root(), &Secrets::none(), DiffLimits::default())
    };
    let all = shown("c_1");
    let of = |path: &str| all.iter().find(|it| it.path == path).unwrap();
    assert!(of("a").diff.ends_with("-one\n+two\n"), "{all:?}");
    assert!(of("d/y").note.as_ref().unwrap().starts_with("moved from "), "{all:?}");
    assert_eq!(of("binary").note.as_deref(), Some("binary, 2 bytes"));
    assert_eq!(all.len(), 3);
    world.undo("u_1", Which::Last).unwrap();
    assert_eq!(shown("c_1").len(), 3, "it is shown after its undo too");
    assert!(shown("u_1").iter().any(|it| it.path == "a" && it.diff.ends_with("-two\n+one\n")));
}

/// The process that an undo is killed in.
#[test]
fn child_of_the_test_of_kills() {
    let Some(dir) = std::env::var_os("HAFT_TEST_UNDO") else { return };
    open(Path::new(&dir)).tracked().undo_call("c_1", "u_1").unwrap();
}

#[test]
fn an_undo_that_is_killed_at_any_step_is_finished_by_the_next_process() {
    let steps = (1..=24).map(|it| format!("undo-step-{it}"));
    let points =
        ["undo-planned", "undo-recorded-path", "undo-written-path", "undo-recorded-move", "undo-moved"]
            .map(str::to_owned)
            .into_iter()
            .chain(steps)
            .chain(["undo-applied", "undo-noted"].map(str::to_owned));
    let mut killed = 0;
    for point in points {
        let world = World::new();
        let before = snapshot(&world.root());
        world.command("c_1", destroy);
        let after = snapshot(&world.root());
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["tracked::tests::child_of_the_test_of_kills", "--exact"])
            .env("HAFT_TEST_UNDO", world.dir.path())
            .env("HAFT_BREAK", &point)
            .output()
            .unwrap();
        killed += usize::from(!ended.status.success());
        let store = open(world.dir.path());
        for undo in store.tracked().recover().unwrap() {
            let report = store.tracked().resume(&undo, &|_| Ok(())).unwrap();
            assert_eq!(report.left, [""; 0], "{point}");
        }
        assert_eq!(snapshot(&world.root()), before, "{point}");
        assert_eq!(store.tracked().recover().unwrap(), [""; 0], "{point}");
        store.tracked().undo_call("u_1", "u_2").unwrap();
        assert_eq!(snapshot(&world.root()), after, "redo after {point}");
    }
    assert!(killed > 15, "{killed}");
}

#[test]
fn a_command_of_a_killed_haft_is_settled_at_the_next_start() {
    let world = World::new();
    let mut tool = Tool::new(&world.store.tracked_folder().join("c_1"), &world.root());
    tool.write("a", b"changed\n");
    tool.cut_record();
    assert_eq!(world.store.tracked().recover().unwrap(), [""; 0]);
    assert!(world.store.tracked().settled("c_1").unwrap().unwrap().interrupted);
    world.undo("u_1", Which::Last).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("one\n"));
    assert_eq!(fs::metadata(world.root().join("a")).unwrap().permissions().mode() & 0o777, 0o644);
}
