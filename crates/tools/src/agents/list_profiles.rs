//! `list_profiles`: lists the profiles.

use kit::prelude::*;

/// List the profiles: agents with a prompt, a model and tools of their own.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListProfiles {}

impl Tool for ListProfiles {
    const NAME: &str = "list_profiles";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let profiles = cx.blocking(|cx| Ok(cx.agents().profiles())).await?;
        let mut lines: Vec<String> = Vec::new();
        for it in &profiles.known {
            let current = if it.current { " (yours)" } else { "" };
            lines.push(format!("{}{current}: {}", it.name, it.description));
        }
        if lines.is_empty() {
            lines.push("There are no profiles.".to_owned());
        }
        lines.extend(profiles.aside.iter().map(|it| format!("note: {it}")));
        Ok(Output::text(lines.join("\n")))
    }
}
