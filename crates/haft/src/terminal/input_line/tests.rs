#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::*;
use crate::terminal::complete::{Own, Value};

fn line() -> Line {
    Line::new(Remembered::default(), Words::default())
}

/// Presses these keys: a letter alone, or with `^` for control and `!` for alt before it.
fn press(line: &mut Line, keys: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut letters = keys.chars();
    while let Some(letter) = letters.next() {
        let key = match letter {
            '\n' => KeyEvent::from(KeyCode::Enter),
            '\t' => KeyEvent::from(KeyCode::Tab),
            '↑' => KeyEvent::from(KeyCode::Up),
            '↓' => KeyEvent::from(KeyCode::Down),
            '←' => KeyEvent::from(KeyCode::Left),
            '⌫' => KeyEvent::from(KeyCode::Backspace),
            '^' => KeyEvent::new(KeyCode::Char(letters.next().unwrap()), KeyModifiers::CONTROL),
            '!' => KeyEvent::new(KeyCode::Char(letters.next().unwrap()), KeyModifiers::ALT),
            other => KeyEvent::from(KeyCode::Char(other)),
        };
        if let Came::Line(done) = line.key(key) {
            lines.push(done.text);
        }
    }
    lines
}

fn seen(line: &Line, columns: usize) -> (Vec<String>, Option<(usize, usize)>) {
    let live = line.live(columns, 4, 4);
    (live.rows.iter().map(Row::text).collect(), live.cursor)
}

#[test]
fn keys_edit_the_line() {
    for (keys, done) in [
        ("one two^wthree\n", "one three"),
        ("one two!b^k^a^y \n", "two one "),
        ("one two^aX!f.^e!\n", "Xone. two!"),
        ("ab←^d^hc\n", "c"),
        ("one\\\ntwo^jthree\n", "one\ntwo\nthree"),
        ("a.b c!b!bx^uy\n", "yb c"),
        ("one two three^w^w^y^y\n", "one two threetwo three"),
        ("one^utwo^u^y!y\n", "one"),
        ("a^jb↑^k\n", "ab"),
    ] {
        // A lone `!` before the return key is a letter here.
        let mut line = line();
        let keys = keys.replace("!\n", "\u{ff01}\n");
        assert_eq!(press(&mut line, &keys), [done.replace("two!", "two\u{ff01}")], "{keys:?}");
        assert!(line.is_empty());
    }
}

#[test]
fn earlier_lines_come_back_and_so_does_what_was_typed() {
    let mut line = line();
    press(&mut line, "make test\nls\nmake\n");
    assert_eq!(press(&mut line, "new↑↑↓↓!\u{ff01}\n"), ["new\u{ff01}"]);
    assert_eq!(press(&mut line, "↑↑↑\n"), ["ls"]);
}

#[test]
fn a_search_can_begin_before_or_after_something_was_typed() {
    let mut line = line();
    press(&mut line, "make test\nls\nmake\n");
    assert_eq!(press(&mut line, "test^r\n"), ["make test"]);
    assert_eq!(press(&mut line, "^rls\n"), ["ls"]);
    press(&mut line, "draft^rma");
    assert_eq!(seen(&line, 60).0[..1], ["> draft"], "nothing has `draftma`");
    assert!(line.gives_up(true));
    assert_eq!(press(&mut line, "^^\n").len(), 1);
    press(&mut line, "^rmake^r");
    assert_eq!(seen(&line, 30).0, ["> make", "search: make  Ctrl-R older, E…"]);
    assert_eq!(seen(&line, 30).1, Some((1, 12)));
    press(&mut line, "^r^r");
    assert!(seen(&line, 40).0[1].ends_with("nothing older"), "{:?}", seen(&line, 40));
    assert_eq!(press(&mut line, "\t again\n"), [" againmake test"]);
}

#[test]
fn a_long_line_is_cut_and_the_cursor_is_where_the_next_letter_comes() {
    let mut line = line();
    assert_eq!(seen(&line, 20), (vec!["> ".to_owned()], Some((0, 2))));
    press(&mut line, "abcdef");
    assert_eq!(seen(&line, 6), (vec!["> abcd".to_owned(), "  ef".to_owned()], Some((1, 4))));
    press(&mut line, "^j日←");
    assert_eq!(seen(&line, 6).1, Some((2, 2)));
    line.paste("x\u{1b}[2J\r\ny");
    assert_eq!(seen(&line, 40).0, ["> abcdef", "  x\\u{1b}[2J", "  y日"]);
    line.begin_with(&Entry::new("before"));
    assert_eq!(press(&mut line, "z\n"), ["before\nabcdef\nx\u{1b}[2J\nyz日"]);
}

#[test]
fn a_big_paste_is_one_letter_and_is_sent_whole() {
    let mut line = line();
    let big = "x\n".repeat(200);
    press(&mut line, "see ");
    line.paste(&big);
    assert_eq!(seen(&line, 60).0, ["> see [200 lines pasted]"]);
    press(&mut line, "ok");
    let Came::Line(entry) = line.key(KeyEvent::from(KeyCode::Enter)) else { unreachable!() };
    assert_eq!((entry.text, entry.shown.as_str()), (format!("see {big}ok"), "see [200 lines pasted]ok"));
    line.paste(&big);
    press(&mut line, "a⌫⌫");
    assert!(line.is_empty(), "the chip goes as one letter");
}

#[test]
fn a_picture_is_a_chip_too() {
    let mut line = line();
    line.picture(Path::new("/tmp/shot.png"));
    press(&mut line, "what?");
    assert_eq!(seen(&line, 60).0, ["> [picture shot.png] what?"]);
    let Came::Line(entry) = line.key(KeyEvent::from(KeyCode::Enter)) else { unreachable!() };
    assert_eq!(entry.pictures, [Path::new("/tmp/shot.png")]);
    // A line that is put back at the prompt keeps its picture.
    line.begin_with(&entry);
    line.set(&line.text().replace("what", "who"));
    let Came::Line(entry) = line.key(KeyEvent::from(KeyCode::Enter)) else { unreachable!() };
    assert_eq!((entry.shown.as_str(), entry.pictures.len()), ("[picture shot.png] who?", 1));
}

fn with_own() -> Line {
    let mut line = line();
    let own = Own { name: "review".into(), takes: "[FILE]".into(), does: "Review it".into() };
    line.words.set_own(vec![own]);
    let value = |word: &str| Value { word: word.to_owned(), about: String::new() };
    line.words.set_values("/model", vec![value("openai:gpt"), value("anthropic:x")]);
    line
}

#[test]
fn commands_pop_up_as_they_are_typed_and_enter_takes_the_choice() {
    let mut line = with_own();
    press(&mut line, "/");
    assert!(seen(&line, 60).0[1].starts_with("› /help"), "{:?}", seen(&line, 60));
    press(&mut line, "re");
    assert_eq!(
        seen(&line, 44).0,
        [
            "> /re",
            "› /rewind [N|list]  go back to before your …",
            "  /rename TITLE     give the conversation a…",
            "  /resume [NUMBER]  continue another conver…",
            "  /review [FILE]    Review it",
        ]
    );
    // A command that accepts arguments is not sent at once.
    assert_eq!(press(&mut line, "↓↓↓\n"), [""; 0]);
    assert_eq!(seen(&line, 60).0, ["> /review "]);
    assert_eq!(press(&mut line, "src\n"), ["/review src"]);
    // A command without arguments is sent at once.
    assert_eq!(press(&mut line, "/cos\n"), ["/cost"]);
    assert_eq!(press(&mut line, "/help\n"), ["/help"]);
    assert_eq!(press(&mut line, "/modle\n"), ["/modle"]);
}

#[test]
fn tab_completes_and_what_may_follow_is_offered() {
    let mut line = with_own();
    press(&mut line, "/mo\t");
    assert_eq!(seen(&line, 60).0, ["> /model ", "  openai:gpt", "  anthropic:x"]);
    // No value is chosen unless the person chooses it.
    assert_eq!(press(&mut line, "\n"), ["/model "]);
    assert_eq!(press(&mut line, "/model ↓↓\n"), ["/model anthropic:x"]);
    assert_eq!(press(&mut line, "/model gp\n"), ["/model openai:gpt"]);
}

#[test]
fn a_popup_that_was_closed_stays_closed_for_that_word() {
    let mut line = with_own();
    press(&mut line, "/re");
    assert!(line.gives_up(false));
    press(&mut line, "v");
    assert_eq!(seen(&line, 60).0, ["> /rev"]);
    assert!(!line.gives_up(false), "Esc stops the turn now");
    assert_eq!(press(&mut line, "\n"), ["/rev"]);
    press(&mut line, "/r");
    assert!(seen(&line, 60).0.len() > 1);
}

#[test]
fn the_editor_the_shell_and_the_end_are_asked_for_by_their_keys() {
    let mut line = line();
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert_eq!(line.key(control('g')), Came::Edit);
    assert_eq!(line.key(control('x')), Came::Nothing);
    assert_eq!(line.key(control('e')), Came::Edit);
    assert_eq!(line.key(control('e')), Came::Nothing);
    assert_eq!(line.key(control('z')), Came::Suspend);
    assert_eq!(line.key(control('d')), Came::End);
}
