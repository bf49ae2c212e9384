//! `web_fetch` as KohakuTerrarium has it.

use std::time::Duration;

use kit::prelude::*;

use crate::web::web_fetch;

/// Fetch a page as readable Markdown with numbered links; PDF, JSON, feeds and text as text. Long pages come in parts: the last line of an answer says how to continue.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct WebFetch(web_fetch::WebFetch);

impl Tool for WebFetch {
    const NAME: &str = "web_fetch";
    const AT_MOST: Kinds = <web_fetch::WebFetch as Tool>::AT_MOST;

    fn touches(&self) -> Touches {
        self.0.touches()
    }

    fn address(&self) -> Address {
        self.0.address()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.0.time_limit()
    }

    fn title(&self) -> String {
        self.0.title()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        // KohakuTerrarium tries one backend after another, and only reports that all failed; here the reason is kept.
        self.0.run(cx).await.map_err(|fault| match fault.kind {
            Kind::Unavailable | Kind::Timeout | Kind::NotFound | Kind::Failed => {
                Fault { what: format!("Failed to fetch URL. {}", fault.what), ..fault }
            }
            _ => fault,
        })
    }
}
