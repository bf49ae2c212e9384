//! `search_tools`: which tool does this?

use kit::prelude::*;
use serde_json::json;

use super::rank::rank;

const LIMIT: usize = 5;
const MOST: usize = 20;

/// Find tools by what they do. Gives their whole schemas, best first, ready to call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchTools {
    /// What for, in a few words.
    query: String,
    /// Default 5.
    limit: Option<usize>,
}

impl Tool for SearchTools {
    const NAME: &str = "search_tools";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn title(&self) -> String {
        crate::shell::title(&self.query)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        let limit = self.limit.unwrap_or(LIMIT);
        if !(1..=MOST).contains(&limit) {
            return Err(Fault::bad_args(format!("`limit` is {limit}")).next(format!("Give 1 to {MOST}.")));
        }
        let tools = cx.tools().list().tools;
        let found = rank(&tools, &self.query);
        if found.is_empty() {
            return Ok(Output::text(format!(
                "none of {} tools matches `{}`; try other words, or `list_tools`",
                tools.len(),
                self.query
            )));
        }
        let mut lines: Vec<String> = found
            .iter()
            .take(limit)
            .map(|it| {
                json!({"name": it.name, "description": it.description, "inputSchema": it.schema}).to_string()
            })
            .collect();
        if found.len() > limit {
            lines.push(format!("{} more match; a larger `limit` shows them", found.len() - limit));
        }
        Ok(Output::text(lines.join("\n")))
    }
}
