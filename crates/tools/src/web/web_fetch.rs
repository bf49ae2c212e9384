//! `web_fetch`: shows the content of an address as text.

mod article;
mod charset;
mod code;
mod content;
mod devtools;
mod feed;
mod get;
mod hidden;
mod markdown;
mod pdf;
mod render;
mod robots;
mod table;
mod text;
mod tidy;

use std::time::Duration;

use kit::{Part as Shown, net::Url, prelude::*};

use super::address;
use article::Part;
pub(crate) use content::ReadAsText;
use render::{Picture, Rendered};
use text::{Page, Pages, Text};

/// Time limit of a page, with everything that it loads.
const LONGEST: Duration = Duration::from_secs(90);

/// Maximum time to wait after a page has loaded.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Fetch a page as Markdown with numbered links; PDF, JSON, feeds and text as text. Long pages come in parts: the last line of an answer says how to continue.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebFetch {
    /// Address; `https://` if no scheme is named.
    url: String,
    /// First line to show, from 1.
    #[serde(default)]
    offset: Option<usize>,
    /// Lines to show. Default: about 20,000 bytes.
    #[serde(default)]
    limit: Option<usize>,
    /// The whole page, with menus and all that is around the text.
    #[serde(default)]
    raw: bool,
    /// Run the page's scripts first, in a headless Chromium.
    #[serde(default)]
    render: bool,
    /// Render, and wait this long for late content.
    #[serde(default)]
    wait_ms: Option<u64>,
    /// Also show a picture of the rendered page.
    #[serde(default)]
    screenshot: bool,
    /// Only if the site's robots.txt allows it.
    #[serde(default)]
    robots: bool,
}

impl Tool for WebFetch {
    const NAME: &str = "web_fetch";
    const AT_MOST: Kinds = Kinds::WEB.with(Kinds::RUN);

    fn touches(&self) -> Touches {
        let Ok(url) = address::parse(&self.url) else { return Touches::none() };
        let touches = Touches::none().and(address::looks_at(&url));
        if self.renders() { touches.and(Touch::Run("chromium".to_owned())) } else { touches }
    }

    fn address(&self) -> Address {
        address::parse(&self.url).map_or(Address::Composed, Address::Plain)
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(LONGEST)
    }

    fn title(&self) -> String {
        self.url.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        let url = address::parse(&self.url)?;
        let offset = self.offset;
        if offset == Some(0) || self.limit == Some(0) {
            return Err(Fault::bad_args("lines are counted from 1, and `limit` is at least 1"));
        }
        let fragment = url.fragment().map(str::to_owned);
        let pages = cx.shelf().get::<Pages>();
        let asked = format!("{url} {} {} {}", self.raw, self.renders(), self.wait_ms.unwrap_or(0));
        // A further page is read from the text that was fetched before.
        if let Some(offset) = offset.filter(|it| *it > 1)
            && let Some(page) = pages.find(&asked)
        {
            return Ok(Output::page(page.show(offset, self.limit)?));
        }
        if self.robots {
            robots::check(cx, &url).await?;
        }
        let mut picture = None;
        let wait = Duration::from_millis(self.wait_ms.unwrap_or(0)).min(LONGEST_WAIT);
        let mut got = if self.renders() {
            match render::render(cx, &url, self.screenshot, wait).await? {
                Rendered::Page(got, shot) => {
                    picture = shot;
                    *got
                }
                Rendered::NoPage(note) => {
                    let mut got = get::get(cx, url).await?;
                    got.notes.push(note);
                    got
                }
            }
        } else {
            get::get(cx, url).await?
        };
        let part = if self.raw { Part::Whole } else { Part::Article };
        if got.url.fragment().is_none() {
            got.url.set_fragment(fragment.as_deref());
        }
        let from = got.url.clone();
        let is_early = got.rendered && self.wait_ms.is_none();
        let mut text = content::read(cx, got, part).await?;
        if is_early && text.body.len() < LITTLE {
            text.notes.push("there is little text: `wait_ms: 5000` waits for what comes late".to_owned());
        }
        let notes = text.notes.iter().map(|it| cx.named(it));
        text.notes = notes.filter(|it| !it.is_empty()).collect();
        let page = pages.keep(Page::new(asked, from, text));
        let mut output = Output::page(page.show(offset.unwrap_or(page.named()), self.limit)?);
        if let Some(Picture { mime, data }) = picture {
            output.parts.push(Shown::Image { mime: mime.to_owned(), data });
        }
        Ok(output)
    }
}

impl WebFetch {
    fn renders(&self) -> bool {
        self.render || self.screenshot || self.wait_ms.is_some()
    }
}

/// A rendered page with less text may still be loading.
const LITTLE: usize = 150;

/// Converts a page to Markdown as a whole: `web_fetch` shows it part by part.
pub fn page_as_markdown(html: &str, url: &Url) -> String {
    let Text { title, body, .. } = article::read(html, url, Part::Article);
    format!("# {title}\n\n{body}")
}
