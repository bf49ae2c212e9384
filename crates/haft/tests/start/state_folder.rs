//! A state folder of an earlier haft: opened, searched, forked and resumed by this one.
//!
//! `state-7.db.gz` was made by the haft whose schema has version 7: the session `colours` with two turns and a title, the
//! archived session `zebras`, whose text came in pieces, and `cut`, whose process was killed in the middle of its turn. A new
//! version of the schema keeps this file, and gets another one beside it.

use std::{fs, io::Read as _, path::PathBuf};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::support::{Ran, TestWorkspace};

/// The database of each earlier version.
const VERSIONS: [&[u8]; 1] = [include_bytes!("state-7.db.gz")];

fn find(folder: PathBuf) -> Option<PathBuf> {
    let entries: Vec<_> = fs::read_dir(folder).ok()?.flatten().map(|it| it.path()).collect();
    let here = entries.iter().find(|it| it.ends_with("haft.db")).cloned();
    here.or_else(|| entries.into_iter().filter(|it| it.is_dir()).find_map(find))
}

/// Returns a workspace whose state is that of this database.
fn opened(version: &[u8]) -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "red\ngrey\nblue\n");
    // So that the folder of this workspace is there.
    done(&test_ws, &["call", "tree", "{}"]);
    let database = find(test_ws.state()).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(version).read_to_end(&mut bytes).unwrap();
    for ending in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{ending}", database.display()));
    }
    fs::write(database, bytes).unwrap();
    test_ws
}

#[track_caller]
fn done(test_ws: &TestWorkspace, arguments: &[&str]) -> Ran {
    let ran = test_ws.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    ran
}

fn says(test_ws: &TestWorkspace, script: &[Value], arguments: &[&str]) -> Ran {
    let lines: String = script.iter().map(|it| it.to_string() + "\n").collect();
    let file = test_ws.base().join("talk.jsonl");
    fs::write(&file, lines).unwrap();
    let model = format!("script:{}", file.display());
    done(test_ws, &[arguments, &["--model", &model]].concat())
}

#[test]
fn conversations_of_an_earlier_version_are_listed_shown_and_searched() {
    for version in VERSIONS {
        let test_ws = opened(version);
        let listed = done(&test_ws, &["sessions"]).out;
        assert!(listed.contains("Colours of a file") && listed.contains("write a long answer"), "{listed}");
        assert!(!listed.contains("zebras"), "it is archived: {listed}");
        let archived = done(&test_ws, &["sessions", "--archived"]).out;
        assert!(archived.contains("tell me about zebras"), "{archived}");
        let shown = done(&test_ws, &["sessions", "show", "colours"]).out;
        for part in ["> which colours are there?", "Three colours.", "< edit a.txt  ok", "Grey now."] {
            assert!(shown.contains(part), "{part:?} in {shown}");
        }
        let found = done(&test_ws, &["sessions", "search", "stripes", "--archived"]).out;
        assert!(found.contains("zebras"), "{found}");
        let log = done(&test_ws, &["log"]).out;
        assert!(log.contains("edit") && log.contains("read"), "{log}");
    }
}

#[test]
fn conversation_of_an_earlier_version_is_forked_and_goes_on() {
    for version in VERSIONS {
        let test_ws = opened(version);
        let fork = done(&test_ws, &["sessions", "fork", "colours", "--at", "1", "--json"]).out;
        let fork: Value = serde_json::from_str(&fork).unwrap();
        let name = fork["session"].as_str().unwrap();
        // Two answers of the first turn are before it.
        let answers =
            [json!({"say": "1"}), json!({"say": "2"}), json!({"expect": ["and then"], "say": "On."})];
        let ran = says(&test_ws, &answers, &["--session", name, "run", "--resume", "and then?"]);
        assert_eq!(ran.out, "On.\n");
        let answers =
            [vec![json!({"say": "x"}); 4], vec![json!({"expect": ["and now"], "say": "Still."})]].concat();
        let ran = says(&test_ws, &answers, &["--session", "colours", "run", "--resume", "and now?"]);
        assert_eq!(ran.out, "Still.\n");
    }
}

#[test]
fn turn_that_an_earlier_version_left_open_is_settled_and_the_session_goes_on() {
    for version in VERSIONS {
        let test_ws = opened(version);
        let answers = [json!({"say": "Whole."}), json!({"say": "Whole."})];
        let ran = says(&test_ws, &answers, &["--session", "cut", "run", "--resume", "once more"]);
        assert_eq!(ran.out, "Whole.\n");
        let secrets = std::sync::Arc::new(kit::redact::Secrets::none());
        let store = store::Store::open(&test_ws.state(), &test_ws.at("."), secrets);
        let rows = store.events().page("cut", 0, 1_000, 1 << 20).unwrap();
        let rows: Vec<Value> = rows.iter().map(|it| serde_json::from_str(&it.body).unwrap()).collect();
        let ends: Vec<&Value> =
            rows.iter().filter(|it| it["event"] == "turn_ended").map(|it| &it["ended"]).collect();
        assert_eq!(ends, ["interrupted", "done"]);
    }
}
