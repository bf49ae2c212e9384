//! Article extraction: the main text of a page, without its surroundings.

use dom_query::{Document, NodeRef};
use dom_smoothie::{Config, Readability};
use kit::net::Url;
use serde::{Deserialize, Serialize};

use super::{
    markdown::{Markdown, TARGET, clean},
    text::Text,
    tidy::{MOST_MARKS, Tidied, tidy},
};

/// Larger pages are shown whole: extraction scans the page repeatedly.
const LARGEST_ARTICLE: usize = 3 << 20;

/// Pages with more elements are shown whole, too.
const MOST_ELEMENTS: usize = 60_000;

/// The surroundings of a page's text, which are on every page of its site.
const AROUND: &str = "nav, footer, aside, button, [role=navigation], [role=banner], [role=contentinfo], [role=search], \
    [role=complementary], [role=dialog], [role=alertdialog], body > header, #toc, .toc, .cookie-banner, .cookie-consent, \
    #cookie-banner, .skip-link, .skiplink, .breadcrumbs, .breadcrumb, .mw-editsection, .mw-jump-link, .noprint";

/// The requested part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Part {
    /// The main text.
    Article,
    /// All of it.
    Whole,
}

/// Converts the page at this address to Markdown.
pub(super) fn read(html: &str, url: &Url, part: Part) -> Text {
    let Tidied { html: tidied, marks, cut } = tidy(html);
    let document = Document::from(tidied.as_str());
    drop(tidied);
    let title = clean(document.select_single("title").text().trim());
    let base = document.select_single("base[href]").attr("href").and_then(|it| url.join(&it).ok());
    let base = base.filter(|it| matches!(it.scheme(), "http" | "https")).unwrap_or_else(|| url.clone());
    let Some(body) = document.body() else { return Text::default() };
    let found = match part {
        Part::Whole => None,
        Part::Article => {
            // The surroundings are removed, unless they are all there is.
            let all = size(&body);
            let around = document.select(AROUND);
            // An aside within the text belongs to it.
            let goes = |it: &&NodeRef<'_>| !it.has_name("aside") || !it.is("main aside, article aside");
            let around: Vec<NodeRef<'_>> = around.nodes().iter().filter(goes).copied().collect();
            let lost: usize = around.iter().map(size).sum();
            if lost * 10 < all * 8 {
                around.iter().for_each(NodeRef::remove_from_parent);
            }
            article(&document, &base, marks)
        }
    };
    let named = fragment(url);
    let mut markdown = Markdown::new(&base, named.as_deref());
    let mut written = match &found {
        Some(Found::In(node)) => markdown.write(node),
        Some(Found::Apart(article)) => markdown.write(&article.root()),
        None => markdown.write(&body),
    };
    let heading = document.select_single("h1").text();
    let title = if title.is_empty() { clean(heading.trim()) } else { title };
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let notes = if cut {
        vec![format!("only its beginning was read: it has more than {MOST_MARKS} tags and named letters")]
    } else {
        Vec::new()
    };
    // Extraction drops a heading that only resembles the title.
    let heading = clean(&heading.split_whitespace().collect::<Vec<_>>().join(" "));
    let is_lost = matches!(found, Some(Found::Apart(_))) && document.select("h1").length() == 1;
    if is_lost && !heading.is_empty() && !says(&title, &heading) && !written.contains(&heading) {
        written = format!("# {heading}\n\n{written}");
    }
    Text { body: without_title(written, &title), title, links: markdown.links(), notes }
}

/// Returns the place within the page that an address names.
fn fragment(url: &Url) -> Option<String> {
    let named = url.fragment().filter(|it| !it.is_empty())?;
    // Text after `:~:` is for browsers.
    let named = named.split(":~:").next().unwrap_or_default();
    Some(percent_decoded(named)).filter(|it| !it.is_empty())
}

fn percent_decoded(text: &str) -> String {
    let query = format!("http://x/?a={}", text.replace('+', "%2B").replace('&', "%26"));
    let parsed = Url::parse(&query).ok();
    parsed.and_then(|it| it.query_pairs().next().map(|(_, it)| it.into_owned())).unwrap_or_default()
}

enum Found<'a> {
    In(NodeRef<'a>),
    Apart(Document),
}

/// Extracts the main text, if that loses little.
fn article<'a>(document: &'a Document, base: &Url, marks: usize) -> Option<Found<'a>> {
    let body = document.body()?;
    let whole = Measure::of(&body);
    let named = document.select("main, [role=main]");
    let articles = document.select("article");
    let alone = |nodes: &[NodeRef<'a>]| if let [it] = nodes { Some(*it) } else { None };
    let main = alone(named.nodes()).or_else(|| alone(articles.nodes()));
    if let Some(main) = main.filter(|it| whole.is_mostly(&Measure::of(it))) {
        return Some(Found::In(main));
    }
    // Extraction parses the page a second time.
    if marks > MOST_ELEMENTS * 2 {
        return None;
    }
    let left = document.html();
    if left.len() > LARGEST_ARTICLE {
        return None;
    }
    let config = Config {
        keep_classes: true,
        disable_json_ld: true,
        max_elements_to_parse: MOST_ELEMENTS,
        ..Config::default()
    };
    // Extraction changes its input.
    let mut readability =
        Readability::with_document(Document::from(left), Some(base.as_str()), Some(config)).ok()?;
    let article = Document::fragment(readability.parse().ok()?.content);
    whole.is_mostly(&Measure::of(&article.root())).then_some(Found::Apart(article))
}

/// The amount of content of a part of a page.
#[derive(Debug)]
struct Measure {
    text: usize,
    rows: usize,
    code: usize,
    headings: usize,
}

impl Measure {
    fn of(node: &NodeRef<'_>) -> Self {
        let mut found = Self { text: 0, rows: 0, code: 0, headings: 0 };
        for it in node.descendants_it() {
            if it.is_text() {
                found.text += letters(&it);
            } else if it.has_name("tr") {
                found.rows += 1;
            } else if it.has_name("pre") {
                found.code += 1;
            } else if it.has_name("h2") || it.has_name("h3") {
                found.headings += 1;
            }
        }
        found
    }

    /// Returns whether most of the page is in this part.
    fn is_mostly(&self, part: &Self) -> bool {
        let most = |all: usize, part: usize, of_ten: usize| part * 10 >= all * of_ten;
        part.text > 0
            && most(self.text, part.text, 6)
            && most(self.rows, part.rows, 8)
            && most(self.code, part.code, 8)
            && most(self.headings, part.headings, 5)
    }
}

fn size(node: &NodeRef<'_>) -> usize {
    node.descendants_it().filter(NodeRef::is_text).map(|it| letters(&it)).sum()
}

fn letters(text: &NodeRef<'_>) -> usize {
    text.text().bytes().filter(|it| !it.is_ascii_whitespace()).count()
}

/// Removes a heading that repeats the title.
fn without_title(written: String, title: &str) -> String {
    let (first, rest) = written.split_once('\n').unwrap_or((&written, ""));
    match first.strip_prefix("# ") {
        Some(heading) if says(title, heading) => rest.trim_start().to_owned(),
        _ => written,
    }
}

/// Returns whether the title is this heading, with or without the site's name before or after it.
fn says(title: &str, heading: &str) -> bool {
    let heading = heading.trim_matches(TARGET);
    let parts =
        |it: char| matches!(it, '-' | '–' | '—' | '|' | '·' | ':' | '»' | '«' | '•' | '/' | '(' | '[' | '#');
    match title.split_once(heading) {
        _ if heading.is_empty() => false,
        None => false,
        Some((before, after)) => {
            let (before, after) = (before.trim_end(), after.trim_start());
            (before.is_empty() || before.ends_with(parts)) && (after.is_empty() || after.starts_with(parts))
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_heading_goes_only_where_the_title_says_all_of_it() {
        for (title, heading, is) in [
            ("Shop", "Shop", true),
            ("Shop - Example", "Shop", true),
            ("Example | Shop", "Shop", true),
            ("SPA Shop", "Shop", false),
            ("Shopping", "Shop", false),
            ("SPA shop", "Shop", false),
        ] {
            assert_eq!(says(title, heading), is, "{title} / {heading}");
        }
        let url = Url::parse("https://x.example/").unwrap();
        let text = format!("<p>{}</p>", "Words that are read, one after the other. ".repeat(20));
        let page = format!("<title>SPA shop</title><body><h1>Shop</h1>{}</body>", text.repeat(5));
        assert!(read(&page, &url, Part::Article).body.starts_with("# Shop\n\nWords"));
    }

    #[test]
    fn the_line_that_an_address_names_is_marked() {
        let url = Url::parse("https://x.example/#m%C3%BC").unwrap();
        let page = "<h1>T</h1><p>a</p><h2 id='m\u{fc}'>B</h2><p>b</p>";
        assert_eq!(read(page, &url, Part::Whole).body, format!("a\n\n{TARGET}\n\n## B\n\nb"));
    }
}
