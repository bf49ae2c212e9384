//! Output to the person: standard output, standard error, and faults with control characters escaped.

use std::io::{self, Write};

use kit::Fault;

/// Writes a text to standard output, with a line break at its end. A reader that has
/// gone (as with `| head`) ends us quietly, like any other program in a pipe; any other
/// failure, such as a full disk, ends us with a line that says so and exit code 1.
pub fn out(text: &str) {
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

/// Writes a line to standard error.
pub fn err(text: &str) {
    // Who can't be told can't be told that either.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes to standard error what went wrong. Its words may be anybody's: a provider's, a file's.
pub fn fault(fault: &Fault) {
    err(&format!("haft: {}", harmless(&fault.as_text())));
}

/// A text with nothing in it that a terminal obeys.
fn harmless(text: &str) -> String {
    runtime::visible(text).0.replace('\r', "\\r")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_an_error_steers_the_terminal() {
        let fault = Fault::bad_args("bad\u{1b}]0;x\u{7}\r\u{9b}2J").next("do\u{8}");
        let shown = harmless(&fault.as_text());
        assert!(shown.chars().all(|it| it == '\n' || !it.is_control()), "{shown:?}");
        assert!(shown.contains(r"bad\u{1b}]0;x\u{7}\r\u{9b}2J"), "{shown}");
    }
}
