//! Random trees and random changes: undo gives back the tree before, redo that after.

use std::fs;

use proptest::{prelude::*, test_runner::RngSeed};

use super::{
    World,
    recorder::{Tool, snapshot},
};

/// The same cases in each run; another number tries others.
const SEED: u64 = 19;

/// A change: its kind, two paths, and a number.
type Change = (u8, usize, usize, u8);

/// The names that changes are made at: few, so that they meet.
const NAMES: [&str; 12] = ["a", "b", "d", "e", "d/a", "d/b", "e/a", "e/d", "e/d/a", "d/e", "d/e/b", "f"];

fn make(tool: &mut Tool, (kind, one, other, number): Change) {
    let (one, other) = (NAMES[one % NAMES.len()], NAMES[other % NAMES.len()]);
    let text = vec![b'a' + number % 3; usize::from(number % 5)];
    match kind % 11 {
        0 | 1 => tool.write(one, &text),
        2 => tool.append(one, &text),
        3 => tool.remove(one),
        4 => tool.create_folder(one),
        5 => tool.remove_folder(one),
        6 => tool.move_file(one, other),
        7 => tool.move_folder(one, other),
        8 => tool.set_mode(one, [0o700, 0o755, 0o711][usize::from(number % 3)]),
        9 => tool.link(other, one),
        _ => tool.set_time(one, u64::from(number) * 1_000),
    }
}

fn changes(most: usize) -> impl Strategy<Value = Vec<Change>> {
    proptest::collection::vec((any::<u8>(), 0..12_usize, 0..12_usize, any::<u8>()), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(SEED), ..ProptestConfig::default() })]

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
        }
    }
}
