//! `haft` without a command, and with one that it does not have.

use super::provider::{KEY, Provider, alone};
use crate::{
    chat::tmux::Tmux,
    support::{TestWorkspace, run},
};

#[test]
fn a_task_without_a_command_is_answered_with_what_to_type() {
    let test_ws = TestWorkspace::new();
    let ran = test_ws.run(&["fix it"]);
    assert!(ran.code == 2 && ran.out.is_empty(), "{ran:?}");
    assert!(ran.err.starts_with("haft: unknown command \"fix it\"\n"), "{ran:?}");
    assert!(ran.err.contains(" run \"fix it\"\n") && ran.err.contains(" chat \"fix it\"\n"), "{ran:?}");
    let ran = test_ws.run(&["chta"]);
    assert!(ran.code == 2 && ran.err.contains("did you mean `") && ran.err.contains(" chat`?"), "{ran:?}");
    let ran = test_ws.run(&["mcp", "lsit"]);
    assert!(ran.code == 2 && ran.err.contains("'list'"), "{ran:?}");
    assert_eq!(test_ws.run(&["--version"]).code, 0);
}

#[test]
fn without_a_command_and_a_terminal_the_help_is_printed() {
    let test_ws = TestWorkspace::new();
    let ran = test_ws.run(&[]);
    assert!(ran.code == 2 && ran.out.is_empty(), "{ran:?}");
    assert!(ran.err.contains("Usage: haft") && ran.err.contains("demo"), "{ran:?}");
}

#[test]
fn without_a_command_and_a_key_the_ways_to_a_model_are_named() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let mut haft = test_ws.haft::<&str>(&[]);
    alone(&mut haft);
    let screen = Tmux::start(&test_ws, &haft, (80, 24));
    screen.shows("Three ways to start").shows("login anthropic").shows("none found").shows("demo");
    drop(screen);
    let mut haft = test_ws.haft(&["chat"]);
    alone(&mut haft);
    Tmux::start(&test_ws, &haft, (80, 24)).shows("Three ways to start").shows("login anthropic");
    // A local server with a model is named; the mock wants a key, which Ollama has a variable for.
    let provider = Provider::new();
    let mut haft = test_ws.haft::<&str>(&[]);
    haft.env("OLLAMA_HOST", provider.url.trim_end_matches("/v1")).env("OLLAMA_API_KEY", KEY);
    let screen = Tmux::start(&test_ws, &haft, (200, 24));
    screen.shows("chat --model ollama:gpt-5.6-terra").shows("(found: 2 models at http://127.0.0.1:");
}

#[test]
fn without_a_command_and_with_a_model_the_chat_starts() {
    kit::needs!(Tmux);
    let (test_ws, provider) = (TestWorkspace::new(), Provider::new());
    let mut haft = test_ws.haft::<&str>(&[]);
    alone(&mut haft).env("OPENAI_BASE_URL", &provider.url).env("OPENAI_API_KEY", KEY);
    let screen = Tmux::start(&test_ws, &haft, (80, 24));
    screen.shows("using openai:gpt-5.6-terra, since OPENAI_API_KEY is set");
    screen.shows("/help").types("hi\n").shows("Hello.");
}

#[test]
fn a_model_that_is_named_by_the_environment_starts_the_chat_as_well() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let file = test_ws.base().join("script.jsonl");
    std::fs::write(&file, "{\"say\": \"Hello.\"}\n").unwrap();
    let mut haft = test_ws.haft::<&str>(&[]);
    alone(&mut haft).env("HAFT_MODEL", format!("script:{}", file.display()));
    let screen = Tmux::start(&test_ws, &haft, (80, 24));
    screen.shows("/help").types("hi\n").shows("Hello.");
    // In lines, a command is needed.
    assert_eq!(run(&mut haft, "hi\n").code, 2);
}
