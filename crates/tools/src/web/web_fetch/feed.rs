//! Feeds as text: RSS, Atom and JSON Feed.

use feed_rs::{model::Entry, parser};
use kit::net::Url;

use super::{
    article::{self, Part},
    markdown::{END, LINK, clean},
    text::Text,
};

/// Maximum number of entries.
const ENTRIES: usize = 500;

/// Maximum characters of an entry's summary that are shown.
const SUMMARY: usize = 500;

/// Maximum characters of it that are parsed.
const LOOKED_AT: usize = 20_000;

/// Formats the entries of a feed; `None`, if it is not a feed.
pub(super) fn read(text: &str, kind: &str, url: &Url) -> Option<Text> {
    let head = text.get(..text.len().min(2_000)).or_else(|| text.get(..1_000)).unwrap_or(text);
    let is_feed = ["<rss", "<feed", "<rdf:RDF", "jsonfeed.org/version"].iter().any(|it| head.contains(it))
        || matches!(kind, "application/rss+xml" | "application/atom+xml" | "application/feed+json");
    if !is_feed {
        return None;
    }
    let feed = parser::Builder::new().base_uri(Some(url.as_str())).build().parse(text.as_bytes()).ok()?;
    let mut found = Text {
        title: feed.title.map(|it| one_line(&it.content, url)).unwrap_or_default(),
        ..Text::default()
    };
    let mut blocks: Vec<String> = feed.description.map(|it| one_line(&it.content, url)).into_iter().collect();
    let total = feed.entries.len();
    for entry in feed.entries.iter().take(ENTRIES) {
        blocks.push(block(entry, url, &mut found.links));
    }
    if total > ENTRIES {
        found.notes.push(format!("the newest {ENTRIES} of {total} entries"));
    }
    if total == 0 {
        blocks.push("There are no entries in it.".to_owned());
    }
    blocks.retain(|it| !it.is_empty());
    found.body = blocks.join("\n\n");
    Some(found)
}

fn block(entry: &Entry, url: &Url, links: &mut Vec<String>) -> String {
    let title = entry.title.as_ref().map(|it| one_line(&it.content, url)).filter(|it| !it.is_empty());
    let mut block = format!("## {}", title.unwrap_or_else(|| "(no title)".to_owned()));
    let to = entry
        .links
        .iter()
        .find(|it| it.rel.as_deref().is_none_or(|rel| rel == "alternate"))
        .or(entry.links.first());
    if let Some(to) =
        to.and_then(|it| url.join(&it.href).ok()).filter(|it| matches!(it.scheme(), "http" | "https"))
    {
        links.push(to.to_string());
        block.push_str(&format!(" {LINK}{}{END}", links.len()));
    }
    if let Some(date) = entry.published.or(entry.updated) {
        block.push_str(&format!("\n{}", date.format("%Y-%m-%d %H:%M UTC")));
    }
    let content = entry.content.as_ref().and_then(|it| it.body.as_deref());
    let summary = entry.summary.as_ref().map(|it| it.content.as_str()).or(content);
    let summary = summary.map(|it| one_line(it, url)).unwrap_or_default();
    if !summary.is_empty() {
        let short = summary.char_indices().nth(SUMMARY).map(|(at, _)| at);
        match short {
            Some(at) => block.push_str(&format!("\n{}…", summary.get(..at).unwrap_or_default())),
            None => block.push_str(&format!("\n{summary}")),
        }
    }
    block
}

/// Converts text that may be markup to one line without links.
fn one_line(text: &str, url: &Url) -> String {
    let text = text.char_indices().nth(LOOKED_AT).and_then(|(at, _)| text.get(..at)).unwrap_or(text);
    let text = if text.contains('<') || text.contains('&') {
        let body = article::read(text, url, Part::Whole).body;
        let mut parts = body.split(LINK);
        let first = parts.next().unwrap_or_default().to_owned();
        let after = |part: &str| part.split_once(END).map_or(String::new(), |(_, after)| after.to_owned());
        parts.fold(first, |text, part| text + &after(part))
    } else {
        clean(text)
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
