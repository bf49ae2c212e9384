//! `search_memory` as KohakuTerrarium has it: earlier messages of this session.

use kit::{prelude::*, services::FoundMessage};

use crate::notes::{clipped, day};

/// Default and maximum number of results, and maximum characters of each.
const LIMIT: usize = 5;
const MOST: usize = 50;
const SHOWN: usize = 2_000;

/// Search this session's history.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchMemory {
    /// The query.
    query: String,
    /// auto (default) and fts search by words; semantic and hybrid fall back to that.
    #[serde(default)]
    mode: Mode,
    /// Most results. Default: 5.
    #[serde(default, alias = "limit")]
    k: Option<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Auto,
    Fts,
    Semantic,
    Hybrid,
}

impl Tool for SearchMemory {
    const NAME: &str = "search_memory";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| {
            if self.query.trim().is_empty() {
                return Err(Fault::bad_args("Query is required"));
            }
            let found = cx.notes().find_messages(&self.query, self.k.unwrap_or(LIMIT).clamp(1, MOST))?;
            let mut text = format!("Found {} result(s) for: {}", found.len(), clipped(&self.query, 200));
            let asked = match self.mode {
                Mode::Fts => None,
                Mode::Auto => Some("auto"),
                Mode::Semantic => Some("semantic"),
                Mode::Hybrid => Some("hybrid"),
            };
            if let Some(asked) = asked {
                text.push_str(&format!(
                    "\n(mode {asked}: searched by words, fts; there is no semantic index)"
                ));
            }
            for (at, it) in found.iter().enumerate() {
                text.push_str(&format!("\n{}", line(at + 1, it)));
            }
            Ok(Output::text(text))
        })
        .await
    }
}

fn line(at: usize, it: &FoundMessage) -> String {
    format!("{at}. [{}, {}, #{}] {}", it.who, day(it.at_ms), it.place, clipped(&it.text, SHOWN))
}
