//! Does `haft chat` work at a terminal, with a person who types?
//!
//! The terminal is tmux: what is looked at is what a person would see.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

#[path = "../end_to_end/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared with the tests that look at other things")]
mod program;
mod tmux;

use program::Room;
use tmux::Tmux;

#[test]
fn what_is_typed_is_answered_with_calls_shown_and_the_chat_goes_on_later() {
    let room = Room::new();
    room.put("a.txt", "hello\n");
    let script = "{\"think\": \"hm\", \"say\": \"# Title\\n\\nI **read** it.\", \"calls\": [{\"tool\": \"read\", \"arguments\": {\"path\": \"a.txt\"}}], \"chunks\": 9, \"chunk_ms\": 10}\n\
        {\"say\": \"It says \\u001b[2J hello.\"}\n{\"say\": \"Still here.\"}\n";
    let chat = Tmux::chat(&room, script, 80, &[]);
    chat.shows("/help").types("look at it\n").shows("I read it.").shows("✓ read a.txt").shows("hello.");
    assert!(chat.screen().contains("It says \\u{1b}[2J hello."), "{}", chat.screen());
    chat.types("/modle\n").shows("did you mean /model?").key("C-d").shows("haft chat --resume --session");
    drop(chat);
    let chat = Tmux::chat(&room, script, 80, &["--resume"]);
    chat.shows("> look at it").shows("✓ read a.txt").types("and now?\n").shows("Still here.");
    chat.types("/exit\n").shows("haft chat --resume --session");
}

#[test]
fn a_call_waits_for_the_person_who_allows_or_refuses_it() {
    let room = Room::new();
    let write = |name: &str| {
        format!(
            "{{\"calls\": [{{\"tool\": \"write\", \"arguments\": {{\"path\": \"{name}\", \"content\": \"x\"}}}}]}}\n"
        )
    };
    let script = format!(
        "{}{{\"say\": \"first over\"}}\n{}{{\"say\": \"second over\"}}\n",
        write(".vscode/settings.json"),
        write(".envrc")
    );
    let chat = Tmux::chat(&room, &script, 80, &[]);
    chat.shows("/help").types("write\n").shows("allow it?").types("o\n").shows("first over");
    assert!(room.at(".vscode/settings.json").exists());
    chat.types("again\n").shows_times("allow it?", 2).types("n\n").shows("refused").shows("second over");
    assert!(!room.at(".envrc").exists());
}

#[test]
fn esc_and_ctrl_c_stop_the_turn_and_the_chat_goes_on() {
    let room = Room::new();
    let sleeps = "{\"say\": \"Sleeping.\", \"calls\": [{\"tool\": \"shell\", \"arguments\": {\"command\": \"echo deep; sleep 600\", \"wait_ms\": 600000}}]}\n";
    let script = format!("{sleeps}{sleeps}{{\"say\": \"Awake again.\"}}\n");
    let chat = Tmux::chat(&room, &script, 80, &[]);
    chat.shows("/help").types("sleep\n").shows("deep").key("Escape").shows("stopped; say how to go on");
    chat.types("sleep\n").shows_times("Sleeping.", 2).shows_times("deep", 2).key("C-c");
    chat.shows_times("stopped; say how to go on", 2).types("wake up\n").shows("Awake again.");
}

#[test]
fn a_narrow_terminal_shows_all_of_it() {
    let room = Room::new();
    let script = "{\"say\": \"A **rather long** line of text that has to be cut into several.\", \"chunks\": 30, \"chunk_ms\": 5}\n";
    let chat = Tmux::chat(&room, script, 20, &[]);
    chat.shows("Say what to do.").shows("> ").types("go\n").shows("several.");
    assert!(
        chat.screen().contains("A rather long line\nof text that has to\nbe cut into\nseveral."),
        "{}",
        chat.screen()
    );
}
