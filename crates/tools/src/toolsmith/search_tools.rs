//! `search_tools`: finds tools by what they do.

use kit::prelude::*;

use super::{CallTool, find, rank::rank};

/// Default and maximum number of tools in an answer.
const LIMIT: usize = 8;
const MOST: usize = 20;

/// Maximum number of tools with their schemas, and maximum bytes of those.
const WHOLE: usize = 3;
const BYTES: usize = 6_000;

/// Find tools by what they do, listed or not. The best come with their schemas, ready to call. Not listed are many for the
/// web, HTTP, Python, JSON, notebooks, terminals, jobs, undo, memory, SSH, pictures, 3D, MCP servers, timers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchTools {
    /// Purpose, in a few words.
    query: String,
    /// Default 8.
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
        cx.tools().settled().await;
        let mut listed = cx.tools().list();
        let by_name = find(&listed, CallTool::NAME).is_some();
        // The model that searches knows these two.
        listed.tools.retain(|it| ![Self::NAME, CallTool::NAME].contains(&&*it.name));
        let found = rank(&listed.tools, &self.query);
        let Some(best) = found.first() else {
            return Ok(Output::text(format!(
                "none of {} tools matches `{}`; {}",
                listed.tools.len(),
                self.query,
                cx.named("try other words[?, or `tool:list_tools`?]")
            )));
        };
        let mut lines = Vec::new();
        let (mut whole, mut left) = (0, BYTES);
        for (place, spec) in found.iter().take(limit).enumerate() {
            let schema = spec.schema.to_string();
            let bytes = schema.len() + spec.description.len();
            // The best one always has its schema.
            if place == 0 || (whole < WHOLE && bytes <= left) {
                lines.push(format!("{}: {}\n  schema: {schema}", spec.name, spec.description));
                (whole, left) = (whole + 1, left.saturating_sub(bytes));
            } else {
                lines.push(format!("{}: {}", spec.name, spec.gist()));
            }
        }
        if found.len() > limit {
            lines.push(format!("{} more match; a larger `limit` names them", found.len() - limit));
        }
        let example = if by_name {
            format!(", or as call_tool {{\"name\": \"{}\", \"arguments\": {{…}}}}", best.name)
        } else {
            String::new()
        };
        lines.push(format!("Call one by its name{example}."));
        Ok(Output::text(lines.join("\n")))
    }
}
