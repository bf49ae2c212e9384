//! HTML to Markdown, with numbered links.

use std::collections::HashMap;

use dom_query::NodeRef;
use kit::net::Url;

use super::{code, table};

/// Marks around the number of a link, until its page is known. Texts don't contain them.
pub(super) const LINK: char = '\u{e000}';
pub(super) const END: char = '\u{e001}';

/// The mark at the place that an address names.
pub(super) const TARGET: char = '\u{e002}';

/// Maximum depth of indented lists and quotes: each level repeats its content.
const LEVELS: usize = 10;

/// A page being converted: its text, and the targets of its links.
pub(super) struct Markdown<'a> {
    base: &'a Url,
    links: Vec<String>,
    numbers: HashMap<String, usize>,
    level: usize,
    /// The name within the page, until it is found.
    target: Option<&'a str>,
}

impl<'a> Markdown<'a> {
    /// Converts a page whose links are relative to `base`; a mark is set at `target`.
    pub(super) fn new(base: &'a Url, target: Option<&'a str>) -> Self {
        Self { base, links: Vec::new(), numbers: HashMap::new(), level: 0, target }
    }

    /// Converts an element, block by block.
    pub(super) fn write(&mut self, node: &NodeRef<'_>) -> String {
        self.flow(node).join("\n\n")
    }

    /// Returns the targets of the links, by their numbers from 1.
    pub(super) fn links(self) -> Vec<String> {
        self.links
    }

    /// Returns the blocks of an element.
    fn flow(&mut self, node: &NodeRef<'_>) -> Vec<String> {
        let (mut blocks, mut line) = (Vec::new(), String::new());
        self.children(node, &mut blocks, &mut line);
        end_line(&mut blocks, &mut line);
        blocks
    }

    fn children(&mut self, node: &NodeRef<'_>, blocks: &mut Vec<String>, line: &mut String) {
        for child in node.children_it(false) {
            if child.is_text() {
                push_text(line, &child.text());
            } else if let Some(name) = child.node_name() {
                self.element(&child, &name, blocks, line);
            }
        }
    }

    fn element(&mut self, node: &NodeRef<'_>, name: &str, blocks: &mut Vec<String>, line: &mut String) {
        let is_named = |it: &str| node.attr("id").or_else(|| node.attr("name")).is_some_and(|id| *id == *it);
        if self.target.is_some_and(is_named) && !node.has_name("meta") {
            self.target = None;
            line.push(TARGET);
        }
        match name {
            "br" => {
                line.truncate(line.trim_end_matches(' ').len());
                line.push('\n');
            }
            "a" => self.link(node, blocks, line),
            "img" => push_image(line, &node.attr_or("alt", "")),
            "strong" | "b" => self.wrapped(node, "**", blocks, line),
            "em" | "i" | "cite" | "dfn" => self.wrapped(node, "*", blocks, line),
            "del" | "s" | "strike" => self.wrapped(node, "~~", blocks, line),
            "code" | "kbd" | "samp" | "tt" => push_code(line, &node.text()),
            "sup" => self.raised(node, blocks, line),
            "head" | "title" | "button" | "input" | "meta" | "link" | "base" => {}
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                end_line(blocks, line);
                let text = self.on_one_line(node);
                if !text.is_empty() {
                    let level = name.get(1..).and_then(|it| it.parse().ok()).unwrap_or(1);
                    blocks.push(format!("{} {text}", "#".repeat(level)));
                }
            }
            "pre" => {
                end_line(blocks, line);
                blocks.extend(code::block(node));
            }
            "ul" | "ol" | "menu" => {
                end_line(blocks, line);
                let list = self.list(node, name == "ol");
                blocks.extend((!list.is_empty()).then_some(list));
            }
            "blockquote" => {
                end_line(blocks, line);
                let inner = self.deeper(|it| it.flow(node)).join("\n\n");
                blocks.extend((!inner.is_empty()).then(|| self.prefixed(&inner, "> ", "> ")));
            }
            "table" => {
                end_line(blocks, line);
                match table::rows(node) {
                    Some(rows) => blocks.extend(table::write(&rows, |cell| self.on_one_line(cell))),
                    None => blocks.extend(self.flow(node)),
                }
            }
            "hr" => {
                end_line(blocks, line);
                blocks.push("---".to_owned());
            }
            "dt" => {
                end_line(blocks, line);
                let text = self.on_one_line(node);
                blocks.extend((!text.is_empty()).then_some(text));
            }
            "dd" => {
                end_line(blocks, line);
                let inner = self.deeper(|it| it.flow(node)).join("\n\n");
                blocks.extend((!inner.is_empty()).then(|| self.prefixed(&inner, ": ", "  ")));
            }
            it if is_block(it) => {
                end_line(blocks, line);
                blocks.extend(self.flow(node));
            }
            _ => self.children(node, blocks, line),
        }
    }

    fn list(&mut self, node: &NodeRef<'_>, numbered: bool) -> String {
        let mut number: i64 = node.attr("start").and_then(|it| it.trim().parse().ok()).unwrap_or(1);
        let mut items: Vec<String> = Vec::new();
        for child in node.children_it(false) {
            let is_item = child.has_name("li");
            let inner = if child.is_element() { self.deeper(|it| it.item(&child)) } else { String::new() };
            if inner.is_empty() {
                continue;
            }
            if !is_item {
                // A list directly in a list belongs to the item before it.
                items.push(self.prefixed(&inner, "  ", "  "));
                continue;
            }
            let mark = if numbered { format!("{number}. ") } else { "- ".to_owned() };
            number = number.saturating_add(1);
            items.push(self.prefixed(&inner, &mark, &" ".repeat(mark.len())));
        }
        items.join("\n")
    }

    fn item(&mut self, node: &NodeRef<'_>) -> String {
        let blocks = if node.has_name("li") {
            self.flow(node)
        } else {
            let (mut blocks, mut line) = (Vec::new(), String::new());
            let name = node.node_name().unwrap_or_default();
            self.element(node, &name, &mut blocks, &mut line);
            end_line(&mut blocks, &mut line);
            blocks
        };
        blocks.join("\n")
    }

    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.level += 1;
        let done = work(self);
        self.level -= 1;
        done
    }

    fn prefixed(&self, text: &str, first: &str, others: &str) -> String {
        if self.level >= LEVELS {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len() + text.len() / 16);
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                out.push('\n');
            }
            let prefix = if at == 0 { first } else { others };
            out.push_str(if line.is_empty() { prefix.trim_end() } else { prefix });
            out.push_str(line);
        }
        out
    }

    /// Converts an element to one line.
    fn on_one_line(&mut self, node: &NodeRef<'_>) -> String {
        let blocks = self.flow(node);
        blocks.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn wrapped(&mut self, node: &NodeRef<'_>, mark: &str, blocks: &mut Vec<String>, line: &mut String) {
        let mut inner = String::new();
        self.children(node, blocks, &mut inner);
        let text = inner.trim();
        if text.is_empty() || text.contains('\n') || line.ends_with(mark) {
            push_text(line, &inner);
            return;
        }
        push_piece(line, &inner, &format!("{mark}{text}{mark}"));
    }

    /// Converts a superscript so that it stays readable on the line: 10^6.
    fn raised(&mut self, node: &NodeRef<'_>, blocks: &mut Vec<String>, line: &mut String) {
        let mut inner = String::new();
        self.children(node, blocks, &mut inner);
        let text = inner.trim();
        let is_power = !text.is_empty()
            && text.len() <= 6
            && text.chars().all(|it| it.is_ascii_digit() || "+-−n".contains(it));
        if is_power && line.ends_with(|it: char| it.is_alphanumeric() || it == ')') {
            line.push('^');
        }
        push_raw(line, &inner);
    }

    fn link(&mut self, node: &NodeRef<'_>, blocks: &mut Vec<String>, line: &mut String) {
        let mut inner = String::new();
        self.children(node, blocks, &mut inner);
        let mut text = inner.split_whitespace().collect::<Vec<_>>().join(" ");
        // A link of a heading to itself is dropped.
        if matches!(text.as_str(), "¶" | "#" | "§" | "🔗" | "link" | "Anchor")
            && node.attr_or("href", "").contains('#')
        {
            return;
        }
        if text.is_empty() {
            let named = ["aria-label", "title"].iter().find_map(|it| node.attr(it)).unwrap_or_default();
            text = clean(named.trim());
        }
        match self.number(&node.attr_or("href", "")) {
            Some(number) if !text.is_empty() => {
                push_piece(line, &inner, &format!("[{text}]{LINK}{number}{END}"));
            }
            Some(_) => {}
            None => push_raw(line, &inner),
        }
    }

    /// Returns the number of a link's target, unless it is a place in the same page, or can't be fetched.
    fn number(&mut self, href: &str) -> Option<usize> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') {
            return None;
        }
        let to = self.base.join(href).ok()?;
        if !matches!(to.scheme(), "http" | "https" | "mailto" | "ftp") {
            return None;
        }
        let to = to.to_string();
        if let Some(number) = self.numbers.get(&to) {
            return Some(*number);
        }
        self.links.push(to.clone());
        self.numbers.insert(to, self.links.len());
        Some(self.links.len())
    }
}

/// Returns whether this is a block element.
pub(super) fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "body"
            | "caption"
            | "center"
            | "dd"
            | "details"
            | "dialog"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "header"
            | "hgroup"
            | "html"
            | "legend"
            | "li"
            | "main"
            | "nav"
            | "p"
            | "section"
            | "summary"
            | "tbody"
            | "td"
            | "tfoot"
            | "th"
            | "thead"
            | "tr"
    )
}

/// Removes the marks of links and targets.
pub(super) fn clean(text: &str) -> String {
    text.replace([LINK, END, TARGET], "")
}

fn end_line(blocks: &mut Vec<String>, line: &mut String) {
    let text = line.trim();
    if !text.is_empty() {
        blocks.push(text.lines().map(str::trim).collect::<Vec<_>>().join("\n"));
    }
    line.clear();
}

/// Appends flowing text: each run of blanks becomes one.
fn push_text(line: &mut String, text: &str) {
    let mut blank = false;
    for it in text.chars() {
        // Soft hyphens and zero-width characters are not part of a word.
        if matches!(it, LINK | END | TARGET | '\u{ad}' | '\u{200b}' | '\u{feff}' | '\u{2060}') {
            continue;
        }
        if it.is_whitespace() {
            blank = true;
            continue;
        }
        if std::mem::take(&mut blank) && !line.ends_with([' ', '\n']) {
            line.push(' ');
        }
        line.push(it);
    }
    if blank && !line.ends_with([' ', '\n']) {
        line.push(' ');
    }
}

/// Appends converted text, with the blanks of `inner` around it.
fn push_piece(line: &mut String, inner: &str, piece: &str) {
    if inner.starts_with([' ', '\n']) && !line.ends_with([' ', '\n']) {
        line.push(' ');
    }
    line.push_str(piece);
    if inner.ends_with([' ', '\n']) {
        line.push(' ');
    }
}

fn push_raw(line: &mut String, inner: &str) {
    let text = inner.trim();
    if text.is_empty() {
        push_text(line, inner);
    } else {
        push_piece(line, inner, text);
    }
}

fn push_image(line: &mut String, alt: &str) {
    let alt = clean(&alt.split_whitespace().collect::<Vec<_>>().join(" "));
    if !alt.is_empty() {
        push_piece(line, "", &format!("[image: {alt}]"));
    }
}

fn push_code(line: &mut String, text: &str) {
    let text = clean(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    if text.is_empty() {
        return;
    }
    let longest = text.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let mark = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    line.push_str(&format!("{mark}{pad}{text}{pad}{mark}"));
}
