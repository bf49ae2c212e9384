//! Server-sent events parser, with bounded memory.
//!
//! Follows <https://html.spec.whatwg.org/multipage/server-sent-events.html>, with a limit on the length of an
//! event: a line or an event that never ends is an error.

use std::collections::VecDeque;

/// Maximum length of an event, in bytes. A picture that a provider draws comes in one event.
const LONGEST: usize = 48 * 1024 * 1024;

/// One event: its name, where it has one, and its data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) event: Option<String>,
    pub(super) data: String,
}

/// A parser of server-sent events.
#[derive(Default)]
pub(super) struct Events {
    line: Vec<u8>,
    event: Option<String>,
    data: Option<String>,
    ready: VecDeque<Sent>,
    begun: bool,
    after_return: bool,
}

/// The error of an event that exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Events {
    /// Parses more bytes.
    ///
    /// # Errors
    /// When an event exceeds the limit.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return)
                && let Some(rest) = bytes.strip_prefix(b"\n")
            {
                bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|it| matches!(it, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + part.len() + self.data.as_ref().map_or(0, String::len) > LONGEST {
                return Err(TooLong);
            }
            self.line.extend_from_slice(part);
            let Some((ended, rest)) = rest.split_first() else { return Ok(()) };
            self.after_return = *ended == b'\r';
            let line = std::mem::take(&mut self.line);
            self.take_line(&line);
            bytes = rest;
        }
        Ok(())
    }

    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Option<Sent> {
        self.ready.pop_front()
    }

    /// Returns the last event of an answer that did not end with an empty line: some servers leave it out. An
    /// event that ends within a line broke off, and is dropped.
    pub(super) fn last(&mut self) -> Option<Sent> {
        if self.line.is_empty() {
            self.close();
        }
        self.ready.pop_front()
    }

    fn take_line(&mut self, line: &[u8]) {
        let begun = std::mem::replace(&mut self.begun, true);
        let line = if begun { line } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) };
        if line.is_empty() {
            self.close();
            return;
        }
        let colon = line.iter().position(|it| *it == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(&value);
                }
                None => self.data = Some(value.into_owned()),
            },
            b"event" => self.event = Some(value.into_owned()),
            // Ids, retries, comments that keep the connection alive, and unknown fields.
            _ => {}
        }
    }

    fn close(&mut self) {
        let event = self.event.take();
        if let Some(data) = self.data.take() {
            self.ready.push_back(Sent { event, data });
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn parsed<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut events = Events::default();
        let mut all = Vec::new();
        for part in parts {
            events.take(part).unwrap();
            all.extend(std::iter::from_fn(|| events.next()));
        }
        all.extend(events.last());
        all.into_iter().map(|it| (it.event.unwrap_or_default(), it.data)).collect()
    }

    #[test]
    fn events_follow_the_standard() {
        let text = "\u{feff}event: a\ndata: one\r\ndata:two\rid: 7\n\n: ping\n\nretry: 5\nnobody\ndata\n\nevent: b\n\ndata:  x\n\n";
        let expected = [("a", "one\ntwo"), ("", ""), ("", " x")];
        let expected: Vec<_> = expected.map(|(name, data)| (name.to_owned(), data.to_owned())).into();
        assert_eq!(parsed([text.as_bytes()]), expected);
        assert_eq!(parsed(text.as_bytes().chunks(1)), expected);
    }

    #[test]
    fn the_last_event_counts_if_its_line_has_ended() {
        assert_eq!(parsed([b"data: [DONE]\n".as_slice()]), [(String::new(), "[DONE]".to_owned())]);
        assert_eq!(parsed([b"data: {\"half".as_slice()]), []);
    }

    #[test]
    fn an_endless_line_and_an_endless_event_are_refused() {
        let mut events = Events::default();
        let mebibyte = vec![b'x'; 1024 * 1024];
        assert!((0..100).any(|_| events.take(&mebibyte) == Err(TooLong)));
        let mut events = Events::default();
        let line = [b"data: ".as_slice(), &mebibyte, b"\n"].concat();
        assert!((0..100).any(|_| events.take(&line) == Err(TooLong)));
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_how_bytes_are_split(
            text in "(data|event|id|x|: |\r|\n|\r\n|ü|\u{feff}| ){0,40}",
            cuts in proptest::collection::vec(0_usize..80, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|it| it.min(bytes.len())).collect();
            cuts.push(0);
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let parts = cuts.windows(2).map(|it| &bytes[it[0]..it[1]]);
            prop_assert_eq!(parsed(parts), parsed([bytes]));
        }
    }
}
