//! The groups of `examples/groups`, as their README says.

use super::support::copied;
use crate::support::TestWorkspace;

fn runs(example: &str, file: &str, task: &str) -> (String, i32) {
    let test_ws = TestWorkspace::new();
    copied(example, &test_ws);
    let file = test_ws.at(file);
    let ran = test_ws.run(&["--trust", "group", "run", file.to_str().unwrap(), task]);
    (ran.err, ran.code)
}

#[test]
fn newsroom_passes_a_text_along_by_channel_and_output_wires() {
    let (err, code) = runs("newsroom", "newsroom.yaml", "Write about the harvest.");
    assert_eq!(code, 0, "{err}");
    for line in [
        "[writer] The harvest is in, and it was good.",
        "[editor] The harvest is in. It was good.",
        "[root] Printed: The harvest is in. It was good.",
    ] {
        assert!(err.contains(line), "{line}\n{err}");
    }
}

#[test]
fn chat_of_three_goes_on_over_one_channel_until_nobody_has_more_to_say() {
    let (err, code) = runs("chat-of-three", "group.toml", "What is the capital of Norway?");
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("[ann] It is Oslo; Cid agrees."), "{err}");
    assert!(err.contains("[bob] got from ann on table: Bob: what is the capital of Norway?"), "{err}");
}

#[test]
fn workers_are_started_wired_watched_and_removed_by_a_root() {
    let (err, code) = runs("workers", "lead.md", "Count the lines of a.txt.");
    assert_eq!(code, 0, "{err}");
    for line in ["[first] added to the group", "[first] a.txt has 2 lines.", "[group] first removed"] {
        assert!(err.contains(line), "{line}\n{err}");
    }
    assert!(err.contains("[root] a.txt has 2 lines."), "{err}");
}

#[test]
fn recipes_are_checked_without_running_anything() {
    let test_ws = TestWorkspace::new();
    copied("newsroom", &test_ws);
    let file = test_ws.at("newsroom.yaml");
    let ran = test_ws.run(&["group", "check", file.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in [
        "newsroom: 3 agents",
        "root (privileged)",
        "nobody --[assignments]--> root, writer  (What is to be written)",
        "writer ==output==> editor",
        "writer: script:scripts/writer.jsonl; tools: read, write",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    assert_eq!(ran.err, "", "every key is known");
    let ran = test_ws.run(&["group", "list"]);
    assert!(ran.out.contains("no groups yet"), "{ran:?}");
}

#[test]
fn creatures_of_an_untrusted_workspace_do_not_choose_their_models() {
    let test_ws = TestWorkspace::new();
    copied("workers", &test_ws);
    let file = test_ws.at("lead.md");
    let ran = test_ws.run(&["group", "run", file.to_str().unwrap(), "go"]);
    assert!(ran.code != 0 && ran.err.contains("no model was named for `root`"), "{ran:?}");
}
