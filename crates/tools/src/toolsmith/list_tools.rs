//! `list_tools`: lists the tools.

use std::path::Path;

use kit::{Origin, prelude::*};

use super::{last_line, left_aside, shown_path};

/// List all tools, one line each, and the files of tools that could not be loaded.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListTools {}

impl Tool for ListTools {
    const NAME: &str = "list_tools";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        cx.tools().settled().await;
        let listed = cx.tools().list();
        let mut lines: Vec<String> = listed
            .tools
            .iter()
            .map(|spec| {
                let file = match &spec.origin {
                    Origin::Program => String::new(),
                    Origin::File(path) => format!(" [{}]", shown_path(cx, path)),
                    Origin::Server(server) => format!(" [server {server}]"),
                    Origin::Provider => " [run by the model's provider]".to_owned(),
                };
                format!("{}: {}{file}", spec.name, spec.gist())
            })
            .collect();
        if !listed.failed.is_empty() {
            lines.push(
                cx.named(&format!(
                    "Not loaded ({})[?, `tool:reload_tools` says more?]:",
                    listed.failed.len()
                )),
            );
        }
        lines.extend(listed.failed.iter().map(|it| {
            let older = if it.older_serves { " (its last good version stays in use)" } else { "" };
            format!(" {}: {}{older}", shown_path(cx, Path::new(&it.file)), last_line(&it.why))
        }));
        if listed.aside > 0 {
            lines.push(left_aside(listed.aside));
        }
        if lines.is_empty() {
            lines.push("no tools".to_owned());
        }
        Ok(Output::text(lines.join("\n")))
    }
}
