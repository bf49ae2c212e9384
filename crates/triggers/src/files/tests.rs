#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, time::Duration};

use kit::testing::TestWorkspace;
use serde_json::json;

use super::*;

fn watched(test_ws: &TestWorkspace, glob: &[&str]) -> WatchedFiles {
    let spec = json!({"glob": glob, "debounce_ms": 40, "prompt": "x"});
    WatchedFiles::new(test_ws.path(), &Spec::of("watch_files", &spec).unwrap()).unwrap()
}

/// Takes changes until these have come; on a slow machine they need not come together.
async fn come(files: &mut WatchedFiles, expected: &[&str]) {
    let mut all = Changes::default();
    let wanted: BTreeSet<PathBuf> = expected.iter().map(PathBuf::from).collect();
    let reading = async {
        while !wanted.is_subset(&all.files) {
            all.add(files.next().await.unwrap());
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reading).await.unwrap();
    let not_watched = ["target/c.rs", "other/d.rs", "src/x.log", "src/link/y.rs"].map(PathBuf::from);
    assert!(not_watched.iter().all(|it| !all.files.contains(it)), "{all:?}");
}

#[tokio::test]
async fn changes_of_files_that_fit_come_together_and_ignored_ones_do_not() {
    let test_ws = TestWorkspace::new(
        "//- .gitignore\ntarget/\n*.log\n//- src/a.rs\n\n//- src/sub/b.rs\n\n//- target/c.rs\n\n//- other/d.rs\n\n",
    );
    let mut files = watched(&test_ws, &["src/**/*.rs", "target/*.rs"]);
    let write = |path: &str| fs::write(test_ws.path().join(path), "new").unwrap();
    write("target/c.rs");
    write("other/d.rs");
    write("src/x.log");
    write("src/a.rs");
    write("src/sub/b.rs");
    come(&mut files, &["src/a.rs", "src/sub/b.rs"]).await;
    fs::remove_file(test_ws.path().join("src/a.rs")).unwrap();
    come(&mut files, &["src/a.rs"]).await;
}

#[tokio::test]
async fn files_in_a_new_folder_are_found_and_links_are_not_followed() {
    let test_ws = TestWorkspace::new("//- src/a.rs\n\n");
    let outside = tempfile::tempdir().unwrap();
    let mut files = watched(&test_ws, &["src/**"]);
    fs::create_dir_all(test_ws.path().join("src/new/deep")).unwrap();
    fs::write(test_ws.path().join("src/new/deep/x.rs"), "").unwrap();
    come(&mut files, &["src/new/deep/x.rs"]).await;
    std::os::unix::fs::symlink(outside.path(), test_ws.path().join("src/link")).unwrap();
    come(&mut files, &["src/link"]).await;
    fs::write(outside.path().join("y.rs"), "").unwrap();
    fs::write(test_ws.path().join("src/a.rs"), "new").unwrap();
    come(&mut files, &["src/a.rs"]).await;
}

#[test]
fn the_base_of_a_glob_is_its_part_without_patterns() {
    for (glob, base) in
        [("src/**/*.rs", "src"), ("*.rs", ""), ("a/b/c.txt", "a/b"), ("a/b*/c", "a"), ("x.txt", "")]
    {
        assert_eq!(base_of(glob), Path::new(base), "{glob}");
    }
}

#[test]
fn the_nearest_rule_decides_whether_a_file_is_ignored() {
    let test_ws = TestWorkspace::new("//- .gitignore\n*.log\nout/\n//- keep/.gitignore\n!important.log\n");
    let ignored = |path: &str| is_ignored(test_ws.path(), &test_ws.path().join(path), false);
    assert!(ignored("a.log") && ignored("out/x/y.rs") && ignored("keep/other.log") && ignored(".git/index"));
    assert!(!ignored("keep/important.log") && !ignored("a.rs"));
}
