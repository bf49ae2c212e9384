//! `haft sessions`.

use serde_json::Value;

use crate::support::{Ran, TestWorkspace};

fn say(test_ws: &TestWorkspace, session: &str, task: &str, answer: &str) -> Ran {
    let file = test_ws.base().join("script.jsonl");
    std::fs::write(&file, serde_json::json!({ "say": answer }).to_string()).unwrap();
    let ran =
        test_ws.run(&["--session", session, "run", "--model", &format!("script:{}", file.display()), task]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

#[test]
fn conversations_are_listed_with_titles_and_found_by_what_was_said() {
    let test_ws = TestWorkspace::new();
    let none = test_ws.run(&["sessions"]);
    assert!(none.code == 0 && none.out.starts_with("no conversations in "), "{none:?}");
    say(&test_ws, "one", "fix the failing test\nand be quick", "It was a rounding error.");
    say(&test_ws, "two", "add a cache to the parser", "Done.");

    let all = test_ws.run(&["sessions"]);
    let lines: Vec<&str> = all.out.lines().collect();
    assert!(
        lines[0].starts_with("two  20") && lines[0].ends_with("  1 turn   add a cache to the parser"),
        "{all:?}"
    );
    assert!(
        lines[1].starts_with("one  20") && lines[1].ends_with("  1 turn   fix the failing test"),
        "{all:?}"
    );
    assert!(
        all.out.contains("to resume one: haft --dir")
            && all.out.trim_end().ends_with("chat --resume --session two")
    );

    let found = test_ws.run(&["sessions", "rounding"]);
    assert!(found.out.starts_with("one  ") && found.out.contains("… It was a rounding error."), "{found:?}");
    assert!(!found.out.contains("add a cache"), "{found:?}");
    let nothing = test_ws.run(&["sessions", "zebra\u{1b}[2J"]);
    assert!(nothing.code == 0 && nothing.out.contains("contains `zebra\\u{1b}[2J`"), "{nothing:?}");

    let json: Value =
        serde_json::from_str(&test_ws.run(&["sessions", "--json", "--limit", "1"]).out).unwrap();
    assert_eq!(json["workspace"].as_str().unwrap(), test_ws.at("").canonicalize().unwrap().to_str().unwrap());
    assert_eq!(json["sessions"].as_array().unwrap().len(), 1);
    assert_eq!((&json["sessions"][0]["session"], &json["sessions"][0]["turns"]), (&"two".into(), &1.into()));
}
