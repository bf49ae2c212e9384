//! Brave Search: requests, and results from its JSON.

use kit::{Cx, Fault, net::Request};

use super::{
    Hit, Question,
    ask::{ask, at, changed, hits, keyed, pace, with},
};

/// Its name in `[search]`.
pub(super) const NAME: &str = "brave";

pub(super) async fn search(cx: &Cx, question: &Question<'_>) -> Result<Vec<Hit>, Fault> {
    let url = match &question.url {
        Some(url) => url.clone(),
        None => at("https://api.search.brave.com/res/v1/web/search")?,
    };
    let (count, offset) = (question.limit.to_string(), (question.page - 1).to_string());
    let (country, language) = question.region.map_or(("", ""), |it| (it.country, it.language));
    let pairs = [
        ("q", question.query),
        ("count", &count),
        ("offset", &offset),
        ("country", country),
        ("search_lang", language),
    ];
    let mut request = Request::get(with(url, &pairs));
    let key = keyed(cx, &request.url, question.key, "Brave", "")?;
    request.headers.insert("x-subscription-token", key);
    request.headers.insert("accept", kit::net::header::HeaderValue::from_static("application/json"));
    pace(cx).await?;
    let answered = ask(cx, request).await?.json("Brave")?;
    match answered.get("web").and_then(|it| it.get("results")) {
        Some(list) => hits(list, "description").ok_or_else(|| changed("Brave")),
        // Without results that part is absent.
        None if answered.get("query").is_some() => Ok(Vec::new()),
        None => Err(changed("Brave")),
    }
}
