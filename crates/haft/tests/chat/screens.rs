//! Screens of the chat, scene by scene: see [`stage`](super::stage) for how to add one.

use serde_json::{Value, json};

use super::stage::{Screen, scene};

/// Returns the script line of an answer with calls only.
pub(super) fn calls(all: &[(&str, Value)]) -> String {
    let calls: Vec<Value> =
        all.iter().map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments})).collect();
    json!({ "calls": calls }).to_string() + "\n"
}

pub(super) fn says(text: &str) -> String {
    json!({ "say": text }).to_string() + "\n"
}

/// Returns a command that waits for a file, so that a scene decides how long it runs.
pub(super) fn until(file: &str, before: &str, after: &str) -> Value {
    json!({"command": format!("{before}; until [ -e {file} ]; do sleep 0.05; done; {after}"), "wait_ms": 60000})
}

#[test]
fn a_chat_begins_with_what_a_person_should_know() {
    scene("begin", |stage| {
        stage.test_ws.put(".git/HEAD", "ref: refs/heads/fix/rounding\n");
        let mut chat = stage.chat(&says("Hello."));
        chat.snapshot("at the start");
        chat.types("hi\n").rests("Hello.").snapshot("after an answer: context and cost");
        chat.types("/plan\n").rests("  plan mode ·").snapshot("in plan mode");
    });
}

#[test]
fn while_a_model_is_waited_for_something_moves() {
    scene("waiting", |stage| {
        let waits = json!({"say": "Never.", "after_ms": 600_000}).to_string() + "\n";
        let writes = json!({"say": "Half a sentence", "end_ms": 600_000}).to_string() + "\n";
        let mut chat = stage.chat(&format!("{waits}{writes}"));
        chat.types("go\n").shows("waiting for the model").snapshot("before the first token");
        chat.key("Esc").rests("> go");
    });
    scene("writing", |stage| {
        let writes = json!({"say": "Half a sentence", "end_ms": 600_000}).to_string();
        let mut chat = stage.chat(&writes);
        chat.types("go\n").shows("Half a sentence").snapshot("while text comes");
        chat.shows("no answer for 5 s").snapshot("the stream has stalled");
        chat.key("Esc").lacks("no answer");
    });
}

#[test]
fn a_retry_is_counted_down() {
    scene("retry", |stage| {
        let mut chat = stage.chat(&format!("{{\"fault\": \"busy\"}}\n{}", says("Here I am.")));
        chat.types("go\n").shows("retrying in").snapshot("the provider is busy");
        chat.rests("Here I am.").snapshot("it answered");
    });
}

#[test]
fn text_is_laid_out_as_it_is_meant() {
    scene("markdown", |stage| {
        let text = "# Rounding\n\nThe total is **wrong** by `0.005`, see [the report](https://example.org/reports/17).\n\n\
            - [x] read the code\n- [ ] fix it\n  - in `prices.py`\n  - not in the tests\n\n\
            1. First ~~this~~ that.\n2. Then the rest.\n\n> A quote, which is long enough to be cut into more than one line here.\n\n---\nEnd of it.";
        let mut chat = stage.chat(&says(text));
        chat.types("go\n").rests("End of it.").snapshot("headings, lists, tasks, links, quotes");
    });
    scene("table", |stage| {
        let text = "Three files:\n\n| File | Lines | What it does |\n|:-----|------:|:-------------|\n| `prices.py` | 120 | sums up prices and rounds them, which goes wrong |\n\
            | `shop.py` | 1,204 | **everything** else |\n\nThat is all.";
        let mut chat = stage.chat(&says(text));
        chat.types("go\n").rests("That is all.").snapshot("a table");
    });
    scene("code", |stage| {
        let text = "It should be:\n\n```python\nfrom decimal import Decimal\n\ndef total(prices):  # sums up\n    return sum((Decimal(it) for it in prices), Decimal(\"0.00\"))\n```\n\nand then `make test`.";
        let mut chat = stage.chat(&says(text));
        chat.types("go\n").rests("make test").snapshot("code");
    });
}

#[test]
fn calls_are_seen_while_they_run_and_summed_up_by_their_last_line() {
    scene("calls", |stage| {
        stage.test_ws.put("a.txt", "one\ntwo\n");
        let tests = until("go", "echo '........ [ 63%]'", "echo '456 passed in 3.1s'");
        let script = calls(&[
            ("shell", tests),
            ("read", json!({"path": "a.txt"})),
            ("grep", json!({"pattern": "two"})),
        ]) + &calls(&[
            ("shell", json!({"command": "echo 'FAILED (failures=1)'; exit 3"})),
            ("read", json!({"path": "b.txt"})),
        ]) + &says("All done.");
        let mut chat = stage.chat(&script);
        chat.types("go\n").shows("1 match").shows("\n    ........ [ 63%]").snapshot("one runs, two are over");
        stage.test_ws.put("go", "");
        chat.rests("All done.").snapshot("all are over");
    });
}

#[test]
fn a_call_that_waits_for_another_says_so() {
    scene("locks", |stage| {
        let script = calls(&[
            ("shell", until("go", "echo git first", "echo over")),
            ("shell", json!({"command": "echo git second"})),
        ]) + &says("Both done.");
        let mut chat = stage.chat(&script);
        chat.types("go\n").shows("waits for").snapshot("the second waits for the first");
        stage.test_ws.put("go", "");
        chat.rests("Both done.");
    });
}

#[test]
fn a_plan_is_a_checklist() {
    scene("checklist", |stage| {
        let tasks = json!(["read the code", "write a test that fails", "fix the rounding", "run all tests"]);
        let update =
            |task: u32, status: &str| ("todo", json!({"action": "update", "task": task, "status": status}));
        let script = calls(&[("todo", json!({"action": "set", "tasks": tasks}))])
            + &calls(&[update(1, "done"), update(2, "in_progress")])
            + &calls(&[("shell", until("go", "echo testing", "echo tested"))])
            + &says("Planned.");
        let mut chat = stage.chat(&script);
        chat.types("go\n").shows("\n    testing").snapshot("while a call runs");
        stage.test_ws.put("go", "");
        chat.rests("Planned.").snapshot("at the end");
    });
}

#[test]
fn the_whole_output_of_a_call_is_read_on_a_key() {
    scene("pager", |stage| {
        let script = calls(&[("shell", json!({"command": "seq 1 30000; echo the end"}))]) + &says("Counted.");
        let mut chat = stage.chat(&script);
        let leave = |chat: &mut Screen<'_>| {
            chat.key("q").rests("Counted.");
        };
        chat.key("C-o").shows("Nothing to read yet").types("go\n").rests("Counted.");
        chat.key("C-o").shows("lines 1-").snapshot("the beginning");
        chat.key("PgDn").lacks("lines 1-").snapshot("a page further");
        chat.types("/29999").shows("/29999").key("Enter").shows("found once").snapshot("looked for");
        chat.key("G").shows("the end").snapshot("the end of all 30,001 lines");
        leave(&mut chat);
        chat.snapshot("the chat again");
    });
}

#[test]
fn a_long_thought_is_folded_and_can_be_read() {
    scene("thought", |stage| {
        let thought: Vec<String> =
            (1..=8).map(|it| format!("Thought number {it} about the rounding of prices.")).collect();
        let script = json!({"think": thought.join("\n"), "say": "It rounds too early."}).to_string();
        let mut chat = stage.chat(&script);
        chat.types("why?\n").rests("It rounds too early.").snapshot("folded");
        chat.key("C-o").shows("what the model thought").snapshot("read");
        chat.key("q").rests("It rounds too early.");
    });
}

#[test]
fn agents_below_have_a_place_of_their_own() {
    scene("agents", |stage| {
        let file = stage.test_ws.base().join("below.jsonl");
        let below =
            json!({"say": "I look around.", "calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]})
                .to_string()
                + "\n"
                + &json!({"say": "Nothing there.", "after_ms": 600_000}).to_string()
                + "\n";
        std::fs::write(&file, below).unwrap();
        stage.test_ws.put("a.txt", "one\n");
        let profile =
            format!("---\ndescription: Looks\nmodel: script:{}\n---\nLook around.\n", file.display());
        stage.test_ws.put(".haft/agents/scout.md", &profile);
        let script =
            calls(&[("subagent", json!({"prompt": "find the bug", "profile": "scout"}))]) + &says("Found.");
        let mut chat = stage.chat_with(&script, &["--trust"]);
        // The cost of its first step comes last.
        chat.types("go\n").shows("✓ scout_").shows("I look around.").shows("$0.00").snapshot("it works");
        chat.key("Esc").rests("> go");
    });
}

#[test]
fn a_model_that_goes_in_circles_is_seen_to() {
    scene("circles", |stage| {
        stage.test_ws.put("a.txt", "a line that is long enough to be told apart\n".repeat(9));
        let read = || calls(&[("read", json!({"path": "a.txt"}))]);
        let mut chat = stage.chat(&format!("{}{}{}{}", read(), read(), read(), says("Odd.")));
        chat.types("go\n").rests("Odd.").snapshot("the same three times");
    });
}

#[test]
fn a_picture_is_named_in_short_and_its_place_is_told_on_a_key() {
    scene("picture", |stage| {
        let mut png = std::io::Cursor::new(Vec::new());
        image::RgbImage::new(2, 2).write_to(&mut png, image::ImageFormat::Png).unwrap();
        stage.test_ws.put("dot.png", png.into_inner());
        let mut chat = stage.chat(&(calls(&[("image_view", json!({"path": "dot.png"}))]) + &says("A dot.")));
        chat.types("look\n").rests("A dot.").snapshot("named");
    });
}

#[test]
fn a_question_is_asked_with_a_sign_of_life() {
    scene("question", |stage| {
        let write = ("write", json!({"path": ".envrc", "content": "export A=1\n"}));
        let ask = ("ask_user", json!({"question": "Which branch?", "options": ["main", "dev"]}));
        let mut chat = stage.chat(&(calls(&[write]) + &calls(&[ask]) + &says("So be it.")));
        chat.types("go\n").shows("allow it?").snapshot("may it?");
        chat.types("n\n").shows("Which branch?").shows("your answer").snapshot("which?");
        chat.types("2\n").rests("So be it.").snapshot("answered");
    });
}

#[test]
fn a_conversation_is_seen_again_when_it_goes_on() {
    scene("resume", |stage| {
        stage.test_ws.put("a.txt", "one\ntwo\n");
        let read =
            calls(&[("read", json!({"path": "a.txt"})), ("shell", json!({"command": "seq 1 9; echo nine"}))]);
        let script = read + &says("It has **two** lines.") + &says("Still two.");
        let mut chat = stage.chat(&script);
        chat.types("read it\n").rests("two lines.").key("C-d");
        chat.ends();
        let mut chat = stage.run(&script, &["chat", "--resume"]);
        chat.rests("two lines.").snapshot("gone on with");
    });
}
