//! OpenSCAD's messages, with their lines.

use std::path::{Component, Path, PathBuf};

use super::super::source::Source;

/// Maximum number of messages that are shown.
const SHOWN: usize = 30;

/// The messages about the source.
pub(super) struct Messages {
    pub(super) lines: Vec<String>,
    pub(super) has_errors: bool,
}

impl Messages {
    /// Parses the output of a run that began in this folder.
    pub(super) fn of(said: &str, source: &Source<'_>, folder: &Path) -> Self {
        let mut lines = Vec::new();
        let (mut more, mut has_errors) = (0, false);
        for line in said.lines() {
            let Some((what, message)) =
                KINDS.iter().find_map(|(begin, what)| Some((what, line.strip_prefix(begin)?)))
            else {
                continue;
            };
            has_errors |= *what == "error";
            if lines.len() >= SHOWN {
                more += 1;
                continue;
            }
            let (message, place) = placed(message.trim());
            let Some((file, number)) = place else {
                lines.push(format!("{what} {message}"));
                continue;
            };
            let is_own = file.is_none_or(|it| is(it, source, folder));
            let file = if is_own { source.name() } else { file.unwrap_or_default() };
            let mut line = format!("{file}:{number} {what} {message}");
            if let Some(text) = source.line(number).filter(|it| is_own && !it.trim().is_empty()) {
                let text: String = text.trim().chars().take(120).collect();
                line.push_str(&format!("\n  {text}"));
            }
            lines.push(line);
        }
        if more > 0 {
            lines.push(format!("{more} more messages"));
        }
        Self { lines, has_errors }
    }
}

const KINDS: [(&str, &str); 5] = [
    ("ERROR:", "error"),
    ("WARNING:", "warning"),
    ("DEPRECATED:", "warning"),
    ("ECHO:", "echo"),
    ("TRACE:", "trace"),
];

/// Splits a message into its text and its place: the file, if it is named, and the line.
fn placed(message: &str) -> (&str, Option<(Option<&str>, usize)>) {
    let line = |text: &str| text.trim_end_matches('.').trim().parse().ok();
    if let Some((rest, place)) = message.rsplit_once(" in file ")
        && let Some((file, number)) = place.rsplit_once(", line ")
        && let Some(number) = line(number)
    {
        return (rest, Some((Some(file), number)));
    }
    // `import() at line 3`
    if let Some((rest, number)) = message.rsplit_once(" at line ")
        && let Some(number) = line(number)
    {
        return (rest, Some((None, number)));
    }
    (message, None)
}

/// Returns whether this is the source itself.
fn is(file: &str, source: &Source<'_>, folder: &Path) -> bool {
    match (source.path, &source.place) {
        (Some(_), Some(place)) => plain(&folder.join(file)) == *place,
        _ => file == "<stdin>",
    }
}

/// Returns a path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_file_of_the_call_and_show_its_line() {
        let source = Source { path: None, place: None, text: "cube(1);\nfoo();\n".to_owned() };
        let said = "WARNING: Ignoring unknown module 'foo' in file <stdin>, line 2\nGeometries in cache: 1\n\
            ECHO: \"hi\"\nERROR: Assertion 'false' failed: \"no\" in file lib/b.scad, line 4\n\
            WARNING: Can't open import file '/x.stl', import() at line 1\n";
        let messages = Messages::of(said, &source, Path::new("/w"));
        assert!(messages.has_errors);
        assert_eq!(
            messages.lines,
            [
                "code:2 warning Ignoring unknown module 'foo'\n  foo();",
                "echo \"hi\"",
                "lib/b.scad:4 error Assertion 'false' failed: \"no\"",
                "code:1 warning Can't open import file '/x.stl', import()\n  cube(1);",
            ]
        );
        let place = Some(PathBuf::from("/w/parts/a.scad"));
        let source = Source { path: Some("parts/a.scad"), place, text: String::new() };
        let messages =
            Messages::of("ERROR: x in file ../parts/a.scad, line 9", &source, Path::new("/w/parts"));
        assert_eq!(messages.lines, ["parts/a.scad:9 error x"]);
    }
}
