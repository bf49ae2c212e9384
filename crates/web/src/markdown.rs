//! Markdown as a tree of JSON nodes: whoever shows it makes nodes of its own, and never parses HTML.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde_json::{Map, Value, json};

/// Nodes in one another beyond this depth become text: what reads the tree may do so by recursion.
const DEEPEST: usize = 32;

/// A node that is open.
struct Open {
    /// Its fields besides its children.
    fields: Map<String, Value>,
    children: Vec<Value>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node,
    Code,
    Image,
    Table,
    Head,
    Row,
    Cell,
    /// Its children are those of the node around it.
    Through,
}

/// The last block of a text that is not within another one and whose first line is whole. More text may change it, and none
/// before it, but for links whose targets come later.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastBlock {
    /// Its number among the blocks, from 0.
    pub(crate) number: usize,
    /// Where it begins in the text, in bytes.
    pub(crate) at: usize,
}

/// Returns the blocks of a text.
pub(crate) fn blocks(text: &str) -> Vec<Value> {
    blocks_and_last(text).0
}

/// Returns the blocks of a text, and which one is the last.
pub(crate) fn blocks_and_last(text: &str) -> (Vec<Value>, LastBlock) {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut stack = vec![Open { fields: Map::new(), children: Vec::new(), kind: Kind::Node }];
    let mut last = LastBlock::default();
    let whole = text.rfind('\n').map_or(0, |it| it + 1);
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        if let [top] = stack.as_slice()
            && matches!(event, Event::Start(_) | Event::Rule)
        {
            // With its indentation.
            let line = text.get(..range.start).and_then(|it| it.rfind('\n')).map_or(0, |it| it + 1);
            // What a line begins may be another thing once the line is whole.
            if line < whole {
                last = LastBlock { number: top.children.len(), at: line };
            }
        }
        match event {
            Event::Start(tag) => {
                let open = if stack.len() > DEEPEST { through() } else { opened(&tag) };
                stack.push(open);
            }
            Event::End(end) => {
                if let (Some(open), Some(around)) = (stack.pop(), stack.last_mut()) {
                    close(open, end, around);
                }
            }
            Event::Text(text) => add_text(&mut stack, &text),
            Event::Code(code) => add(&mut stack, json!({"t": "code", "s": &*code})),
            Event::SoftBreak => add_text(&mut stack, "\n"),
            Event::HardBreak => add(&mut stack, json!({"t": "br"})),
            Event::Rule => add(&mut stack, json!({"t": "hr"})),
            Event::Html(html) | Event::InlineHtml(html) => add_raw(&mut stack, &html),
            Event::TaskListMarker(checked) => {
                if let Some(item) = stack.iter_mut().rev().find(|it| is(it, "item")) {
                    item.fields.insert("check".to_owned(), checked.into());
                }
            }
            // These are not enabled: their source is text.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                add_text(&mut stack, &text);
            }
        }
    }
    (stack.into_iter().next().map(|it| it.children).unwrap_or_default(), last)
}

fn is(open: &Open, kind: &str) -> bool {
    open.fields.get("t").is_some_and(|it| it == kind)
}

fn through() -> Open {
    Open { fields: Map::new(), children: Vec::new(), kind: Kind::Through }
}

fn opened(tag: &Tag<'_>) -> Open {
    let mut kind = Kind::Node;
    let fields = match tag {
        Tag::Paragraph => json!({"t": "p"}),
        Tag::Heading { level, .. } => json!({"t": "h", "n": *level as u8}),
        Tag::BlockQuote(_) => json!({"t": "quote"}),
        Tag::CodeBlock(of) => {
            kind = Kind::Code;
            match of {
                CodeBlockKind::Fenced(lang) if !lang.is_empty() => {
                    let lang = lang.split([' ', ',', '{']).next().unwrap_or_default();
                    json!({"t": "code", "lang": lang})
                }
                _ => json!({"t": "code"}),
            }
        }
        Tag::List(Some(start)) => json!({"t": "ol", "start": start}),
        Tag::List(None) => json!({"t": "ul"}),
        Tag::Item => json!({"t": "item"}),
        Tag::Table(columns) => {
            kind = Kind::Table;
            let align: Vec<&str> = columns.iter().map(|it| alignment(*it)).collect();
            json!({"t": "table", "align": align, "head": [], "rows": []})
        }
        Tag::TableHead => {
            kind = Kind::Head;
            json!({})
        }
        Tag::TableRow => {
            kind = Kind::Row;
            json!({})
        }
        Tag::TableCell => {
            kind = Kind::Cell;
            json!({})
        }
        Tag::Emphasis => json!({"t": "em"}),
        Tag::Strong => json!({"t": "strong"}),
        Tag::Strikethrough => json!({"t": "del"}),
        Tag::Link { dest_url, title, .. } => link("a", dest_url, title),
        Tag::Image { dest_url, title, .. } => {
            kind = Kind::Image;
            link("img", dest_url, title)
        }
        _ => return through(),
    };
    let Value::Object(fields) = fields else { return through() };
    Open { fields, children: Vec::new(), kind }
}

fn alignment(it: Alignment) -> &'static str {
    match it {
        Alignment::None => "",
        Alignment::Left => "left",
        Alignment::Center => "center",
        Alignment::Right => "right",
    }
}

/// A link. Its address is left out where opening it could do more than show a page.
fn link(kind: &str, to: &str, title: &str) -> Value {
    let mut node = json!({"t": kind});
    if let Some(fields) = node.as_object_mut() {
        if let Some(to) = harmless(to) {
            fields.insert("href".to_owned(), to.into());
        }
        if !title.is_empty() {
            fields.insert("title".to_owned(), title.into());
        }
    }
    node
}

/// Returns the address of a link that may be opened.
pub(crate) fn harmless(address: &str) -> Option<&str> {
    let address = address.trim();
    let is_clean = !address.chars().any(|it| it.is_control() || it.is_whitespace());
    let scheme = address.split_once(':').map(|it| it.0.to_ascii_lowercase())?;
    (is_clean && ["http", "https", "mailto"].contains(&scheme.as_str())).then_some(address)
}

fn close(open: Open, end: TagEnd, around: &mut Open) {
    let Open { mut fields, children, kind } = open;
    let put = |around: &mut Open, name: &str, value: Value| {
        around.fields.insert(name.to_owned(), value);
    };
    match kind {
        Kind::Through => children.into_iter().for_each(|it| push(&mut around.children, it)),
        Kind::Cell => around.children.push(Value::Array(children)),
        Kind::Head => put(around, "head", Value::Array(children)),
        Kind::Row => {
            if let Some(Value::Array(rows)) = around.fields.get_mut("rows") {
                rows.push(Value::Array(children));
            }
        }
        Kind::Table => around.children.push(Value::Object(fields)),
        Kind::Code => {
            let mut source = plain(&children);
            if source.ends_with('\n') {
                source.pop();
            }
            fields.insert("s".to_owned(), source.into());
            around.children.push(Value::Object(fields));
        }
        Kind::Image => {
            fields.insert("alt".to_owned(), plain(&children).into());
            around.children.push(Value::Object(fields));
        }
        Kind::Node => {
            let _ = end;
            fields.insert("c".to_owned(), Value::Array(children));
            around.children.push(Value::Object(fields));
        }
    }
}

fn plain(nodes: &[Value]) -> String {
    let mut text = String::new();
    for node in nodes {
        match node {
            Value::String(it) => text.push_str(it),
            Value::Object(it) => {
                if let Some(Value::String(it)) = it.get("s") {
                    text.push_str(it);
                }
                if let Some(Value::Array(it)) = it.get("c") {
                    text.push_str(&plain(it));
                }
            }
            _ => {}
        }
    }
    text
}

fn add(stack: &mut [Open], node: Value) {
    if let Some(open) = stack.last_mut() {
        open.children.push(node);
    }
}

fn add_text(stack: &mut [Open], text: &str) {
    if let Some(open) = stack.last_mut() {
        push(&mut open.children, text.into());
    }
}

/// HTML is not rendered: its source is shown.
fn add_raw(stack: &mut [Open], html: &str) {
    let Some(open) = stack.last_mut() else { return };
    if let Some(Value::Object(last)) = open.children.last_mut()
        && last.get("t").is_some_and(|it| it == "raw")
        && let Some(Value::String(source)) = last.get_mut("s")
    {
        source.push_str(html);
        return;
    }
    open.children.push(json!({"t": "raw", "s": html}));
}

/// Adds a node; texts that follow each other are one.
fn push(children: &mut Vec<Value>, node: Value) {
    if let (Some(Value::String(last)), Value::String(more)) = (children.last_mut(), &node) {
        last.push_str(more);
        return;
    }
    children.push(node);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_a_tree() {
        let text =
            "# A *b*\n\n- [x] done `c`\n- two\n\n```rust\nfn a() {}\n```\n\n|x|y|\n|-|:-:|\n|1|**2**|\n";
        assert_eq!(
            Value::Array(blocks(text)),
            json!([
                {"t": "h", "n": 1, "c": ["A ", {"t": "em", "c": ["b"]}]},
                {"t": "ul", "c": [
                    {"t": "item", "check": true, "c": ["done ", {"t": "code", "s": "c"}]},
                    {"t": "item", "c": ["two"]},
                ]},
                {"t": "code", "lang": "rust", "s": "fn a() {}"},
                {"t": "table", "align": ["", "center"], "head": [["x"], ["y"]],
                 "rows": [[["1"], [{"t": "strong", "c": ["2"]}]]]},
            ])
        );
    }

    #[test]
    fn html_is_text_and_links_lead_to_pages_only() {
        assert_eq!(
            Value::Array(blocks(
                "<script>x</script>\n\n[a](javascript:x) [b](https://b.example) ![c](data:x)"
            )),
            json!([
                {"t": "raw", "s": "<script>x</script>\n"},
                {"t": "p", "c": [
                    {"t": "a", "c": ["a"]}, " ", {"t": "a", "href": "https://b.example", "c": ["b"]}, " ",
                    {"t": "img", "alt": "c"},
                ]},
            ])
        );
        for address in
            ["JaVaScRiPt:x", "java\nscript:x", " data:text/html,x", "vbscript:x", "//a", "file:///x"]
        {
            assert_eq!(harmless(address), None, "{address}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        fn depth(node: &Value) -> usize {
            match node {
                Value::Array(all) => all.iter().map(depth).max().unwrap_or_default(),
                Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
                _ => 0,
            }
        }
        let deep = blocks(&format!("{}x", "> ".repeat(1000)));
        assert!(depth(&Value::Array(deep)) <= DEEPEST + 1);
    }
}
