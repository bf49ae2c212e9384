//! Edits in the chat: a person sees the diff before they allow one, and after it was applied.

use serde_json::{Value, json};

use super::tmux::Tmux;
use crate::support::TestWorkspace;

fn calls(tool: &str, arguments: &Value) -> String {
    json!({"calls": [{"tool": tool, "arguments": arguments}]}).to_string() + "\n"
}

const PRICES: &str =
    "def total(items):\n    return sum(items)\n\n\ndef shown(price):\n    return f\"{price} EUR\"\n";

fn edit() -> Value {
    json!({"path": "prices.py", "edits": [{"old": "return sum(items)", "new": "return round(sum(items), 2)"}]})
}

#[test]
fn a_diff_is_shown_after_an_edit() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    test_ws.put("prices.py", PRICES);
    let script = calls("edit", &edit()) + "{\"say\": \"Done.\"}\n";
    let chat = Tmux::chat(&test_ws, &script, 80, &[]);
    chat.shows("/help").types("round it\n").shows("Done.");
    let screen = chat.screen();
    assert!(
        screen.contains(
            "    prices.py (+1 -1)\n    1   def total(items):\n    2 -     return sum(items)\n    2 +     return round(sum(items), 2)\n    3\n"
        ),
        "{screen}"
    );
    assert!(!screen.contains("Updated prices.py"), "said once: {screen}");
}

#[test]
fn a_diff_is_asked_about_before_it_lands() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    test_ws.put("prices.py", PRICES);
    let script = calls("edit", &edit())
        + &calls("edit", &edit())
        + "{\"say\": \"Both over.\"}\n"
        + &calls("write", &json!({"path": "a", "content": "x\n"}))
        + &calls("write", &json!({"path": "b", "content": "x\n"}))
        + "{\"say\": \"Written.\"}\n";
    let chat = Tmux::chat(&test_ws, &script, 80, &["--approve", "ask-edits"]);
    chat.shows("/help").types("round it\n").shows("Allow `edit` to change prices.py?").shows("allow it?");
    assert_eq!(test_ws.text("prices.py"), PRICES);
    chat.shows("  2 +     return round(sum(items), 2)");
    chat.types("2\n").shows("Type o, s, p or n;");
    chat.types("n use Decimal\n").shows("refused: use Decimal").shows_times("allow it?", 1);
    assert_eq!(test_ws.text("prices.py"), PRICES);
    chat.shows_times("Allow `edit` to change prices.py?", 2).types("o\n").shows("Both over.");
    assert!(test_ws.text("prices.py").contains("round(sum(items), 2)"));
    // Changes that are allowed for the session need no further approval.
    chat.types("and two files\n").shows("create a (+1 -0)").types("s\n").shows("Written.");
    assert!(test_ws.at("a").exists() && test_ws.at("b").exists());
    assert_eq!(chat.screen().matches("Allow `write`").count(), 1);
}

#[test]
fn a_long_diff_is_asked_about_in_part_and_shown_whole_on_a_key() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    let content: String = (1..=100).map(|it| format!("line {it}\n")).collect();
    let script = calls("write", &json!({"path": "long.txt", "content": content})) + "{\"say\": \"Done.\"}\n";
    for columns in [80, 40] {
        let chat = Tmux::chat(&test_ws, &script, columns, &["--approve", "ask-edits"]);
        chat.shows("/help").types("go\n").shows("more lines; d shows all").shows("[n]o:");
        // The beginning and the end, as either may be what matters.
        chat.shows("100 + line 100");
        assert!(!chat.screen().contains("60 + line 60"), "{}", chat.screen());
        chat.types("d\n").shows("60 + line 60").types("n\n").shows("Done.");
        assert!(!test_ws.at("long.txt").exists());
        assert!(chat.screen().lines().all(|it| it.chars().count() <= columns as usize));
    }
}

#[test]
fn undo_by_the_person_is_not_asked_about_again_and_shows_its_diff() {
    kit::needs!(Tmux);
    let test_ws = TestWorkspace::new();
    test_ws.put(".envrc", "one\n");
    let arguments = json!({"path": ".envrc", "edits": [{"old": "one", "new": "two"}]});
    let script = calls("edit", &arguments) + "{\"say\": \"Done.\"}\n";
    let chat = Tmux::chat(&test_ws, &script, 80, &[]);
    chat.shows("/help").types("go\n").shows("allow it?").types("s\n").shows("Done.");
    assert_eq!(test_ws.text(".envrc"), "two\n");
    chat.types("/undo\n").shows("To redo: /undo c_");
    assert_eq!(test_ws.text(".envrc"), "one\n");
}
