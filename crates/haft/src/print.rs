//! How does text reach the person?

use std::io::{self, Write};

/// Writes a text to standard output, with a line break at its end. A reader that has
/// gone (as with `| head`) ends us quietly, like any other program in a pipe.
pub fn out(text: &str) {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') || text.is_empty() { Ok(()) } else { out.write_all(b"\n") });
    if written.and_then(|()| out.flush()).is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        std::process::exit(0);
    }
}

/// Writes a line to standard error.
pub fn err(text: &str) {
    // Who can't be told can't be told that either.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
