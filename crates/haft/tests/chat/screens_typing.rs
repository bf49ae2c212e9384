//! Screens of the chat while a person types, scene by scene: see [`stage`](super::stage).

use serde_json::json;

use super::{
    screens::{calls, says, until},
    stage::scene,
};

#[test]
fn what_may_be_typed_pops_up() {
    scene("popup", |stage| {
        stage.test_ws.put("src/shop/cart.py", "total = 1\n");
        stage.test_ws.put("src/shop/prices.py", "price = 1\n");
        let mut chat = stage.chat(&says("Seen."));
        chat.types("/").shows("› /help").snapshot("commands");
        chat.types("mo").shows("> /mo\n› /model").snapshot("commands that begin so");
        chat.key("C-u")
            .types("look at @pri")
            .shows("› src/shop/prices.py")
            .snapshot("files, by fuzzy search");
        // A blank follows what was completed, so a second key is not part of it.
        chat.key("Tab")
            .lacks("›")
            .types("please")
            .shows("@src/shop/prices.py please")
            .key("Enter")
            .rests("Seen.")
            .snapshot("a file is attached");
    });
}

#[test]
fn long_and_many_lines_are_typed_and_pasted() {
    scene("typing", |stage| {
        let mut chat = stage.chat(&format!("{}{}", says("One."), says("Two.")));
        chat.types("first line\\\nsecond line").shows("second line").snapshot("two lines");
        chat.key("C-u").key("Backspace").key("C-u");
        let text: String = (1..=200).map(|it| format!("line {it}\n")).collect();
        chat.pastes(&text).shows("200 lines pasted").snapshot("200 lines were pasted");
        chat.key("C-u").types("make the tests pass\n").rests("One.").types("ls\n").rests("Two.");
        chat.key("C-r").types("tes").shows("search: tes").snapshot("earlier messages are searched");
    });
}

#[test]
fn a_message_that_is_typed_while_the_agent_works_waits() {
    scene("queue", |stage| {
        let mut chat = stage.chat(
            &(calls(&[("shell", until("go", "echo building", "echo built"))])
                + &says("Over.")
                + &says("Next.")),
        );
        chat.types("go\n")
            .shows("\n    building")
            .types("and then\n")
            .shows("(next)")
            .types("a dra")
            .shows("> a dra");
        chat.snapshot("one waits, one is typed");
        stage.test_ws.put("go", "");
        chat.rests("Next.").snapshot("it was taken up");
    });
}

#[test]
fn a_person_runs_a_command_and_leaves() {
    scene("bang", |stage| {
        let mut chat = stage.chat(&says("Three lines."));
        chat.types("!seq 1 3\n").rests("\n2\n3\n").snapshot("a command of the person's");
        chat.types("what is it?\n")
            .rests("Three lines.")
            .key("C-c")
            .shows("press Ctrl-C again")
            .snapshot("leaving");
    });
}

#[test]
fn an_edit_is_shown_as_a_diff_before_and_after() {
    let prices =
        "def total(items):\n    return sum(items)\n\n\ndef shown(price):\n    return f\"{price} EUR\"\n";
    let edit = || {
        (
            "edit",
            json!({"path": "prices.py", "edits": [{"old": "return sum(items)", "new": "return round(sum(items), 2)"}]}),
        )
    };
    scene("edit", |stage| {
        stage.test_ws.put("prices.py", prices);
        let mut chat = stage.chat(&(calls(&[edit()]) + &says("Rounded.")));
        chat.types("round it\n").rests("Rounded.").snapshot("after it landed");
        chat.types("/undo\n").rests("To redo").snapshot("undone");
    });
    scene("ask_edits", |stage| {
        stage.test_ws.put("prices.py", prices);
        let mut chat = stage.chat_with(&(calls(&[edit()]) + &says("Rounded.")), &["--approve", "ask-edits"]);
        chat.types("round it\n").shows("allow it?").snapshot("before it lands");
        chat.types("o\n").rests("Rounded.").snapshot("after it was allowed");
    });
}

#[test]
fn conversations_have_titles() {
    scene("sessions", |stage| {
        let mut chat = stage.chat(&says("Rounded."));
        chat.types("round the prices\n").rests("Rounded.").types("/new\n").rests("/help");
        chat.types("/sessions\n").shows("› round the prices").snapshot("a list to choose from");
        chat.key("Esc").rests("> /sessions");
        chat.types("/help\n").shows("Commands").snapshot("help, in the pager where it is long");
    });
}

#[test]
fn a_job_that_ends_is_told_by_its_last_line() {
    scene("job", |stage| {
        let command = json!({"command": "until [ -e go ]; do sleep 0.05; done; echo round 1; echo all done", "wait_ms": 100});
        let script =
            calls(&[("shell", command)]) + &says("It goes on by itself.") + &says("Both rounds are done.");
        let mut chat = stage.chat(&script);
        chat.types("begin\n").rests("It goes on by itself.").snapshot("in the background");
        stage.test_ws.put("go", "");
        chat.rests("Both rounds are done.").snapshot("its end begins a turn");
    });
}

#[test]
fn a_task_at_a_terminal_looks_like_the_chat() {
    scene("run", |stage| {
        stage.test_ws.put("a.txt", "one\ntwo\n");
        let script = calls(&[
            ("read", json!({"path": "a.txt"})),
            ("shell", until("go", "echo building", "echo built")),
        ]) + &says("It has **two** lines.");
        let mut run = stage.run(&script, &["run", "how long is a.txt?"]);
        run.shows("2 lines").shows("\n    building").snapshot("while a call runs");
        stage.test_ws.put("go", "");
        run.shows("done:").snapshot("at the end");
    });
}
