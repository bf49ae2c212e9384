//! Waiting for a job: for its end, its output, or a time.

use std::{sync::Arc, time::Duration};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use kit::{
    Fault,
    services::{Transcript, Until},
};
use tokio::time::{Instant, sleep_until};

use super::ThisCall;

/// Bytes that are searched before other tasks run.
const PIECE: usize = 64 << 10;

/// Limit of a line that is kept whole, in bytes: of a longer line the newest half stays.
const LONGEST_LINE: usize = 256 << 10;

/// Bytes returned of a matching line.
const SHOWN: usize = 400;

/// Waits until `until` holds, the call has settled, or the time is up. Returns whether it held, and the
/// matching line.
pub(super) async fn wait(
    call: &ThisCall,
    until: &Until,
    at_most: Duration,
) -> Result<(bool, Option<String>), Fault> {
    let mut look = match until {
        Until::Pattern(pattern) => Some(Look::new(pattern)?),
        Until::Exit | Until::Quiet(_) => None,
    };
    let up = Instant::now() + at_most;
    let mut from: Option<Source> = None;
    let mut last_word = Instant::now();
    loop {
        // Read before the search, so that all output before the end is searched.
        let (is_over, is_settled, output) = {
            let now = call.now.lock();
            (now.end.is_some(), now.is_settled(), now.live.output.clone())
        };
        if let Some(output) = output
            && from.as_ref().is_none_or(|it| !Arc::ptr_eq(&it.output, &output))
        {
            let seen = if look.is_some() { 0 } else { output.total() };
            look.iter_mut().for_each(Look::restart);
            from = Some(Source { output, seen, is_dry: false });
        }
        if let (Some(look), Some(source)) = (&mut look, &mut from) {
            let found = look.through(source);
            match found {
                Found::Line(line) => return Ok((true, Some(line))),
                Found::More if Instant::now() < up => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Found::More | Found::Nothing => {}
            }
        }
        if is_settled {
            return Ok((is_over && *until == Until::Exit, None));
        }
        let quiet = match until {
            Until::Quiet(quiet) => Some(last_word + *quiet),
            Until::Exit | Until::Pattern(_) => None,
        };
        let other = |output: &Option<Arc<dyn Transcript>>| match (output, &from) {
            (Some(output), Some(from)) => !Arc::ptr_eq(output, &from.output),
            (output, from) => output.is_some() != from.is_some(),
        };
        let grown = tokio::select! {
            biased;
            () = call.until(|now| (now.is_settled() || other(&now.live.output)).then_some(())) => continue,
            grown = more(from.as_ref(), *until == Until::Exit) => grown,
            () = sleep_until(quiet.unwrap_or(up)), if quiet.is_some_and(|quiet| quiet <= up) => return Ok((true, None)),
            () = sleep_until(up) => return Ok((false, None)),
        };
        if let Some(source) = &mut from {
            source.is_dry = !grown;
            if look.is_none() {
                source.seen = source.output.total();
            }
        }
        if grown {
            last_word = Instant::now();
        }
    }
}

/// The source of the text, and how much of it was searched.
struct Source {
    output: Arc<dyn Transcript>,
    seen: u64,
    /// Whether no more text will come.
    is_dry: bool,
}

/// Waits for more text. Returns false if none will come.
async fn more(from: Option<&Source>, is_no_matter: bool) -> bool {
    match from {
        Some(source) if !is_no_matter && !source.is_dry => source.output.grown(source.seen).await,
        _ => std::future::pending().await,
    }
}

/// A search for a pattern, line by line.
struct Look {
    pattern: RegexMatcher,
    /// The beginning of the incomplete line.
    line: String,
    /// Whether a line feed that comes next belongs to the line before.
    after_return: bool,
}

enum Found {
    Line(String),
    /// There is more to search already.
    More,
    Nothing,
}

impl Look {
    fn new(pattern: &str) -> Result<Self, Fault> {
        let pattern = RegexMatcherBuilder::new().line_terminator(Some(b'\n')).build(pattern).map_err(|error| {
            Fault::bad_args(format!("`pattern`: {error}"))
                .next("It is a regular expression for one line; put a backslash before ( ) [ ] { } . * + ? to mean the character.")
        })?;
        Ok(Self { pattern, line: String::new(), after_return: false })
    }

    fn restart(&mut self) {
        self.line.clear();
    }

    /// Searches the next piece only.
    fn through(&mut self, source: &mut Source) -> Found {
        if source.output.total() <= source.seen {
            return Found::Nothing;
        }
        let piece = source.output.read(source.seen, PIECE);
        if piece.bytes.end <= source.seen {
            return Found::Nothing;
        }
        source.seen = piece.bytes.end;
        // A program that redraws its line ends it with a carriage return.
        for part in piece.text.split_inclusive(['\n', '\r']) {
            let is_rest_of_break = self.after_return && part == "\n";
            self.after_return = part.ends_with('\r');
            if is_rest_of_break {
                continue;
            }
            self.line.push_str(part);
            let is_whole = part.ends_with(['\n', '\r']);
            let is_long = self.line.len() > LONGEST_LINE;
            if (is_whole || is_long)
                && let Some(line) = self.matched()
            {
                return Found::Line(line);
            }
            if is_whole {
                self.line.clear();
            } else if is_long {
                let from = self.line.ceil_char_boundary(self.line.len() - LONGEST_LINE / 2);
                self.line.drain(..from);
            }
        }
        if source.output.total() > source.seen {
            return Found::More;
        }
        // A prompt has no line break at its end.
        self.matched().map_or(Found::Nothing, Found::Line)
    }

    fn matched(&self) -> Option<String> {
        let line = self.line.trim_end_matches(['\n', '\r']);
        if self.line.is_empty() {
            return None;
        }
        let found = self.pattern.find(line.as_bytes()).ok().flatten()?;
        // Of a long line, the part around the match.
        let start = line.floor_char_boundary(if line.len() <= SHOWN {
            0
        } else {
            found.start().saturating_sub(SHOWN / 2)
        });
        let end = line.floor_char_boundary((start + SHOWN).min(line.len()));
        line.get(start..end).map(str::to_owned)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use kit::testing::TestTranscript;

    use super::*;

    fn look(pattern: &str, pieces: &[&str]) -> Option<String> {
        let written = Arc::new(TestTranscript::default());
        let mut look = Look::new(pattern).unwrap();
        let mut source = Source { output: written.clone(), seen: 0, is_dry: false };
        for piece in pieces {
            written.write(piece);
            loop {
                match look.through(&mut source) {
                    Found::Line(line) => return Some(line),
                    Found::More => {}
                    Found::Nothing => break,
                }
            }
        }
        None
    }

    #[test]
    fn line_is_found_across_any_split_into_pieces() {
        assert_eq!(
            look("^listening on :\\d+$", &["starting\nlisten", "ing on :30", "00\nmore\n"]).as_deref(),
            Some("listening on :30")
        );
        assert_eq!(
            look("on :3000$", &["starting\nlisten", "ing on :30", "00\r\nmore\n"]).as_deref(),
            Some("listening on :3000")
        );
        assert_eq!(look("^b$", &["a\nb\nc\n"]).as_deref(), Some("b"));
        assert_eq!(look("Password: ", &["a\nPassword: "]).as_deref(), Some("Password: "));
        assert_eq!(look("a.b", &["a\nb\n"]), None);
        assert_eq!(look("^$", &["a\n", "\n"]).as_deref(), Some(""));
        assert_eq!(look("^$", &["a\r", "\nb\r\n"]), None);
        assert_eq!(look("^100%$", &["10%\r50%", "\r100%\rdone"]).as_deref(), Some("100%"));
    }

    #[test]
    fn long_lines_are_searched_and_kept_within_the_limit() {
        let long = format!("{}needle{}\n", "é".repeat(400_000), "x".repeat(400_000));
        let found = look("needle", &[&long]).unwrap();
        assert!(found.contains("needle") && found.len() <= SHOWN, "{found}");
        // Across the border of two pieces.
        let border = format!("{}needle", "x".repeat(PIECE - 3));
        assert!(look("needle", &[&border]).unwrap().ends_with("needle"));
    }

    #[test]
    fn invalid_pattern_is_reported() {
        assert!(Look::new("(").is_err_and(|fault| fault.what.contains("`pattern`")));
    }
}
