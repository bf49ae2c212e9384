//! `haft chat --attach`: several terminals on one session, at three sizes.

use serde_json::json;

use super::{
    screens::{calls, says},
    stage::{SIZES, Stage},
};

/// Plays on terminals of every size.
fn on_every_terminal(play: impl Fn(&Stage)) {
    SIZES.into_iter().for_each(|size| play(&Stage::new(size, true)));
}

fn asks() -> String {
    calls(&[("write", json!({"path": ".envrc", "content": "export A=1\n"}))])
}

#[test]
fn approval_is_decided_at_either_terminal_and_the_other_one_is_told_who() {
    on_every_terminal(|stage| {
        let other_file = calls(&[("write", json!({"path": ".mcp.json", "content": "{}\n"}))]);
        let script = asks() + &says("Written.") + &other_file + &says("Again.");
        let mut owner = stage.chat(&script);
        owner.types("go\n").shows("allow it?");
        let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
        other.shows("allow it?").types("o\n").shows("allowed once");
        owner.shows(" allowed it once)").rests("Written.");
        other.rests("Written.");
        owner.types("once more\n").shows("allow it?");
        other.shows("allow it?");
        owner.types("n\n").rests("Again.");
        other.shows("refused it)").rests("Again.");
    });
}

#[test]
fn prompts_of_either_terminal_are_seen_at_both_with_their_answers() {
    on_every_terminal(|stage| {
        let script = says("First.") + &says("Second.") + &says("Third.");
        let mut owner = stage.chat(&script);
        owner.types("one\n").rests("First.");
        let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
        // The earlier messages are there.
        other.rests("First.");
        assert!(other.text().contains("> one"), "{}", other.text());
        other.types("two\n").rests("Second.");
        owner.shows("> two").rests("Second.");
        owner.types("three\n").rests("Third.");
        other.shows("> three").rests("Third.");
        other.key("C-d");
        assert!(other.ends().contains("haft: left; the session goes on in"));
        owner.types("/status\n").rests("session");
    });
}

#[test]
fn turn_is_stopped_from_the_other_terminal() {
    let stage = Stage::new((80, 24), true);
    let script = json!({"say": "Half", "end_ms": 600_000}).to_string() + "\n" + &says("On.");
    let mut owner = stage.chat(&script);
    owner.types("go\n").shows("Half");
    let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
    // The turn that goes on is seen from its beginning.
    other.shows("Half").key("Esc").rests("Stopped.");
    owner.rests("Stopped.");
}

#[test]
fn session_of_a_process_that_was_killed_goes_on_at_the_terminal_that_is_attached() {
    on_every_terminal(|stage| {
        let script = says("First.") + &says("Second.");
        let mut owner = stage.chat(&script);
        owner.types("one\n").rests("First.");
        let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
        other.rests("First.");
        drop(owner);
        other.types("two\n").rests("Second.");
        other.key("C-d");
        assert!(other.ends().contains("to continue:"));
        // Nothing of it is left open.
        let mut again = stage.run(&script, &["chat", "--attach", "latest"]);
        again.rests("Second.");
    });
}

#[test]
fn message_is_taken_back_to_be_changed_and_sent_again_from_the_other_terminal() {
    let stage = Stage::new((80, 24), true);
    let script = says("First.") + &says("Second.");
    let mut owner = stage.chat(&script);
    owner.types("one\n").rests("First.");
    let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
    other.rests("First.").types("/rewind\n").shows("went back to before: one\n> one");
    owner.shows("went back to before: one");
    other.types(" more\n").rests("Second.");
    owner.shows("> one more").rests("Second.");
    other.types("/rename Numbers\n").shows("renamed: Numbers");
    owner.shows("renamed this conversation: Numbers");
}

#[test]
fn session_is_chosen_from_a_list_with_titles_and_states() {
    on_every_terminal(|stage| {
        let script = says("First.");
        let mut one = stage.chat(&script);
        one.types("fix the test\n").rests("First.").key("C-d");
        one.ends();
        let mut owner = stage.chat(&script);
        owner.types("add a cache\n").rests("First.");
        let mut other = stage.run(&script, &["chat", "--attach"]);
        other.shows("› add a cache").shows("fix the test");
        if stage.size.0 >= 80 {
            assert!(other.text().contains("open in process"), "{}", other.text());
        }
        other.types("fix").lacks("add a cache").shows("› fix the test").key("Enter").rests("First.");
        assert!(
            other.text().contains("> fix the test"),
            "nobody runs it, so it goes on here: {}",
            other.text()
        );
    });
}
