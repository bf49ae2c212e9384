//! `haft chat` at a terminal, typed into and read by tmux.
//!
//! The assertions are about the text on the screen.

mod attached;
mod attached_pipe;
mod branched;
mod changes;
mod plain;
mod screens;
mod screens_typing;
pub(crate) mod stage;
mod taking_part;
pub(crate) mod tmux;
mod typed;

use std::{io::Write as _, process::Stdio};

use crate::support::TestWorkspace;
use tmux::Tmux;

#[test]
fn what_is_typed_is_answered_with_calls_shown_and_the_chat_goes_on_later() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "hello\n");
    let script = "{\"think\": \"hm\", \"say\": \"# Title\\n\\nI **read** it.\", \"calls\": [{\"tool\": \"read\", \"arguments\": {\"path\": \"a.txt\"}}], \"chunks\": 9, \"chunk_ms\": 10}\n\
        {\"say\": \"It says \\u001b[2J hello.\"}\n{\"say\": \"Still here.\"}\n";
    let chat = Tmux::chat(&test_ws, script, 80, &[]);
    chat.shows("/help").types("look at it\n").shows("I read it.").shows("✓ read a.txt").shows("hello.");
    assert!(chat.screen().contains("It says \\u{1b}[2J hello."), "{}", chat.screen());
    chat.types("/modle\n").shows("Did you mean /model?").key("C-d").shows("chat --resume --session");
    drop(chat);
    let chat = Tmux::chat(&test_ws, script, 80, &["--resume"]);
    chat.shows("> look at it").shows("✓ read a.txt").types("and now?\n").shows("Still here.");
    chat.types("/exit\n").shows("chat --resume --session");
}

#[test]
fn a_call_waits_for_the_person_who_allows_or_refuses_it() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
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
    let chat = Tmux::chat(&test_ws, &script, 80, &[]);
    chat.shows("/help").types("write\n").shows("allow it?").types("o\n").shows("first over");
    assert!(test_ws.at(".vscode/settings.json").exists());
    chat.types("again\n")
        .shows_times("A session or project approval covers", 2)
        .shows("allow it?")
        .types("n\n")
        .shows("refused")
        .shows("second over");
    assert!(!test_ws.at(".envrc").exists());
}

#[test]
fn esc_and_ctrl_c_stop_the_turn_and_the_chat_goes_on() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let sleeps = "{\"say\": \"Sleeping.\", \"calls\": [{\"tool\": \"shell\", \"arguments\": {\"command\": \"echo deep; sleep 600\", \"wait_ms\": 600000}}]}\n";
    let script = format!("{sleeps}{sleeps}{{\"say\": \"Awake again.\"}}\n");
    let chat = Tmux::chat(&test_ws, &script, 80, &[]);
    chat.shows("/help").types("sleep\n").shows("deep").key("Escape").shows("Stopped. What next?");
    chat.types("sleep\n").shows_times("Sleeping.", 2).shows_times("deep", 2).key("C-c");
    chat.shows_times("Stopped. What next?", 2).types("wake up\n").shows("Awake again.");
}

#[test]
fn a_narrow_terminal_shows_all_of_it() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let script = "{\"say\": \"A **rather long** line of text that has to be cut into several.\", \"chunks\": 30, \"chunk_ms\": 5}\n";
    let chat = Tmux::chat(&test_ws, script, 20, &[]);
    chat.shows("/help").shows("\n>").types("go\n").shows("several.");
    assert!(
        chat.screen().contains("A rather long line\nof text that has to\nbe cut into\nseveral."),
        "{}",
        chat.screen()
    );
}

#[test]
fn no_key_is_lost_doubled_or_overtaken_whenever_it_is_typed() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let slow = |say: &str| format!("{{\"say\": \"{say}\", \"chunks\": 40, \"chunk_ms\": 20}}\n");
    let script = [slow("The first answer is over."), slow("The second answer is over.")].concat();
    let script = format!("{script}{}{}", slow("The third is over."), slow("The fourth is over."));
    // Before the program has the terminal.
    let chat = Tmux::chat(&test_ws, &script, 80, &[]);
    chat.types("typed before it began\n").shows("> typed before it began");
    // While the model writes: two whole lines, and the beginning of one.
    for letter in "second line".chars() {
        chat.types(&letter.to_string());
    }
    chat.keys(&["Enter", "t", "h", "i", "r", "d", "Enter", "f", "o", "r", "Left", "u"]);
    chat.shows("The third is over.").shows("\n> four").key("C-e").types("th\n").shows("The fourth is over.");
    let screen = chat.screen();
    let said: Vec<&str> = screen.lines().filter(|it| it.starts_with("> ")).collect();
    assert_eq!(said, ["> typed before it began", "> second line", "> third", "> fourth"], "{screen}");
    chat.types("/exit\n").shows("chat --resume --session");
}

#[test]
fn what_was_said_after_a_turn_that_is_stopped_is_not_sent_but_stays_typed() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let sleeps = "{\"calls\": [{\"tool\": \"shell\", \"arguments\": {\"command\": \"echo deep; sleep 600\", \"wait_ms\": 600000}}]}\n";
    let chat = Tmux::chat(&test_ws, &format!("{sleeps}{{\"say\": \"Awake.\"}}\n"), 80, &[]);
    chat.shows("/help").types("sleep\n").shows("deep").types("and then\n").shows("> and then  (next)");
    chat.key("Escape").shows("Stopped. What next?").shows("\n> and then\n").types(" wake\n");
    chat.shows("> and then wake").shows("Awake.");
}

#[test]
fn what_the_model_asks_is_answered_in_the_chat() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let script = "{\"calls\": [{\"tool\": \"ask_user\", \"arguments\": {\"question\": \"Which branch?\", \"options\": [\"main\", \"dev\"]}}]}\n\
        {\"expect\": [\"dev\"], \"say\": \"So be it.\"}\n";
    let chat = Tmux::chat(&test_ws, script, 80, &[]);
    chat.shows("/help").types("ask me\n").shows("the model asks: Which branch?").shows("2. dev");
    chat.shows("your answer").types("2\n").shows("> dev").shows("So be it.");
}

#[test]
fn card_is_shown_in_the_chat_and_its_buttons_are_answers() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let card = |more: &str| {
        format!(
            "{{\"calls\": [{{\"tool\": \"show_card\", \"arguments\": {{\"title\": \"Plan\", \"body\": \"Two steps.\"{more}}}}}]}}\n"
        )
    };
    let actions =
        ", \"actions\": [{\"id\": \"go\", \"label\": \"Go on\"}, {\"id\": \"no\", \"label\": \"Stop\"}]";
    let script = card("")
        + "{\"expect\": [\"card displayed\"], \"say\": \"Shown.\"}\n"
        + &card(actions)
        + "{\"expect\": [\"action: no\"], \"say\": \"So be it.\"}\n";
    let chat = Tmux::chat(&test_ws, &script, 80, &["--toolset", "terrarium"]);
    chat.shows("/help").types("show me\n").shows("# Plan").shows("Two steps.").shows("Shown.");
    chat.types("ask me\n").shows("2. Stop").shows("your answer").types("2\n").shows("So be it.");
}

#[test]
fn questions_of_nav_are_asked_one_after_the_other_while_planning() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let script = "{\"calls\": [{\"tool\": \"ask_user\", \"arguments\": {\"questions\": [\"Which branch?\", \"And why?\"]}}]}\n\
        {\"expect\": [\"Q: Which branch?\\nA: dev\\n\\nQ: And why?\\nA: it is new\"], \"say\": \"So be it.\"}\n";
    let chat = Tmux::chat(&test_ws, script, 80, &["--toolset", "nav", "--plan"]);
    chat.shows("/help").types("ask me\n").shows("the model asks: Which branch?");
    chat.types("dev\n").shows("the model asks: And why?").types("it is new\n").shows("So be it.");
}

#[test]
fn a_job_that_ends_while_the_person_types_is_told_above_what_they_type() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let script = "{\"calls\": [{\"tool\": \"shell\", \"arguments\": {\"command\": \"until [ -e go ]; do sleep 0.1; done; echo woken\", \"wait_ms\": 100}}]}\n\
        {\"say\": \"It goes on by itself.\"}\n{\"say\": \"Thanks.\"}\n";
    let chat = Tmux::chat(&test_ws, script, 80, &[]);
    chat.shows("/help").types("begin\n").shows("It goes on by itself.").types("half a li");
    chat.shows("> half a li");
    test_ws.put("go", "");
    chat.shows("* job_").shows("woken").types("ne\n").shows("> half a line").shows("Thanks.");
    let screen = chat.screen();
    assert!(screen.find("* job_") < screen.find("> half a line"), "{screen}");
}

#[test]
fn nothing_that_a_model_or_a_tool_wrote_acts_on_the_terminal() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let evil = "\u{1b}]0;taken\u{7}\u{1b}[2J\u{9b}2J\u{1b}P1$q\u{1b}\\";
    test_ws.put("evil.txt", evil);
    let calls = serde_json::json!([
        {"tool": "read", "arguments": {"path": "evil.txt"}},
        {"tool": "shell", "arguments": {"command": format!("cat evil.txt; : {evil}")}},
        {"tool": format!("no{evil}"), "arguments": {evil: evil}},
        {"tool": "read", "arguments": {"path": evil}},
        {"tool": "write", "arguments": {"path": format!(".vscode/{evil}"), "content": evil}},
    ]);
    let first = serde_json::json!({"say": format!("a {evil} `{evil}`\n\n# {evil}\n\n```\n{evil}\n```\n"), "think": evil, "calls": calls, "chunks": 50});
    // A step of its own: two questions of one step come in any order.
    let asks = serde_json::json!([{"tool": "ask_user", "arguments": {"question": evil, "options": [format!("x{evil}")]}}]);
    let second = serde_json::json!({"calls": asks});
    let script = format!("{first}\n{second}\n{{\"say\": \"It is over.\"}}\n");
    let chat = Tmux::chat(&test_ws, &script, 80, &[]);
    let record = test_ws.base().join("record");
    chat.recorded(&record).shows("/help").types("go\n").shows("allow it?");
    chat.types("n\n").shows("your answer (Esc stops):").types("1\n").shows("> x").shows("It is over.");
    chat.types("/exit\n").shows("chat --resume --session");
    assert!(!chat.knows("#{pane_title}").contains("taken"));
    only_draws(&std::fs::read(&record).unwrap());
    let chat = Tmux::chat(&test_ws, &script, 80, &["--resume"]);
    chat.recorded(&record)
        .shows("It is over.")
        .types("/tools\n")
        .shows("\n>")
        .types("/exit\n")
        .shows("chat --resume --session");
    only_draws(&std::fs::read(&record).unwrap());
}

/// There is nothing in it but letters, ends of lines, colours, and what draws lines anew.
#[track_caller]
fn only_draws(written: &[u8]) {
    // Beside that only the title, which has the folder's name, is set and put back, and the bell is rung.
    let mut text = String::from_utf8(written.to_vec()).unwrap();
    for own in ["\u{1b}[22;2t", "\u{1b}[23;2t"] {
        text = text.replace(own, "");
    }
    for says in ["", " (working)", " (asks you)", " (done)"] {
        text = text.replace(&format!("\u{1b}]2;haft: ws{says}\u{7}"), "");
    }
    let text = text.replace('\u{7}', "");
    for piece in text.split('\u{1b}').skip(1) {
        let end =
            piece.find(|it: char| it.is_ascii_alphabetic() || !(it.is_ascii_digit() || "[;?".contains(it)));
        let code = &piece[..=end.unwrap()];
        let draws = code.starts_with('[') && code.ends_with(['m', 'A', 'C', 'J']) && code != "[2J";
        assert!(
            draws || ["[?2004h", "[?2004l", "[?2026h", "[?2026l"].contains(&code),
            "{code:?} in {text:?}"
        );
    }
    assert!(text.chars().all(|it| !it.is_control() || "\u{1b}\r\n".contains(it)), "{text:?}");
}

#[test]
fn a_terminal_that_is_closed_ends_the_chat_and_what_was_said_is_kept() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let sleeps = "{\"say\": \"Sleeping.\", \"calls\": [{\"tool\": \"shell\", \"arguments\": {\"command\": \"echo deep; sleep 600\", \"wait_ms\": 600000}}]}\n";
    let script = format!("{sleeps}{{\"say\": \"Awake again.\"}}\n");
    let chat = Tmux::chat(&test_ws, &script, 80, &[]);
    chat.shows("/help").types("sleep\n").shows("deep");
    chat.close();
    let chat = Tmux::chat(&test_ws, &script, 80, &["--resume"]);
    chat.shows("> sleep").shows("Sleeping.").types("wake up\n").shows("Awake again.");
}

#[test]
fn without_a_terminal_lines_are_read_and_answered_plainly() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let file = test_ws.base().join("script.jsonl");
    std::fs::write(&file, "{\"say\": \"I **read** \\u001b[2J it.\"}\n{\"say\": \"Again.\"}\n").unwrap();
    let mut haft = test_ws.haft(&["chat", "--model", &format!("script:{}", file.display())]);
    let mut haft = haft.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    haft.stdin.take().unwrap().write_all(b"hi\n\nand now").unwrap();
    let ran = haft.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "I **read** \\u{1b}[2J it.\nAgain.\n");
    assert!(ran.status.success());
}

#[test]
fn first_words_on_the_command_line_are_said_first() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let script = "{\"say\": \"Hello to you.\"}\n{\"say\": \"Still here.\"}\n";
    let chat = Tmux::chat(&test_ws, script, 80, &["hello there"]);
    chat.shows("> hello there").shows("Hello to you.").types("and?\n").shows("Still here.");
    drop(chat);
    let file = test_ws.base().join("script.jsonl");
    let model = format!("script:{}", file.display());
    let mut haft = test_ws.haft(&["chat", "--model", &model, "hello", "there"]);
    let ran = crate::support::run(&mut haft, "and?\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello to you.\nStill here.\n"), "{ran:?}");
}

#[test]
fn message_begins_a_turn_of_a_chat_that_waits() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let script = "{\"say\": \"Hello.\"}\n{\"expect\": [\"[direct from haft send] the build is red\"], \"say\": \"I see that.\"}\n";
    let chat = Tmux::chat(&test_ws, script, 80, &[]);
    chat.shows("/help").types("begin\n").shows("Hello.");
    let sent = test_ws.run(&["send", "latest", "the build is red"]);
    assert!(sent.out.contains("the agent gets it before its next step"), "{sent:?}");
    chat.shows("message from haft send: the build is red").shows("I see that.");
}
