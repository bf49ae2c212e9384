//! Text encodings: detected, decoded, and written back as they were.

use std::borrow::Cow;

use encoding_rs::{EncoderResult, UTF_16BE, UTF_16LE, WINDOWS_1252};

use super::Ending;

/// Bytes of a file that are searched for binary content.
const SNIFFED: usize = 8 * 1024;

/// The encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8. A few bytes may be invalid: they are kept, and shown as `\u{fffd}`.
    Utf8,
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-16, big-endian.
    Utf16Be,
    /// Windows-1252, a superset of Latin-1.
    Latin1,
}

/// The reason why bytes are not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// It has bytes that occur in no text, first at this offset.
    #[error("it is binary: byte {0} is not text")]
    Binary(usize),
    /// It is 4 GiB or more.
    #[error("it is over 4 GiB")]
    TooBig,
}

/// A character that the encoding of a file can't represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{character}` (U+{:04X}) can't be written in {}, the encoding of the file", *character as u32, encoding.name())]
pub struct Unwritable {
    /// The character.
    pub character: char,
    /// The encoding.
    pub encoding: Encoding,
}

impl Encoding {
    /// Returns its common name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16 LE",
            Self::Utf16Be => "UTF-16 BE",
            Self::Latin1 => "windows-1252",
        }
    }

    /// Encodes `text`.
    ///
    /// # Errors
    /// [`Unwritable`] names the first character that can't be encoded.
    pub fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, Unwritable> {
        match self {
            Self::Utf8 => Ok(Cow::Borrowed(text.as_bytes())),
            Self::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Self::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            Self::Latin1 if text.is_ascii() => Ok(Cow::Borrowed(text.as_bytes())),
            Self::Latin1 => {
                let mut bytes = Vec::with_capacity(text.len() + 16);
                let (result, _) = WINDOWS_1252
                    .new_encoder()
                    .encode_from_utf8_to_vec_without_replacement(text, &mut bytes, true);
                match result {
                    EncoderResult::Unmappable(character) => Err(Unwritable { character, encoding: self }),
                    EncoderResult::InputEmpty | EncoderResult::OutputFull => Ok(Cow::Owned(bytes)),
                }
            }
        }
    }

    /// Decodes bytes; invalid ones become `\u{fffd}`.
    pub(super) fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        match self {
            // Almost always valid, and validating is far faster than lossy decoding.
            Self::Utf8 => {
                str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
            }
            Self::Utf16Le => UTF_16LE.decode_without_bom_handling(bytes).0,
            Self::Utf16Be => UTF_16BE.decode_without_bom_handling(bytes).0,
            Self::Latin1 => WINDOWS_1252.decode_without_bom_handling(bytes).0,
        }
    }

    /// Returns the bytes of a line ending.
    pub(crate) fn ending_bytes(self, ending: Ending) -> &'static [u8] {
        match (self, ending) {
            (_, Ending::None) => b"",
            (Self::Utf8 | Self::Latin1, Ending::Lf) => b"\n",
            (Self::Utf8 | Self::Latin1, Ending::CrLf) => b"\r\n",
            (Self::Utf16Le, Ending::Lf) => b"\n\0",
            (Self::Utf16Le, Ending::CrLf) => b"\r\0\n\0",
            (Self::Utf16Be, Ending::Lf) => b"\0\n",
            (Self::Utf16Be, Ending::CrLf) => b"\0\r\0\n",
        }
    }

    /// Returns the size of a code unit, in bytes.
    pub(crate) fn unit(self) -> usize {
        match self {
            Self::Utf8 | Self::Latin1 => 1,
            Self::Utf16Le | Self::Utf16Be => 2,
        }
    }

    /// Given a byte 0x0A at `at`, returns the end of the line feed that it belongs to, if it is one.
    pub(super) fn line_feed_end(self, bytes: &[u8], at: usize) -> Option<usize> {
        match self {
            Self::Utf8 | Self::Latin1 => Some(at + 1),
            Self::Utf16Le => (at.is_multiple_of(2) && bytes.get(at + 1) == Some(&0)).then_some(at + 2),
            Self::Utf16Be => (at % 2 == 1 && bytes.get(at - 1) == Some(&0)).then_some(at + 1),
        }
    }
}

/// Detects the encoding of a file and the length of its byte order mark.
pub(super) fn detect(bytes: &[u8]) -> Result<(Encoding, usize), NotText> {
    let head = bytes.get(..SNIFFED).unwrap_or(bytes);
    let nul = memchr::memchr(0, head);
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return nul.map_or(Ok((Encoding::Utf8, 3)), |at| Err(NotText::Binary(at)));
    }
    // UTF-32, little-endian, begins with the mark of UTF-16 and a NUL.
    if bytes.starts_with(b"\xff\xfe\0\0") {
        return Err(NotText::Binary(2));
    }
    if bytes.starts_with(b"\xff\xfe") {
        return Ok((Encoding::Utf16Le, 2));
    }
    if bytes.starts_with(b"\xfe\xff") {
        return Ok((Encoding::Utf16Be, 2));
    }
    if let Some(at) = nul {
        return evident_utf16(head, bytes.len()).map(|encoding| (encoding, 0)).ok_or(NotText::Binary(at));
    }
    if std::str::from_utf8(bytes).is_ok() || mostly_utf8(bytes) {
        return Ok((Encoding::Utf8, 0));
    }
    let is_control = |byte: &u8| matches!(byte, 0x01..=0x08 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    let controls = head.iter().filter(|byte| is_control(byte)).count();
    if controls * 10 > head.len() {
        return Err(NotText::Binary(head.iter().position(is_control).unwrap_or(0)));
    }
    Ok((Encoding::Latin1, 0))
}

/// Detects UTF-16 without a mark: most units are ASCII, none is NUL, and no surrogate stands alone.
fn evident_utf16(head: &[u8], length: usize) -> Option<Encoding> {
    if length % 2 == 1 {
        return None;
    }
    [(Encoding::Utf16Le, u16::from_le_bytes as fn([u8; 2]) -> u16), (Encoding::Utf16Be, u16::from_be_bytes)]
        .into_iter()
        .find_map(|(encoding, unit)| {
            let (pairs, _) = head.as_chunks::<2>();
            let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
            let plain = units.iter().filter(|it| matches!(it, 9 | 10 | 13 | 0x20..=0x7e)).count();
            let odd = units.iter().filter(|it| matches!(it, 0..=8 | 14..=31 | 0xfffe..=0xffff)).count();
            let broken = char::decode_utf16(units.iter().copied()).filter(Result::is_err).count();
            // The head may end between the halves of a pair.
            let broken_allowed = usize::from(length > head.len());
            (plain * 10 >= units.len() * 7 && odd == 0 && broken <= broken_allowed).then_some(encoding)
        })
}

/// Returns whether there is at most one invalid sequence for each four valid ones of several bytes.
fn mostly_utf8(bytes: &[u8]) -> bool {
    let mut good = 0_usize;
    let mut broken = 0_usize;
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid().as_bytes();
        good += valid.iter().filter(|byte| **byte >= 0xc0).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    good > 0 && broken * 4 <= good
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn encoding(bytes: &[u8]) -> Result<Encoding, NotText> {
        detect(bytes).map(|(encoding, _)| encoding)
    }

    #[test]
    fn tells_encodings_apart() {
        assert_eq!(encoding(b""), Ok(Encoding::Utf8));
        assert_eq!(encoding("naïve".as_bytes()), Ok(Encoding::Utf8));
        assert_eq!(encoding(b"na\xefve"), Ok(Encoding::Latin1));
        assert_eq!(encoding(b"h\0i\0 \0y\0o\0u\0\n\0"), Ok(Encoding::Utf16Le));
        assert_eq!(encoding(b"\0h\0i\0 \0y\0o\0u\0\n"), Ok(Encoding::Utf16Be));
        assert_eq!(encoding(b"\x7fELF\x02\x01\x01\0\0\0"), Err(NotText::Binary(7)));
        assert_eq!(encoding(b"\xff\xfe\0\0a\0\0\0"), Err(NotText::Binary(2)));
        assert_eq!(encoding(b"\x01\x02\x03\xff\xfe\x04"), Err(NotText::Binary(0)));
    }

    #[test]
    fn a_few_broken_bytes_leave_utf_8_what_it_is() {
        let mut bytes = "é è ê ë\n".repeat(3).into_bytes();
        bytes.extend(b"bad \xff here\n");
        assert_eq!(encoding(&bytes), Ok(Encoding::Utf8));
        assert_eq!(Encoding::Utf8.decode(b"bad \xff here"), "bad \u{fffd} here");
    }

    #[test]
    fn windows_1252_gives_every_byte_back() {
        let all: Vec<u8> = (0..=255).collect();
        let decoded = Encoding::Latin1.decode(&all).into_owned();
        assert_eq!(Encoding::Latin1.encode(&decoded).unwrap(), all);
    }

    #[test]
    fn names_the_character_that_cannot_be_written() {
        let error = Encoding::Latin1.encode("a→b").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`→` (U+2192) can't be written in windows-1252, the encoding of the file"
        );
    }
}
