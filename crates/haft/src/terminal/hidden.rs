//! Hidden prompt: reads one line from the terminal without echo, and restores the terminal in every case.

use std::io::{self, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// The byte that Ctrl-C sends.
const CTRL_C: u8 = 3;

/// More bytes than a terminal passes in one line.
const LONGEST: u64 = 64 * 1024;

/// Asks on standard error, and reads a line from standard input, which is a terminal. Returns `None` if the person pressed
/// Ctrl-C or Ctrl-D.
/// or Ctrl-D.
///
/// # Errors
/// If the terminal can't be read.
pub(crate) fn ask(prompt: &str) -> io::Result<Option<String>> {
    let mut err = io::stderr();
    let line = {
        // Echo is off before the prompt appears, so text that is typed or pasted right then is not echoed either.
        let _quiet = Quiet::begin()?;
        err.write_all(prompt.as_bytes())?;
        err.flush()?;
        line(&mut io::stdin().lock())
    };
    // The return key was not echoed either.
    err.write_all(b"\n")?;
    line
}

/// Reads a line; returns `None` if it ends in Ctrl-C or at the end of input.
fn line(from: &mut impl Read) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    // Byte by byte: input after the line belongs to the next program.
    #[expect(clippy::unbuffered_bytes, reason = "what is buffered would be lost to the next program")]
    for byte in from.take(LONGEST).bytes() {
        match byte? {
            CTRL_C => return Ok(None),
            b'\n' | b'\r' => return Ok(Some(text(bytes))),
            byte => bytes.push(byte),
        }
    }
    Ok(if bytes.is_empty() { None } else { Some(text(bytes)) })
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Turns echo off while it lives. Ctrl-C ends the line, and not the program, which would leave the echo off.
struct Quiet(Termios);

impl Quiet {
    fn begin() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ISIG | LocalModes::ECHO | LocalModes::ECHONL);
        quiet.local_modes.insert(LocalModes::ICANON);
        quiet.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
        tcsetattr(&stdin, OptionalActions::Now, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::line;

    #[test]
    fn a_line_ends_at_the_return_key_and_is_dropped_at_ctrl_c() {
        let read = |bytes: &[u8]| line(&mut &*bytes).unwrap();
        assert_eq!(read(b"sk-1\nnext"), Some("sk-1".to_owned()));
        assert_eq!(read(b"\n"), Some(String::new()));
        assert_eq!(read(b"sk-1"), Some("sk-1".to_owned()));
        assert_eq!(read(b"sk-1\x03"), None);
        assert_eq!(read(b""), None);
    }
}
