//! Short forms for one line: the arguments of a call, its result, times, sizes and sums.

use std::time::Duration;

use kit::Kind;
use runtime::OwedJob;
use serde_json::Value;

/// The arguments that best identify a call, in order of preference.
const TELLING: [&str; 14] = [
    "command", "pattern", "query", "glob", "path", "url", "name", "job", "code", "prompt", "task",
    "question", "text", "content",
];

/// Returns the arguments of a call in one line of at most about `longest` letters.
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
        None => line(&pairs(all), longest),
    }
}

/// Returns the line about a message that the model is shown.
pub(crate) fn message(from: &str, channel: Option<&str>, text: &str) -> String {
    let on = channel.map_or_else(String::new, |it| format!(" on {it}"));
    format!("message from {from}{on}: {text}")
}

/// Returns the line that names the background jobs awaited at the end of a turn.
pub(crate) fn waits(jobs: &[OwedJob], seconds: u64) -> String {
    const NAMED: usize = 3;
    let named: Vec<String> =
        jobs.iter().take(NAMED).map(|it| format!("{} ({})", it.id, line(&it.name, 40))).collect();
    let more = match jobs.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("waiting for {}{more}, at most {seconds} s", named.join(", "))
}

/// Returns all arguments as pairs, for a call without an identifying one: `action: update, task: 2, todos: 3 items`.
fn pairs(all: &serde_json::Map<String, Value>) -> String {
    let count = |count: usize| if count == 1 { "1 item".to_owned() } else { format!("{count} items") };
    let value = |it: &Value| match it {
        Value::String(text) => line(text.trim(), 40),
        Value::Array(items) => count(items.len()),
        Value::Object(_) => "{…}".to_owned(),
        other => other.to_string(),
    };
    all.iter().map(|(name, it)| format!("{name}: {}", value(it))).collect::<Vec<_>>().join(", ")
}

/// Returns how a call ended: `ok`, `exit 3`, `error`, or the kind of fault if that is more specific.
pub(crate) fn how(ok: bool, exit: Option<i32>, fault: Option<Kind>) -> String {
    match (ok, exit, fault) {
        (true, Some(exit), _) if exit != 0 => format!("exit {exit}"),
        (true, ..) => "ok".to_owned(),
        (false, _, Some(Kind::Denied)) => "denied".to_owned(),
        (false, _, Some(Kind::Timeout)) => "timed out".to_owned(),
        (false, _, Some(Kind::Cancelled)) => "stopped".to_owned(),
        (false, ..) => "error".to_owned(),
    }
}

/// Returns the same as [`how`] for a call of an earlier process, where only the line of its answer was kept and not its fault.
pub(crate) fn how_of_line(ok: bool, exit: Option<i32>, line: &str) -> String {
    let was_denied =
        !ok && (line.contains("; the person said no") || line.ends_with("there was nobody to ask"));
    how(ok, exit, was_denied.then_some(Kind::Denied))
}

/// Returns the most informative line of an answer, in at most `longest` letters.
pub(crate) fn summary(text: &str, ok: bool, longest: usize) -> String {
    line(&agent::summary_line(text, ok), longest)
}

/// Formats a finished duration for a person.
pub(crate) fn took(it: Duration) -> String {
    let seconds = it.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", it.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats the elapsed time of running work, in whole seconds.
pub(crate) fn clock(it: Duration) -> String {
    let seconds = it.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        _ => took(it),
    }
}

/// Formats a number of bytes for a person.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Formats a number of tokens in few letters: `340`, `1.2k`, `24k`, `1.5M`.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..10_000 => format!("{:.1}k", count as f64 / 1e3).replace(".0k", "k"),
        10_000..1_000_000 => format!("{}k", count / 1000),
        _ => format!("{:.1}M", count as f64 / 1e6).replace(".0M", "M"),
    }
}

/// Formats a number of milliseconds for a person.
pub(crate) fn ms(it: f64) -> String {
    took(Duration::try_from_secs_f64(it / 1000.0).unwrap_or_default())
}

/// Formats a number with thousands separators.
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

/// Formats a cost in dollars.
pub(crate) fn dollars(it: f64) -> String {
    if it == 0.0 || it >= 0.01 { format!("${it:.2}") } else { format!("${it:.4}") }
}

/// Returns the first line of a text, in at most `longest` letters.
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
            (json!({"n": 3}), "n: 3"),
            (json!({"action": "set", "tasks": ["a", "b"], "by": {}}), "action: set, tasks: 2 items, by: {…}"),
            (json!({}), ""),
            (json!("{\"pa"), "{\"pa"),
        ] {
            assert_eq!(arguments(&given, 60), told);
        }
        assert_eq!(arguments(&json!({"command": "abcdef"}), 3), "abc…");
    }

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(
            [count(7), count(1234), count(123_456), count(1_000_000)].join(" "),
            "7 1,234 123,456 1,000,000"
        );
        assert_eq!([dollars(0.0), dollars(0.00312), dollars(1.5)].join(" "), "$0.00 $0.0031 $1.50");
        assert_eq!(
            [tokens(340), tokens(1000), tokens(1234), tokens(24_567), tokens(1_500_000)].join(" "),
            "340 1k 1.2k 24k 1.5M"
        );
        assert_eq!([size(12), size(12_345), size(2_000_000)].join(" "), "12 bytes 12.3 kB 2.0 MB");
        assert_eq!(clock(Duration::from_millis(12_900)), "12 s");
        assert_eq!([ms(40.0), ms(61_000.0), ms(3_700_000.0)].join(" "), "0.0 s 1 min 01 s 1 h 01 min");
    }
}
