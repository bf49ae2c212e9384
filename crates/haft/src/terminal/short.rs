//! How is a call told in a line?

use std::time::Duration;

use serde_json::Value;

/// The arguments that say most about a call, in this order.
const TELLING: [&str; 14] = [
    "command", "pattern", "query", "glob", "path", "url", "name", "job", "code", "prompt", "task",
    "question", "text", "content",
];

/// What a call is called with, in a line of at most about `longest` letters.
pub(crate) fn arguments(arguments: &Value, longest: usize) -> String {
    let Value::Object(all) = arguments else {
        return match arguments {
            Value::Null => String::new(),
            Value::String(text) => line(text, longest),
            other => line(&other.to_string(), longest),
        };
    };
    let told = TELLING.iter().find_map(|it| all.get(*it).and_then(Value::as_str).map(|text| (*it, text)));
    match told {
        Some((key, text)) => {
            let place = all.get("path").or_else(|| all.get("dir")).and_then(Value::as_str);
            let place = place.filter(|_| key != "path").map_or_else(String::new, |it| format!(" in {it}"));
            line(&format!("{}{place}", text.trim()), longest)
        }
        None if all.is_empty() => String::new(),
        None => line(&arguments.to_string(), longest),
    }
}

/// How a call ended.
pub(crate) fn how(ok: bool, exit: Option<i32>) -> String {
    match (ok, exit) {
        (true, Some(exit)) if exit != 0 => format!("exit {exit}"),
        (true, _) => "ok".to_owned(),
        (false, _) => "error".to_owned(),
    }
}

/// The line of a result that says most: of what worked and of a fault the first, of a command that failed the last.
pub(crate) fn telling(text: &str, how: &str, longest: usize) -> String {
    let lines = || text.lines().map(str::trim).filter(|it| it.chars().any(char::is_alphanumeric));
    let is_said =
        |it: &&str| !["exit ", "[", "note: ", "sandbox: "].iter().any(|frame| it.starts_with(frame));
    let said = if how.starts_with("exit") { lines().rfind(is_said) } else { lines().find(is_said) };
    said.or_else(|| lines().next()).map_or_else(String::new, |it| line(it, longest))
}

/// How long something took, for a person.
pub(crate) fn took(it: Duration) -> String {
    let seconds = it.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", it.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// So many milliseconds, for a person.
pub(crate) fn ms(it: f64) -> String {
    took(Duration::try_from_secs_f64(it / 1000.0).unwrap_or_default())
}

/// A number with its thousands apart.
pub(crate) fn count(it: u64) -> String {
    let digits = it.to_string();
    let first = digits.len() % 3;
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What something cost.
pub(crate) fn dollars(it: f64) -> String {
    if it == 0.0 || it >= 0.01 { format!("${it:.2}") } else { format!("${it:.4}") }
}

/// The first line of a text, at most so many letters of it.
pub(crate) fn line(text: &str, longest: usize) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let mut kept: String = first.chars().take(longest).collect();
    if kept.len() < first.len() || lines.next().is_some() {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_told_by_what_says_most() {
        for (given, told) in [
            (json!({"wait_ms": 5, "command": "make test\nmake"}), "make test…"),
            (json!({"path": "src", "pattern": "fn x"}), "fn x in src"),
            (json!({"path": "a.rs", "edits": []}), "a.rs"),
            (json!({"n": 3}), "{\"n\":3}"),
            (json!({}), ""),
            (json!("{\"pa"), "{\"pa"),
        ] {
            assert_eq!(arguments(&given, 60), told);
        }
        assert_eq!(arguments(&json!({"command": "abcdef"}), 3), "abc…");
    }

    #[test]
    fn the_telling_line_is_the_first_of_what_worked_and_of_a_fault_and_the_last_of_a_command_that_failed() {
        let text = "exit 1, 0.2 s\nRan 2 tests\n\nFAILED (failures=1)\n---\n";
        assert_eq!(telling(text, "exit 1", 40), "FAILED (failures=1)");
        assert_eq!(telling(text, "ok", 40), "Ran 2 tests");
        assert_eq!(telling("", "ok", 40), "");
        assert_eq!(telling("exit 1", "exit 1", 40), "exit 1");
        let fault = "`nope.txt` does not exist\nDid you mean `c.txt`?\nnote: waited 1.2 s";
        assert_eq!(telling(fault, "error", 40), "`nope.txt` does not exist");
        assert_eq!(telling("ZeroDivisionError\nnote: waited 1.2 s", "exit 1", 40), "ZeroDivisionError");
    }

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(
            [count(7), count(1234), count(123_456), count(1_000_000)].join(" "),
            "7 1,234 123,456 1,000,000"
        );
        assert_eq!([dollars(0.0), dollars(0.00312), dollars(1.5)].join(" "), "$0.00 $0.0031 $1.50");
        assert_eq!([ms(40.0), ms(61_000.0), ms(3_700_000.0)].join(" "), "0.0 s 1 min 01 s 1 h 01 min");
    }
}
