//! Character sets of web pages.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Bytes in which a page may declare its encoding, by the standard.
const HEAD: usize = 1024;

/// Decodes these bytes: by their byte order mark, by the server's header, by the page's declaration, as UTF-8
/// if valid, or else as the encoding of most old pages.
pub(super) fn decode(bytes: &[u8], said: Option<&str>, is_html: bool) -> String {
    let encoding = Encoding::for_bom(bytes)
        .map(|(encoding, _)| encoding)
        .or_else(|| Encoding::for_label(said?.as_bytes()))
        .or_else(|| if is_html { of_page(bytes) } else { of_xml(bytes) })
        .unwrap_or_else(|| if is_utf_8(bytes) { UTF_8 } else { WINDOWS_1252 });
    encoding.decode(bytes).0.into_owned()
}

/// Returns whether it is UTF-8; a truncated text may end in half a character.
fn is_utf_8(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

/// Returns the encoding of `<meta charset>` or `<meta http-equiv>`.
fn of_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(bytes.get(..HEAD.min(bytes.len()))?).to_ascii_lowercase();
    let said = head.split("<meta").skip(1).find_map(|meta| {
        let (meta, _) = meta.split_once('>').unwrap_or((meta, ""));
        value_after(meta, "charset")
    });
    by_label(&said?)
}

/// Returns the encoding of `<?xml encoding="…"?>`.
fn of_xml(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(bytes.get(..HEAD.min(bytes.len()))?).into_owned();
    let declaration = head.strip_prefix("<?xml")?.split("?>").next()?;
    by_label(&value_after(declaration, "encoding")?)
}

fn value_after(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(name)?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = rest
        .find(|it: char| it.is_whitespace() || matches!(it, '"' | '\'' | ';' | '/'))
        .unwrap_or(rest.len());
    rest.get(..end).filter(|it| !it.is_empty()).map(str::to_owned)
}

/// Looks up an encoding's label. A page whose declaration was readable as ASCII can't be UTF-16.
fn by_label(label: &str) -> Option<&'static Encoding> {
    let encoding = Encoding::for_label(label.as_bytes())?;
    Some(if encoding == UTF_16LE || encoding == UTF_16BE { UTF_8 } else { encoding })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_found_in_its_order() {
        assert_eq!(decode(b"\xff\xfea\0\xe9\0", Some("utf-8"), true), "aé");
        assert_eq!(decode("\u{feff}é".as_bytes(), Some("latin1"), true), "é");
        assert_eq!(decode(b"\x83e", Some("shift_jis"), true), "テ");
        assert_eq!(decode(b"<meta charset=\"koi8-r\">\xc1", None, true), "<meta charset=\"koi8-r\">а");
        let old = b"<meta http-equiv='Content-Type' content='text/html; charset=windows-1251'>\xe0";
        assert!(decode(old, None, true).ends_with('а'));
        assert!(decode(b"<?xml version='1.0' encoding='iso-8859-2'?>\xb1", None, false).ends_with('ą'));
        assert_eq!(decode("é".as_bytes(), None, true), "é");
        assert_eq!(decode(b"caf\xe9 \x93x\x94", None, true), "café “x”");
        assert_eq!(decode(b"a\xc3", None, false), "a\u{fffd}");
    }
}
