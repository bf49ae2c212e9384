//! `haft new-tool`: the created tool works, and its test passes.

use std::process::Command;

use serde_json::json;

use crate::support::TestWorkspace;

/// Runs the command that the output names for `what`, in the workspace.
fn run(test_ws: &TestWorkspace, said: &str, what: &str, more: &str) {
    let command = said.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_else(|| panic!("{said}"));
    let ran = Command::new("sh")
        .arg("-c")
        .arg(format!("{command}{more}"))
        .current_dir(test_ws.at(""))
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command}: {err}{}", String::from_utf8_lossy(&ran.stdout));
}

/// Writes a tool of this language, runs its test, and calls it.
fn tried(lang: &str, more: &str) -> (TestWorkspace, String) {
    let test_ws = TestWorkspace::new();
    let made = test_ws.run(&["new-tool", "count_words", "--lang", lang]);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(made.out.contains("after you trust it: haft"), "{}", made.out);
    assert_eq!(test_ws.run(&["trust"]).code, 0);
    if made.out.contains("\nbuild: ") {
        run(&test_ws, &made.out, "build: ", more);
    }
    run(&test_ws, &made.out, "test:  ", more);
    assert_eq!(
        test_ws.call("count_words", &json!({"text": "one two three"})).must("ok").text().trim_end(),
        "3 words"
    );
    let failed = test_ws.call("count_words", &json!({"text": " "})).must("failed").text();
    assert!(failed.contains("the text has no words"), "{failed}");
    test_ws.call("count_words", &json!({})).must("bad_args");
    (test_ws, made.out)
}

#[test]
fn a_tool_in_python_works_at_once() {
    kit::needs!(Python);
    let (test_ws, said) = tried("python", "");
    for file in [".haft/tools/count_words.py", ".haft/tools/_test_count_words.py"] {
        assert!(said.contains(&format!("wrote {file}\n")) && test_ws.at(file).exists(), "{said}");
    }
}

#[test]
fn a_tool_in_sh_works_at_once() {
    tried("sh", "");
}

#[test]
fn a_tool_in_rust_works_once_it_is_built() {
    tried("rust", " --offline");
}

#[test]
fn a_tool_in_rust_that_is_not_built_says_how_it_is() {
    let test_ws = TestWorkspace::new();
    assert_eq!(test_ws.run(&["new-tool", "count_words", "--lang", "rust"]).code, 0);
    let ran = test_ws.run(&["--trust", "reload-tools", "--strict"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let build = "build it: `cargo build --release --manifest-path .haft/tools/count_words/Cargo.toml`";
    assert!(
        ran.out.contains("target/release/count_words is not there") && ran.out.contains(build),
        "{}",
        ran.out
    );
}

#[test]
fn nothing_is_written_over() {
    let test_ws = TestWorkspace::new();
    assert_eq!(test_ws.run(&["new-tool", "x"]).code, 0);
    let before = test_ws.text(".haft/tools/x.py");
    for lang in ["python", "sh", "rust"] {
        let again = test_ws.run(&["new-tool", "x", "--lang", lang]);
        assert_eq!(again.code, 2, "{again:?}");
        assert!(again.err.contains("exists; nothing was written"), "{again:?}");
    }
    assert_eq!(test_ws.text(".haft/tools/x.py"), before);
    assert!(!test_ws.at(".haft/tools/x.sh").exists() && !test_ws.at(".haft/tools/x").exists());
}

#[test]
fn a_name_is_one_that_a_model_can_call() {
    let test_ws = TestWorkspace::new();
    for name in ["read", "terminal", "_x", "1x", "a.b", "../x"] {
        let made = test_ws.run(&["new-tool", name]);
        assert_eq!(made.code, 2, "{made:?}");
        assert!(made.err.contains(&format!("`{name}`")), "{made:?}");
    }
    assert!(!test_ws.at(".haft").exists());
    let made = test_ws.run(&["new-tool", "count-words"]);
    assert!(made.out.starts_with("named `count_words`"), "{made:?}");
    assert!(test_ws.at(".haft/tools/count_words.py").exists());
}

#[test]
fn a_list_of_enabled_tools_gets_the_new_one() {
    let test_ws = TestWorkspace::new();
    test_ws.put(".haft/tools/enabled.json", "[\"a\"]\n");
    let made = test_ws.run(&["new-tool", "x"]);
    assert!(made.out.contains("added to .haft/tools/enabled.json"), "{made:?}");
    assert_eq!(test_ws.text(".haft/tools/enabled.json"), "[\"a\", \"x\"]\n");
}
