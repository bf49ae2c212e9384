//! `haft trust`: is this workspace's haft.toml believed, and may its tools run?

use std::{path::Path, process::ExitCode};

use clap::Args;
use kit::{Fault, Kind};
use runtime::{
    config::{Config, FILE, Trust as Trusted, workspace_text},
    outside::{OWN, Whose, adopt, has_strange},
};

use crate::{Options, Place, options::tool_folders, print};

#[derive(Args)]
pub struct Trust {
    /// Trust it no more.
    #[arg(long)]
    end: bool,
}

impl Trust {
    /// # Errors
    /// When there is nothing to trust, it can't be read, or the list of trusted workspaces not be written.
    pub fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let workspace = options.workspace()?;
        if self.end {
            return end(&workspace, place);
        }
        let file = workspace.join(FILE);
        let text = match workspace_text(&workspace) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                let what = format!("nothing is trusted: can't read `{}`: {error}", file.display());
                return Err(Fault::new(Kind::Unavailable, what));
            }
        };
        // One that is no configuration names no folders; whoever uses it is told so.
        let more = Config::read_workspace(&workspace).map(|it| it.tools_dirs).unwrap_or_default();
        let folders = tool_folders(place, &workspace, &more, Whose::Workspace);
        let own = folders.iter().any(|it| it.whose == Whose::Workspace && it.path.is_dir());
        if text.is_none() && !own && !has_strange(&place.state, &workspace, &folders) {
            return Err(Fault::not_found(format!(
                "there is neither {FILE} nor {OWN} in `{}`, so nothing to trust",
                workspace.display()
            )));
        }
        Trusted::in_state(&place.state).add(&workspace)?;
        let tools = adopt(&place.state, &workspace, &folders).map_err(|error| {
            let what = format!("the tools that a model wrote can't be vouched for: {error}");
            Fault::new(Kind::Unavailable, what)
        })?;
        let mut said = String::new();
        if let Some(text) = text {
            said.push_str(&format!("trusted, until it changes: {}\n{}\n", file.display(), text.trim_end()));
        }
        if !tools.is_empty() {
            said.push_str("trusted, also when they change: the workspace's tools\n");
        }
        for tool in tools {
            let by_model =
                if tool.by_model { "  (written by a model or a tool; you vouch for it now)" } else { "" };
            said.push_str(&format!("{}{by_model}\n", tool.file));
        }
        print::out(&said);
        Ok(ExitCode::SUCCESS)
    }
}

/// Takes the trust back. A haft that serves the workspace drops its tools at once; calls under way end as they began.
fn end(workspace: &Path, place: &Place) -> Result<ExitCode, Fault> {
    let shown = workspace.display();
    print::out(&match Trusted::in_state(&place.state).end(workspace)? {
        true => format!("trusted no more: {shown}"),
        false => format!("was not trusted: {shown}"),
    });
    Ok(ExitCode::SUCCESS)
}
