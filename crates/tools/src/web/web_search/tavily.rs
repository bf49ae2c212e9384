//! Tavily: requests, and results from its JSON.

use kit::{
    Cx, Fault,
    net::{Method, Request, header},
};
use serde_json::json;

use super::{
    Hit, MOST, Question,
    ask::{ask, at, changed, hits, keyed, pace},
};

/// Its name in `[search]`.
pub(super) const NAME: &str = "tavily";

pub(super) async fn search(cx: &Cx, question: &Question<'_>) -> Result<Vec<Hit>, Fault> {
    let url = match &question.url {
        Some(url) => url.clone(),
        None => at("https://api.tavily.com/search")?,
    };
    // It has no pages, so a longer list is requested.
    let (first, last) = ((question.page - 1) * question.limit, question.page * question.limit);
    if last > MOST {
        return Err(Fault::bad_args(format!(
            "Tavily gives {MOST} results and no more; page {} begins after them",
            question.page
        )));
    }
    let mut request = Request::new(Method::POST, url);
    let key = keyed(cx, &request.url, question.key, "Tavily", "Bearer ")?;
    request.headers.insert(header::AUTHORIZATION, key);
    request.headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    request.body =
        Some(json!({"query": question.query, "max_results": last}).to_string().into_bytes().into());
    pace(cx).await?;
    let answered = ask(cx, request).await?.json("Tavily")?;
    let found =
        answered.get("results").and_then(|it| hits(it, "content")).ok_or_else(|| changed("Tavily"))?;
    Ok(found.into_iter().skip(first).take(question.limit).collect())
}
