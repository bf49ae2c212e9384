//! Markup cleanup before parsing: depth and size stay bounded.
//!
//! It removes invisible elements with their content, balances tags, limits their nesting, and keeps only
//! useful attributes. A parser that follows the standard takes time and memory that grow with the square of
//! hostile input; on this output it does not.

use super::hidden::{Sheet, is_hidden};

/// Maximum nesting; deeper elements are flattened. Browsers stop at 512; pages are rarely deeper than 60.
const DEEPEST: usize = 160;

/// Maximum number of tags and character references. Pages have fewer, and more would cost time and memory.
pub(super) const MOST_MARKS: usize = 400_000;

/// Maximum number of attributes of a tag.
const ATTRIBUTES: usize = 48;

/// Maximum length of an attribute's value.
const LONGEST_VALUE: usize = 2_000;

/// Elements without readable text, inside which there is no markup.
const RAW: &[&str] = &["script", "style", "iframe", "noembed", "noframes", "textarea", "xmp"];

/// Elements that are removed with their content.
const DROPPED: &[&str] = &[
    "template", "object", "embed", "applet", "svg", "canvas", "audio", "video", "select", "datalist", "math",
    "map", "frameset",
];

const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];

/// Tags that are removed, without their content.
const TRANSPARENT: &[&str] = &["font", "big", "nobr", "blink", "marquee", "noscript", "u", "bdi", "bdo"];

/// Elements before which a paragraph ends.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "details",
    "div",
    "dl",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "main",
    "menu",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "ul",
];

const KEPT: &[&str] = &[
    "alt",
    "aria-label",
    "charset",
    "class",
    "colspan",
    "content",
    "data-lang",
    "data-language",
    "dir",
    "href",
    "id",
    "itemprop",
    "lang",
    "name",
    "property",
    "rel",
    "role",
    "rowspan",
    "src",
    "start",
    "title",
];

/// The result of the cleanup.
pub(super) struct Tidied {
    /// The markup without invisible parts, balanced.
    pub(super) html: String,
    /// Number of tags and character references.
    pub(super) marks: usize,
    /// Whether the limit was reached, after which the rest is dropped.
    pub(super) cut: bool,
}

/// Cleans up markup: removes invisible parts, and balances tags.
pub(super) fn tidy(html: &str) -> Tidied {
    // A parser records an error for each NUL.
    let without: String;
    let html = if html.contains('\0') {
        without = html.replace('\0', "");
        &without
    } else {
        html
    };
    let mut tidy =
        Tidy { out: String::with_capacity(html.len() / 2), sheet: Sheet::of(html), ..Tidy::default() };
    let mut rest = html;
    while let Some(at) = rest.find('<').filter(|_| tidy.marks < MOST_MARKS) {
        let (text, from) = rest.split_at(at);
        tidy.text(text);
        tidy.marks += 1;
        rest = tidy.markup(from);
    }
    if tidy.marks < MOST_MARKS {
        tidy.text(rest);
    }
    Tidied { html: tidy.out, marks: tidy.marks, cut: tidy.marks >= MOST_MARKS }
}

#[derive(Default)]
struct Tidy<'a> {
    out: String,
    open: Vec<&'a str>,
    /// Number of open elements that were dropped because they were too deep.
    deep: usize,
    /// The index of the outermost invisible element.
    unseen: Option<usize>,
    sheet: Sheet<'a>,
    /// Number of tags and character references so far.
    marks: usize,
}

impl<'a> Tidy<'a> {
    fn text(&mut self, text: &str) {
        if self.unseen.is_some() {
            return;
        }
        let left = MOST_MARKS.saturating_sub(self.marks);
        let names = text.bytes().filter(|it| *it == b'&').count();
        let text = match text.match_indices('&').nth(left) {
            Some((at, _)) if names > left => text.get(..at).unwrap_or_default(),
            _ => text,
        };
        self.marks += names;
        self.out.push_str(text);
    }

    /// Consumes text that begins with `<`, and returns the rest.
    fn markup(&mut self, from: &'a str) -> &'a str {
        let after = from.get(1..).unwrap_or_default();
        if let Some(comment) = after.strip_prefix("!--") {
            // `<!-->` and `<!--->` are whole comments.
            let body = comment.strip_prefix('>').or_else(|| comment.strip_prefix("->"));
            return body.unwrap_or_else(|| past(comment, "-->"));
        }
        match after.bytes().next() {
            Some(b'!' | b'?') => past(after, ">"),
            Some(b'/') => {
                let (name, rest) = name(after.get(1..).unwrap_or_default());
                if !name.is_empty() {
                    self.end(name);
                }
                past(rest, ">")
            }
            Some(first) if first.is_ascii_alphabetic() => {
                let (name, rest) = name(after);
                let (attributes, rest) = attributes(rest);
                self.start(name, &attributes, rest)
            }
            _ => {
                self.text("&lt;");
                after
            }
        }
    }

    /// Opens an element; returns the text after it, or after its end if it is dropped.
    fn start(&mut self, name: &'a str, attributes: &[(&'a str, &'a str)], rest: &'a str) -> &'a str {
        if is(name, RAW) {
            return past_end_of(rest, name);
        }
        if name.eq_ignore_ascii_case("title") {
            let rest_after = past_end_of(rest, name);
            let title = rest.get(..rest.len() - rest_after.len()).unwrap_or_default();
            if self.unseen.is_none() {
                let title = title.split('<').next().unwrap_or_default();
                self.out.push_str(&format!("<title>{title}</title>"));
            }
            return rest_after;
        }
        if is(name, TRANSPARENT) {
            return rest;
        }
        if is(name, VOID) {
            if self.unseen.is_none() && !is_hidden(attributes, &self.sheet) {
                if is(name, BLOCKS) {
                    self.close_before(name);
                }
                self.tag(name, attributes);
            }
            return rest;
        }
        self.close_before(name);
        if self.open.len() >= DEEPEST {
            self.deep += 1;
            return rest;
        }
        if self.unseen.is_none() {
            if is(name, DROPPED) || is_hidden(attributes, &self.sheet) {
                self.unseen = Some(self.open.len());
                if let Some((_, formula)) = attributes.iter().find(|it| it.0.eq_ignore_ascii_case("alttext"))
                {
                    let formula = escaped(formula);
                    self.out.push_str(&format!("<code>{formula}</code>"));
                }
            } else {
                self.tag(name, attributes);
            }
        }
        self.open.push(name);
        rest
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.out.push('<');
        self.out.push_str(name);
        let kept = attributes
            .iter()
            .filter(|(name, value)| is(name, KEPT) && value.len() <= LONGEST_VALUE && !is_embedded(value));
        for (name, value) in kept {
            self.marks += value.bytes().filter(|it| *it == b'&').count();
            self.out.push_str(&format!(" {name}=\"{}\"", escaped(value)));
        }
        self.out.push('>');
    }

    /// Closes the elements that this one implicitly ends.
    fn close_before(&mut self, name: &str) {
        let (ends, within): (&[&str], &[&str]) = match name.to_ascii_lowercase().as_str() {
            "li" => (&["li"], &["ul", "ol", "menu"]),
            "dt" | "dd" => (&["dt", "dd"], &["dl"]),
            "tr" => (&["tr"], &["table", "thead", "tbody", "tfoot"]),
            "td" | "th" => (&["td", "th"], &["tr", "table"]),
            "thead" | "tbody" | "tfoot" => (&["thead", "tbody", "tfoot", "caption", "colgroup"], &["table"]),
            "a" => (&["a"], &["td", "th", "table"]),
            it if BLOCKS.contains(&it) => (&["p"], &["td", "th", "caption", "table", "button"]),
            _ => return,
        };
        let inside = self.open.iter().rposition(|it| is(it, within)).map_or(0, |at| at + 1);
        let first = self.open.iter().skip(inside).position(|it| is(it, ends));
        if let Some(first) = first {
            self.close_down_to(inside + first);
        }
    }

    fn end(&mut self, name: &str) {
        if self.deep > 0 && self.open.len() >= DEEPEST {
            self.deep -= 1;
            return;
        }
        let cells = ["td", "th", "table", "caption"];
        let ends_a_table = is(name, &["td", "th", "tr", "thead", "tbody", "tfoot", "table", "caption"]);
        for (at, open) in self.open.iter().enumerate().rev() {
            if open.eq_ignore_ascii_case(name) {
                return self.close_down_to(at);
            }
            // An element opened around a table is not closed inside it.
            if is(open, &cells) && !ends_a_table {
                return;
            }
        }
    }

    fn close_down_to(&mut self, left: usize) {
        self.deep = 0;
        while self.open.len() > left {
            let Some(name) = self.open.pop() else { return };
            match self.unseen {
                None => self.out.push_str(&format!("</{name}>")),
                Some(at) if at == self.open.len() => self.unseen = None,
                Some(_) => {}
            }
        }
    }
}

fn is(name: &str, list: &[&str]) -> bool {
    list.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Returns whether it is a `data:` URL.
fn is_embedded(value: &str) -> bool {
    value.trim_start().get(..5).is_some_and(|it| it.eq_ignore_ascii_case("data:"))
}

fn escaped(value: &str) -> String {
    value.replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the text after this mark; empty, if it does not occur.
fn past<'a>(text: &'a str, mark: &str) -> &'a str {
    text.split_once(mark).map_or("", |(_, rest)| rest)
}

/// Splits off the name of a tag.
fn name(text: &str) -> (&str, &str) {
    let end =
        text.find(|it: char| it.is_ascii_whitespace() || matches!(it, '/' | '>' | '<')).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let is_plain = name.len() <= 40
        && name.starts_with(|it: char| it.is_ascii_alphabetic())
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b':'));
    // An unknown name is replaced, so that it can't break out of its tag.
    if is_plain { (name, rest) } else { ("span", rest) }
}

/// Parses the attributes of a tag; returns them and the text after its `>`.
fn attributes(text: &str) -> (Vec<(&str, &str)>, &str) {
    let mut found: Vec<(&str, &str)> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|it: char| it.is_ascii_whitespace() || it == '/');
        if rest.is_empty() {
            return (found, rest);
        }
        if let Some(after) = rest.strip_prefix('>') {
            return (found, after);
        }
        let is_end = |it: char| it.is_ascii_whitespace() || matches!(it, '=' | '>' | '/');
        // An equals sign at the beginning is part of the name.
        let end = rest.char_indices().skip(1).find(|(_, it)| is_end(*it)).map_or(rest.len(), |(at, _)| at);
        let (name, after) = rest.split_at(end);
        let (value, after) = match after.trim_start().strip_prefix('=') {
            None => ("", after),
            Some(value) => quoted(value.trim_start()),
        };
        let is_new = found.len() < ATTRIBUTES && !found.iter().any(|it| it.0.eq_ignore_ascii_case(name));
        if is_new && !name.contains(['"', '\'', '<']) {
            found.push((name, value));
        }
        rest = after;
    }
}

fn quoted(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return inner.split_once(quote).unwrap_or((inner, ""));
        }
    }
    let end = text.find(|it: char| it.is_ascii_whitespace() || it == '>').unwrap_or(text.len());
    text.split_at(end)
}

/// Returns the text after the end tag of this element, whose content is not markup.
fn past_end_of<'a>(text: &'a str, element: &str) -> &'a str {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|it| it.find("</")).map(|it| it + from + 2) {
        let after = text.get(at..).unwrap_or_default();
        let is_it = after.get(..element.len()).is_some_and(|it| it.eq_ignore_ascii_case(element));
        let follows = after.as_bytes().get(element.len());
        if is_it && follows.is_none_or(|it| it.is_ascii_whitespace() || matches!(it, b'>' | b'/')) {
            return past(after, ">");
        }
        from = at;
    }
    ""
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn tidy(html: &str) -> String {
        super::tidy(html).html
    }

    #[test]
    fn hidden_content_is_removed_and_open_elements_are_closed() {
        expect![[r#"<title>T</title><p class="a">one <b>two</b></p><p>three</p><ul><li>x</li><li>y</li></ul>"#]].assert_eq(&tidy(
            "<title>T</title><!-- no --><script>if (a < b) x('</p>')</script><p class=a onclick='x()'>one <b>two</p><p>three</p>\
             <div hidden><p>no<div>no</div></div><ul><li>x<li>y</ul><span aria-hidden=true>no</span><i style='display : none'>no</i>",
        ));
    }

    #[test]
    fn content_hidden_by_a_style_sheet_is_removed() {
        let html = "<style>@media print { .a { display: none } } .b, p.x #c { font-size:0 } #d{visibility: hidden!important}</style>\
             <p class='a'>1</p><p class='x b'>2</p><p id=d>3</p><p id=c>4</p>";
        expect![[r#"<p class="a">1</p><p id="c">4</p>"#]].assert_eq(&tidy(html));
    }

    #[test]
    fn nesting_and_attributes_have_bounds() {
        let deep = format!("{}<p>in</p>{}<p>after</p>", "<div>".repeat(100_000), "</div>".repeat(100_000));
        let tidied = tidy(&deep);
        assert_eq!(tidied.matches("<div>").count(), DEEPEST);
        assert!(tidied.contains("in") && tidied.ends_with("<p>after</p>"), "{tidied}");
        let many: String = (0..200_000).map(|it| format!(" a{it}=1")).collect();
        assert_eq!(tidy(&format!("<p{many} id=x>t</p>")), "<p>t</p>");
        assert_eq!(tidy("<p title='a\"b>c' class=x/y>t"), "<p title=\"a&quot;b&gt;c\" class=\"x/y\">t");
    }

    #[test]
    fn broken_markup_breaks_nothing() {
        for it in [
            "<",
            "</",
            "<a",
            "<a href",
            "<a href=",
            "<a href='",
            "<!--",
            "<!",
            "<script>",
            "<p <p>",
            "</x><é>",
            "a < b",
        ] {
            tidy(it);
        }
        assert_eq!(tidy("1 < 2 &amp; 3"), "1 &lt; 2 &amp; 3");
        assert_eq!(tidy("<!--><p>seen</p>"), "<p>seen</p>");
    }

    #[test]
    fn slow_markup_is_cut_or_left_out() {
        assert_eq!(tidy(&format!("a{}b<p title='x\0y'>c", "\0".repeat(1_000_000))), "ab<p title=\"xy\">c");
        for piece in ["<br>", "&x", "</p>", "<a href='&x;&y;'>", "<i hidden>", "<!---->"] {
            let page = super::tidy(&format!("<p>begun</p>{}", piece.repeat(1_000_000)));
            assert!(page.cut && page.html.starts_with("<p>begun</p>"), "{piece}");
            assert!(page.html.matches(['&', '<']).count() <= 2 * MOST_MARKS, "{piece}");
        }
        let page = super::tidy(&"<p>a &amp; b</p>".repeat(10_000));
        assert!(!page.cut && page.marks == 30_000, "{}", page.marks);
    }
}
