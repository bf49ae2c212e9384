//! Typing in the chat at a terminal: popups, search, chips, the editor, leaving.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::tmux::{Tmux, until};
use crate::support::TestWorkspace;

const ANSWERS: &str = "{\"say\": \"First over.\"}\n{\"say\": \"Second over.\"}\n{\"say\": \"Third over.\"}\n";

#[test]
fn commands_pop_up_and_are_completed() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let chat = Tmux::chat(&test_ws, ANSWERS, 80, &[]);
    chat.shows("/help").types("/").shows("› /help").shows("1 of ").types("mo").shows("› /model [NAME]");
    chat.key("Tab").shows("> /model").key("Enter").shows("/model NAME switches.");
    // Enter takes the choice, and does what needs nothing more.
    chat.types("/cos").shows("› /cost").key("Enter").shows("> /cost").shows("0 steps");
    chat.types("/re")
        .shows("› /rewind")
        .key("Escape")
        .key("C-u")
        .types("/modle\n")
        .shows("Did you mean /model?");
}

#[test]
fn files_pop_up_wherever_they_lie_and_are_attached() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    test_ws.put("src/shop/cart.py", "total = 1\n");
    test_ws.put("src/shop/a b.txt", "x\n");
    let answer =
        "{\"say\": \"Seen.\", \"expect\": [\"The person attached `src/shop/cart.py`\", \"|total = 1\"]}\n";
    let chat = Tmux::chat(&test_ws, answer, 80, &[]);
    chat.shows("/help").types("look at @shop").shows("› src/shop/").key("Tab").shows("> look at @src/shop/");
    chat.shows("src/shop/cart.py").types("car").shows("› src/shop/cart.py").key("Tab");
    chat.shows("> look at @src/shop/cart.py").key("Enter").shows("✓ read src/shop/cart.py").shows("Seen.");
    chat.types("@ab.t").shows("› src/shop/a b.txt").key("Enter").shows("> @\"src/shop/a b.txt\"");
    // Enter right behind Esc would be Alt-Enter.
    chat.key("C-u")
        .types("see @shop/crt.py")
        .shows("› src/shop/cart.py")
        .key("Escape")
        .lacks("›")
        .key("Enter");
    chat.shows("no file `shop/crt.py`");
    chat.shows("Did you mean `src/shop/cart.py`?").shows("\n> see @shop/crt.py");
}

#[test]
fn ctrl_c_twice_at_an_empty_prompt_leaves() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let chat = Tmux::chat(&test_ws, ANSWERS, 80, &[]);
    chat.shows("/help").types("half a line").key("C-c").key("C-c").shows("press Ctrl-C again to leave");
    chat.types("go\n").shows("First over.").key("C-c").shows("press Ctrl-C again to leave").key("C-c");
    chat.shows("haft: to continue: haft");
}

#[test]
fn a_chat_in_which_nothing_was_said_names_nothing_to_continue() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let and_then = "f() { \"$@\"; echo the chat is over; }; f ";
    let chat = Tmux::verb(&test_ws, ANSWERS, 80, and_then, &["chat"]);
    chat.shows("/help").types("/exit\n").shows("the chat is over");
    assert!(!chat.screen().contains("to continue"), "{}", chat.screen());
}

#[test]
fn earlier_messages_are_searched_as_in_a_shell() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let chat = Tmux::chat(&test_ws, ANSWERS, 80, &[]);
    chat.shows("/help")
        .types("make the tests pass\n")
        .shows("First over.")
        .types("ls\n")
        .shows("Second over.");
    chat.key("C-r").types("tes").shows("search: tes").shows("> make the tests pass").key("Tab").types("X");
    chat.shows("> make the Xtests pass")
        .key("C-u")
        .key("C-k")
        .key("C-r")
        .types("zzz")
        .shows("nothing older")
        .key("C-c");
    chat.lacks("search:").key("C-r").types("make").shows("search: make").key("Enter").shows("Third over.");
    assert_eq!(chat.screen().matches("\n> make the tests pass").count(), 2, "{}", chat.screen());
}

#[test]
fn a_big_paste_is_a_chip_and_is_sent_whole() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let answer = "{\"say\": \"Long.\", \"expect\": [\"look:\", \"line 1\\nline 2\\n\", \"line 200\"]}\n";
    let chat = Tmux::chat(&test_ws, answer, 80, &[]);
    let text: String = (1..=200).map(|it| format!("line {it}\n")).collect();
    chat.shows("/help")
        .types("look: ")
        .pastes(&text)
        .shows("> look: [200 lines pasted]")
        .key("Enter")
        .shows("Long.");
    assert!(!chat.screen().contains("line 7"), "{}", chat.screen());
}

#[test]
fn a_pasted_path_to_a_picture_attaches_it() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::DynamicImage::new_rgb8(1, 1).write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    let file = test_ws.outside().join("a shot.png");
    fs::write(&file, bytes.into_inner()).unwrap();
    let answer =
        "{\"say\": \"A dot.\", \"expect\": [\"attached this picture, a shot.png\", \"[picture out_\"]}\n";
    let chat = Tmux::chat(&test_ws, answer, 80, &[]);
    chat.shows("/help").pastes(&file.display().to_string().replace(' ', "\\ "));
    chat.shows("[picture a shot.png]").types("what?\n").shows("+ picture a shot.png").shows("A dot.");
}

#[test]
fn the_message_is_written_in_the_person_s_editor() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let editor = test_ws.base().join("editor");
    fs::write(&editor, "#!/bin/sh\nprintf 'edited %s\\n' \"$(cat \"$2\")\" > \"$2\"\n").unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let file = test_ws.base().join("script.jsonl");
    fs::write(&file, "{\"say\": \"Got it.\", \"expect\": [\"edited draft\"]}\n").unwrap();
    let model = format!("script:{}", file.display());
    let mut haft = test_ws.haft(&["chat", "--model", &model]);
    haft.env("PATH", "/usr/bin:/bin").env("EDITOR", format!("{} --wait", editor.display()));
    let chat = Tmux::start(&test_ws, &haft, (80, 24));
    chat.shows("/help").types("draft").key("C-g").shows("> edited draft").key("C-u").lacks("edited");
    chat.types("draft").keys(&["C-x", "C-e"]).shows("> edited draft").key("Enter").shows("Got it.");
    assert!(
        fs::read_dir(test_ws.state())
            .unwrap()
            .flatten()
            .all(|it| !it.file_name().to_string_lossy().starts_with("message-"))
    );
}

#[test]
fn a_suspended_chat_gives_the_terminal_back_and_goes_on() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let file = test_ws.base().join("script.jsonl");
    fs::write(&file, ANSWERS).unwrap();
    let mut shell = std::process::Command::new("/bin/bash");
    let haft = test_ws.haft(&["chat", "--model", &format!("script:{}", file.display())]);
    shell
        .args(["--norc", "--noprofile", "-i"])
        .envs(haft.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PS1", "shell$ ").current_dir(haft.get_current_dir().unwrap());
    let words: Vec<String> = std::iter::once(haft.get_program())
        .chain(haft.get_args())
        .map(|it| it.display().to_string())
        .collect();
    let chat = Tmux::start(&test_ws, &shell, (120, 24));
    chat.shows("shell$")
        .types(&format!("{}\n", words.join(" ")))
        .shows("/help")
        .types("half")
        .shows("> half");
    chat.key("C-z").shows("Stopped").shows("shell$ ").types("echo it is m\"\"ine\n").shows("it is mine");
    chat.types("fg\n").shows("\n> half\n").types(" a line\n").shows("First over.");
    chat.types("/exit\n").shows("haft: to continue");
}

#[test]
fn a_question_rings_the_bell_and_the_title_says_so() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let script = "{\"calls\": [{\"tool\": \"ask_user\", \"arguments\": {\"question\": \"Which?\"}}]}\n{\"say\": \"So be it.\"}\n";
    let chat = Tmux::chat(&test_ws, script, 80, &[]);
    let record = test_ws.base().join("record");
    chat.recorded(&record).shows("/help");
    let before = chat.knows("#{pane_title}");
    assert_eq!(before, "haft: ws");
    chat.types("go\n").shows("your answer");
    assert_eq!(chat.knows("#{pane_title}"), "haft: ws (asks you)");
    let bells = || {
        let written = fs::read_to_string(&record).unwrap();
        let titles = written.matches("\u{1b}]2;").count();
        written.matches('\u{7}').count().saturating_sub(titles)
    };
    // tmux writes the record beside what it shows.
    until(|| bells() > 0, "no bell is in the record");
    assert_eq!(bells(), 1, "the bell rings once");
    chat.types("this\n").shows("So be it.").types("/exit\n").shows("haft: to continue");
    assert_ne!(chat.knows("#{pane_title}"), "haft: ws (asks you)");
    assert!(!chat.knows("#{pane_title}").starts_with("haft: ws"), "{}", chat.knows("#{pane_title}"));
}

#[test]
fn a_person_may_want_no_bell_and_no_title() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    fs::create_dir_all(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), "[chat]\nnotify = \"none\"\n").unwrap();
    let script = "{\"calls\": [{\"tool\": \"ask_user\", \"arguments\": {\"question\": \"Which?\"}}]}\n{\"say\": \"So be it.\"}\n";
    let chat = Tmux::chat(&test_ws, script, 80, &[]);
    let record = test_ws.base().join("record");
    chat.recorded(&record)
        .shows("/help")
        .types("go\n")
        .shows("your answer")
        .types("this\n")
        .shows("So be it.");
    assert!(!chat.knows("#{pane_title}").contains("haft"));
    assert!(!fs::read(&record).unwrap().contains(&7));
}

#[test]
fn the_last_answer_goes_into_the_terminal_s_clipboard() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let chat = Tmux::chat(&test_ws, "{\"say\": \"It is:\\n```\\nmake all\\n```\\n\"}\n", 80, &[]);
    chat.set("set-clipboard", "on").shows("/help").types("how?\n").shows("make all").types("/copy 1\n");
    chat.shows("Copied code block 1")
        .buffer_is("make all\n")
        .types("/copy\n")
        .shows("Copied the last answer");
}
