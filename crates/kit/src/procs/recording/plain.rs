//! Terminal output as plain text.

/// Maximum length of a control sequence.
const LONGEST: usize = 4096;
const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;

/// Returns the text of some bytes, and the number of bytes that it represents. Control sequences are left
/// out, invalid bytes become U+FFFD, a line that was overwritten is shown as it was last. An incomplete end
/// is left for the next call, unless this is the `last`.
pub(super) fn plain(bytes: &[u8], last: bool) -> (String, usize) {
    let end = if last { bytes.len() } else { bytes.len() - begun_character(bytes) };
    let mut text = String::with_capacity(end);
    let mut line = 0;
    let mut rewritten = false;
    let mut at = 0;
    while let Some(rest) = bytes.get(at..end).filter(|it| !it.is_empty()) {
        let run = rest.iter().position(|it| is_control(*it)).unwrap_or(rest.len());
        if run > 0 {
            if std::mem::take(&mut rewritten) {
                text.truncate(line);
            }
            text.push_str(&String::from_utf8_lossy(rest.get(..run).unwrap_or_default()));
            at += run;
            continue;
        }
        let mut used = 1;
        match rest.first() {
            Some(b'\n') => {
                text.push('\n');
                line = text.len();
                rewritten = false;
            }
            Some(b'\r') => rewritten = true,
            Some(0x08) if text.len() > line => drop(text.pop()),
            Some(&ESC) => match sequence(bytes.get(at..).unwrap_or_default()) {
                Some(length) => used = length,
                None if last => used = rest.len(),
                None => return (text, at),
            },
            _ => {}
        }
        at += used;
    }
    (text, at)
}

/// Returns how many of `bytes` belong to a character or control sequence that begins in those `before` them.
pub(super) fn begun(before: &[u8], bytes: &[u8]) -> usize {
    let near = before.get(before.len().saturating_sub(LONGEST)..).unwrap_or_default();
    if let Some(start) = memchr::memrchr(ESC, near) {
        let began = near.get(start..).unwrap_or_default();
        let more = bytes.get(..bytes.len().min(LONGEST)).unwrap_or_default();
        if let Some(length) = sequence(&[began, more].concat())
            && length > began.len()
        {
            return length - began.len();
        }
    }
    let open = begun_character(before);
    if open == 0 {
        return 0;
    }
    let mut character = before.get(before.len() - open..).unwrap_or_default().to_vec();
    for (count, byte) in bytes.iter().enumerate() {
        character.push(*byte);
        match std::str::from_utf8(&character) {
            Ok(_) => return count + 1,
            Err(error) if error.error_len().is_some() => return count,
            Err(_) => {}
        }
    }
    bytes.len()
}

/// Returns how many bytes at the end are the beginning of a character.
fn begun_character(bytes: &[u8]) -> usize {
    for length in 1..=bytes.len().min(3) {
        let end = bytes.get(bytes.len() - length..).unwrap_or_default();
        match end.first() {
            Some(0x80..=0xbf) => {}
            Some(0xc0..) => {
                let open = std::str::from_utf8(end).is_err_and(|it| it.error_len().is_none());
                return if open { length } else { 0 };
            }
            _ => return 0,
        }
    }
    0
}

fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// Returns the length of the control sequence that these bytes begin with, at least 1. `None`: it is incomplete.
fn sequence(bytes: &[u8]) -> Option<usize> {
    let length = match bytes.get(1)? {
        b'[' => control(bytes),
        b']' | b'P' | b'X' | b'^' | b'_' => string(bytes),
        0x20..=0x2f => run(bytes, 1, 0x20..=0x2f)
            .map(|end| end + usize::from(matches!(bytes.get(end), Some(0x30..=0x7e)))),
        0x30..=0x7e => Some(2),
        _ => Some(1),
    };
    // A longer one was not a sequence: only its beginning is left out.
    if length.is_none() && bytes.len() >= LONGEST { Some(2) } else { length }
}

/// `ESC [`, parameters, and a letter.
fn control(bytes: &[u8]) -> Option<usize> {
    let end = run(bytes, 2, 0x20..=0x3f)?;
    Some(end + usize::from(matches!(bytes.get(end), Some(0x40..=0x7e))))
}

/// `ESC ]` and the like: any bytes, up to their terminator.
fn string(bytes: &[u8]) -> Option<usize> {
    let body = bytes.get(2..bytes.len().min(LONGEST))?;
    let end = body.iter().position(|it| matches!(*it, BEL | ESC | b'\n'))? + 2;
    match bytes.get(end) {
        Some(&BEL) => Some(end + 1),
        Some(&ESC) if *bytes.get(end + 1)? == b'\\' => Some(end + 2),
        // It was broken off.
        _ => Some(end),
    }
}

/// Returns the end of a run of such bytes. `None`: the run reaches the end of the bytes.
fn run(bytes: &[u8], from: usize, of: std::ops::RangeInclusive<u8>) -> Option<usize> {
    let rest = bytes.get(from..bytes.len().min(LONGEST))?;
    Some(rest.iter().position(|it| !of.contains(it))? + from)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8]) -> String {
        plain(bytes, true).0
    }

    #[test]
    fn colours_titles_and_links_are_left_out() {
        assert_eq!(whole(b"\x1b[1;31merror\x1b[0m: no\x1b[K\n"), "error: no\n");
        assert_eq!(whole(b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\c"), "abc");
        assert_eq!(whole(b"\x1b(Ba\x1b=b\x1b7c\x1bP1$r0m\x1b\\d"), "abcd");
        assert_eq!(whole(b"\x1b]never ended\nnext"), "\nnext");
        assert_eq!(whole(b"a\x00b\x07c\td\x7f"), "abc\td");
    }

    #[test]
    fn an_overwritten_line_is_shown_in_its_last_state() {
        assert_eq!(whole(b" 10%\r 50%\r100%\ndone\r\n"), "100%\ndone\n");
        assert_eq!(whole(b"a\r\r\nb\r"), "a\nb");
        assert_eq!(whole(b"|\x08/\x08-\x08ok\n"), "ok\n");
        assert_eq!(whole("é\x08e".as_bytes()), "e");
    }

    #[test]
    fn invalid_bytes_are_shown_as_such() {
        assert_eq!(whole(b"a\xff\xfeb\xe2\x82"), "a\u{fffd}\u{fffd}b\u{fffd}");
        assert_eq!(plain(b"a\xe2\x82", false), ("a".to_owned(), 1));
        assert_eq!(plain(b"a\x1b[3", false), ("a".to_owned(), 1));
    }

    #[test]
    fn a_start_within_a_character_or_sequence_moves_behind_it() {
        assert_eq!(begun(b"x\x1b[3", b"1mred"), 2);
        assert_eq!(begun(b"x\x1b]0;ti", b"tle\x07y"), 4);
        assert_eq!(begun(b"\xe2", b"\x82\xacx"), 2);
        assert_eq!(begun(b"\xe2\x82\xac", b"x"), 0);
        assert_eq!(begun(b"\xe2", b"xy"), 0);
        assert_eq!(begun(b"\x1b[31m", b"x"), 0);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_text(
            parts in prop::collection::vec(prop_oneof![
                Just("é".as_bytes().to_vec()), Just("𝄞".as_bytes().to_vec()), Just(b"ab".to_vec()),
                Just(b"\n".to_vec()), Just(b"\r\n".to_vec()), Just(b"\x1b[31m".to_vec()), Just(b"\x1b]0;t\x07".to_vec()),
                Just(b"\x1b]8;;x\x1b\\".to_vec()), Just(b"\x1b".to_vec()), Just(b"\xff".to_vec()), Just(b"\xe2\x82".to_vec()),
                Just(b"\x1b(".to_vec()), Just(b"\x1b[".to_vec()), Just(b"\x1b]".to_vec()), any::<u8>().prop_map(|it| vec![it]),
            ], 0..40),
            cuts in prop::collection::vec(0usize..200, 0..8),
        ) {
            // The result of overwriting depends on text before it, which a later piece does not see.
            let bytes = parts.concat();
            let bytes: Vec<u8> = bytes.iter().enumerate()
                .filter(|(at, it)| **it != 8 && (**it != b'\r' || bytes.get(at + 1) == Some(&b'\n')))
                .map(|it| *it.1).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|it| it.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut text = String::new();
            let mut from = 0;
            for cut in cuts {
                if let Some(piece) = bytes.get(from..cut) {
                    let (shown, used) = plain(piece, false);
                    text.push_str(&shown);
                    from += used;
                    // A piece never ends in the middle of anything, so the next need not skip.
                    prop_assert_eq!(begun(&bytes[..from], &bytes[from..]), 0);
                }
            }
            text.push_str(&whole(&bytes[from..]));
            prop_assert_eq!(text, whole(&bytes));
        }
    }
}
