//! Mounts inside of a workspace, renames between roots, and paths that are longer than the system takes.

use serde_json::json;

use super::{file_systems::Mount, prepare, script, tree::Tree, undo};
use crate::support::TestWorkspace;

#[test]
fn changes_in_a_mount_inside_of_the_workspace_are_undone() {
    let test = "destruction::mounts::changes_in_a_mount_inside_of_the_workspace_are_undone";
    let test_ws = TestWorkspace::new();
    std::fs::create_dir(test_ws.at("mnt")).unwrap();
    let Some(_mount) = Mount::of_tmpfs_at(test, &test_ws.at("mnt")) else { return };
    prepare(
        &test_ws,
        "for i in 1 2 3 4 5; do echo $i > mnt/$i; done; mkdir mnt/d; echo x > mnt/d/x; mkfifo mnt/pipe\n",
    );
    let before = Tree::of(&test_ws.at(""));
    let command = "echo x > mnt/1; rm mnt/2; mv mnt/3 .; mv README mnt/; mv mnt/d here; mv docs mnt/; chmod 600 mnt/4; \
        /usr/bin/python3 -c 'import shutil; shutil.move(\"src/1.c\", \"mnt/5\")' || cp src/1.c mnt/5; echo y > mnt/docs/letter";
    let called = test_ws.call("shell", &json!({"command": command}));
    assert!(before.differences(&Tree::of(&test_ws.at(""))).len() > 8, "{}", called.text());
    let undone = undo(&test_ws);
    let left = before.differences(&Tree::of(&test_ws.at("")));
    assert_eq!(left, Vec::<String>::new(), "{}\n{undone:?}", called.text());
}

#[test]
fn moves_between_two_roots_are_undone() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, "");
    let other = test_ws.outside();
    std::fs::create_dir(other.join("there")).unwrap();
    for name in ["there/a", "over"] {
        std::fs::write(other.join(name), name).unwrap();
    }
    let before = [Tree::of(&test_ws.at("")), Tree::of(&other)];
    let (root, ws) = (other.display(), test_ws.at(""));
    let ws = ws.display();
    let command = format!(
        "mv {root}/there {ws}/; mv {ws}/docs {ws}/README {root}/; mv {root}/over {ws}/src/1.c; echo x > {root}/docs/letter; rm {ws}/there/a"
    );
    let root = other.display().to_string();
    let called = test_ws.call_with(&["--root", &root], "shell", &json!({"command": command}));
    assert!(other.join("docs/letter").exists(), "{}", called.text());
    let undone = test_ws.run(&["--root", &root, "undo"]);
    for (before, folder) in before.iter().zip([test_ws.at(""), other.clone()]) {
        let left = before.differences(&Tree::of(&folder));
        assert_eq!(left, Vec::<String>::new(), "{}\n{undone:?}", called.text());
    }
}

#[test]
fn paths_longer_than_the_system_takes_are_named_in_the_answer() {
    let test_ws = TestWorkspace::new();
    prepare(&test_ws, "");
    let before = Tree::of(&test_ws.at(""));
    let deep = "/usr/bin/python3 -c '
import os
for _ in range(30):
    os.mkdir(\"d\" * 200)
    os.chdir(\"d\" * 200)
open(\"end\", \"w\").write(\"end\")
'";
    script(&test_ws, &format!("mkdir deep; cd deep; {deep}"));
    let called = test_ws.call("shell", &json!({"command": "rm -rf deep README"}));
    assert!(!test_ws.at("deep").exists() && !test_ws.at("README").exists(), "{}", called.text());
    let undone = undo(&test_ws);
    let said = format!("{}{}", undone.out, undone.err);
    assert!(said.contains("can't put back") && said.contains("deep/"), "{said}");
    assert_eq!(test_ws.text("README"), "readme\n");
    script(&test_ws, "rm -rf deep");
    let left = before.differences(&Tree::of(&test_ws.at("")));
    let left: Vec<_> = left.into_iter().filter(|it| !it.starts_with(": time ")).collect();
    assert_eq!(left, Vec::<String>::new(), "{said}");
}
