//! `info`: shows how a tool is used.

use kit::{Origin, prelude::*};

use super::{find, shown_path, unknown};

/// The manual of a tool.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Info {
    /// The tool.
    name: String,
}

impl Tool for Info {
    const NAME: &str = "info";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        explain(cx, &self.name, crate::manuals::manual).await
    }
}

/// Returns the manual of a tool: its schema, and its author's text; `of_program` gives that of built-in tools.
///
/// # Errors
/// [`Kind::NotFound`] when the tool does not exist.
pub(crate) async fn explain(
    cx: &Cx,
    name: &str,
    of_program: fn(&str) -> Option<&'static str>,
) -> Result<Output, Fault> {
    cx.check()?;
    let mut listed = cx.tools().list();
    if find(&listed, name).is_none() {
        cx.tools().settled().await;
        listed = cx.tools().list();
    }
    let Some(spec) = find(&listed, name) else {
        // Skills are read in the same way.
        return cx.agents().manual(name).map(Output::text).ok_or_else(|| unknown(cx, &listed, name));
    };
    let mut text = spec.manual();
    match &spec.origin {
        Origin::Program => {}
        Origin::File(path) => text.push_str(&format!("\nIt is the file {}.\n", shown_path(cx, path))),
        Origin::Server(server) => text.push_str(&format!("\nThe MCP server `{server}` has it.\n")),
        Origin::Provider => {
            text.push_str("\nThe model's provider runs it: it is used without a call.\n");
        }
    }
    let of_program =
        || of_program(name).filter(|_| spec.origin == Origin::Program).map(|manual| cx.named(manual));
    let written = cx.tools().manual(name).or_else(of_program);
    if let Some(written) = written {
        text.push('\n');
        text.push_str(written.trim_end());
        text.push('\n');
    }
    cx.tools().explained(name);
    Ok(Output::text(text))
}
