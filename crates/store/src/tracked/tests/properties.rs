//! Random trees and random changes: undo gives back the tree before, redo that after.
//!
//! `HAFT_TRACKED_CASES` is the number of cases (default: 400), `HAFT_TRACKED_SEED` chooses others.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proptest::{prelude::*, test_runner::RngSeed};

use super::{
    World,
    recorder::{State, Tool, snapshot},
};

/// Returns a number from the environment, or the usual one: the same cases in each run.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: u32::try_from(number("HAFT_TRACKED_CASES", 400)).unwrap(),
        rng_seed: RngSeed::Fixed(number("HAFT_TRACKED_SEED", 19)),
        ..ProptestConfig::default()
    }
}

/// Returns the paths that differ and that no line names: neither the path nor a folder above it. The time of a folder
/// around a named path may differ, too.
fn unnamed(
    root: &Path,
    one: &BTreeMap<PathBuf, State>,
    other: &BTreeMap<PathBuf, State>,
    lines: &[String],
) -> Vec<PathBuf> {
    let names = |path: &Path| {
        let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let word =
            |line: &String| line.split([' ', ':']).any(|it| it == name || it == path.to_string_lossy());
        !name.is_empty() && lines.iter().any(word)
    };
    let is_around = |path: &Path| {
        let all = one.keys().chain(other.keys());
        all.into_iter().any(|it| it.parent() == Some(path) && names(it))
    };
    let without_time = |state: Option<&State>| state.map(|it| (it.0, it.1, it.3.clone()));
    let paths: BTreeSet<&PathBuf> = one.keys().chain(other.keys()).collect();
    let differ = paths.into_iter().filter(|it| one.get(*it) != other.get(*it));
    differ
        .filter(|it| !it.ancestors().any(names))
        .filter(|it| !(is_around(it) && without_time(one.get(*it)) == without_time(other.get(*it))))
        .cloned()
        .collect()
}

/// A change: its kind, two paths, and a number.
type Change = (u8, usize, usize, u8);

/// The names that changes are made at: few, so that they meet.
const NAMES: [&str; 12] = ["a", "b", "d", "e", "d/a", "d/b", "e/a", "e/d", "e/d/a", "d/e", "d/e/b", "f"];

fn make(tool: &mut Tool, (kind, one, other, number): Change) {
    let (one, other) = (NAMES[one % NAMES.len()], NAMES[other % NAMES.len()]);
    let text = vec![b'a' + number % 3; usize::from(number % 5)];
    match kind % 13 {
        0 | 1 => tool.write(one, &text),
        2 => tool.append(one, &text),
        3 => tool.remove(one),
        4 => tool.create_folder(one),
        5 => tool.remove_folder(one),
        6 => tool.move_file(one, other),
        7 => tool.move_folder(one, other),
        8 => tool.set_mode(one, [0o700, 0o755, 0o711][usize::from(number % 3)]),
        9 => tool.link(other, one),
        10 => tool.refused_move(one, other),
        11 => tool.refused_removal(one),
        _ => tool.set_time(one, u64::from(number) * 1_000),
    }
}

fn changes(most: usize) -> impl Strategy<Value = Vec<Change>> {
    proptest::collection::vec((any::<u8>(), 0..12_usize, 0..12_usize, any::<u8>()), 0..most)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn undo_gives_back_the_tree_before_and_redo_the_tree_after(tree in changes(20), work in changes(25)) {
        let world = World::new();
        let mut builder = Tool::new(&world.dir.path().join("scratch"), &world.root());
        tree.into_iter().for_each(|it| make(&mut builder, it));
        drop(builder);
        // The tree was not built by a call.
        fs::remove_dir_all(world.dir.path().join("scratch")).unwrap();
        let before = snapshot(&world.root());
        world.command("c_1", |tool| work.iter().for_each(|it| make(tool, *it)));
        let after = snapshot(&world.root());
        let tracked = world.store.tracked();
        let report = tracked.undo_call("c_1", "u_1").unwrap();
        prop_assert_eq!(&report.left, &[""; 0]);
        prop_assert_eq!(snapshot(&world.root()), before.clone(), "{:?}", report);
        // A redo may leave a path alone, if it says so: where a folder took the place of a link, and a file was
        // moved into it.
        let report = tracked.undo_call("u_1", "u_2").unwrap();
        if report.left.is_empty() {
            prop_assert_eq!(snapshot(&world.root()), after, "{:?}", report);
            tracked.undo_call("u_2", "u_3").unwrap();
            prop_assert_eq!(snapshot(&world.root()), before);
        } else {
            let now = snapshot(&world.root());
            prop_assert_eq!(unnamed(&world.root(), &now, &after, &report.left), Vec::<PathBuf>::new(), "{:?}", report);
            // What the redo did is undone all the same, but for what it left.
            let again = tracked.undo_call("u_2", "u_3").unwrap();
            let lines = [report.left.clone(), again.left.clone()].concat();
            let now = snapshot(&world.root());
            prop_assert_eq!(unnamed(&world.root(), &now, &before, &lines), Vec::<PathBuf>::new(), "{:?} {:?}", report, again);
        }
    }
}
