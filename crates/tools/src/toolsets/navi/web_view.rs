//! `web_view`: navi-1's name for `web_fetch`.

use std::time::Duration;

use kit::prelude::*;

use crate::web::web_fetch::WebFetch;

/// Fetch and render a page as readable Markdown with numbered links; PDF, JSON, feeds and text as text. Long pages come in parts: the last line of an answer says how to continue.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct WebView(WebFetch);

impl Tool for WebView {
    const NAME: &str = "web_view";
    const STANDS_FOR: &'static [StandsFor] = &[StandsFor::tool("web_fetch")];
    const AT_MOST: Kinds = <WebFetch as Tool>::AT_MOST;

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
        self.0.run(cx).await
    }
}
