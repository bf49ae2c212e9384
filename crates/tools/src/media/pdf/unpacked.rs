//! The unpacked size of a PDF, checked before it is unpacked.
//!
//! A PDF reader unpacks each stream at once and to its end, and a few kilobytes may unpack to gigabytes. So
//! each stream is unpacked here first, without keeping the bytes, and counted.

use std::io::Read;

use flate2::bufread::{DeflateDecoder, ZlibDecoder};
use kit::{Fault, Kind};

/// The most bytes that one stream unpacks to, and all of them together.
const MOST_OF_ONE: u64 = 96 << 20;
const MOST_OF_ALL: u64 = 384 << 20;

/// Bytes before a stream in which its dictionary is searched.
const DESCRIPTION: usize = 2048;

/// Maximum number of filters on one stream.
const NESTED: usize = 4;

/// Refuses a PDF whose streams unpack to more than the limit.
///
/// # Errors
/// [`Kind::TooBig`], and those of `check`.
pub(super) fn check(data: &[u8], check: &dyn Fn() -> Result<(), Fault>) -> Result<(), Fault> {
    let mut all = 0;
    let mut from = 0;
    while let Some(at) = find(data, from, b"stream") {
        from = at + 6;
        if data.get(..at).is_some_and(|it| it.ends_with(b"end")) {
            continue;
        }
        check()?;
        let description = data.get(at.saturating_sub(DESCRIPTION)..at).unwrap_or_default();
        let begin = description.windows(4).rposition(|it| it == b" obj").unwrap_or(0);
        let described = description.get(begin..).unwrap_or_default();
        let content = after_line_end(data.get(from..).unwrap_or_default());
        let one = unpacked(content, described, NESTED);
        all += one;
        if one > MOST_OF_ONE || all > MOST_OF_ALL {
            let most = if one > MOST_OF_ONE { MOST_OF_ONE } else { MOST_OF_ALL };
            return Err(Fault::new(
                Kind::TooBig,
                format!("the PDF unpacks to more than {} MB, and is not opened", most >> 20),
            ));
        }
    }
    Ok(())
}

/// Returns the largest size of this content in any step of unpacking; a little more than [`MOST_OF_ONE`] for
/// anything larger.
fn unpacked(content: &[u8], described: &[u8], nested: usize) -> u64 {
    let names = |name: &[u8]| find(described, 0, name).is_some();
    if nested == 0 {
        return 0;
    }
    if names(b"ASCII85") || names(b"/A85") {
        return inflated(&from_ascii85(content), nested).max(lzw_if(described, &from_ascii85(content)));
    }
    if names(b"ASCIIHex") || names(b"/AHx") {
        return inflated(&from_hex(content), nested).max(lzw_if(described, &from_hex(content)));
    }
    inflated(content, nested).max(lzw_if(described, content))
}

/// Returns its size after inflating, with and without a header, as a reader tries both.
fn inflated(content: &[u8], nested: usize) -> u64 {
    if content.is_empty() || nested == 0 {
        return 0;
    }
    let (with, first) = drain(ZlibDecoder::new(content));
    let (without, other) = if with == 0 { drain(DeflateDecoder::new(content)) } else { (0, Vec::new()) };
    let (bytes, head) = if with >= without { (with, first) } else { (without, other) };
    // Doubly packed content is recognized by its beginning; only its first part is here, which is enough to
    // detect a bomb.
    let again = if bytes > 0 && head.len() > 2 && is_zlib(&head) { inflated(&head, nested - 1) } else { 0 };
    bytes.max(again)
}

fn is_zlib(head: &[u8]) -> bool {
    matches!(head, [a, b, ..] if a & 0x0f == 8 && (u16::from(*a) << 8 | u16::from(*b)) % 31 == 0)
}

/// Returns the unpacked size, and the first bytes.
fn drain(mut decoder: impl Read) -> (u64, Vec<u8>) {
    const FIRST: usize = 1 << 20;
    let mut first = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = 0;
    while bytes <= MOST_OF_ONE {
        let Ok(read) = decoder.read(&mut buffer) else { break };
        if read == 0 {
            break;
        }
        bytes += read as u64;
        let room = FIRST - first.len();
        first.extend_from_slice(buffer.get(..read.min(room)).unwrap_or_default());
    }
    (bytes, first)
}

fn lzw_if(described: &[u8], content: &[u8]) -> u64 {
    if find(described, 0, b"LZW").is_some() { lzw(content) } else { 0 }
}

/// Returns the size after LZW unpacking: only the lengths of its words are kept.
fn lzw(content: &[u8]) -> u64 {
    const CLEAR: usize = 256;
    const END: usize = 257;
    let mut words: Vec<u64> = Vec::with_capacity(4096);
    let (mut bits, mut held, mut width) = (0u32, 0u32, 9u32);
    let (mut bytes, mut before) = (0u64, None);
    for byte in content {
        held = held << 8 | u32::from(*byte);
        bits += 8;
        if bits < width {
            continue;
        }
        bits -= width;
        let code = (held >> bits) as usize & ((1 << width) - 1);
        held &= (1 << bits) - 1;
        match code {
            CLEAR => {
                words.clear();
                (width, before) = (9, None);
                continue;
            }
            END => break,
            _ => {}
        }
        let known = if code < 256 { Some(1) } else { words.get(code - 258).copied() };
        let Some(length) = known.or_else(|| before.map(|it: u64| it + 1)) else { break };
        bytes += length;
        if bytes > MOST_OF_ONE {
            break;
        }
        if let Some(before) = before
            && words.len() < 4096 - 258
        {
            words.push(before + 1);
        }
        before = Some(length);
        width = match words.len() + 258 + 1 {
            it if it >= 2048 => 12,
            it if it >= 1024 => 11,
            it if it >= 512 => 10,
            _ => 9,
        };
    }
    bytes
}

fn from_ascii85(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut group = Vec::with_capacity(5);
    let mut flush = |group: &mut Vec<u8>| {
        let short = 5 - group.len();
        if short > 3 {
            return;
        }
        group.resize(5, 84);
        let value = group.iter().fold(0u32, |all, it| all.wrapping_mul(85).wrapping_add(u32::from(*it)));
        bytes.extend(value.to_be_bytes().into_iter().take(4 - short));
        group.clear();
    };
    for byte in content {
        match byte {
            b'!'..=b'u' => {
                group.push(byte - b'!');
                if group.len() == 5 {
                    flush(&mut group);
                }
            }
            b'z' => {
                group.resize(5, 0);
                flush(&mut group);
            }
            b'~' => break,
            _ => {}
        }
    }
    flush(&mut group);
    bytes
}

fn from_hex(content: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = content
        .iter()
        .take_while(|it| **it != b'>')
        .filter_map(|it| char::from(*it).to_digit(16))
        .filter_map(|it| u8::try_from(it).ok())
        .collect();
    digits.chunks(2).map(|it| it.iter().fold(0, |all, digit| all << 4 | digit)).collect()
}

fn after_line_end(content: &[u8]) -> &[u8] {
    let blanks = content.iter().take_while(|it| matches!(it, b' ' | b'\r' | b'\n')).count();
    content.get(blanks.min(3)..).unwrap_or_default()
}

fn find(data: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = data.get(from..)?;
    let mut at = 0;
    // Searching the first byte by itself is much faster.
    let first = what.first()?;
    while let Some(next) = rest.get(at..)?.iter().position(|it| it == first) {
        at += next;
        if rest.get(at..)?.starts_with(what) {
            return Some(from + at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::io::Write;

    use flate2::{Compression, write::ZlibEncoder};

    use super::*;

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn pdf(filter: &str, stream: &[u8]) -> Vec<u8> {
        let head = format!("%PDF-1.4\n1 0 obj <</Filter {filter} /Length {}>> stream\n", stream.len());
        [head.as_bytes(), stream, b"\nendstream endobj"].concat()
    }

    fn is_refused(data: &[u8]) -> bool {
        check(data, &|| Ok(())).is_err_and(|it| it.kind == Kind::TooBig)
    }

    #[test]
    fn decompression_bombs_are_refused_through_several_filters() {
        let bomb = zlib(&vec![b' '; 128 << 20]);
        assert!(is_refused(&pdf("/FlateDecode", &bomb)));
        assert!(is_refused(&pdf("[/FlateDecode /FlateDecode]", &zlib(&bomb))));
        let hex: String = bomb.iter().map(|it| format!("{it:02x}")).collect();
        assert!(is_refused(&pdf("[/ASCIIHexDecode /FlateDecode]", hex.as_bytes())));
        assert!(is_refused(&pdf("/FlateDecode", bomb.get(2..).unwrap())), "without a header");
        assert!(!is_refused(&pdf("/FlateDecode", &zlib(&vec![b' '; 1 << 20]))));
    }

    #[test]
    fn ascii85_and_lzw_are_read_as_they_are_defined() {
        assert_eq!(from_ascii85(b"87cURD]i,\"Ebo80~>"), b"Hello World!");
        assert_eq!(from_hex(b"48 656C6c6f>99"), b"Hello");
        // The example of the PDF standard: 45 45 45 45 45 65 45 45 45 66.
        assert_eq!(lzw(&[0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01]), 10);
    }
}
