//! Multipart forms: the files of an upload, within limits on their number and on the heads of parts. The crate `multer` bounds neither
//! the parts nor their heads, and passes over `filename*`; its streaming would gain nothing, as an upload is kept whole.

use bytes::Bytes;
use kit::escape::{is_unseen, visible};
use memchr::memmem::Finder;

use crate::{call::decoded, problem::Problem};

/// The files that one form may have.
const FILES: usize = 20;

/// The parts that one form may have: files and other fields.
const PARTS: usize = 100;

/// The longest head of a part, in bytes: name, media type.
const HEAD: usize = 16 << 10;

/// The form has no end, or no line where one has to be.
fn broken() -> Problem {
    Problem::bad("the form can't be read: a boundary, or the empty line after the head of a part, is missing")
        .next(BYTES)
}

const BYTES: &str = "Have the client write the form; or send the bytes of one file, with `?name=NAME`.";

/// Returns the boundary of a form; `None` where the media type is another one.
///
/// # Errors
/// When it is multipart, and no form that can be read.
pub(super) fn boundary(kind: &str) -> Result<Option<Vec<u8>>, Problem> {
    let essence = kind.split(';').next().unwrap_or_default().trim();
    match of_form(kind) {
        None if essence.to_ascii_lowercase().starts_with("multipart/") => Err(not_a_form(kind)),
        found => Ok(found),
    }
}

fn of_form(kind: &str) -> Option<Vec<u8>> {
    const FORM: &str = "multipart/form-data";
    let (essence, rest) = kind.trim_start().split_at_checked(FORM.len())?;
    if !essence.eq_ignore_ascii_case(FORM) {
        return None;
    }
    let fields = rest.split(';').filter_map(|it| it.trim().split_once('='));
    let boundary = fields.into_iter().find(|it| it.0.eq_ignore_ascii_case("boundary"))?.1;
    let boundary = boundary.trim_matches('"');
    (!boundary.is_empty() && boundary.len() <= 70).then(|| format!("--{boundary}").into_bytes())
}

fn not_a_form(kind: &str) -> Problem {
    let shown: String = kind.chars().take(100).collect();
    Problem::bad(format!(
        "`Content-Type: {shown}` has no `boundary` of 1 to 70 characters, or is not multipart/form-data"
    ))
    .next(BYTES)
}

/// Returns the files of a form: the name of each, and its bytes. Reading stops at the first part too many.
///
/// # Errors
/// When the form is broken, has no file, or more than the limits allow.
pub(super) fn files(form: &Bytes, boundary: &[u8]) -> Result<Vec<(String, Bytes)>, Problem> {
    let close = [b"\r\n", boundary].concat();
    let (close, blank) = (Finder::new(&close), Finder::new(b"\r\n\r\n"));
    let mut files = Vec::new();
    let start = Finder::new(boundary).find(form).ok_or_else(broken)?;
    let mut at = start + boundary.len();
    for _ in 0..=PARTS {
        let rest = form.get(at..).unwrap_or_default();
        if rest.starts_with(b"--") {
            return if files.is_empty() {
                Err(Problem::bad("the form has no files")
                    .next(format!("Send 1 to {FILES}, each in a part with a `filename`.")))
            } else {
                Ok(files)
            };
        }
        let (head, content) = part(rest, &blank, &close)?;
        if let Some(name) = file_name(&String::from_utf8_lossy(head)) {
            if files.len() == FILES {
                return Err(Problem::bad(format!("the form has more than {FILES} files"))
                    .next("Upload the files in several requests."));
            }
            files.push((name, form.slice_ref(content)));
        }
        // The line break, the head, an empty line, the content, and the boundary after it.
        at += 2 + head.len() + 4 + content.len() + 2 + boundary.len();
    }
    Err(Problem::bad(format!("the form has more than {PARTS} parts")).next("Send fewer fields."))
}

/// Returns the head and the content of the part that begins here.
fn part<'a>(rest: &'a [u8], blank: &Finder<'_>, close: &Finder<'_>) -> Result<(&'a [u8], &'a [u8]), Problem> {
    let rest = rest.strip_prefix(b"\r\n").ok_or_else(broken)?;
    let near = rest.get(..HEAD).unwrap_or(rest);
    let end = blank.find(near).ok_or_else(|| match near.len() {
        HEAD => Problem::bad(format!("the head of a part of the form has more than {} KiB", HEAD >> 10))
            .next("Give the file a shorter name."),
        _ => broken(),
    })?;
    let (head, rest) = rest.split_at_checked(end).ok_or_else(broken)?;
    let rest = rest.get(4..).ok_or_else(broken)?;
    let content = close.find(rest).and_then(|end| rest.get(..end)).ok_or_else(broken)?;
    Ok((head, content))
}

/// Returns the name of the file, if a part of a form is one. `filename*` counts more than `filename`: it names the encoding.
fn file_name(head: &str) -> Option<String> {
    const FIELD: &str = "content-disposition:";
    let is_field = |it: &&str| it.get(..FIELD.len()).is_some_and(|it| it.eq_ignore_ascii_case(FIELD));
    let mut rest = head.lines().find(is_field)?.get(FIELD.len()..)?;
    let (mut plain, mut extended) = (None, None);
    while let Some((name, value, after)) = parameter(rest) {
        rest = after;
        if name.eq_ignore_ascii_case("filename") {
            plain.get_or_insert(value);
        } else if name.eq_ignore_ascii_case("filename*") {
            // The character set, the language, and the bytes as in an address.
            let text = value.splitn(3, '\'').nth(2).map(|it| decoded(it, false));
            extended = extended.or(text);
        }
    }
    extended.or(plain)
}

/// Returns the next parameter of a header, whose value may be quoted, and what follows it.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = text.split_once(';')?.1.split_once('=')?;
    let name = name.rsplit(';').next().unwrap_or(name);
    let rest = rest.trim_start();
    let Some(quoted) = rest.strip_prefix('"') else {
        let (value, after) = rest.split_at(rest.find(';').unwrap_or(rest.len()));
        return Some((name.trim(), value.trim_end().to_owned(), after));
    };
    // Browsers write a quote as `%22`, others as `\"`; all leave the backslashes of paths as they are.
    let mut ends = quoted.match_indices('"').map(|it| it.0);
    let end = ends.find(|at| !quoted.get(..*at).is_some_and(|it| it.ends_with('\\'))).unwrap_or(quoted.len());
    let (value, after) = quoted.split_at(end);
    let value = value.replace("\\\"", "\"").replace("%22", "\"");
    Some((name.trim(), value, after.strip_prefix('"').unwrap_or(after)))
}

/// Returns the name without folders and control characters, and without characters that have no shape where they stand, cut to 200
/// characters.
pub(super) fn plain_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    // A joiner within a word of a script that has joiners has a shape.
    let is_plain = visible(name).1 == 0;
    let shown = |it: &char| !it.is_control() && (is_plain || !is_unseen(*it));
    let name: String = name.chars().filter(shown).take(200).collect();
    if name.trim_matches(['.', ' ']).is_empty() { "file".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const FORM: &[u8] = b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\n1\r\n2\r\n--x\r\nContent-Disposition: form-data; name=\"words\"\r\n\r\nhi\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b.txt\"\r\n\r\n\r\n--x--\r\n";

    #[test]
    fn a_form_has_its_files() {
        for kind in ["multipart/form-data", "multipart/form-data; boundary=", "multipart/mixed; boundary=x"] {
            assert!(boundary(kind).is_err(), "{kind}");
        }
        assert_eq!(boundary("text/plain").unwrap(), None);
        let boundary = boundary("Multipart/Form-Data; boundary=x").unwrap().unwrap();
        let found = files(&Bytes::from_static(FORM), &boundary).unwrap();
        let found: Vec<(&str, &[u8])> = found.iter().map(|it| (it.0.as_str(), it.1.as_ref())).collect();
        assert_eq!(found, [("a.txt", &b"1\r\n2"[..]), ("b.txt", b"")]);
    }

    #[test]
    fn a_file_has_its_name_quoted_or_not() {
        for (parameters, name) in [
            ("name=file; filename=a.txt", Some("a.txt")),
            ("name=\"file\"; FileName=a.txt ; size=3", Some("a.txt")),
            ("name=\"a; filename=b\"; filename=\"c;d.txt\"", Some("c;d.txt")),
            ("name=\"a; filename=b\"", None),
            ("name=\"filename\"", None),
            ("filename=\"a\\\"b%22.txt\"", Some("a\"b\".txt")),
            ("filename=\"C:\\dir\\a.txt\"", Some("C:\\dir\\a.txt")),
            ("filename=\"_.txt\"; filename*=UTF-8''%C3%A4%20b.txt", Some("ä b.txt")),
            ("filename*=utf-8'de'%e2%82%ac.txt; filename=x", Some("€.txt")),
            ("filename=\"no end.txt", Some("no end.txt")),
            ("filename=", Some("")),
        ] {
            let head = format!("Content-Type: text/plain\r\ncontent-disposition: form-data; {parameters}");
            assert_eq!(file_name(&head).as_deref(), name, "{parameters}");
        }
        assert_eq!(file_name("Content-Disposition: form-data"), None);
    }

    #[test]
    fn broken_forms_are_refused_wherever_they_end() {
        for end in 0..FORM.len() - 4 {
            let cut = Bytes::from_static(FORM.get(..end).unwrap());
            assert!(files(&cut, b"--x").is_err(), "cut after {end} bytes");
        }
        for broken in [&b"--x\r\nabc"[..], b"--x\r\n\r\n\r\nno end", b"--x--", b"--xy\r\n\r\n\r\n--x--"] {
            assert!(files(&Bytes::from_static(broken), b"--x").is_err());
        }
    }

    #[test]
    fn names_have_no_folders_and_nothing_invisible() {
        for (name, plain) in [
            ("a.txt", "a.txt"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Users\\a\\b.txt", "b.txt"),
            ("a\0b\n.txt", "ab.txt"),
            ("photo\u{202e}gnp.exe", "photognp.exe"),
            ("in\u{200b}voice\u{2060}.pdf\u{e0041}", "invoice.pdf"),
            ("\u{feff}a\u{ad}b.txt", "ab.txt"),
            ("می\u{200c}خواهم.txt", "می\u{200c}خواهم.txt"),
            ("\u{200b}", "file"),
            ("..", "file"),
            ("x/", "file"),
            ("", "file"),
        ] {
            assert_eq!(plain_name(name), plain, "{name:?}");
        }
        assert_eq!(plain_name(&"ä".repeat(300)), "ä".repeat(200));
        assert_eq!(plain_name(&format!("{}/a.txt", "x".repeat(300))), "a.txt");
    }
}
