//! Fetched texts, shown page by page.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use kit::{Fault, net::Url};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::markdown::{END, LINK, TARGET};

/// Default bytes of a page of text, with its links.
const PAGE: usize = 20_000;

/// Maximum bytes of a page if a number of lines is given.
const LONGEST_PAGE: usize = 100_000;

/// Maximum number of headings that are listed where a page ends, and characters of each.
const HEADINGS: usize = 30;
const HEADING: usize = 50;

/// Maximum length of a line; a longer one is broken at a blank.
const LINE: usize = 4_000;

/// Maximum bytes of a text that are kept.
const KEPT: usize = 8 << 20;

/// Maximum number of texts of a session, and of their bytes.
const TEXTS: usize = 16;
const BYTES: usize = 16 << 20;

/// The content of an address, for a model.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Text {
    /// Its title.
    pub(super) title: String,
    /// The text, with links as numbers between [`LINK`] and [`END`].
    pub(super) body: String,
    /// The targets of the links, by number from 1.
    pub(super) links: Vec<String>,
    /// Notes, a line each.
    pub(super) notes: Vec<String>,
}

/// A fetched text, split into lines.
pub(super) struct Page {
    asked: String,
    url: Url,
    title: String,
    notes: Vec<String>,
    lines: Vec<String>,
    links: Vec<String>,
    bytes: usize,
    /// The line that the address names, from 1.
    named: usize,
}

/// The latest texts of a session, for further pages.
#[derive(Default)]
pub(super) struct Pages {
    kept: Mutex<VecDeque<Arc<Page>>>,
}

impl Pages {
    /// Returns the text that was fetched with these arguments.
    pub(super) fn find(&self, asked: &str) -> Option<Arc<Page>> {
        self.kept.lock().iter().find(|it| it.asked == asked).cloned()
    }

    /// Keeps it, in place of an earlier one with the same arguments.
    pub(super) fn keep(&self, page: Page) -> Arc<Page> {
        let page = Arc::new(page);
        let mut kept = self.kept.lock();
        kept.retain(|it| it.asked != page.asked);
        kept.push_front(page.clone());
        kept.truncate(TEXTS);
        while kept.len() > 1 && kept.iter().map(|it| it.bytes).sum::<usize>() > BYTES {
            kept.pop_back();
        }
        page
    }
}

impl Page {
    /// Creates a page of this text, with its arguments and its address.
    pub(super) fn new(asked: String, url: Url, mut text: Text) -> Self {
        if text.body.len() > KEPT {
            let end = (0..=KEPT).rev().find(|it| text.body.is_char_boundary(*it)).unwrap_or(0);
            text.body.truncate(end);
            text.notes.push(format!("only the first {} MB of the text are here", KEPT >> 20));
        }
        let mut lines: Vec<String> = text.body.trim_end().lines().flat_map(broken).collect();
        let named = named(&mut lines, url.fragment().unwrap_or_default());
        let bytes = lines.iter().chain(&text.links).map(|it| it.len() + 24).sum();
        Self { asked, url, title: text.title, notes: text.notes, lines, links: text.links, bytes, named }
    }

    /// Returns the line that the address names by its fragment, or the first.
    pub(super) fn named(&self) -> usize {
        self.named
    }

    /// Shows lines from this one on, counted from 1.
    ///
    /// # Errors
    /// When the line does not exist.
    pub(super) fn show(&self, offset: usize, limit: Option<usize>) -> Result<String, Fault> {
        let total = self.lines.len();
        if offset > total.max(1) {
            return Err(Fault::bad_args(format!(
                "`offset` is {offset}, and the text of {} has {total} lines",
                self.url
            )));
        }
        let most = if limit.is_some() { LONGEST_PAGE } else { PAGE };
        let mut shown = String::new();
        let mut links: BTreeSet<usize> = BTreeSet::new();
        let (mut bytes, mut end) = (0, offset - 1);
        for line in self.lines.iter().skip(offset - 1).take(limit.unwrap_or(usize::MAX)) {
            let (line, found) = numbered(line);
            let new = found.into_iter().filter(|it| !links.contains(it)).collect::<BTreeSet<_>>();
            let cost = line.len()
                + 1
                + new.iter().filter_map(|it| self.link(*it)).map(|it| it.len() + 7).sum::<usize>();
            if bytes + cost > most && end >= offset {
                break;
            }
            bytes += cost;
            end += 1;
            links.extend(new);
            shown.push_str(&line);
            shown.push('\n');
        }
        let mut out = String::new();
        if !self.title.is_empty() {
            out.push_str(&format!("# {}\n", self.title));
        }
        out.push_str(&format!("{}\n", self.url));
        for note in &self.notes {
            out.push_str(&format!("[{note}]\n"));
        }
        if total == 0 {
            out.push_str("[there is no text in it]");
            return Ok(out);
        }
        out.push('\n');
        out.push_str(shown.trim_matches('\n'));
        if !links.is_empty() {
            out.push('\n');
        }
        for number in links {
            if let Some(link) = self.link(number) {
                out.push_str(&format!("\n[{number}]: {link}"));
            }
        }
        if end < total {
            if let Some(outline) =
                outline(self.lines.get(end..).unwrap_or_default(), end).filter(|_| limit.is_none())
            {
                out.push_str(&format!("\n[next headings, by line: {outline}]"));
            }
            out.push_str(&format!(
                "\n[lines {offset}-{end} of {total}; next: the same url with offset {}]",
                end + 1
            ));
        } else if offset > 1 {
            out.push_str(&format!("\n[lines {offset}-{end} of {total}]"));
        }
        Ok(out)
    }

    fn link(&self, number: usize) -> Option<&str> {
        self.links.get(number.checked_sub(1)?).map(String::as_str)
    }
}

/// Removes the mark of the place that the address names, and returns its line: that of the mark, or of the
/// heading of that name, or the first.
fn named(lines: &mut Vec<String>, fragment: &str) -> usize {
    if let Some(at) = lines.iter().position(|it| it.contains(TARGET)) {
        let Some(line) = lines.get_mut(at) else { return 1 };
        *line = line.replace(TARGET, "");
        if line.is_empty() && lines.len() > 1 {
            lines.remove(at);
            // The blank line after it separates nothing any more.
            if lines.get(at).is_some_and(String::is_empty) {
                lines.remove(at);
            }
        }
        return at.min(lines.len().saturating_sub(1)) + 1;
    }
    let letters = |it: &str| {
        it.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>()
    };
    let wanted = letters(fragment);
    let is_it = |it: &String| it.starts_with('#') && letters(&numbered(it).0) == wanted;
    if wanted.is_empty() { 1 } else { lines.iter().position(is_it).map_or(1, |at| at + 1) }
}

/// Lists the headings in these lines with their line numbers, of as many levels as fit; `None`, if there are too few.
fn outline(lines: &[String], before: usize) -> Option<String> {
    let (mut is_code, mut found) = (false, Vec::new());
    for (at, line) in lines.iter().enumerate() {
        is_code ^= line.starts_with("```");
        let text = line.trim_start_matches('#');
        let level = line.len() - text.len();
        if !is_code && (1..=6).contains(&level) && text.starts_with(' ') {
            found.push((level, before + at + 1, text));
        }
    }
    let fits = |level: usize| found.iter().filter(|it| it.0 <= level).count() <= HEADINGS;
    let level = (1..=6).rev().find(|it| fits(*it))?;
    let shown = found.iter().filter(|it| it.0 <= level).map(|(_, line, text)| {
        let text: String = numbered(text).0.trim().chars().take(HEADING).collect();
        format!("{line} {text}")
    });
    let shown: Vec<String> = shown.collect();
    (shown.len() > 1).then(|| shown.join("; "))
}

/// Formats a line's links; returns it and their numbers.
fn numbered(line: &str) -> (String, Vec<usize>) {
    if !line.contains(LINK) {
        return (line.to_owned(), Vec::new());
    }
    let found = line.split(LINK).skip(1).filter_map(|it| it.split_once(END)?.0.parse().ok()).collect();
    (line.replace(LINK, "[").replace(END, "]"), found)
}

/// Breaks a line into pieces of limited length.
fn broken(line: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while rest.len() > LINE {
        let most = (0..=LINE).rev().find(|it| rest.is_char_boundary(*it)).unwrap_or(rest.len());
        let head = rest.get(..most).unwrap_or(rest);
        let at = head.rfind(' ').filter(|it| *it > LINE / 2).map_or(most, |it| it + 1);
        let (piece, after) = rest.split_at(at);
        pieces.push(piece.trim_end().to_owned());
        rest = after;
    }
    pieces.push(rest.to_owned());
    pieces
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn page(asked: &str, body: String) -> Page {
        let links = vec!["https://a.example/".to_owned(), "https://b.example/".to_owned()];
        let text = Text { title: "T".to_owned(), body, links, notes: Vec::new() };
        Page::new(asked.to_owned(), Url::parse("https://x.example/").unwrap(), text)
    }

    #[test]
    fn a_page_lists_its_own_links_and_names_the_next_call() {
        let body = format!("one [a]{LINK}1{END}\n{}two [b]{LINK}2{END} and [3]", "x\n".repeat(20_000));
        let page = page("u", body);
        let first = page.show(1, None).unwrap();
        assert!(first.starts_with("# T\nhttps://x.example/\n\none [a][1]\nx\n"), "{first}");
        assert!(
            first.contains("\n[1]: https://a.example/\n[lines 1-") && !first.contains("b.example"),
            "{first}"
        );
        assert!(
            first.ends_with("of 20002; next: the same url with offset 9984]"),
            "{}",
            &first[first.len() - 90..]
        );
        let last = page.show(20_002, None).unwrap();
        assert!(
            last.ends_with("two [b][2] and [3]\n\n[2]: https://b.example/\n[lines 20002-20002 of 20002]"),
            "{last}"
        );
        assert!(page.show(20_003, None).is_err());
        assert!(page.show(1, Some(2)).unwrap().contains("[lines 1-2 of 20002;"));
    }

    #[test]
    fn a_long_line_is_broken_and_nothing_of_it_is_lost() {
        let line = "word é ".repeat(3_000);
        let pieces = broken(line.trim_end());
        assert!(pieces.len() > 4 && pieces.iter().all(|it| it.len() <= LINE));
        assert_eq!(pieces.join(" "), line.trim_end());
        assert_eq!(broken(&"é".repeat(4_001)).concat(), "é".repeat(4_001));
    }

    #[test]
    fn the_newest_are_kept() {
        let pages = Pages::default();
        for it in 0..20 {
            pages.keep(page(&it.to_string(), "x".to_owned()));
        }
        assert!(pages.find("3").is_none() && pages.find("4").is_some());
        for it in 0..4 {
            pages.keep(page(&format!("big{it}"), "x".repeat(6 << 20)));
        }
        assert!(pages.find("big3").is_some() && pages.find("big0").is_none() && pages.find("19").is_none());
    }

    #[test]
    fn an_address_names_a_line_and_what_follows_is_outlined() {
        let lines = |body: &str, fragment: &str| {
            let mut lines: Vec<String> = body.lines().map(str::to_owned).collect();
            (named(&mut lines, fragment), lines.join("\n"))
        };
        assert_eq!(lines(&format!("a\n\n{TARGET}\n\n## B"), "x"), (3, "a\n\n## B".to_owned()));
        assert_eq!(lines(&format!("a\n\n{TARGET}b"), "x"), (3, "a\n\nb".to_owned()));
        assert_eq!(lines("a\n\n## The Cost", "the-cost").0, 3);
        assert_eq!(lines("a\n\n## B", "c").0, 1);
        let body = format!("{}## One\n```\n# no\n```\n## Two\n", "x\n".repeat(20_000));
        let shown = page("u", body).show(1, None).unwrap();
        assert!(
            shown.contains("\n[next headings, by line: 20001 One; 20005 Two]\n[lines 1-"),
            "{}",
            &shown[shown.len() - 200..]
        );
    }
}
