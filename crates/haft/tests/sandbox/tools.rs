//! The sandbox of tools that are files.

use std::{
    fs,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::Path,
    process::Command,
};

use haft::sandbox::SandboxMode;
use serde_json::{Value, json};

use crate::{
    confined,
    drive::{OfTool, Setup},
    support::{Driver, Ran, User, World},
    without_bubblewrap, without_namespaces,
};

/// Attempts to change what is code, in the folder where they are made.
const CHANGES: &[&str] = &[
    "echo evil > mine.py",
    "echo evil > other.py",
    "echo evil >> enabled.json",
    "echo evil > named.txt",
    "echo evil > lib/more.py",
    "echo evil > lib/new.py",
    "rm mine.py",
    "rm -r lib",
    "mv mine.py mine2.py",
    "mv lib lib2",
    "echo evil > x && mv x other.py",
    "mkdir -p d && mv d lib",
    "ln -sf data.json enabled.json",
    "ln mine.py hard",
    "chmod 777 mine.py",
    "touch -d 2001-01-01 other.py",
    "mv . ../elsewhere",
    "mv \"$PWD\" \"$PWD-elsewhere\"",
];

/// Writes that every tool may do beside its own file.
const DATA: &str =
    "set -e; echo more > data.json; echo new > new.txt; echo x > data/x; mkdir -p deep/er; echo x > deep/er/x
    mv new.txt newer.txt; rm data/x; cat newer.txt";

fn tool(folder: &Path) -> OfTool {
    OfTool { folder: folder.to_owned(), read: Vec::new(), write: Vec::new() }
}

fn run(driver: &mut Driver, tool: &OfTool, command: &str) -> Ran {
    driver.run(&json!({"command": command, "tool": tool}))
}

fn run_in(driver: &mut Driver, tool: &OfTool, command: &str) -> Ran {
    run(driver, tool, &format!("cd {} && {command}", tool.folder.display()))
}

/// Returns the content, mode and time of all code in the folder, which must stay unchanged.
fn code(folder: &Path) -> Vec<(String, u32, i64)> {
    let read = |name: &&str| {
        let about = fs::metadata(folder.join(name)).unwrap();
        (fs::read_to_string(folder.join(name)).unwrap(), about.mode(), about.mtime())
    };
    ["mine.py", "other.py", "enabled.json", "named.txt", "lib/more.py"].iter().map(read).collect()
}

pub(crate) fn a_tool_leaves_its_sandbox_no_more_than_a_command(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    let before = world.outside();
    for folder in ["ws/.haft/tools", "config/tools"] {
        let attacks = driver.attack_from(&world, &json!({"tool": tool(&world.base.join(folder))}));
        let broken: Vec<_> = attacks.iter().filter(|it| it.1.0).collect();
        assert!(broken.is_empty() && attacks.len() > 60, "{folder}: {broken:#?}");
    }
    assert_eq!(before, world.outside());
}

pub(crate) fn a_tool_changes_data_beside_it_and_no_code(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    changes_data_and_no_code(&world, &mut driver);
    let tool = tool(&world.base.join("ws/.haft/tools"));
    for command in [
        "echo evil > haft.toml",
        "echo evil > .git/hooks/pre-commit",
        "echo evil > .vscode/tasks.json",
        "mkdir .haft/agents",
        "mv .haft .haft2",
    ] {
        assert!(run(&mut driver, &tool, command).exit > 0, "{command}");
    }
    assert_eq!(run(&mut driver, &tool, "echo x > made && cat made").text, "x\n");
    // A command of the session has no tool's rights.
    assert!(driver.sh("echo x > .haft/tools/data.json").exit > 0);
}

/// Beside a tool there is data, which it may change, and code, which it may not.
pub(crate) fn changes_data_and_no_code(world: &World, driver: &mut Driver) {
    for folder in ["ws/.haft/tools", "config/tools"] {
        let tool = tool(&world.base.join(folder));
        let before = code(&tool.folder);
        for command in CHANGES {
            let ran = run_in(driver, &tool, command);
            assert!(ran.exit > 0 && ran.fault.is_none(), "{folder}: {command}: {ran:?}");
        }
        assert_eq!(before, code(&tool.folder));
        assert!(!tool.folder.join("lib/new.py").exists() && tool.folder.is_dir());
        let ran = run_in(driver, &tool, DATA);
        assert_eq!((ran.exit, ran.text.as_str()), (0, "new\n"), "{ran:?}");
        assert_eq!(fs::read_to_string(tool.folder.join("data.json")).unwrap(), "more\n");
        // A tool can't put bytecode there for Python to run in place of the code.
        assert!(run_in(driver, &tool, "mkdir -p __pycache__ && echo evil > __pycache__/mine.pyc").exit > 0);
        let ran = run_in(driver, &tool, "echo evil > new.py");
        let named = |it: &String| it.contains("rule `control_files`") && it.contains("tools/new.py is new");
        assert!(ran.exit == 0 && ran.denials.iter().any(named), "{ran:?}");
    }
}

pub(crate) fn a_tool_of_the_person_sees_no_more_of_the_configuration(user: User) {
    let world = World::new(user);
    // Where all of it lies in a root, too, which a person may have chosen.
    for workspace in [world.base.join("ws"), world.base.clone()] {
        let mut driver = world.start(&Setup { workspace, ..world.setup() });
        let tool = tool(&world.base.join("config/tools"));
        let config = world.base.join("config").display().to_string();
        assert_eq!(run(&mut driver, &tool, &format!("ls -A {config}")).text, "tools\n");
        for command in ["cat ../haft.toml", "cat ../../state/x"] {
            assert!(run_in(&mut driver, &tool, command).exit > 0, "{command}");
        }
        // Files that it creates around itself, where it can, are gone with the sandbox.
        let _ = run_in(&mut driver, &tool, "echo x > ../haft.toml; echo x > ../new");
        assert_eq!(run_in(&mut driver, &tool, "cat mine.py").text, "as it was\n");
        let ran = run_in(&mut driver, &tool, DATA);
        assert_eq!((ran.exit, ran.text.as_str()), (0, "new\n"), "{ran:?}");
    }
    assert_eq!(fs::read_to_string(world.base.join("config/haft.toml")).unwrap(), "secret\n");
    assert!(!world.base.join("config/new").exists());
}

pub(crate) fn a_tool_reaches_what_was_granted_to_it_alone(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    let tool = tool(&world.base.join("ws/.haft/tools"));
    let places: Value = serde_json::from_str(&world.places(0)).unwrap();
    let host = format!("127.0.0.1:{}", places["tcp"]);
    let fetch = format!(
        "/usr/bin/python3 -c 'import os, urllib.request as r\n\
         os.environ.pop(\"no_proxy\"); os.environ.pop(\"NO_PROXY\")\n\
         print(r.urlopen(\"http://{host}/\").read())' 2>&1"
    );
    let refused = run(&mut driver, &tool, &fetch);
    assert!(refused.exit != 0 && refused.text.contains("403"), "{refused:?}");
    assert!(refused.denials.iter().any(|it| it.contains("rule `net`") && it.contains(&host)), "{refused:?}");
    let reached = driver.run(&json!({"command": fetch, "tool": tool, "net": [host]}));
    assert_eq!(reached.text.trim(), "b'hi'", "{reached:?}");
    assert_ne!(driver.sh(&fetch).exit, 0);
    assert_ne!(run(&mut driver, &tool, &fetch).exit, 0);
}

pub(crate) fn a_tool_ends_nothing_but_itself(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    let mut other = Command::new("sleep");
    if user == User::Ordinary {
        other.uid(crate::support::ORDINARY);
    }
    let mut other = other.arg("600").spawn().unwrap();
    let tool = tool(&world.base.join("config/tools"));
    let _ = run(&mut driver, &tool, "kill -9 -1");
    let them = format!("kill -9 {} {}", other.id(), driver.id());
    let _ = run(&mut driver, &tool, &them);
    assert!(other.try_wait().unwrap().is_none());
    assert_eq!(driver.sh("echo alive").text, "alive\n");
    assert_eq!(run(&mut driver, &tool, "echo alive").text, "alive\n");
    other.kill().unwrap();
    other.wait().unwrap();
}

pub(crate) fn paths_that_a_tool_was_given_are_where_they_are(user: User) {
    let world = World::new(user);
    let at = |name: &str| world.base.join(name);
    fs::create_dir_all(at("given/.git/hooks")).unwrap();
    fs::write(at("given/.git/config"), "").unwrap();
    std::os::unix::fs::symlink(at("given"), at("by-link")).unwrap();
    std::os::unix::fs::symlink(at("other_home"), at("ws/out")).unwrap();
    world.give(&at("given"));
    let mut driver = confined(&world);
    let mut tool = tool(&at("ws/.haft/tools"));
    tool.read = vec![at("outside"), at("ws/out"), at("home/.ssh/id"), at("missing")];
    tool.write = vec![at("by-link")];
    let base = world.base.display();
    for (command, says) in [
        (format!("cat {base}/outside/secret"), "secret\n"),
        (format!("cat {base}/home/.ssh/id"), "secret\n"),
        (format!("echo x > {base}/by-link/new && cat {base}/given/new"), "x\n"),
    ] {
        let ran = run(&mut driver, &tool, &command);
        assert_eq!(ran.text, says, "{command}: {ran:?}");
    }
    for command in [
        format!("echo x > {base}/outside/new"),
        format!("echo x > {base}/given/.git/hooks/pre-commit"),
        format!("echo x > {base}/given/.git/config"),
        "cat out/x".to_owned(),
        "echo x > .git/config".to_owned(),
    ] {
        assert!(run(&mut driver, &tool, &command).exit > 0, "{command}");
    }
    for own in ["state", "config"] {
        tool.read = vec![at(own)];
        let ran = run(&mut driver, &tool, "true");
        assert!(ran.fault.is_some_and(|it| it.contains("is haft's own")));
    }
}

pub(crate) fn a_tool_writes_nothing_where_nothing_may_be_written(user: User) {
    let world = World::new(user);
    let mut driver = world.start(&Setup { sandbox: SandboxMode::ReadOnly, ..world.setup() });
    let mut tool = tool(&world.base.join("ws/.haft/tools"));
    tool.write = vec![world.base.join("outside")];
    for command in ["echo x > new", "echo x > ../../new", "echo x > data/x", "echo x > ../../../outside/new"]
    {
        assert!(run_in(&mut driver, &tool, command).exit > 0, "{command}");
    }
    assert_eq!(
        run_in(&mut driver, &tool, "cat data.json ../../../outside/secret").text,
        "as it was\nsecret\n"
    );
}

pub(crate) fn a_folder_of_tools_with_a_link_is_closed(user: User) {
    let world = World::new(user);
    let tool = tool(&world.base.join("config/tools"));
    std::os::unix::fs::symlink("../../shared/file", tool.folder.join("linked.py")).unwrap();
    let mut driver = confined(&world);
    for command in ["rm linked.py", "ln -sf data.json linked.py", "echo x > data.json"] {
        assert!(run_in(&mut driver, &tool, command).exit > 0, "{command}");
    }
    assert_eq!(run_in(&mut driver, &tool, "cat linked.py").text, "secret\n");
}

pub(crate) fn a_tool_in_a_weaker_sandbox_changes_no_tool_of_the_person(user: User) {
    let world = World::new(user);
    let setup = Setup { accept_weaker: vec!["namespaces".to_owned()], ..world.setup() };
    let mut driver = without_namespaces(&world, &without_bubblewrap(setup));
    let tool = tool(&world.base.join("config/tools"));
    let before = code(&tool.folder);
    for command in ["echo evil > mine.py", "echo evil > new.py", "cat ../haft.toml"] {
        assert!(run_in(&mut driver, &tool, command).exit > 0, "{command}");
    }
    assert_eq!(before, code(&tool.folder));
    assert_eq!(run_in(&mut driver, &tool, "/bin/cat mine.py").text, "as it was\n");
}

pub(crate) fn a_repository_made_meanwhile_is_closed_to_the_next_tool(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    let tool = tool(&world.base.join("ws/.haft/tools"));
    assert_eq!(run(&mut driver, &tool, "true").exit, 0);
    let late = world.base.join("ws/late/one");
    fs::create_dir_all(&late).unwrap();
    crate::support::git(&late, &["init", "--quiet"]);
    world.give(&world.base.join("ws/late"));
    for command in ["echo evil >> late/one/.git/config", "echo evil > late/one/.git/hooks/pre-commit"] {
        assert!(run(&mut driver, &tool, command).exit > 0, "{command}");
    }
}
