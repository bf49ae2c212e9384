//! Random trees and random changes on both sides: nothing is written blindly.

use std::{collections::BTreeMap, fs, path::Path};

use proptest::prelude::*;
use snapshots::Fate;

use crate::support::{Sender, chmod, link, tree, write};

const PATHS: [&str; 7] = ["a", "b", "d", "d/x", "d/y", "d/e/z", "f"];

/// A change of one path.
#[derive(Debug, Clone)]
enum Edit {
    Write(usize, u8, bool),
    Link(usize, usize),
    Remove(usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let path = 0..PATHS.len();
    prop_oneof![
        4 => (path.clone(), 0..4u8, any::<bool>()).prop_map(|(at, content, bit)| Edit::Write(at, content, bit)),
        1 => (path.clone(), 0..2usize).prop_map(|(at, to)| Edit::Link(at, to)),
        2 => path.prop_map(Edit::Remove),
    ]
}

/// Makes place for a path: what is below it, and a file above it, goes.
fn clear(top: &Path, path: &str) {
    let at = top.join(path);
    let mut above = path;
    while let Some((folder, _)) = above.rsplit_once('/') {
        if top.join(folder).symlink_metadata().is_ok_and(|it| !it.is_dir()) {
            fs::remove_file(top.join(folder)).unwrap();
        }
        above = folder;
    }
    match at.symlink_metadata() {
        Ok(about) if about.is_dir() => fs::remove_dir_all(&at).unwrap(),
        Ok(_) => fs::remove_file(&at).unwrap(),
        Err(_) => {}
    }
}

fn apply(top: &Path, edits: &[Edit]) {
    for edit in edits {
        match edit {
            Edit::Write(at, content, bit) => {
                clear(top, PATHS[*at]);
                write(&top.join(PATHS[*at]), &format!("content {content}\n"));
                chmod(&top.join(PATHS[*at]), if *bit { 0o755 } else { 0o644 });
            }
            Edit::Link(at, to) => {
                clear(top, PATHS[*at]);
                let up = "../".repeat(PATHS[*at].matches('/').count());
                link(&format!("{up}{}", ["target", "other"][*to]), &top.join(PATHS[*at]));
            }
            Edit::Remove(at) => clear(top, PATHS[*at]),
        }
    }
}

fn content(it: &str) -> &str {
    it.strip_prefix("x:").unwrap_or(it)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn each_path_ends_as_one_of_both_sides_and_an_undo_restores_this_one(
        first in prop::collection::vec(edit(), 0..8),
        theirs in prop::collection::vec(edit(), 0..6),
        ours in prop::collection::vec(edit(), 0..4),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let sender = Sender::new();
            apply(&sender.ws(), &first);
            let base = tree(&sender.ws());
            let manifest = sender.take();
            let worker = sender.worker(&manifest);
            assert_eq!(tree(worker.path()), base);
            apply(worker.path(), &theirs);
            apply(&sender.ws(), &ours);
            let (wanted, before) = (tree(worker.path()), tree(&sender.ws()));
            let patch = sender.patch(&manifest, worker.path());
            let landing = sender.land(&patch).await;
            let now = tree(&sender.ws());
            let fates: BTreeMap<&str, &Fate> = landing.files.iter().map(|it| (it.path.as_str(), &it.fate)).collect();
            let all: std::collections::BTreeSet<&String> = base.keys().chain(wanted.keys()).chain(before.keys()).collect();
            for path in all {
                let [base, wanted, before, now] = [&base, &wanted, &before, &now].map(|it| it.get(path));
                match fates.get(path.as_str()) {
                    // The work did not change it: it is as it was here.
                    None => assert_eq!((now, base), (before, wanted), "{path}"),
                    // It was here as the work began, but for a bit that the work did not change.
                    Some(Fate::Landed) => {
                        let same = before == base || before.zip(base).is_some_and(|(one, other)| content(one) == content(other));
                        assert!(same, "{path} was {before:?} and not {base:?}");
                        assert_eq!(now.map(|it| content(it)), wanted.map(|it| content(it)), "{path}");
                    }
                    Some(Fate::Already) => assert_eq!((now, now.map(|it| content(it))), (before, wanted.map(|it| content(it))), "{path}"),
                    Some(Fate::Refused(_)) => assert_eq!(now, before, "{path}"),
                }
            }
            // Nobody changed anything here: all of it lands.
            if ours.is_empty() {
                assert_eq!(landing.refused().count(), 0, "{}", landing.as_text());
                assert_eq!(now, wanted);
            }
            if landing.files.iter().any(|it| matches!(it.fate, Fate::Landed)) {
                let report = sender.undo().await;
                assert_eq!(tree(&sender.ws()), before, "{report}\n{}", landing.as_text());
            }
        });
    }
}
