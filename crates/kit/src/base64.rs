//! Base64 (RFC 4648).

use serde::Serializer;

/// Encodes bytes as standard base64, with padding.
pub fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            text.push(if at <= three.len() { letter(bits >> (18 - 6 * at) & 63) } else { '=' });
        }
    }
    text
}

/// Decodes base64 (RFC 4648), in the standard or the URL-safe alphabet, with or without padding.
pub fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0_u32, 0);
    let letters = text.trim_end_matches(|it: char| it == '=' || it.is_ascii_whitespace());
    for letter in letters.bytes().filter(|it| !it.is_ascii_whitespace()) {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&encoded(bytes))
}

fn letter(six_bits: u32) -> char {
    let byte = match u8::try_from(six_bits).unwrap_or(0) {
        bits @ 0..26 => b'A' + bits,
        bits @ 26..52 => b'a' + (bits - 26),
        bits @ 52..62 => b'0' + (bits - 52),
        62 => b'+',
        _ => b'/',
    };
    char::from(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_vectors_of_its_rfc() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in vectors {
            assert_eq!(encoded(plain.as_bytes()), coded);
        }
        assert_eq!(encoded(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn base64_is_read_in_all_the_ways_it_is_written() {
        for (text, bytes) in [
            ("", b"".as_slice()),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9v\nYg", b"foob"),
            ("-_8=", &[0xfb, 0xff]),
            ("+/8=", &[0xfb, 0xff]),
        ] {
            assert_eq!(decoded(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(decoded("Zm9v!"), None);
    }
}
