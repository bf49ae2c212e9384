//! Which of a workspace's tools run, and who said so?

use std::fs;

use serde_json::json;

use crate::{
    folders::{file_tools, put, put_file},
    program::Room,
};

#[test]
fn a_workspaces_tools_wait_for_trust_and_keep_it_when_they_change() {
    let room = Room::new();
    let tools = room.at(".haft/tools");
    let mark = room.at("ran");
    put_file(&tools, "marks.py", &format!("open({:?}, 'a').write('x')\n", mark.display().to_string()));
    put(&tools, "own", "return 'mine'");
    let (names, ran) = file_tools(&room, &[]);
    assert_eq!(names, Vec::<String>::new());
    assert_eq!(ran.err, "haft: 2 tools in .haft/tools are left aside until you run `haft trust`\n");
    room.call("own", &json!({})).must("not_found");
    assert!(!mark.exists(), "no line of theirs was run");

    let ran = room.run(&["trust"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        ran.out,
        "trusted, also when they change: the workspace's tools\n.haft/tools/marks.py\n.haft/tools/own.py\n"
    );
    assert_eq!(room.call("own", &json!({})).must("ok").text(), "mine");
    put(&tools, "own", "return 'changed'");
    assert_eq!(room.call("own", &json!({})).must("ok").text(), "changed");

    // What the configuration says is another matter, and has to be trusted as it is.
    fs::write(room.at("haft.toml"), "tools_dirs = [\"more\"]").unwrap();
    put(&room.at("more"), "another", "return 1");
    let (names, ran) = file_tools(&room, &[]);
    assert_eq!(names, ["own"]);
    assert!(
        ran.err
            .contains("`tools_dirs` in the workspace's haft.toml is left aside until you run `haft trust`"),
        "{}",
        ran.err
    );
    let ran = room.run(&["trust"]);
    assert!(ran.out.contains("more/another.py"), "{}", ran.out);
    assert_eq!(file_tools(&room, &[]).0, ["another", "own"]);
}

#[test]
fn a_workspace_with_nothing_of_its_own_has_nothing_to_trust() {
    let room = Room::new();
    let ran = room.run(&["trust"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("there is neither haft.toml nor .haft/tools"), "{}", ran.err);
}

#[test]
fn trust_is_of_one_workspace() {
    let (room, other) = (Room::new(), Room::new());
    put(&room.at(".haft/tools"), "own", "return 1");
    put(&other.at(".haft/tools"), "own", "return 1");
    room.run(&["trust"]);
    fs::create_dir_all(other.state()).unwrap();
    fs::copy(room.state().join("trusted"), other.state().join("trusted")).unwrap();
    assert_eq!(file_tools(&other, &[]).0, Vec::<String>::new());
    assert_eq!(file_tools(&room, &[]).0, ["own"]);
}
