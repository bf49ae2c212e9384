//! Several replacements of text in one file, each applied to the result of the ones before.

use kit::{edit::around, prelude::*};

use crate::files::{
    open,
    rewrite::{Rewritten, rewrite},
};

/// Number of times to start again when another program changes the file in between.
const TRIES: usize = 5;

/// Maximum number of places that are counted.
const MOST: usize = 100;

/// One replacement.
pub(super) struct Replace {
    pub(super) old: String,
    pub(super) new: String,
    pub(super) all: bool,
}

/// Makes all of them, or none, and shows the changed lines with fresh anchors.
///
/// # Errors
/// [`Kind::NotFound`] or [`Kind::Ambiguous`] with the number of the failed edit; those of saving.
pub(super) fn apply(cx: &Cx, path: &str, edits: &[Replace]) -> Result<Output, Fault> {
    let mut tries = TRIES;
    loop {
        cx.check()?;
        let opened = open::text(cx, path)?;
        let before = opened.text.decoded().into_owned();
        let after = made(&before, edits)?;
        if after == before {
            return Err(Fault::bad_args("these edits together change nothing")
                .next("Leave them out, or say what is to be different."));
        }
        cx.keep_secrets_whole_in(&before, &after)?;
        match rewrite(cx, path, &opened, &before, &after) {
            Ok(written) => return Ok(shown(cx, path, &written)),
            Err(fault) if fault.kind == Kind::Stale && tries > 0 => tries -= 1,
            Err(fault) => return Err(fault),
        }
    }
}

/// Returns the text after all edits. If the whole file has CRLF, the edits use plain line feeds.
fn made(before: &str, edits: &[Replace]) -> Result<String, Fault> {
    let has_crlf = before.contains("\r\n");
    let is_crlf = has_crlf && before.matches('\n').count() == before.matches("\r\n").count();
    let mut text = if is_crlf { before.replace("\r\n", "\n") } else { before.to_owned() };
    for (at, edit) in edits.iter().enumerate() {
        let (mut old, mut new) = (edit.old.clone(), edit.new.clone());
        if is_crlf || !has_crlf {
            (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
        } else if !text.contains(&old) && !old.contains('\r') {
            (old, new) = (old.replace('\n', "\r\n"), new.replace('\n', "\r\n"));
        }
        text = edit.made(at, &text, &old, &new)?;
    }
    Ok(if is_crlf { text.replace('\n', "\r\n") } else { text })
}

impl Replace {
    fn made(&self, at: usize, text: &str, old: &str, new: &str) -> Result<String, Fault> {
        some(old).map_err(|fault| Fault { what: format!("edits[{at}]: {}", fault.what), ..fault })?;
        let after = if at == 0 { "" } else { " after the edits before it" };
        match if self.all { usize::from(text.contains(old)) } else { places(text, old) } {
            0 => Err(Fault::not_found(format!(
                "edits[{at}]: old_string not found in file{after}; nothing was written"
            ))
            .next("Read the lines to change, and give `old_string` as the edits before it leave them.")),
            times if times > 1 => Err(Fault::new(
                Kind::Ambiguous,
                format!("edits[{at}]: old_string matched {times} times{after}; nothing was written"),
            )
            .next("Add a line of context, or set `replace_all`.")),
            _ => Ok(text.replace(old, new)),
        }
    }
}

/// Returns the number of places of a text in another, up to [`MOST`]. Overlapping ones count, as any of them
/// may be meant.
fn places(text: &str, old: &str) -> usize {
    let next = old.chars().next().map_or(1, char::len_utf8);
    let found = |from: usize| Some(from + text.get(from..)?.find(old)?);
    std::iter::successors(found(0), |at| found(at + next)).take(MOST).count()
}

/// Refuses an empty text to replace.
pub(super) fn some(old: &str) -> Result<(), Fault> {
    if old.is_empty() {
        return Err(Fault::bad_args("old_string cannot be empty")
            .hint("Give the exact text to replace; `tool:write` makes new files."));
    }
    Ok(())
}

fn shown(cx: &Cx, path: &str, written: &Rewritten) -> Output {
    let plus: usize = written.regions.iter().map(|(_, come)| come.len()).sum();
    let minus: usize = written.regions.iter().map(|(gone, _)| gone.len()).sum();
    let mut said = format!("Updated {path} (+{plus} -{minus})");
    if let Some(text) = &written.text {
        let rows = around(&written.regions, text.line_count());
        said.push('\n');
        said.push_str(&cx.show_also(&written.location, text, &rows).text);
    }
    Output::page(said)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn replace(old: &str, new: &str, all: bool) -> Replace {
        Replace { old: old.to_owned(), new: new.to_owned(), all }
    }

    #[test]
    fn each_edit_means_what_the_one_before_made() {
        let edits = [replace("q", "r", true), replace("r", "t", true)];
        assert_eq!(made("q r\n", &edits).unwrap(), "t t\n");
        assert_eq!(made("one\n", &[replace("one", "two", false), replace("two\n", "", false)]).unwrap(), "");
    }

    #[test]
    fn line_ends_of_the_file_stay() {
        let edits = [replace("a\nb", "a\nc\nb", false), replace("c", "d\ne", false)];
        assert_eq!(made("a\r\nb\r\n", &edits).unwrap(), "a\r\nd\r\ne\r\nb\r\n");
        assert_eq!(made("x\na\r\nb\r\n", &edits[..1]).unwrap(), "x\na\r\nc\r\nb\r\n");
    }

    #[test]
    fn an_edit_that_can_not_be_made_is_named_by_its_number() {
        let two = [replace("a", "b", false), replace("b", "c", false)];
        let fault = made("a b\n", &two).unwrap_err();
        assert_eq!(fault.kind, Kind::Ambiguous);
        assert!(fault.what.starts_with("edits[1]: old_string matched 2 times"), "{}", fault.what);
        let fault = made("a\n", &[replace("a", "b", false), replace("a", "c", false)]).unwrap_err();
        assert_eq!(fault.kind, Kind::NotFound);
        assert!(fault.what.starts_with("edits[1]: old_string not found in file"), "{}", fault.what);
        assert_eq!(made("a\n", &[replace("", "b", false)]).unwrap_err().kind, Kind::BadArgs);
    }

    #[test]
    fn places_that_share_letters_are_counted() {
        assert_eq!((places("aaa", "aa"), places("a\na\na\n", "a\na\n"), places("x", "a")), (2, 2, 0));
        assert_eq!((places("ééé", "éé"), places(&"a".repeat(1_000), "a")), (2, MOST));
        assert_eq!(made("aaa\n", &[replace("aa", "b", true)]).unwrap(), "ba\n");
    }
}
