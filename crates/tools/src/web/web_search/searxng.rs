//! SearXNG: requests, and results from its JSON.

use kit::{
    Cx, Fault, Kind,
    net::{Request, Url},
};

use super::{
    Hit, Question,
    ask::{ask, changed, hits, pace, with},
};

/// Its name in `[search]`.
pub(super) const NAME: &str = "searxng";

/// Approximate number of results on one of its pages.
const ON_A_PAGE: usize = 10;

pub(super) async fn search(cx: &Cx, question: &Question<'_>) -> Result<Vec<Hit>, Fault> {
    let Some(base) = &question.url else {
        return Err(Fault::new(Kind::Unavailable, "`[search]` does not say where SearXNG is")
            .next("A person puts `url = \"https://…\"` into `[search]` of haft.toml."));
    };
    let address = format!("{}/search", base.as_str().trim_end_matches('/'));
    let url = Url::parse(&address)
        .map_err(|error| Fault::bad_args(format!("`{address}` is not an address: {error}")))?;
    let language = question
        .region
        .map(|it| format!("{}-{}", it.language, it.country.to_ascii_uppercase()))
        .unwrap_or_default();
    let (first, last) = ((question.page - 1) * question.limit, question.page * question.limit);
    let mut found: Vec<Hit> = Vec::new();
    for number in 1..=last.div_ceil(ON_A_PAGE) {
        let number = number.to_string();
        let asked = with(
            url.clone(),
            &[("q", question.query), ("format", "json"), ("pageno", &number), ("language", &language)],
        );
        pace(cx).await?;
        let answer = ask(cx, Request::get(asked)).await?;
        if answer.status == 403 {
            return Err(Fault::new(Kind::Unavailable, format!("the SearXNG at {base} gives no JSON (403)"))
                .next("Whoever runs it puts `json` into `search: formats:` of its settings.yml."));
        }
        let answered = answer.json("SearXNG")?;
        let list =
            answered.get("results").and_then(|it| hits(it, "content")).ok_or_else(|| changed("SearXNG"))?;
        let before = found.len();
        for hit in list {
            if !found.iter().any(|it| it.url == hit.url) {
                found.push(hit);
            }
        }
        if found.len() >= last || found.len() == before {
            break;
        }
    }
    Ok(found.into_iter().skip(first).take(question.limit).collect())
}
