//! Inline Markdown: emphasis, code, links and task marks as styled letters.

use pulldown_cmark::{Event, LinkType, Tag, TagEnd};

use super::blocks::Layout;
use crate::terminal::row::{Letter, Style};

/// An inline text.
#[derive(Debug, Default)]
pub(super) struct Inline {
    /// Its lines: a line break in the text is one on the screen.
    pub(super) lines: Vec<Vec<Letter>>,
    /// The offsets in the source of marks that have no partner yet.
    pub(super) unsure: Vec<usize>,
}

/// Returns whether this event is inline and does not begin a block.
pub(super) fn is_inline(event: &Event<'_>) -> bool {
    match event {
        Event::Start(tag) => {
            matches!(
                tag,
                Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. } | Tag::Image { .. }
            )
        }
        Event::End(tag) => {
            matches!(
                tag,
                TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image
            )
        }
        Event::Rule | Event::Html(_) => false,
        _ => true,
    }
}

/// An open link.
struct Link<'a> {
    url: &'a str,
    /// The address itself is the visible text.
    bare: bool,
    /// The number of letters before it.
    begins: usize,
    is_picture: bool,
}

/// Reads the inline text that begins here.
pub(super) fn read(layout: &mut Layout<'_>, base: Style) -> Inline {
    let mut text = Inline { lines: vec![Vec::new()], unsure: Vec::new() };
    let mut styles = vec![base];
    let mut links: Vec<Link<'_>> = Vec::new();
    while let Some((event, range)) = layout.event().filter(|(event, _)| is_inline(event)) {
        layout.at += 1;
        let style = styles.last().copied().unwrap_or(base);
        let source = layout.source.get(range.clone()).unwrap_or_default();
        match event {
            Event::Text(said) => {
                let exact = said.len() == range.len();
                for (at, letter) in said.char_indices() {
                    let start = if exact { range.start + at } else { range.start };
                    let end = if exact { start + letter.len_utf8() } else { range.end };
                    if exact && may_open(layout.source, start, letter) {
                        text.unsure.push(start);
                    }
                    text.put(letter, style, end);
                }
            }
            Event::Code(said) => text.write(said, Style { code: true, ..style }, range.end),
            Event::InlineHtml(said) if is_break(said) => text.lines.push(Vec::new()),
            Event::InlineHtml(said) | Event::Html(said) => text.write(said, style, range.end),
            Event::InlineMath(_) | Event::DisplayMath(_) | Event::FootnoteReference(_) => {
                text.write(source, style, range.end);
            }
            Event::SoftBreak | Event::HardBreak => text.lines.push(Vec::new()),
            Event::TaskListMarker(checked) => {
                if !layout.check(*checked) {
                    text.write(if *checked { "☑ " } else { "☐ " }, style, range.end);
                }
            }
            Event::Start(Tag::Emphasis) => styles.push(Style { italic: true, ..style }),
            Event::Start(Tag::Strong) => {
                let is_name = is_name(source);
                if is_name {
                    text.write("__", style, range.start);
                }
                styles.push(if is_name { style } else { Style { bold: true, ..style } });
            }
            Event::End(TagEnd::Strong) => {
                styles.pop();
                if is_name(source) {
                    text.write("__", styles.last().copied().unwrap_or(base), range.end);
                }
            }
            Event::Start(Tag::Strikethrough) => {
                // A single tilde means "about" or the home folder.
                let is_one = !source.starts_with("~~");
                let mark = if is_one { "~" } else { marks(layout.look.plain) };
                text.write(mark, style, range.start);
                styles.push(if is_one { style } else { Style { strike: true, ..style } });
            }
            Event::End(TagEnd::Strikethrough) => {
                styles.pop();
                let mark = if source.starts_with("~~") { marks(layout.look.plain) } else { "~" };
                text.write(mark, styles.last().copied().unwrap_or(base), range.end);
            }
            Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                let bare = matches!(link_type, LinkType::Autolink | LinkType::Email);
                links.push(Link { url: dest_url, bare, begins: text.count(), is_picture: false });
                styles.push(Style { underline: true, ..style });
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                text.write("[picture: ", style, range.start);
                links.push(Link { url: dest_url, bare: false, begins: text.count(), is_picture: true });
                styles.push(style);
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                styles.pop();
                if let Some(link) = links.pop() {
                    text.end_link(&link, styles.last().copied().unwrap_or(base), range.end);
                }
            }
            Event::End(_) => drop(styles.pop()),
            Event::Start(_) | Event::Rule => {}
        }
    }
    text
}

impl Inline {
    fn put(&mut self, letter: char, style: Style, end: usize) {
        if letter == '\n' {
            self.lines.push(Vec::new());
        } else if let Some(line) = self.lines.last_mut() {
            line.push(Letter { letter, style, end });
        }
    }

    fn write(&mut self, text: &str, style: Style, end: usize) {
        text.chars().for_each(|it| self.put(it, style, end));
    }

    fn count(&self) -> usize {
        self.lines.iter().map(Vec::len).sum()
    }

    /// Ends a link: the address follows the visible text unless they are equal, so that no link target is hidden.
    fn end_link(&mut self, link: &Link<'_>, style: Style, end: usize) {
        if link.is_picture {
            self.write("]", style, end);
        }
        let shown: String = self.lines.iter().flatten().skip(link.begins).map(|it| it.letter).collect();
        let is_same = shown == link.url || link.url.strip_prefix("mailto:") == Some(&shown);
        if !(link.bare || is_same || link.url.is_empty()) {
            self.write(&format!(" ({})", link.url), Style { dim: true, ..style }, end);
        }
    }
}

/// Returns the marks around struck-out text on a screen without attributes.
fn marks(plain: bool) -> &'static str {
    if plain { "~~" } else { "" }
}

fn is_break(html: &str) -> bool {
    matches!(html.to_ascii_lowercase().replace(' ', "").as_str(), "<br>" | "<br/>")
}

/// Returns whether this is a name such as `__init__`, and not strong emphasis.
fn is_name(source: &str) -> bool {
    let inside = source.strip_prefix("__").and_then(|it| it.strip_suffix("__"));
    inside.is_some_and(|it| it.chars().all(|it| it.is_ascii_alphanumeric() || it == '_'))
}

/// Returns whether this letter may become a mark once its partner arrives.
fn may_open(source: &str, at: usize, letter: char) -> bool {
    let before = source.get(..at).and_then(|it| it.chars().next_back());
    let after = source.get(at + letter.len_utf8()..).and_then(|it| it.chars().next());
    let is_open = after.is_none_or(|it| !it.is_whitespace());
    let in_word = before.is_some_and(char::is_alphanumeric);
    match letter {
        _ if before == Some('\\') => false,
        '`' => true,
        '*' | '[' => is_open,
        '<' => after.is_none_or(char::is_alphabetic),
        '_' => is_open && !in_word,
        '~' => is_open && (after == Some('~') || before == Some('~')),
        _ => false,
    }
}
