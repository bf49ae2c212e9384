//! `delete_tool`: deletes a tool file of the workspace.

use kit::{
    Origin, Spec,
    files::Proposal,
    model_tools::{OWN, own_files},
    prelude::*,
    services::Listed,
};

use super::{enabled, find, is_own, shown_path, unknown};

/// Maximum size of a file that is deleted, so that it can be restored.
const LARGEST: u64 = 16 << 20;

/// Delete a Python tool of this workspace. Its data stays.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteTool {
    /// The tool.
    name: String,
}

impl Tool for DeleteTool {
    const NAME: &str = "delete_tool";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::none().and(Touch::Tool(self.name.clone()))
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let [path, list] = own_files(&self.name)?;
        let name = self.name.clone();
        let others = cx
            .blocking(move |cx| {
                let listed = cx.tools().list();
                if !cx.files().exists(&path)? {
                    return Err(not_to_be_deleted(cx, &listed, &name));
                }
                let before = cx.files().load(&path, LARGEST)?;
                let planned = enabled::removing(cx, &list, &name)?;
                let remove = Proposal::Remove { path: &path, before: &before };
                let both: Vec<Proposal<'_>> = [remove].into_iter().chain(planned.proposal()).collect();
                cx.files().propose(&both)?;
                cx.files().remove(&path, &before)?;
                planned.land(cx)?;
                Ok(left(cx, &name))
            })
            .await?;
        let mut text = format!("Deleted {OWN}/{}.py.", self.name);
        text.push_str(&cx.named("[? `tool:undo` brings it back.?]"));
        if !others.is_empty() {
            text.push_str(&format!("\nStill there: {}", others.join(", ")));
        }
        if let Err(fault) = cx.tools().rewritten(&self.name).await {
            text.push_str(&format!("\nnote: {}", fault.as_text()));
        }
        Ok(Output::text(text))
    }
}

/// Explains why a tool is not a file that may be deleted here.
fn not_to_be_deleted(cx: &Cx, listed: &Listed, name: &str) -> Fault {
    match find(listed, name) {
        None => unknown(cx, listed, name),
        Some(Spec { origin: Origin::Program | Origin::Provider, .. }) => {
            Fault::denied(format!("`{name}` is part of haft; only a workspace's own tools are deleted"))
        }
        Some(Spec { origin: Origin::Server(server), .. }) => Fault::denied(format!(
            "`{name}` is a tool of the server `{server}`; only a workspace's own tools are deleted"
        )),
        Some(spec @ Spec { origin: Origin::File(path), .. }) => {
            let file = shown_path(cx, path);
            let own = cx.files().roots().workspace().join(OWN);
            let fault = if is_own(cx, spec) {
                return Fault::new(Kind::Stale, format!("`{file}` is gone already"))
                    .hint("[?`tool:reload_tools` sees it.?]");
            } else if path.parent() == Some(&own) && path.extension().is_some_and(|it| it == "py") {
                let stem = path.file_stem().unwrap_or_default().display();
                return Fault::denied(format!("`{name}` is one of the tools in {file}"))
                    .next(format!("That file is deleted as `{stem}`, with all that is in it."));
            } else if path.starts_with(&own) {
                Fault::denied(format!("`{name}` is {file}, which is not a single Python file"))
            } else {
                Fault::denied(format!("`{name}` is {file}, which is not among this workspace's own tools"))
            };
            fault.next("A person can delete it.")
        }
    }
}

/// Returns the files beside the tool that seem to belong to it: data, a manual, a test.
fn left(cx: &Cx, name: &str) -> Vec<String> {
    let is_its = |file: &str| {
        let rest = file.strip_prefix("_test_").unwrap_or(file).strip_prefix(name);
        let is_a_tool = file.ends_with(".py") && !file.starts_with('_');
        rest.is_some_and(|rest| rest.starts_with(['.', '_', '-'])) && !is_a_tool
    };
    let entries = cx.files().list(OWN).unwrap_or_default();
    let names = entries.into_iter().filter_map(|it| it.name.into_string().ok());
    let mut left: Vec<String> = names.filter(|it| is_its(it)).map(|it| format!("{OWN}/{it}")).collect();
    left.sort_unstable();
    left
}
