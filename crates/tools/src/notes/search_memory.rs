//! `search_memory`: searches earlier messages of this session.

use kit::{prelude::*, services::FoundMessage};

use super::{clipped, day};

/// Default and maximum number of results.
const LIMIT: usize = 5;
const MOST: usize = 50;

/// Search this session's messages, including compacted ones.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchMemory {
    /// Words; the best answers come first.
    query: String,
    /// Default: 5.
    #[serde(default)]
    limit: Option<usize>,
}

impl Tool for SearchMemory {
    const NAME: &str = "search_memory";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| {
            let found = cx.notes().find_messages(&self.query, self.limit.unwrap_or(LIMIT).clamp(1, MOST))?;
            if found.is_empty() {
                let what = format!("nothing that was said here answers to `{}`", clipped(&self.query, 200));
                return Ok(Output::text(what));
            }
            Ok(Output::text(found.iter().map(line).collect::<Vec<_>>().join("\n")))
        })
        .await
    }
}

/// Formats `12 person, 2026-05-01: Why is the build red?`
fn line(it: &FoundMessage) -> String {
    format!("{} {}, {}: {}", it.place, it.who, day(it.at_ms), it.text)
}
