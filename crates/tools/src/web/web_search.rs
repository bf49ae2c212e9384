//! `web_search`: searches the web.

mod ask;
mod brave;
mod duckduckgo;
mod searxng;
mod tavily;

use kit::{net::Url, prelude::*};
use serde::Serialize;

use super::address;

/// Default and maximum number of results.
const LIMIT: usize = 8;
const MOST: usize = 20;

/// Maximum page.
const PAGES: usize = 10;

pub(crate) use duckduckgo::ReadResults;

/// Maximum characters of a query, of a snippet and of a title.
const QUERY: usize = 500;
const SNIPPET: usize = 400;
const TITLE: usize = 200;

/// Search the web: titles, addresses and snippets.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebSearch {
    /// Query; the engine's operators work (`site:`, `"…"`, `-word`).
    query: String,
    /// Results. Default 8, at most 20.
    #[serde(default)]
    #[serde(alias = "max_results")]
    limit: Option<usize>,
    /// Page of results, from 1.
    #[serde(default)]
    page: Option<usize>,
    /// Country and language, such as `de-de`.
    #[serde(default)]
    region: Option<String>,
}

/// A query to an engine.
struct Question<'a> {
    query: &'a str,
    limit: usize,
    /// From 1.
    page: usize,
    region: Option<Region<'a>>,
    /// The engine's address, if it is not the usual one.
    url: Option<Url>,
    /// The name of the secret that is its key.
    key: Option<&'a str>,
}

/// A country and a language, each of two letters.
#[derive(Clone, Copy)]
struct Region<'a> {
    country: &'a str,
    language: &'a str,
}

/// A result.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hit {
    title: String,
    url: String,
    snippet: String,
}

impl Tool for WebSearch {
    const NAME: &str = "web_search";
    const AT_MOST: Kinds = Kinds::WEB;

    fn touches(&self) -> Touches {
        // A person who configures another engine grants it by that.
        Touches::none().and(Touch::Web(duckduckgo::HOST.to_owned()))
    }

    fn address(&self) -> Address {
        // The query goes to the engine and nowhere else.
        Address::Configured
    }

    fn title(&self) -> String {
        self.query.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        let query = self.query.trim();
        if query.is_empty() {
            return Err(Fault::bad_args("`query` is empty"));
        }
        if query.chars().count() > QUERY {
            return Err(Fault::bad_args(format!("`query` has more than {QUERY} characters"))
                .next("Search for a few words."));
        }
        let search = &cx.preferences().search;
        let question = Question {
            query,
            limit: between("limit", self.limit, LIMIT, MOST)?,
            page: between("page", self.page, 1, PAGES)?,
            region: self.region.as_deref().map(Region::parse).transpose()?,
            url: search.url.as_deref().map(address::parse).transpose()?,
            key: search.key.as_deref(),
        };
        let hits = match search.engine.as_deref().unwrap_or(duckduckgo::NAME) {
            duckduckgo::NAME => duckduckgo::search(cx, &question).await?,
            searxng::NAME => searxng::search(cx, &question).await?,
            brave::NAME => brave::search(cx, &question).await?,
            tavily::NAME => tavily::search(cx, &question).await?,
            other => {
                return Err(Fault::new(
                    Kind::Unavailable,
                    format!("`{other}`, the `engine` of `[search]`, is not known"),
                )
                .next("A person can name `duckduckgo`, `searxng`, `brave` or `tavily` in haft.toml."));
            }
        };
        Ok(Output::text(shown(&hits, &question)))
    }
}

fn between(name: &str, value: Option<usize>, default: usize, most: usize) -> Result<usize, Fault> {
    match value.unwrap_or(default) {
        it if (1..=most).contains(&it) => Ok(it),
        it => Err(Fault::bad_args(format!("`{name}` is {it}, and is from 1 to {most}"))),
    }
}

impl<'a> Region<'a> {
    fn parse(text: &'a str) -> Result<Self, Fault> {
        let is_code = |it: &str| it.len() == 2 && it.bytes().all(|it| it.is_ascii_lowercase());
        match text.split_once('-') {
            Some((country, language)) if is_code(country) && is_code(language) => {
                Ok(Self { country, language })
            }
            _ => Err(Fault::bad_args(format!(
                "`region` is `{text}`, and is a country and a language: `us-en`, `de-de`"
            ))),
        }
    }
}

fn shown(hits: &[Hit], question: &Question<'_>) -> String {
    if hits.is_empty() {
        let more = if question.page > 1 { "no more results" } else { "no results" };
        return format!("{more} for `{}`", question.query);
    }
    let first = (question.page - 1) * question.limit + 1;
    let block = |(at, hit): (usize, &Hit)| {
        let mut block = format!("{}. {}\n{}", first + at, short(&hit.title, TITLE), hit.url);
        let snippet = short(&hit.snippet, SNIPPET);
        if !snippet.is_empty() {
            block.push_str(&format!("\n{snippet}"));
        }
        block
    };
    hits.iter().take(question.limit).enumerate().map(block).collect::<Vec<_>>().join("\n\n")
}

fn short(text: &str, most: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

/// Removes HTML tags from a text, and decodes the most common entities. One pass: it builds no tree that
/// could be nested too deep.
fn without_markup(text: &str) -> String {
    const ENTITIES: [(&str, &str); 7] = [
        ("&amp;", "&"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&nbsp;", " "),
    ];
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '&']) {
        let (before, marked) = rest.split_at(at);
        plain.push_str(before);
        let begins_tag = marked
            .get(1..2)
            .is_some_and(|it| it.starts_with(|it: char| matches!(it, '/' | '!') || it.is_ascii_alphabetic()));
        rest = match (ENTITIES.iter().find(|(entity, _)| marked.starts_with(entity)), marked.find('>')) {
            (Some((entity, letter)), _) => {
                plain.push_str(letter);
                marked.get(entity.len()..).unwrap_or_default()
            }
            (None, Some(end)) if marked.starts_with('<') && begins_tag => {
                marked.get(end + 1..).unwrap_or_default()
            }
            _ => {
                plain.push_str(marked.get(..1).unwrap_or_default());
                marked.get(1..).unwrap_or_default()
            }
        };
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_in_a_snippet_are_taken_off_and_other_signs_stay() {
        let marked = "<strong>a</strong> &lt; b &amp;&amp; c &quot;d&quot; 1 < 2 & 3 > 2 <!-- x -->e&#x27;s";
        assert_eq!(without_markup(marked), "a < b && c \"d\" 1 < 2 & 3 > 2 e's");
        let deep = "<b>".repeat(300_000) + "x <unclosed";
        assert_eq!(without_markup(&deep), "x <unclosed");
    }
}
