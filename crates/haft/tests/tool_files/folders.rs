//! Tool folders: which files are tools, and how the others are reported.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use serde_json::{Value, json};

use super::support::navi;
use crate::support::{Ran, TestWorkspace};

/// A tool of this name in a folder.
pub(crate) fn put(folder: &Path, name: &str, body: &str) {
    put_file(folder, &format!("{name}.py"), &navi(name, body).1);
}

pub(crate) fn put_file(folder: &Path, file: &str, content: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Returns the tools that are files, in their order.
pub(crate) fn file_tools(test_ws: &TestWorkspace, options: &[&str]) -> (Vec<String>, Ran) {
    let ran = test_ws.run(&[options, &["tools", "--json"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let tools: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    let is_of_a_file = |it: &&Value| it["description"] == "For a test.";
    let names = tools.iter().filter(is_of_a_file).map(|it| it["name"].as_str().unwrap().to_owned()).collect();
    (names, ran)
}

fn own(test_ws: &TestWorkspace) -> std::path::PathBuf {
    test_ws.config().join("tools")
}

#[test]
fn only_tool_files_are_tools_and_in_the_order_of_their_names() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    for name in ["zeta", "alpha"] {
        put(&own(&test_ws), name, "return 1");
    }
    put_file(&own(&test_ws), "_helper.py", "raise Exception('never run')");
    put_file(&own(&test_ws), ".hidden.py", "raise Exception('never run')");
    put_file(&own(&test_ws), "notes.md", "no tool");
    put_file(&own(&test_ws).join("below"), "deep.py", "raise Exception('never run')");
    let (tools, ran) = file_tools(&test_ws, &[]);
    assert_eq!(tools, ["alpha", "zeta"]);
    assert_eq!(ran.err, "", "nothing else was taken for a tool");
}

#[test]
fn one_file_that_can_not_be_read_harms_no_other() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let folder = own(&test_ws);
    put(&folder, "good", "return 'still here'");
    put_file(&folder, "broken.py", "import nothing_of_this_name");
    put_file(&folder, "wrong.py", "def (");
    put_file(&folder, "long.py", &"# much\n".repeat(200_000));
    put_file(&folder, "read.py", &navi("read", "return 'not the built-in one'").1);
    put_file(&folder, "second.py", &navi("good", "return 'not the first one'").1);
    put_file(&folder, "spaced.py", &navi("two words", "return 1").1);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.join("pipe.py"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    symlink("/nowhere", folder.join("dangling.py")).unwrap();
    let (tools, ran) = file_tools(&test_ws, &[]);
    assert_eq!(tools, ["good"]);
    for (file, why) in [
        ("broken.py", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("wrong.py", "SyntaxError"),
        ("long.py", "it has 1400000 bytes"),
        ("read.py", "`read` is the name of a built-in tool"),
        ("second.py", "`good` is a tool of"),
        ("spaced.py", "two words"),
        ("pipe.py", "it is not a regular file"),
        ("dangling.py", "it can't be read"),
    ] {
        let line =
            ran.err.lines().find(|line| line.contains(file)).unwrap_or_else(|| panic!("{file}: {}", ran.err));
        assert!(line.contains(why), "{line}");
    }
    assert_eq!(ran.err.lines().count(), 8, "one line for each: {}", ran.err);
    assert_eq!(test_ws.call("good", &json!({})).must("ok").text(), "still here");
    let called = test_ws.call("read", &json!({"path": "nothing"}));
    assert_eq!(called.kind(), "not_found", "the built-in one is called: {}", called.text());
}

#[test]
fn a_link_is_followed_in_a_persons_folder_and_not_in_a_workspace() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    put(&test_ws.outside(), "linked", "return 'linked'");
    put(&test_ws.outside(), "secret", "return 'secret'");
    fs::create_dir_all(own(&test_ws)).unwrap();
    symlink(test_ws.outside().join("linked.py"), own(&test_ws).join("linked.py")).unwrap();
    fs::create_dir_all(test_ws.at(".haft/tools")).unwrap();
    symlink(test_ws.outside().join("secret.py"), test_ws.at(".haft/tools/secret.py")).unwrap();
    let (tools, ran) = file_tools(&test_ws, &["--trust"]);
    assert_eq!(tools, ["linked"]);
    assert!(
        ran.err.contains("`.haft/tools/secret.py`: it is a link, which is not followed in a workspace"),
        "{}",
        ran.err
    );

    fs::remove_dir_all(test_ws.at(".haft")).unwrap();
    symlink(test_ws.outside(), test_ws.at(".haft")).unwrap();
    fs::create_dir(test_ws.outside().join("tools")).unwrap();
    put(&test_ws.outside().join("tools"), "secret", "return 'secret'");
    let (tools, ran) = file_tools(&test_ws, &["--trust"]);
    assert_eq!(tools, ["linked"]);
    assert!(ran.err.contains("`.haft/tools`: it is reached through a link"), "{}", ran.err);
}

#[test]
fn a_person_comes_first_then_the_folders_they_name_then_the_workspace() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    fs::create_dir_all(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), "tools_dirs = [\"~/mine\", \"beside\"]").unwrap();
    let home = test_ws.base().join("home/mine");
    for (folder, names) in [
        (own(&test_ws), &["one"][..]),
        (home, &["one", "two"]),
        (test_ws.config().join("beside"), &["two", "three"]),
        (test_ws.at(".haft/tools"), &["three", "four"]),
    ] {
        for name in names {
            put(&folder, name, &format!("return '{}'", folder.display()));
        }
    }
    let (tools, ran) = file_tools(&test_ws, &["--trust"]);
    assert_eq!(tools, ["one", "two", "three", "four"]);
    assert_eq!(ran.err.matches("the first one is kept").count(), 3, "{}", ran.err);
    let three = test_ws.call_with(&["--trust"], "three", &json!({})).must("ok").text();
    assert!(three.ends_with("config/beside"), "{three}");
}

#[test]
fn the_file_that_is_called_as_the_tool_has_it_before_a_copy() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    put(&own(&test_ws), "shout", "return 'the file of that name'");
    put_file(&own(&test_ws), "shout copy.py", &navi("shout", "return 'the copy'").1);
    put_file(&own(&test_ws), "a.py", &navi("other", "return 'a'").1);
    put_file(&own(&test_ws), "b.py", &navi("other", "return 'b'").1);
    put(&test_ws.at(".haft/tools"), "other", "return 'in a later folder'");
    let (tools, ran) = file_tools(&test_ws, &["--trust"]);
    assert_eq!(tools, ["other", "shout"]);
    let folder = own(&test_ws);
    for (file, first, kept) in [
        (folder.join("shout copy.py").display().to_string(), "shout.py", "the file of that name is kept"),
        (folder.join("b.py").display().to_string(), "a.py", "the first one is kept"),
        (".haft/tools/other.py".to_owned(), "a.py", "the first one is kept"),
    ] {
        let line = ran.err.lines().find(|it| it.contains(&format!("`{file}`:"))).unwrap();
        assert!(line.contains(&format!("{} already; {kept}", folder.join(first).display())), "{line}");
    }
    assert_eq!(test_ws.call("shout", &json!({})).must("ok").text(), "the file of that name");
    assert_eq!(test_ws.call("other", &json!({})).must("ok").text(), "a");
}

#[test]
fn a_list_of_enabled_tools_hides_no_other_tool() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    for name in ["one", "two"] {
        put(&own(&test_ws), name, "return 1");
    }
    assert_eq!(file_tools(&test_ws, &["--toolset", "navi"]).0, ["one", "two"], "without a list all of them");
    put_file(&own(&test_ws), "enabled.json", "[\"two\", \"three\"]");
    assert_eq!(file_tools(&test_ws, &["--toolset", "navi"]).0, ["one", "two"]);
    assert_eq!(file_tools(&test_ws, &[]).0, ["one", "two"]);
    put_file(&own(&test_ws), "enabled.json", "{\"two\":");
    let (tools, ran) = file_tools(&test_ws, &["--toolset", "navi"]);
    assert_eq!(tools, ["one", "two"]);
    assert!(ran.err.contains("enabled.json`: it is not a JSON list of names"), "{}", ran.err);
}

#[test]
fn an_allowlist_is_the_last_word() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    for name in ["one", "two"] {
        put(&own(&test_ws), name, "return 1");
    }
    fs::write(test_ws.config().join("haft.toml"), "tools = [\"two\", \"read\"]").unwrap();
    assert_eq!(file_tools(&test_ws, &[]).0, ["two"]);
    test_ws.call("one", &json!({})).must("not_found");
    fs::write(test_ws.config().join("haft.toml"), "tools = []").unwrap();
    let said = test_ws.call("xyzzy", &json!({})).must("not_found").text();
    assert_eq!(said, "there is no tool `xyzzy` in this session\nThis session has no tools.");
}

#[test]
fn a_tool_is_loaded_again_when_it_may_be_executed() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    put_file(
        &own(&test_ws),
        "greet",
        "#!/bin/sh\necho '{\"name\": \"greet\", \"description\": \"For a test.\"}'\n",
    );
    assert_eq!(file_tools(&test_ws, &[]).0, Vec::<String>::new());
    fs::set_permissions(own(&test_ws).join("greet"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(file_tools(&test_ws, &[]).0, ["greet"]);
}

#[test]
fn in_a_large_folder_a_tool_changes_its_data_and_no_code() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let folder = own(&test_ws);
    (0..120).for_each(|at| put_file(&folder, &format!("_{at}.py"), "A = 1\n"));
    put_file(&folder, "notes.txt", "old");
    put_file(&folder, "data/old.txt", "old");
    let body = format!("open(os.path.join({folder:?}, args['file']), 'w').write('new')\nreturn 'written'");
    let (_, code) = super::support::after("import os", "writes", &body);
    put_file(&folder, "writes.py", &code);
    let write = |file: &str| test_ws.call("writes", &json!({"file": file}));
    for file in ["notes.txt", "data/old.txt", "data/new.txt"] {
        assert_eq!(write(file).must("ok").text(), "written");
        assert_eq!(fs::read_to_string(folder.join(file)).unwrap(), "new");
    }
    for file in ["_7.py", "writes.py", "new.txt", "new.py"] {
        let text = write(file).must("failed").text();
        assert!(text.contains("a folder with more than 100 code files"), "{text}");
    }
    assert_eq!(fs::read_to_string(folder.join("_7.py")).unwrap(), "A = 1\n");
    assert!(!folder.join("new.txt").exists());
}
