//! `haft run` at a terminal: drawn as the chat is, without a prompt, and stopped by a key.

use crate::{chat::tmux::Tmux, support::TestWorkspace};

#[test]
fn a_run_is_drawn_as_the_chat_and_ends_with_its_summary() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "hello\n");
    let script = "{\"say\": \"# Title\\n\\nI **read** it.\", \"calls\": [{\"tool\": \"read\", \"arguments\": {\"path\": \"a.txt\"}}], \"chunks\": 9}\n\
        {\"say\": \"It says **hello**.\"}\n";
    let run = Tmux::verb(&test_ws, script, 80, "", &["run", "read it"]);
    run.shows("✓ read a.txt").shows("It says hello.").shows("haft: done: 2 steps, ");
    let screen = run.screen();
    assert!(
        !screen.contains("**") && !screen.contains("< read") && screen.matches("read a.txt").count() == 1,
        "{screen}"
    );
    assert!(!screen.lines().any(|it| it.trim() == ">"), "there is nothing to type in: {screen}");
}

#[test]
fn a_command_that_runs_is_seen_with_its_time_and_last_line_and_esc_stops_it() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let script = "{\"say\": \"Sleeping.\", \"calls\": [{\"tool\": \"shell\", \"arguments\": {\"command\": \"echo deep; sleep 600\", \"wait_ms\": 600000}}]}\n{\"say\": \"On.\"}\n";
    for key in ["Escape", "C-c"] {
        let run = Tmux::verb(&test_ws, script, 80, "", &["run", "sleep"]);
        run.shows("• shell echo deep; sleep 600").shows("deep\n").key(key).shows("haft: stopped; 1 step, ");
        run.shows("haft: to continue: haft --dir ");
        // The terminal is as it was: what is typed is echoed again.
        run.types("echoed\n").shows_times("echoed", 2);
    }
}

#[test]
fn a_question_is_answered_there_also_while_something_is_piped_in() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let script = "{\"expect\": [\"some data\"], \"calls\": [{\"tool\": \"write\", \"arguments\": {\"path\": \".envrc\", \"content\": \"x\"}}]}\n{\"say\": \"over\"}\n";
    let run = Tmux::verb(&test_ws, script, 80, "printf 'some data' | ", &["run", "write it"]);
    run.shows("[stdin, 9 bytes]").shows("allow it?").types("o\n").shows("haft: done: 2 steps, ");
    assert!(test_ws.at(".envrc").exists());
}

#[test]
fn where_a_stream_goes_elsewhere_it_tells_in_lines() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "hello\n");
    let script = "{\"calls\": [{\"tool\": \"read\", \"arguments\": {\"path\": \"a.txt\"}}]}\n{\"say\": \"It says **hello**.\"}\n";
    let log = test_ws.base().join("log");
    let before = format!("exec 2>'{}'; ", log.display());
    let run = Tmux::verb(&test_ws, script, 80, &before, &["run", "read it"]);
    run.shows("It says **hello**.");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.starts_with("< read a.txt: ok, "), "{log}");
}
