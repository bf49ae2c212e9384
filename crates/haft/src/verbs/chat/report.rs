//! Texts of chat commands: help, the result of a compaction, conversations.

use agent::{ContextUsed, Conversation};

use crate::{
    slash::All,
    terminal::{
        abbreviate,
        commands::{COMMANDS, Command},
        picker::Item,
        row::{Row, Style, width},
    },
};

/// The keys, and what they do.
const KEYS: [(&str, &str); 15] = [
    ("Enter", "send; Alt-Enter, Ctrl-J or a `\\` at the end: a line break"),
    ("Tab", "complete; Up and Down choose, Esc closes the list"),
    ("@path", "attach a file, a folder or a picture; @file#L10-20: some lines"),
    ("!command", "run a command yourself; the model sees its output"),
    ("Esc", "stop the agent; Ctrl-C too, and twice at an empty prompt leaves"),
    ("Ctrl-D", "leave"),
    ("Ctrl-O", "show the whole output of the last call"),
    ("Up, Down", "earlier messages; Ctrl-R searches them"),
    ("Ctrl-G", "write in $EDITOR; Ctrl-X Ctrl-E too"),
    ("Ctrl-Z", "suspend; fg continues"),
    ("Ctrl-L", "clear the screen"),
    ("Ctrl-A, E", "to the line's beginning, end; Alt-B, Alt-F: by words"),
    ("Ctrl-W, U, K", "cut the word before, to the beginning, to the end"),
    ("Ctrl-Y", "put back what was cut; Alt-Y: what was cut before"),
    ("Alt-D", "cut the word behind"),
];

/// Below this many columns a name stands in a line of its own.
const SIDE_BY_SIDE: usize = 70;

/// Maximum length of a conversation's title.
const TITLE: usize = 60;

/// Returns the help: commands and keys, laid out for a terminal of `wide` columns.
pub(super) fn help(all: &All, wide: usize) -> String {
    let rows: Vec<(String, String)> = COMMANDS
        .iter()
        .map(|Command { name, takes, does }| {
            (format!("{name} {takes}").trim_end().to_owned(), (*does).to_owned())
        })
        .collect();
    let own = all.own.iter().map(|it| {
        (format!("/{} {}", it.name(), it.takes()).trim_end().to_owned(), abbreviate::line(&it.does(), 100))
    });
    let mut text = String::from("Commands\n");
    text.push_str(&columns(&rows, wide));
    let own: Vec<_> = own.collect();
    if !own.is_empty() {
        text.push_str("\nYour own and the project's\n");
        text.push_str(&columns(&own, wide));
    }
    for broken in &all.broken {
        text.push_str(&format!("  ! {broken}\n"));
    }
    let keys: Vec<(String, String)> =
        KEYS.iter().map(|(key, does)| ((*key).to_owned(), (*does).to_owned())).collect();
    text.push_str("\nKeys\n");
    text.push_str(&columns(&keys, wide));
    text
}

/// Formats names and their meanings in two columns; on a narrow terminal each meaning goes below its name, indented.
pub(super) fn columns(rows: &[(String, String)], columns: usize) -> String {
    if columns < SIDE_BY_SIDE {
        let line = |(name, does): &(String, String)| {
            let rows = Row::new(does.as_str(), Style::PLAIN).wrapped(columns.saturating_sub(6), 0);
            let does: String = rows.iter().map(|it| format!("      {}\n", it.text())).collect();
            format!("  {name}\n{does}")
        };
        return rows.iter().map(line).collect();
    }
    let wide = rows.iter().map(|it| width(&it.0)).max().unwrap_or(0).min(22);
    let line = |(name, does): &(String, String)| {
        let blank = " ".repeat(wide.saturating_sub(width(name)) + 2);
        let first = format!("  {name}{blank}");
        let room = columns.saturating_sub(wide.max(width(name)) + 4).max(SIDE_BY_SIDE / 3);
        let does: Vec<String> =
            Row::new(does.as_str(), Style::PLAIN).wrapped(room, 0).iter().map(Row::text).collect();
        format!("{first}{}\n", does.join(&format!("\n{}", " ".repeat(wide + 4))))
    };
    rows.iter().map(line).collect()
}

/// Returns the result of a compaction.
pub(super) fn compacted(before: u64, after: u64, cost: Option<f64>) -> String {
    let cost = cost.map_or_else(String::new, |it| format!(", {}", abbreviate::dollars(it)));
    format!(
        "Compacted: about {} tokens became {}{cost}. All of it stays readable for the model.",
        abbreviate::count(before),
        abbreviate::count(after)
    )
}

/// Returns how much of the context window is used, in a line.
pub(super) fn used(used: ContextUsed) -> String {
    let about = if used.estimated { "about " } else { "" };
    let percent = match used.tokens.saturating_mul(100) / used.window.max(1) {
        0 => "<1".to_owned(),
        percent => percent.to_string(),
    };
    format!(
        "{about}{} of {} tokens ({percent}%)",
        abbreviate::count(used.tokens),
        abbreviate::count(used.window)
    )
}

/// Returns the line of a conversation in a list.
pub(super) fn conversation(number: usize, it: &Conversation, is_here: bool) -> String {
    let at = jiff::Timestamp::from_millisecond(it.used_ms.cast_signed())
        .map(|at| at.to_zoned(jiff::tz::TimeZone::system()).strftime("%b %d %H:%M").to_string())
        .unwrap_or_default();
    let here = if is_here { " (this one)" } else { "" };
    let title =
        if it.title.is_empty() { "(no words)".to_owned() } else { abbreviate::line(&it.title, TITLE) };
    let found = it.found.as_ref().map_or_else(String::new, |it| format!("\n      {it}"));
    let fork = it.forked_from.as_ref().map_or_else(String::new, |from| format!(" (fork of {from})"));
    format!("{number:>3}  {at}  {title}{fork}{here}{found}")
}

/// Returns a conversation as an item to choose, with the process that runs it.
pub(super) fn item(it: &Conversation, open_in: Option<&str>) -> Item {
    let at = jiff::Timestamp::from_millisecond(it.used_ms.cast_signed())
        .map(|at| at.to_zoned(jiff::tz::TimeZone::system()).strftime("%b %d %H:%M").to_string())
        .unwrap_or_default();
    let text = if it.title.is_empty() { "(no words)".to_owned() } else { abbreviate::line(&it.title, TITLE) };
    let open = open_in.map_or_else(String::new, |pid| format!("open in process {pid} · "));
    let fork = it.forked_from.as_ref().map_or_else(String::new, |from| format!(" · fork of {from}"));
    Item { text, about: format!("{open}{at} · {}{fork}", it.session) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_command_and_the_keys() {
        let text = help(&All::default(), 80);
        for Command { name, .. } in COMMANDS {
            assert!(text.contains(&format!("  {name}")), "{name} in {text}");
        }
        for key in ["Ctrl-R", "Ctrl-G", "@path", "!command"] {
            assert!(text.contains(key), "{key} in {text}");
        }
        assert!(text.lines().all(|it| width(it) <= 80), "{text}");
        let narrow = help(&All::default(), 39);
        assert!(narrow.lines().all(|it| width(it) <= 39), "{narrow}");
        assert!(
            narrow.contains("  /model [NAME]\n      show the model and others, or\n      switch to NAME\n")
        );
    }
}
