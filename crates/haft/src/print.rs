//! Output to the person. Text that reaches a terminal is escaped here or, where it is drawn, in `terminal::row::Row`:
//! it may come from a model, a provider or a file.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use kit::Fault;
use serde::Serialize;

/// Writes a text to standard output, escaped, with a line break at its end. If the reader is gone (as with `| head`),
/// the process ends quietly, like any other program in a pipe; after any other failure, such as a full disk, it ends
/// with an error message and exit code 1.
pub fn out(text: &str) {
    write(&harmless(text));
}

/// Writes one line of JSON to standard output. Control characters are escaped as JSON escapes, so the value stays the
/// same.
pub fn json(value: &impl Serialize) {
    write(&line_of_json(value));
}

/// Does the same as [`json`], in many lines.
pub fn pretty_json(value: &impl Serialize) {
    // All keys are strings, so this can't fail.
    write(&kit::escape::visible_json(&serde_json::to_string_pretty(value).unwrap_or_default()));
}

/// Returns a value as one line of JSON that is safe to print.
pub(crate) fn line_of_json(value: &impl Serialize) -> String {
    kit::escape::visible_json(&serde_json::to_string(value).unwrap_or_default()).into_owned()
}

/// Writes rendered rows, with their colours, to standard output.
pub(crate) fn drawn(rows: &str) {
    write(rows);
}

fn write(text: &str) {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') || text.is_empty() { Ok(()) } else { out.write_all(b"\n") });
    match written.and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            err(&format!("haft: can't write to standard output: {error}"));
            std::process::exit(1);
        }
    }
}

/// Writes a line to standard error, escaped.
pub fn err(text: &str) {
    // If standard error is closed, this error can't be reported either.
    let _ = writeln!(io::stderr().lock(), "{}", harmless(text));
}

/// Writes an error to standard error.
pub fn fault(fault: &Fault) {
    err(&format!("haft: {}", fault.as_text()));
}

/// Escapes everything in a text that controls a terminal. A carriage return stays at the end of a line only.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let shown = kit::escape::visible(text).0;
    if !shown.contains('\r') {
        return shown;
    }
    let lines = shown.split_inclusive('\n').map(|line| {
        let end = line.len() - if line.ends_with("\r\n") { 2 } else { 0 };
        let (text, end) = line.split_at_checked(end).unwrap_or((line, ""));
        text.replace('\r', "\\r") + end
    });
    Cow::Owned(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_an_error_steers_the_terminal() {
        let fault = Fault::bad_args("bad\u{1b}]0;x\u{7}\r\u{9b}2J").next("do\u{8}");
        let text = fault.as_text();
        let shown = harmless(&text);
        assert!(shown.chars().all(|it| it == '\n' || !it.is_control()), "{shown:?}");
        assert!(shown.contains(r"bad\u{1b}]0;x\u{7}\r\u{9b}2J"), "{shown}");
    }

    #[test]
    fn line_breaks_of_windows_stay() {
        assert_eq!(harmless("one\r\ntwo\r\n"), "one\r\ntwo\r\n");
        assert_eq!(harmless("one\rtwo\r\n"), "one\\rtwo\r\n");
    }
}
