//! Tests: undo restores what was changed, and nothing else.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::HashMap,
    fs::File,
    time::{Duration, SystemTime},
};

use kit::{redact::Secrets, services::History};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::PruneLimits;

/// Files in memory. Like the file layer of `kit`, it calls the history before each change.
struct Memory {
    files: Mutex<HashMap<PathBuf, Vec<u8>>>,
    history: Option<CallHistory>,
    refuse: bool,
}

impl Restore for Memory {
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, Fault> {
        Ok(self.files.lock().get(path).cloned())
    }

    fn write(&self, path: &Path, bytes: Option<&[u8]>, expect: Option<&[u8]>) -> Result<(), Fault> {
        if self.refuse {
            return Err(Fault::denied("not allowed to write"));
        }
        let mut files = self.files.lock();
        assert_eq!(files.get(path).map(Vec::as_slice), expect);
        if let Some(history) = &self.history {
            let (before, after) = (expect.map(Content::from), bytes.map(Content::from));
            history.keep(path, before.as_ref(), after.as_ref())?;
        }
        match bytes {
            Some(bytes) => drop(files.insert(path.to_owned(), bytes.to_vec())),
            None => drop(files.remove(path)),
        }
        Ok(())
    }
}

struct World {
    _state: tempfile::TempDir,
    store: Store,
    memory: Arc<Memory>,
}

const SESSION: &str = "s";

impl World {
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path(), Path::new("/nowhere/w"), Arc::new(Secrets::none()));
        let memory = Arc::new(Memory { files: Mutex::default(), history: None, refuse: false });
        Self { _state: state, store, memory }
    }

    fn path(name: &str) -> PathBuf {
        Path::new("/nowhere/w").join(name)
    }

    fn edit(&self, call: &str, name: &str, after: Option<&str>) {
        let path = Self::path(name);
        let before = self.memory.read(&path).unwrap();
        let after = after.map(str::as_bytes);
        let (held, holds) = (before.as_deref().map(Content::from), after.map(Content::from));
        self.store.history(SESSION, call).keep(&path, held.as_ref(), holds.as_ref()).unwrap();
        self.memory.write(&path, after, before.as_deref()).unwrap();
    }

    /// Changes a file without a record.
    fn meddle(&self, name: &str, text: &str) {
        self.memory.files.lock().insert(Self::path(name), text.as_bytes().to_vec());
    }

    fn undo_in(&self, session: &str, call: &str, which: Which) -> Result<String, Fault> {
        let history = self.store.history(session, call);
        let scope = Scope::Session(session.to_owned());
        // Shares the files; calls the history of this call, as the file layer of `kit` would.
        let memory = Memory {
            files: Mutex::new(self.memory.files.lock().clone()),
            history: Some(history.clone()),
            refuse: self.memory.refuse,
        };
        let memory = Arc::new(memory);
        let said = self.store.undo(scope, history, Arc::<Memory>::clone(&memory)).undo(which);
        *self.memory.files.lock() = memory.files.lock().clone();
        said.map(|it| it.as_text())
    }

    fn undo(&self, call: &str, which: Which) -> Result<String, Fault> {
        self.undo_in(SESSION, call, which)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.memory.read(&Self::path(name)).unwrap().map(|it| String::from_utf8(it).unwrap())
    }
}

#[test]
fn undo_restores_changed_and_removed_files_and_removes_created_ones() {
    let world = World::new();
    world.edit("c_0", "a", Some("1\n2\n3\n"));
    world.edit("c_0", "gone", Some("g\n"));
    world.edit("c_1", "a", Some("1\ntwo\n3\n4\n"));
    world.edit("c_1", "new", Some("n\n"));
    world.edit("c_1", "gone", None);
    assert_eq!(
        world.undo("c_2", Which::Last).unwrap(),
        "restored a (2 lines changed)\nremoved new (created by c_1)\nrestored gone (removed by c_1)\n\
         To redo: undo the call c_2 (in a shell: haft undo --call c_2)."
    );
    assert_eq!(world.text("a").as_deref(), Some("1\n2\n3\n"));
    assert_eq!(world.text("new"), None);
    assert_eq!(world.text("gone").as_deref(), Some("g\n"));
}

/// Returns the message if every file was left as it is.
fn left(undone: Result<String, Fault>) -> String {
    let fault = undone.unwrap_err();
    assert_eq!(fault.kind, Kind::Stale);
    fault.seen.unwrap().as_text()
}

#[test]
fn last_walks_back_and_the_undo_of_an_undo_redoes() {
    let world = World::new();
    world.edit("c_1", "a", Some("one\n"));
    world.edit("c_2", "a", Some("two\n"));
    world.undo("c_3", Which::Last).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("one\n"));
    world.undo("c_4", Which::Last).unwrap();
    assert_eq!(world.text("a"), None);
    assert_eq!(world.undo("c_5", Which::Last).unwrap_err().kind, Kind::NotFound);
    // Redo, in the order that fits the file.
    world.undo("c_6", Which::Call("c_4".into())).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("one\n"));
    world.undo("c_7", Which::Call("c_3".into())).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("two\n"));
    // A redone change is the last change again.
    world.undo("c_8", Which::Last).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("one\n"));
    world.undo("c_9", Which::File(World::path("a"))).unwrap();
    assert_eq!(world.text("a"), None);
}

#[test]
fn nothing_is_undone_twice() {
    let world = World::new();
    world.edit("c_1", "a", Some("one\n"));
    world.undo("c_2", Which::Call("c_1".into())).unwrap();
    let fault = world.undo("c_3", Which::Call("c_1".into())).unwrap_err();
    assert_eq!(fault.what, "all changes of c_1 are undone already");
    let fault = world.undo("c_3", Which::Call("c_77".into())).unwrap_err();
    assert_eq!(fault.what, "no call c_77 changed a file in this session");
}

#[test]
fn a_file_that_moved_on_is_left_alone_and_the_rest_is_put_back() {
    let world = World::new();
    world.edit("c_0", "a", Some("old\nsame\n"));
    world.edit("c_1", "a", Some("new\nsame\n"));
    world.edit("c_1", "b", Some("b\n"));
    world.meddle("a", "somebody's\nsame\n");
    assert_eq!(
        world.undo("c_2", Which::Call("c_1".into())).unwrap(),
        "left a alone: it changed since c_1 (undoing would have changed it so):\n\
         @@ -1,2 +1,2 @@\n-somebody's\n+old\n same\nremoved b (created by c_1)\n\
         To redo: undo the call c_2 (in a shell: haft undo --call c_2)."
    );
    assert_eq!(world.text("a").as_deref(), Some("somebody's\nsame\n"));
    // It can still be undone when the file is back where the call left it.
    world.meddle("a", "new\nsame\n");
    world.undo("c_3", Which::Call("c_1".into())).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("old\nsame\n"));
}

#[test]
fn shows_what_happened_since_when_a_later_call_changed_the_file() {
    let world = World::new();
    world.edit("c_1", "a", Some("one\n"));
    world.edit("c_2", "a", Some("two\n"));
    let said = left(world.undo("c_3", Which::Call("c_1".into())));
    assert_eq!(said, "left a alone: it changed since c_1 (since then):\n@@ -1 +1 @@\n-one\n+two");
}

#[test]
fn undo_of_the_last_call_skips_one_that_somebody_else_put_back() {
    let world = World::new();
    world.edit("c_0", "a", Some("old\n"));
    let path = World::path("a");
    world.store.history(SESSION, "c_1").keep(&path, Some(&b"old\n".into()), Some(&b"new\n".into())).unwrap();
    let said = world.undo("c_2", Which::Last).unwrap();
    assert_eq!(
        said.lines().take(2).collect::<Vec<_>>(),
        [
            "a is as it was before c_1: the change never landed, or was undone already",
            "removed a (created by c_0)"
        ]
    );
    assert_eq!(world.text("a"), None);
    assert_eq!(world.undo("c_3", Which::Last).unwrap_err().what, "nothing left to undo in this session");
}

#[test]
fn undo_of_one_call_says_that_its_change_never_landed() {
    let world = World::new();
    world.edit("c_0", "a", Some("old\n"));
    world.edit("c_1", "a", Some("new\n"));
    world.meddle("a", "old\n");
    assert_eq!(
        world.undo("c_2", Which::Call("c_1".into())).unwrap(),
        "a is as it was before c_1: the change never landed, or was undone already"
    );
    assert_eq!(world.text("a").as_deref(), Some("old\n"));
}

#[test]
fn a_change_that_a_later_call_took_back_waits_for_that_call() {
    let world = World::new();
    world.meddle("a", "A");
    for (call, text) in [("c_0", "B"), ("c_1", "A"), ("c_0", "C")] {
        world.edit(call, "a", Some(text));
    }
    let said = world.undo("u_0", Which::Call("c_0".into())).unwrap();
    assert!(said.contains("left a alone: c_1 changed it after c_0; undo c_1 first"), "{said}");
    world.undo("u_1", Which::Last).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("B"));
    world.undo("u_2", Which::Last).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("A"));
}

#[test]
fn a_change_that_never_landed_is_settled_also_when_later_ones_came_and_went() {
    let world = World::new();
    world.meddle("a", "A");
    world
        .store
        .history(SESSION, "c_0")
        .keep(&World::path("a"), Some(&b"A".into()), Some(&b"B".into()))
        .unwrap();
    world.edit("c_1", "a", Some("C"));
    world.undo("u_0", Which::Last).unwrap();
    assert_eq!(world.undo("u_1", Which::Last).unwrap_err().kind, Kind::NotFound);
    assert_eq!(world.text("a").as_deref(), Some("A"));
}

#[test]
fn many_changes_of_one_call_go_back_in_one_step() {
    let world = World::new();
    world.edit("c_0", "a", Some("0\n"));
    for text in ["1\n", "2\n", "1\n", "3\n"] {
        world.edit("c_1", "a", Some(text));
    }
    assert_eq!(world.undo("c_2", Which::Last).unwrap().lines().next(), Some("restored a (1 line changed)"));
    assert_eq!(world.text("a").as_deref(), Some("0\n"));
    world.undo("c_3", Which::Call("c_2".into())).unwrap();
    assert_eq!(world.text("a").as_deref(), Some("3\n"));
}

#[test]
fn other_sessions_are_not_touched() {
    let world = World::new();
    world.edit("c_1", "a", Some("one\n"));
    for which in [Which::Last, Which::Call("c_1".into()), Which::File(World::path("a"))] {
        assert_eq!(world.undo_in("other", "c_2", which).unwrap_err().kind, Kind::NotFound);
    }
    assert_eq!(world.text("a").as_deref(), Some("one\n"));
}

#[test]
fn a_refusal_is_a_fault_and_leaves_the_change_to_be_undone() {
    let mut world = World::new();
    world.edit("c_1", "a", Some("one\n"));
    let files = Mutex::new(world.memory.files.lock().clone());
    world.memory = Arc::new(Memory { files, history: None, refuse: true });
    assert_eq!(world.undo("c_2", Which::Last).unwrap_err().kind, Kind::Denied);
    let files = Mutex::new(world.memory.files.lock().clone());
    world.memory = Arc::new(Memory { files, history: None, refuse: false });
    world.undo("c_3", Which::Last).unwrap();
    assert_eq!(world.text("a"), None);
}

#[test]
fn an_expired_before_image_is_reported() {
    let world = World::new();
    world.edit("c_0", "a", Some("old\n"));
    world.edit("c_1", "a", Some("new\n"));
    let bound = PruneLimits { age: Duration::from_secs(3600), bytes: u64::MAX };
    assert_eq!(world.store.prune(bound).unwrap().files, 0);
    let hash = blake3::hash(b"old\n").to_hex();
    let blob = world.store.folder().join("blobs").join(hash.get(..2).unwrap()).join(hash.as_str());
    let old = SystemTime::now() - Duration::from_secs(7200);
    File::options().write(true).open(blob).unwrap().set_modified(old).unwrap();
    assert_eq!(world.store.prune(bound).unwrap().files, 1);
    let said = left(world.undo("c_2", Which::Last));
    assert!(said.starts_with("left a alone: what it held before c_1 has expired"), "{said}");
    assert_eq!(world.text("a").as_deref(), Some("new\n"));
}

#[test]
fn lists_what_can_be_undone() {
    let world = World::new();
    world.edit("c_1", "a", Some("one\n"));
    world.edit("c_2", "b", Some("b\n"));
    world.undo("c_3", Which::Last).unwrap();
    let scope = Scope::Session(SESSION.to_owned());
    let undo = world.store.undo(scope, world.store.history(SESSION, "c_4"), world.memory.clone());
    let list = undo.list(10).unwrap().as_text();
    let lines: Vec<Vec<&str>> = list.lines().map(|it| it.splitn(4, ' ').collect()).collect();
    let lines: Vec<(&str, &str)> =
        lines.iter().map(|it| (*it.first().unwrap(), *it.last().unwrap())).collect();
    assert_eq!(
        lines,
        [("c_3", "removed b (an undo: undoing it does the change again)"), ("c_1", "created a")]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn undoing_everything_gives_back_the_beginning_and_redoing_the_end(
        edits in proptest::collection::vec((0..4_usize, 0..3_usize, proptest::option::of("[ab\n]{0,6}")), 1..12),
    ) {
        let world = World::new();
        world.meddle("f0", "a\nb\n");
        world.meddle("f1", "");
        let start = world.memory.files.lock().clone();
        for (call, file, text) in &edits {
            // Calls in order: some edits share one.
            let call = format!("c_{}", call / 3);
            world.edit(&call, &format!("f{file}"), text.as_deref());
        }
        let end = world.memory.files.lock().clone();
        // c_0 and c_1 may have alternated on a file; a file that can't be reverted is left as it is.
        let mut undos = Vec::new();
        for round in 0..30 {
            let call = format!("u_{round}");
            let before = world.memory.files.lock().clone();
            match world.undo(&call, Which::Last) {
                Ok(said) if said.contains("left") => {
                    prop_assert!(edits.iter().any(|(call, ..)| *call == 3), "{}", said);
                    // The call itself may have undone its change: then nothing differs from before.
                    prop_assert!(said.contains("To redo:") || *world.memory.files.lock() == before);
                    return Ok(());
                }
                Ok(said) => if said.contains("To redo:") { undos.push(call) },
                // Everything was left as it is.
                Err(fault) if fault.kind == Kind::Stale => {
                    prop_assert!(edits.iter().any(|(call, ..)| *call == 3), "{}", fault.as_text());
                    prop_assert!(*world.memory.files.lock() == before);
                    return Ok(());
                }
                Err(fault) => {
                    prop_assert_eq!(fault.kind, Kind::NotFound);
                    break;
                }
            }
        }
        prop_assert_eq!(&*world.memory.files.lock(), &start);
        for (round, undo) in undos.iter().rev().enumerate() {
            world.undo(&format!("r_{round}"), Which::Call(undo.clone())).unwrap();
        }
        prop_assert_eq!(&*world.memory.files.lock(), &end);
    }
}
