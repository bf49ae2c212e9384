//! The folders that a person knows: a server opens no others.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use runtime::config::Trust;

use super::{CONFIRMED, KnownFolders, SHOWN, WideFolders};
use crate::Place;

/// Returns the folders that a person confirmed or has used haft in, as long as they exist.
pub(crate) fn all(place: &Place) -> Vec<PathBuf> {
    let rules = KnownRules::of(place);
    let paths = rules.known.lines.iter().filter_map(|line| unescaped(line.split_once(' ')?.1));
    let mut all: Vec<PathBuf> = paths.filter(|it| it.is_dir() && rules.are_met_by(it)).collect();
    all.sort();
    all.dedup();
    all
}

/// Returns whether a person confirmed this folder, has used haft in it, or trusts its tools. A wide folder must be confirmed.
pub(crate) fn contains(place: &Place, folder: &Path) -> bool {
    KnownRules::of(place).are_met_by(folder)
}

/// The rules by which a folder is known, read once for all folders that are checked.
struct KnownRules {
    known: KnownFolders,
    wide: WideFolders,
    trust: Trust,
    /// haft's own folders, which decide what is allowed.
    own: Vec<PathBuf>,
}

impl KnownRules {
    fn of(place: &Place) -> Self {
        Self {
            known: KnownFolders::of(place),
            wide: WideFolders::of(place),
            trust: Trust::in_state(&place.state),
            own: [&place.state, &place.config].into_iter().filter_map(|it| it.canonicalize().ok()).collect(),
        }
    }

    fn are_met_by(&self, folder: &Path) -> bool {
        if self.own.iter().any(|it| folder.starts_with(it)) {
            return false;
        }
        if self.wide.what(folder).is_some() {
            return self.known.has(CONFIRMED, folder);
        }
        self.known.has(SHOWN, folder) || self.known.has(CONFIRMED, folder) || self.trust.holds_tools(folder)
    }
}

/// Returns the path that is in a line as [`line`](super::line) writes it; `None` where a line was written by something else.
fn unescaped(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b't' => b'\t',
            b'r' => b'\r',
            b'n' => b'\n',
            b'x' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::ffi::OsStrExt as _;

    use super::{super::line, *};

    #[test]
    fn path_of_a_line_is_the_path_that_was_written() {
        for path in [&b"/a/b c"[..], "/ä/日本/🙂".as_bytes(), b"/a\n\t\r\\x41'\"", b"/\xff\x00\x7f"] {
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            let line = line(SHOWN, path);
            assert_eq!(unescaped(line.split_once(' ').unwrap().1).as_deref(), Some(path), "{line}");
        }
        for broken in ["/a\\", "/a\\x4", "/a\\xzz"] {
            assert_eq!(unescaped(broken), None, "{broken}");
        }
    }
}
