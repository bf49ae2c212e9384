//! Tests of the watch: what counts as a command's change, and what is set aside.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::*;
use crate::control_files::repository::SET_ASIDE;

fn repository(path: &Path) {
    for folder in ["objects", "refs", "hooks"] {
        fs::create_dir_all(path.join(folder)).unwrap();
    }
    fs::write(path.join("HEAD"), "").unwrap();
    fs::write(path.join("config"), "[core]\n\tbare = false\n").unwrap();
}

fn make(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn begun(root: &Path) -> Watch {
    let index = Index::default();
    let mut watch = Watch::default();
    let begun = Begun {
        roots: vec![root.to_owned()],
        tools: None,
        folders: BTreeSet::from([root.join(".git")]),
        configured: Configured::new(vec![root.to_owned()], &[], index.clone()),
        index,
    };
    // In a sandbox the configuration and the hooks are mounted.
    let bind =
        |path: PathBuf| Mount { at: path.clone(), what: What::Bind { from: path, access: Access::Read } };
    let mounts = ["hooks", "config"].map(|it| bind(root.join(".git").join(it)));
    watch.begin(begun, &mounts);
    assert_eq!(looked(&mut watch), Found::default());
    // An earlier change is not a command's.
    std::thread::sleep(COARSE * 2);
    watch.command_begins();
    watch
}

fn looked(watch: &mut Watch) -> Found {
    watch.look(&|_| false);
    watch.found()
}

fn workspace() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    repository(&root.join(".git"));
    (dir, root)
}

fn aside_of(root: &Path, names: &[&str]) -> Vec<(PathBuf, PathBuf)> {
    names.iter().map(|it| (root.join(it), root.join(format!("{it}{SET_ASIDE}")))).collect()
}

#[test]
fn new_control_files_at_any_depth_are_set_aside_and_reported_once() {
    let (_dir, root) = workspace();
    let mut watch = begun(&root);
    make(&root.join("a/b/c/d/.envrc"), "evil");
    make(&root.join("node_modules/x/.vscode/tasks.json"), "evil");
    let found = looked(&mut watch);
    assert_eq!(found.aside, aside_of(&root, &["a/b/c/d/.envrc", "node_modules/x/.vscode"]));
    assert!(!root.join("a/b/c/d/.envrc").exists());
    assert_eq!(looked(&mut watch), Found::default());
    make(&root.join("a/b/c/d/.envrc"), "evil");
    assert!(looked(&mut watch).aside[0].1.ends_with(".envrc.haft-set-aside-2"));
}

#[test]
fn changed_control_files_are_restored_and_identical_ones_may_be_recreated() {
    let (_dir, root) = workspace();
    let (rc, link) = (root.join("node_modules/x/.npmrc"), root.join(".envrc"));
    make(&rc, "good");
    std::os::unix::fs::symlink("real", &link).unwrap();
    let mut watch = begun(&root);
    fs::remove_file(&rc).unwrap();
    make(&rc, "good");
    assert_eq!(looked(&mut watch), Found::default());
    make(&rc, "evil");
    fs::remove_file(&link).unwrap();
    make(&link, "evil");
    assert_eq!(looked(&mut watch).aside, aside_of(&root, &[".envrc", "node_modules/x/.npmrc"]));
    assert_eq!(fs::read(&rc).unwrap(), b"good");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("real"));
}

#[test]
fn files_of_people_and_file_tools_and_granted_ones_stay() {
    let (_dir, root) = workspace();
    let mut watch = begun(&root);
    watch.command_began(None);
    assert!(watch.is_over());
    assert_eq!(looked(&mut watch), Found::default());
    make(&root.join("mine/.envrc"), "good");
    assert_eq!(looked(&mut watch), Found::default());
    std::thread::sleep(COARSE * 2);
    watch.command_begins();
    make(&root.join("AGENTS.md"), "approved");
    tool_writes::note(&root.join("AGENTS.md"));
    assert_eq!(looked(&mut watch), Found::default());
    make(&root.join("CLAUDE.md"), "granted");
    watch.look(&|path| path.ends_with("CLAUDE.md"));
    assert_eq!(watch.found().appeared, [root.join("CLAUDE.md")]);
}

#[test]
fn a_folder_that_is_moved_brings_no_control_file_to_a_new_place() {
    let (_dir, root) = workspace();
    make(&root.join("node_modules/x/.envrc"), "old");
    let mut watch = begun(&root);
    fs::rename(root.join("node_modules/x"), root.join("sub")).unwrap();
    assert_eq!(looked(&mut watch).aside, aside_of(&root, &["sub/.envrc"]));
}

#[test]
fn a_new_repository_stays_but_for_what_it_would_run() {
    let (_dir, root) = workspace();
    let mut watch = begun(&root);
    repository(&root.join("a/b/.git"));
    make(&root.join("a/b/.git/hooks/x.sample"), "");
    repository(&root.join("c"));
    assert_eq!(looked(&mut watch), Found::default());
    make(&root.join("a/b/.git/hooks/pre-commit"), "");
    make(&root.join("c/config"), "[core]\nfsmonitor = ./x\n");
    assert_eq!(looked(&mut watch).aside, aside_of(&root, &["a/b/.git/hooks/pre-commit", "c/config"]));
}

#[test]
fn a_repository_s_configuration_is_not_led_elsewhere() {
    let (_dir, root) = workspace();
    let mut watch = begun(&root);
    let common = root.join(".git/commondir");
    fs::write(&common, "../evil").unwrap();
    assert_eq!(looked(&mut watch).taken, std::slice::from_ref(&common));
    std::os::unix::fs::symlink("../later", &common).unwrap();
    assert_eq!(looked(&mut watch).taken, std::slice::from_ref(&common));
    assert!(fs::symlink_metadata(common).is_err());
}

#[test]
fn a_submodule_that_was_not_there_is_set_aside_however_deep() {
    let (_dir, root) = workspace();
    make(&root.join(".gitmodules"), "[submodule \"x\"]\n\tpath = a/b/c/d/x\n");
    let mut watch = begun(&root);
    make(&root.join("a/b/c/d/x/.git"), "gitdir: /nowhere/evil");
    assert_eq!(looked(&mut watch).aside, aside_of(&root, &["a/b/c/d/x/.git"]));
}
