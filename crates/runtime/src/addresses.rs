//! Addresses that a session knows: named by its person, a search result or a web page that it read.
//!
//! A misled model can put what it read into the address of a request (prompt injection). So with `web =
//! "known"` haft asks about each request, unless the address came unchanged from outside. It remembers at
//! most [`MOST`] addresses and forgets the oldest first.

use std::{
    collections::{HashSet, VecDeque},
    sync::OnceLock,
};

use kit::{
    Output, Part,
    net::{Url, host_of},
};
use parking_lot::Mutex;

use store::Store;

/// Limit of remembered addresses.
const MOST: usize = 8192;

/// Limit of an address, in bytes; longer ones are not remembered.
const LONGEST: usize = 4096;

/// Bytes of a text that are searched, from its beginning.
const SEARCHED: usize = 4 << 20;

/// Length of a remembered address: a hash, in bytes.
const KEY: usize = 16;
type Key = [u8; KEY];

/// The key under which a named session stores them.
const KEPT: &str = "addresses";

/// The addresses of one conversation, shared with the agents that it starts.
#[derive(Default)]
pub(crate) struct Addresses {
    known: Mutex<Known>,
    /// Set once the addresses saved by another process are restored.
    recalled: OnceLock<()>,
}

#[derive(Default)]
struct Known {
    keys: HashSet<Key>,
    /// Oldest first.
    order: VecDeque<Key>,
    /// Whether the session was informed that composed addresses are requested without a question.
    is_reported: bool,
    changed: bool,
}

impl Addresses {
    /// Remembers the addresses in a person's words, also those without a scheme: `example.org/a`.
    pub(crate) fn add_person_words(&self, text: &str) {
        self.add(written(text).chain(bare(text)));
    }

    /// Remembers the addresses in a web result, except those in `asked`: a search engine that repeats a query
    /// names nothing new.
    pub(crate) fn read(&self, output: &Output, asked: &str) {
        let own: HashSet<Key> = written(asked).chain(bare(asked)).filter_map(|it| key(&it)).collect();
        for part in &output.parts {
            if let Part::Text { text } = part {
                self.add(written(text).filter(|it| key(it).is_none_or(|it| !own.contains(&it))));
            }
        }
    }

    fn add(&self, urls: impl Iterator<Item = Url>) {
        let mut known = self.known.lock();
        for key in urls.filter_map(|it| key(&it)) {
            known.add(key);
        }
    }

    /// Returns whether the session knows exactly this address. Ignores the fragment, which is not sent, and
    /// the difference between http and https.
    pub(crate) fn has(&self, url: &Url) -> bool {
        key(url).is_some_and(|it| self.known.lock().keys.contains(&it))
    }

    /// Returns true once per conversation.
    pub(crate) fn is_first_report(&self) -> bool {
        let mut known = self.known.lock();
        let first = !known.is_reported;
        known.is_reported = true;
        known.changed |= first;
        first
    }

    /// Restores the addresses that a named session saved in another process, once.
    pub(crate) fn recall(&self, store: &Store, session: &str) {
        if self.recalled.set(()).is_err() {
            return;
        }
        match store.sessions().get(session, KEPT) {
            Ok(Some(kept)) => self.known.lock().restore(&kept),
            Ok(None) => {}
            Err(fault) => tracing::warn!("the addresses of a session can't be read: {fault}"),
        }
    }

    /// Returns what a named session saves, if it has changed.
    pub(crate) fn keep(&self) -> Option<(&'static str, Vec<u8>)> {
        let mut known = self.known.lock();
        if !std::mem::take(&mut known.changed) {
            return None;
        }
        let keys = known.order.iter().flatten().copied();
        Some((KEPT, std::iter::once(u8::from(known.is_reported)).chain(keys).collect()))
    }
}

impl Known {
    fn add(&mut self, key: Key) {
        if !self.keys.insert(key) {
            return;
        }
        self.changed = true;
        self.order.push_back(key);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
    }

    fn restore(&mut self, kept: &[u8]) {
        let Some((is_reported, keys)) = kept.split_first() else { return };
        self.is_reported |= *is_reported == 1;
        let since: Vec<Key> = self.order.drain(..).collect();
        self.keys.clear();
        keys.as_chunks::<KEY>().0.iter().copied().chain(since).for_each(|key| self.add(key));
    }
}

/// Returns the hash by which addresses are compared: of host, port unless it is the default, path and query.
fn key(url: &Url) -> Option<Key> {
    if url.as_str().len() > LONGEST {
        return None;
    }
    let (host, _) = host_of(url).ok()?;
    let port = url.port().map(|it| format!(":{it}")).unwrap_or_default();
    let query = url.query().map(|it| format!("?{it}")).unwrap_or_default();
    let hash = blake3::hash(format!("{host}{port}{}{query}", url.path()).as_bytes());
    hash.as_bytes().first_chunk().copied()
}

/// Finds the addresses with a scheme in a text.
fn written(text: &str) -> impl Iterator<Item = Url> {
    let text = begin(text);
    let starts = text.match_indices("://").filter_map(move |(at, _)| {
        let before = text.get(..at)?;
        let scheme = ["https", "http"].iter().find(|it| {
            let tail = at.checked_sub(it.len()).and_then(|from| before.get(from..));
            tail.is_some_and(|tail| tail.eq_ignore_ascii_case(it))
        })?;
        text.get(at - scheme.len()..)
    });
    starts.flat_map(|rest| forms(token(rest))).filter_map(|it| Url::parse(&it).ok())
}

/// Finds the words of a person that are addresses without a scheme.
fn bare(text: &str) -> impl Iterator<Item = Url> {
    let words = begin(text).split(|it: char| it.is_whitespace() || is_end(it) || "([".contains(it));
    words.filter(|it| !it.contains("://") && it.contains('.')).flat_map(forms).filter_map(|it| {
        let host = it.split(['/', '?', '#', ':']).next()?;
        let last = host.rsplit('.').next()?;
        let is_host =
            host.contains('.') && last.len() >= 2 && last.bytes().all(|it| it.is_ascii_alphabetic());
        is_host.then(|| Url::parse(&format!("https://{it}")).ok())?
    })
}

fn begin(text: &str) -> &str {
    text.get(..text.floor_char_boundary(SEARCHED)).unwrap_or_default()
}

/// Returns the text up to the last character that can belong to an address.
fn token(rest: &str) -> &str {
    let end = rest.char_indices().find(|(_, it)| it.is_whitespace() || it.is_control() || is_end(*it));
    let rest = rest.get(..end.map_or(rest.len(), |(at, _)| at)).unwrap_or_default();
    rest.get(..rest.floor_char_boundary(LONGEST)).unwrap_or_default()
}

/// Returns whether this character ends an address.
fn is_end(it: char) -> bool {
    "<>\"`{}|\\^".contains(it)
}

/// Returns the possible meanings of a token: with and without the punctuation around it, as text and as HTML.
fn forms(token: &str) -> Vec<String> {
    const BEHIND: &[char] = &['.', ',', ';', ':', '!', '?', '\'', '*', '_', '~', ')', ']', '»', '…'];
    let mut forms = vec![token.to_owned()];
    let mut add = |form: &str| {
        if !form.is_empty() && !forms.iter().any(|it| it == form) {
            forms.push(form.to_owned());
        }
    };
    // One bracket may be part of the address: `/wiki/Rust_(language)`.
    let trimmed = token.trim_end_matches(BEHIND);
    add(trimmed);
    add(token.trim_end_matches(['.', ',', ';', ':', '!', '?']));
    if let Some(rest) = token.get(trimmed.len()..)
        && let Some(bracket) = rest.chars().next().filter(|it| ")]".contains(*it))
    {
        add(&format!("{trimmed}{bracket}"));
    }
    // `[name](address)[other](…)` and `address,address`.
    for cut in [")", "](", "',", ",http"] {
        if let Some((before, _)) = token.split_once(cut) {
            add(before);
        }
    }
    let plain: Vec<String> =
        forms.iter().filter(|it| it.contains("&amp;")).map(|it| it.replace("&amp;", "&")).collect();
    forms.extend(plain);
    forms
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn has(text: &str, url: &str) -> bool {
        let addresses = Addresses::default();
        addresses.add_person_words(text);
        addresses.has(&Url::parse(url).unwrap())
    }

    #[test]
    fn addresses_are_found_in_the_text_of_people_and_pages() {
        for (text, url) in [
            ("see https://a.org/x.", "https://a.org/x"),
            ("see https://A.org:443/x#part, then", "https://a.org/x#other"),
            ("(https://a.org/wiki/Rust_(language))", "https://a.org/wiki/Rust_(language)"),
            ("[a](https://a.org/x)[b](https://b.org/)", "https://a.org/x"),
            ("[a](https://a.org/x)[b](https://b.org/)", "https://b.org"),
            ("<a href='https://a.org/?a=1&amp;b=2'>", "https://a.org/?a=1&b=2"),
            ("\"url\": \"https://a.org/q?x=y\",", "https://a.org/q?x=y"),
            ("https://a.org/1,https://b.org/2", "https://a.org/1"),
            ("HTTPS://a.org", "http://a.org/"),
            ("look at docs.rs/tokio, please", "https://docs.rs/tokio"),
            ("is example.org: up?", "https://example.org/"),
            ("https://a.org/ä?ö=1", "https://a.org/%C3%A4?%C3%B6=1"),
        ] {
            assert!(has(text, url), "{url} is not in: {text}");
        }
    }

    #[test]
    fn only_exactly_named_addresses_are_known() {
        let text = "https://a.org/x?q=1 and b.org";
        for url in [
            "https://a.org/",
            "https://a.org/x",
            "https://a.org/x?q=12",
            "https://a.org/x?q=1&r=2",
            "https://a.org/X?q=1",
            "https://a.org:8443/x?q=1",
            "https://evil.a.org/x?q=1",
            "https://b.org/?secret",
            "https://b.org/a",
        ] {
            assert!(!has(text, url), "{url}");
        }
        assert!(!has(&format!("https://a.org/{}", "x".repeat(LONGEST)), "https://a.org/"));
    }

    #[test]
    fn result_that_repeats_the_query_names_no_address() {
        let addresses = Addresses::default();
        let says = "no results for `https://a.org/?secret`; see https://b.org/";
        addresses.read(&Output::text(says), "https://a.org/?secret");
        assert!(!addresses.has(&Url::parse("https://a.org/?secret").unwrap()));
        assert!(addresses.has(&Url::parse("https://b.org/").unwrap()));
    }

    #[test]
    fn oldest_addresses_are_forgotten_first() {
        let addresses = Addresses::default();
        let url = |at: usize| Url::parse(&format!("https://a.org/{at}")).unwrap();
        addresses.add((0..=MOST).map(url));
        assert!(!addresses.has(&url(0)) && addresses.has(&url(1)) && addresses.has(&url(MOST)));
        assert!(addresses.is_first_report() && !addresses.is_first_report());
        let (_, kept) = addresses.keep().unwrap();
        assert!(addresses.keep().is_none());
        let again = Addresses::default();
        again.known.lock().restore(&kept);
        assert!(again.has(&url(1)) && !again.has(&url(0)) && !again.is_first_report());
    }
}
