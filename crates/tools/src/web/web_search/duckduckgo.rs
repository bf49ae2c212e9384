//! DuckDuckGo, by its pages for browsers without scripts; a worker parses them.

use dom_query::{Document, NodeRef};
use kit::{
    Cx, Fault, Kind,
    decoders::{Decoded, Decoder},
    net::{Request, Url, header},
};
use serde::{Deserialize, Serialize};

use super::{
    Hit, Question,
    ask::{Answer, at, changed, once, pace, wait, with},
};

/// Its name in `[search]`.
pub(super) const NAME: &str = "duckduckgo";

/// Its host.
pub(super) const HOST: &str = "html.duckduckgo.com";

/// Maximum number of pages that are fetched.
const TURNS: usize = 6;

/// A page of results, and the form for the next one.
#[derive(Serialize, Deserialize)]
pub(crate) struct Results {
    hits: Vec<Hit>,
    next: Vec<(String, String)>,
}

/// The outcome of a request.
#[derive(Serialize, Deserialize)]
pub(crate) enum Came {
    Results(Results),
    /// It blocks clients that send too many requests.
    Blocked(String),
    Changed,
}

pub(super) async fn search(cx: &Cx, question: &Question<'_>) -> Result<Vec<Hit>, Fault> {
    let (html, lite) = match &question.url {
        None => (at("https://html.duckduckgo.com/html/")?, at("https://lite.duckduckgo.com/lite/")?),
        Some(url) => (under(url, "html/")?, under(url, "lite/")?),
    };
    let why = match look(cx, &html, question).await? {
        Ok(hits) => return Ok(hits),
        Err(why) => why,
    };
    match look(cx, &lite, question).await {
        Ok(Ok(hits)) => Ok(hits),
        Ok(Err(_)) | Err(_) => Err(why),
    }
}

fn under(url: &Url, path: &str) -> Result<Url, Fault> {
    let text = format!("{}/{path}", url.as_str().trim_end_matches('/'));
    Url::parse(&text).map_err(|error| Fault::bad_args(format!("`{text}` is not an address: {error}")))
}

/// Searches one of the two pages, page by page; the inner fault means that the other one is to be tried.
async fn look(cx: &Cx, from: &Url, question: &Question<'_>) -> Result<Result<Vec<Hit>, Fault>, Fault> {
    let region = question.region.map(|it| format!("{}-{}", it.country, it.language)).unwrap_or_default();
    let mut url = with(from.clone(), &[("q", question.query), ("kl", &region)]);
    let (first, last) = ((question.page - 1) * question.limit, question.page * question.limit);
    let mut found: Vec<Hit> = Vec::new();
    for _ in 0..TURNS {
        let results = match turn(cx, url).await? {
            Came::Results(results) => results,
            // Results so far are better than none.
            Came::Blocked(_) | Came::Changed if found.len() > first => break,
            Came::Blocked(how) => return Ok(Err(blocked(&how))),
            Came::Changed => return Ok(Err(changed("DuckDuckGo"))),
        };
        let before = found.len();
        for hit in results.hits {
            if !found.iter().any(|it| it.url == hit.url) {
                found.push(hit);
            }
        }
        if found.len() >= last || found.len() == before || results.next.is_empty() {
            break;
        }
        let pairs: Vec<(&str, &str)> =
            results.next.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        url = with(from.clone(), &pairs);
    }
    Ok(Ok(found.into_iter().skip(first).take(question.limit).collect()))
}

/// Fetches one page, and retries once after a pause if it is blocked.
async fn turn(cx: &Cx, url: Url) -> Result<Came, Fault> {
    let mut request = Request::get(url);
    let own = [(header::ACCEPT, "text/html"), (header::ACCEPT_LANGUAGE, "en, *;q=0.5")];
    for (name, value) in own {
        request.headers.insert(name, header::HeaderValue::from_static(value));
    }
    pace(cx).await?;
    let answer = once(cx, request.clone()).await?;
    let pause = answer.pause();
    match (read(cx, answer).await?, pause) {
        (Came::Blocked(_), Some(pause)) => {
            wait(cx, pause).await?;
            read(cx, once(cx, request).await?).await
        }
        (came, _) => Ok(came),
    }
}

async fn read(cx: &Cx, answer: Answer) -> Result<Came, Fault> {
    let page = ReadResults { status: answer.status };
    Ok(cx.decode("the page of results", page, answer.body).await?.answer)
}

/// Parses a page of results.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReadResults {
    /// The status of the answer.
    status: u16,
}

impl Decoder for ReadResults {
    type Answer = Came;

    const NAME: &'static str = "web_results";

    fn decode(self, data: Vec<u8>) -> Result<Decoded<Came>, Fault> {
        Ok(found(self.status, &data).into())
    }
}

fn blocked(how: &str) -> Fault {
    Fault::new(Kind::Unavailable, format!("DuckDuckGo turns us away for now ({how})")).hint(
        "Search again in some minutes; a person can name another `engine` in `[search]` of haft.toml\
         [?; `tool:web_fetch` reads a page whose address is known?].",
    )
}

fn found(status: u16, body: &[u8]) -> Came {
    let html = String::from_utf8_lossy(body);
    if html.contains("anomaly-modal") || html.contains("anomaly.js") || html.contains("challenge-form") {
        return Came::Blocked("it asks whether we are a robot".to_owned());
    }
    match status {
        200 => {}
        status => return Came::Blocked(format!("status {status}")),
    }
    let document = Document::from(html.as_ref());
    let hits = hits(&document);
    let says_none = document.select(".no-results, .result--no-result").exists()
        || html.contains("No results.")
        || html.contains("No more results")
        || html.contains("No  results.");
    if hits.is_empty() && !says_none {
        return Came::Changed;
    }
    Came::Results(Results { hits, next: next(&document) })
}

/// Returns the results in either of the two layouts.
fn hits(document: &Document) -> Vec<Hit> {
    let mut hits = Vec::new();
    for result in document.select(".result:not(.result--ad)").nodes() {
        let [title, snippet] = [".result__a", ".result__snippet"]
            .map(|it| dom_query::Selection::from(*result).select(it).nodes().first().copied());
        hits.extend(title.and_then(|title| hit(&title, snippet)));
    }
    if !hits.is_empty() {
        return hits;
    }
    // A table, with a row for the title and one for the snippet.
    let rows = document.select("tr:not(.result-sponsored)");
    let mut title: Option<NodeRef<'_>> = None;
    for row in rows.nodes() {
        let row = dom_query::Selection::from(*row);
        if let Some(link) = row.select("a.result-link").nodes().first() {
            hits.extend(title.replace(*link).and_then(|it| hit(&it, None)));
        } else if let Some(snippet) = row.select("td.result-snippet").nodes().first() {
            hits.extend(title.take().and_then(|it| hit(&it, Some(*snippet))));
        }
    }
    hits.extend(title.and_then(|it| hit(&it, None)));
    hits
}

fn hit(title: &NodeRef<'_>, snippet: Option<NodeRef<'_>>) -> Option<Hit> {
    let url = target(&title.attr("href")?)?;
    Some(Hit {
        title: title.text().to_string(),
        url,
        snippet: snippet.map(|it| it.text().to_string()).unwrap_or_default(),
    })
}

/// Returns the target of a result, which is wrapped in its address; `None` for an advertisement.
fn target(href: &str) -> Option<String> {
    let url = Url::parse("https://duckduckgo.com/").ok()?.join(href).ok()?;
    let is_theirs =
        url.host_str().is_some_and(|it| it == "duckduckgo.com" || it.ends_with(".duckduckgo.com"));
    if is_theirs && url.path() == "/y.js" {
        return None;
    }
    let wrapped = url.query_pairs().find(|(name, _)| name == "uddg").map(|(_, value)| value.into_owned());
    let target = match wrapped {
        Some(wrapped) if is_theirs => Url::parse(&wrapped).ok()?,
        _ => url,
    };
    let is_ad = target.host_str() == Some("duckduckgo.com") && target.path() == "/y.js";
    (matches!(target.scheme(), "http" | "https") && !is_ad).then(|| target.to_string())
}

/// Returns the fields of the form behind "Next".
fn next(document: &Document) -> Vec<(String, String)> {
    for form in document.select("form").nodes() {
        let form = dom_query::Selection::from(*form);
        let is_next = form
            .select("input[type=submit]")
            .iter()
            .any(|it| it.attr_or("value", "").trim_start().starts_with("Next"));
        if is_next {
            let hidden = form.select("input[type=hidden]");
            let pair =
                |it: &NodeRef<'_>| Some((it.attr("name")?.to_string(), it.attr_or("value", "").to_string()));
            return hidden.nodes().iter().filter_map(pair).collect();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_wrappers_of_results_are_removed() {
        let wrapped = "//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2Fx%3Fy%3D1%26z&rut=abc";
        assert_eq!(target(wrapped).as_deref(), Some("https://a.example/x?y=1&z"));
        assert_eq!(target("https://b.example/").as_deref(), Some("https://b.example/"));
        let ad = "https://duckduckgo.com/y.js?ad_domain=c.example&ad_provider=bingv7aa";
        assert_eq!(target(ad), None);
        assert_eq!(target("//duckduckgo.com/l/?uddg=javascript%3Aalert(1)"), None);
        // Another host's parameter of the same name is ignored.
        assert_eq!(target("https://d.example/?uddg=x").as_deref(), Some("https://d.example/?uddg=x"));
    }
}
