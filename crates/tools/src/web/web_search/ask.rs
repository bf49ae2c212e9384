//! Requests to search engines, with a rate limit.

use std::time::Duration;

use kit::{
    Cx, Fault, Kind, OrFault,
    net::{Request, Url, header},
};
use serde_json::Value;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, sleep_until},
};

use super::Hit;

/// Maximum size of an answer.
const LONGEST: usize = 4 << 20;

/// Default pause before a retry, and the longest that an engine may request.
const PAUSE: Duration = Duration::from_millis(1_500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Minimum time between two searches of this process.
const PACE: Duration = Duration::from_secs(1);

/// The engine's name, and the usual reason why it does not answer in JSON.
const SEARXNG: &str = "SearXNG";
const FORMATS: &str = "A person has to put `json` into `formats` of `search` in its settings.yml.";

/// An engine's answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    pause: Option<Duration>,
}

/// Waits for the rate limit.
pub(super) async fn pace(cx: &Cx) -> Result<(), Fault> {
    static NEXT: Mutex<Option<Instant>> = Mutex::const_new(None);
    let mut next = NEXT.lock().await;
    if let Some(at) = *next {
        tokio::select! {
            () = sleep_until(at) => {}
            () = cx.cancelled() => return Err(Fault::new(Kind::Cancelled, "the search was stopped")),
        }
    }
    *next = Some(Instant::now() + PACE);
    Ok(())
}

/// Sends a request, and retries once after a pause if the engine is busy.
pub(super) async fn ask(cx: &Cx, request: Request) -> Result<Answer, Fault> {
    let answer = once(cx, request.clone()).await?;
    if !matches!(answer.status, 429 | 503) {
        return Ok(answer);
    }
    match answer.pause() {
        Some(pause) => {
            wait(cx, pause).await?;
            once(cx, request).await
        }
        None => Ok(answer),
    }
}

/// Sends a request once.
pub(super) async fn once(cx: &Cx, mut request: Request) -> Result<Answer, Fault> {
    let who = header::HeaderValue::from_static(concat!(
        "Mozilla/5.0 (compatible; haft/",
        env!("CARGO_PKG_VERSION"),
        ")"
    ));
    request.headers.entry(header::USER_AGENT).or_insert(who);
    request.within = Duration::from_secs(20);
    request.stays = true;
    let host = request.url.host_str().unwrap_or_default().to_owned();
    let mut answer = cx.net().send(request).await.map_err(|fault| unreached(fault, &host))?;
    let pause = answer.headers.get(header::RETRY_AFTER).and_then(|it| it.to_str().ok()?.trim().parse().ok());
    let (body, _) = answer.up_to(LONGEST).await?;
    Ok(Answer { status: answer.status.as_u16(), body, pause: pause.map(Duration::from_secs) })
}

/// Rewrites a network fault: the model did not choose the engine's address.
fn unreached(fault: Fault, host: &str) -> Fault {
    if !matches!(fault.kind, Kind::Unavailable | Kind::Timeout) {
        return fault;
    }
    Fault::new(fault.kind, format!("the search engine at {host} can't be reached: {}", fault.what)).hint(
        "There may be no network here. A person can name another `engine` in `[search]`, or a `proxy` in `[net]`\
         [?; `tool:web_fetch` reads a page whose address is known?].",
    )
}

/// Waits for this time, or for the cancellation.
pub(super) async fn wait(cx: &Cx, pause: Duration) -> Result<(), Fault> {
    tokio::select! {
        () = sleep(pause) => Ok(()),
        () = cx.cancelled() => Err(Fault::new(Kind::Cancelled, "the search was stopped")),
    }
}

impl Answer {
    /// Returns the pause before a retry; `None`, if the engine requests too long a one.
    pub(super) fn pause(&self) -> Option<Duration> {
        Some(self.pause.unwrap_or(PAUSE)).filter(|it| *it <= LONGEST_PAUSE)
    }

    /// Parses the answer as JSON.
    pub(super) fn json(&self, engine: &str) -> Result<Value, Fault> {
        let says = || {
            let text = String::from_utf8_lossy(&self.body);
            let text = super::without_markup(&text.chars().take(2_000).collect::<String>());
            super::short(&text, 200)
        };
        let status = self.status;
        let next = match status {
            200..=299 => {
                let what = format!("{engine} answers what is not JSON");
                return serde_json::from_slice(&self.body)
                    .or_fault(Kind::Failed, &what)
                    .map_err(|fault| if engine == SEARXNG { fault.next(FORMATS) } else { fault });
            }
            403 if engine == SEARXNG => FORMATS.to_owned(),
            401 | 403 => {
                "A person has to look at the `key` of `[search]` in haft.toml, and at what it may do."
                    .to_owned()
            }
            429 | 503 => match self.pause {
                Some(pause) => format!("Its limit is reached: search again after {} s.", pause.as_secs()),
                None => "Its limit is reached: search later.".to_owned(),
            },
            402 | 432 | 433 => "Its quota is used up; a person has to look at it.".to_owned(),
            _ => "Search again later.".to_owned(),
        };
        let kind = if matches!(status, 401..=403) { Kind::Failed } else { Kind::Unavailable };
        let what = format!("{engine} answers {status}: {}", says());
        Err(Fault::new(kind, what.trim_end_matches([':', ' '])).next(next))
    }
}

/// Parses the results from a list of objects with these names.
pub(super) fn hits(list: &Value, snippet: &str) -> Option<Vec<Hit>> {
    let text = |it: &Value, name: &str| {
        super::without_markup(it.get(name).and_then(Value::as_str).unwrap_or_default())
    };
    let hit = |it: &Value| {
        let url = it.get("url")?.as_str()?.to_owned();
        Some(Hit { title: text(it, "title"), url, snippet: text(it, snippet) })
    };
    Some(list.as_array()?.iter().filter_map(hit).collect())
}

/// Returns the fault for an answer in an unknown format.
pub(super) fn changed(engine: &str) -> Fault {
    Fault::new(Kind::Failed, format!("{engine} answers in a form that is not known: it has changed, and nothing was found in it"))
        .hint("A person can name another `engine` in `[search]` of haft.toml[?; `tool:web_fetch` reads a page whose address is known?].")
}

/// Adds these pairs to an address as its query.
pub(super) fn with(mut url: Url, pairs: &[(&str, &str)]) -> Url {
    url.query_pairs_mut().extend_pairs(pairs.iter().filter(|it| !it.1.is_empty()));
    url
}

/// Parses a constant address.
pub(super) fn at(text: &str) -> Result<Url, Fault> {
    Url::parse(text).map_err(|error| Fault::bug(format!("`{text}` is not an address: {error}")))
}

/// Returns the header with the configured key, for this address.
pub(super) fn keyed(
    cx: &Cx,
    url: &Url,
    key: Option<&str>,
    engine: &str,
    before: &str,
) -> Result<header::HeaderValue, Fault> {
    let Some(name) = key else {
        return Err(Fault::new(Kind::Unavailable, format!("{engine} wants a key, and `[search]` names none")).next(
            "A person names it in haft.toml: `key = \"NAME\"` in `[search]`, and `[secret.NAME]` with `env` or `file`, and `hosts`.",
        ));
    };
    let (host, port) = kit::net::host_of(url)?;
    let value = format!("{before}{}", cx.vault().reveal(name, &host, port)?);
    let mut value = header::HeaderValue::from_str(&value).map_err(|_| {
        Fault::new(Kind::Unavailable, format!("the secret `{name}` can't be sent in a header"))
    })?;
    value.set_sensitive(true);
    Ok(value)
}
