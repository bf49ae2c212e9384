//! `memory`: notes for later sessions.

use kit::{prelude::*, services::Fact};

use super::{clipped, day};

/// Limits: bytes of a fact, its tags, characters of a tag.
const BYTES: usize = 4 << 10;
const TAGS: usize = 10;
const TAG: usize = 50;

/// Default and maximum number of facts that are shown.
const LIMIT: usize = 10;
const MOST: usize = 50;

/// Facts that outlive this session, for all work in this workspace.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Memory {
    #[serde(alias = "op")]
    /// The action.
    action: Action,
    /// For `save`: one fact.
    #[serde(default, alias = "fact")]
    content: Option<String>,
    /// For `save`.
    #[serde(default)]
    tags: Vec<String>,
    /// For `search`: words. Default: the newest.
    #[serde(default)]
    query: String,
    /// For `search`. Default: 10.
    #[serde(default)]
    limit: Option<usize>,
    /// For `forget`: its number.
    #[serde(default, alias = "number")]
    id: Option<u64>,
}

/// The action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Save,
    Search,
    Forget,
}

impl Tool for Memory {
    const NAME: &str = "memory";
    const AT_MOST: Kinds = Kinds::SESSION;

    fn touches(&self) -> Touches {
        if self.action == Action::Search { Touches::none() } else { Touches::session("memory") }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| {
            let text = match self.action {
                Action::Save => self.save(cx)?,
                Action::Search => self.search(cx)?,
                Action::Forget => {
                    let Some(number) = self.id else {
                        return Err(Fault::bad_args("`forget` needs `id`, the number of a fact")
                            .next("`search` shows the numbers."));
                    };
                    format!("forgot {}", line(&cx.notes().forget(number)?))
                }
            };
            Ok(Output::text(text))
        })
        .await
    }
}

impl Memory {
    fn save(self, cx: &Cx) -> Result<String, Fault> {
        let Some(fact) = self.content.filter(|it| !it.trim().is_empty()) else {
            return Err(Fault::bad_args("`save` needs `content`, the fact"));
        };
        if fact.len() > BYTES {
            let what = format!("the fact has {} bytes; {BYTES} is the most", fact.len());
            return Err(Fault::new(Kind::TooBig, what)
                .next("Say it shorter, or keep it in a file and save its path."));
        }
        let tags: Vec<String> = self
            .tags
            .iter()
            .filter(|it| !it.trim().is_empty())
            .take(TAGS)
            .map(|it| clipped(it, TAG))
            .collect();
        Ok(format!("remembered as fact {}", cx.notes().remember(&fact, &tags)?))
    }

    fn search(&self, cx: &Cx) -> Result<String, Fault> {
        let limit = self.limit.unwrap_or(LIMIT).clamp(1, MOST);
        let found = cx.notes().recall(&self.query, limit)?;
        if found.is_empty() && self.query.trim().is_empty() {
            return Ok("nothing is remembered yet".to_owned());
        }
        if found.is_empty() {
            return Ok(format!("no fact answers to `{}`", clipped(&self.query, 200)));
        }
        Ok(found.iter().map(line).collect::<Vec<_>>().join("\n"))
    }
}

/// Formats `3 (2026-05-01, build): The tests need a database.`
fn line(fact: &Fact) -> String {
    let tags: String = fact.tags.iter().map(|it| format!(", {it}")).collect();
    format!("{} ({}{tags}): {}", fact.number, day(fact.at_ms), fact.text)
}
