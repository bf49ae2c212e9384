//! `haft trust`: trust in a workspace's haft.toml, its tools and its MCP servers, pinned to their content.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use kit::{Fault, Kind};
use runtime::{
    config::{Config, DOT_MCP, FILE, ToolSection, Trust as Trusted, has_hooks, servers_text, workspace_text},
    plugins::{Attestation, OWN, Whose, adopt},
};

use super::close;
use crate::{Options, Place, options::tool_folders, print};

#[derive(Args)]
pub struct Trust {
    /// Trust only these tools, as their files are now, and print what they are granted
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Stop trusting this workspace
    #[arg(long, conflicts_with = "names")]
    end: bool,
}

impl Trust {
    /// # Errors
    /// When there is nothing to trust, it can't be read, or the trust can't be saved.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        if self.end {
            return end(&options.workspace()?, place);
        }
        if self.names.is_empty() { trust_workspace(options, place) } else { self.vouch(options, place).await }
    }

    async fn vouch(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        opened.runtime.plugins().refreshed().await;
        let vouched = self.names.iter().map(|name| Ok((name, opened.runtime.plugins().vouch(name)?)));
        let vouched: Result<Vec<_>, Fault> = vouched.collect();
        close(&opened.runtime);
        let text: String = vouched?.iter().map(|(name, vouched)| as_text(name, vouched)).collect();
        print::out(&text);
        for line in &opened.aside {
            print::err(&format!("haft: {line}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns a trusted tool's files, and its permissions.
fn as_text(name: &str, vouched: &Attestation) -> String {
    let mut text = format!("trusted until it changes: {name}\n");
    vouched.files.iter().for_each(|file| text.push_str(&format!("{file}\n")));
    let granted = vouched.section.as_ref().map(granted).unwrap_or_default();
    if granted.is_empty() {
        text.push_str(&format!("no permissions: there is no `[tool.{name}]`\n"));
    } else {
        text.push_str(&format!("permissions from `[tool.{name}]`: {}\n", granted.join("; ")));
    }
    text
}

fn granted(section: &ToolSection) -> Vec<String> {
    let paths = |paths: &[PathBuf]| paths.iter().map(|it| it.display().to_string()).collect::<Vec<_>>();
    let lists = [
        ("net", section.net.clone()),
        ("read", paths(&section.read)),
        ("write", paths(&section.write)),
        ("env", section.env.clone()),
    ];
    let lists = lists.into_iter().filter(|(_, values)| !values.is_empty());
    let replaces = section.replaces_built_in.then(|| "replaces the built-in tool of its name".to_owned());
    lists.map(|(what, values)| format!("{what} {}", values.join(", "))).chain(replaces).collect()
}

fn trust_workspace(options: &Options, place: &Place) -> Result<ExitCode, Fault> {
    let workspace = options.workspace()?;
    let file = workspace.join(FILE);
    let text = match workspace_text(&workspace) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            let what = format!("nothing was trusted: can't read `{}`: {error}", file.display());
            return Err(Fault::new(Kind::Unavailable, what));
        }
    };
    // A file that is not a valid configuration names no folders; haft reports it when the file is used.
    let more = Config::read_workspace(&workspace).map(|it| it.tools_dirs).unwrap_or_default();
    let (folders, aside) = tool_folders(place, &workspace, &more, Whose::Workspace);
    let own = folders.iter().any(|it| it.whose == Whose::Workspace && it.path.is_dir());
    let servers = servers_text(&workspace).map_err(|error| {
        Fault::new(Kind::Unavailable, format!("nothing was trusted: can't read `{DOT_MCP}`: {error}"))
    })?;
    let hooks = has_hooks(&workspace);
    if text.is_none() && !own && servers.is_none() && !hooks {
        return Err(Fault::not_found(format!(
            "nothing to trust in `{}`: it has no {FILE}, no {OWN}, no {DOT_MCP} and no hooks",
            workspace.display()
        )));
    }
    Trusted::in_state(&place.state).add(&workspace)?;
    let tools = adopt(&place.state, &workspace, &folders).map_err(|error| {
        let what = format!("the tools that a model wrote can't be trusted: {error}");
        Fault::new(Kind::Unavailable, what)
    })?;
    let mut said = String::new();
    if let Some(text) = text {
        said.push_str(&format!("trusted until it changes: {}\n{}\n", file.display(), text.trim_end()));
    }
    if let Some(text) = servers {
        let file = workspace.join(DOT_MCP);
        said.push_str(&format!("trusted until it changes: {}\n{}\n", file.display(), text.trim_end()));
        said.push_str("the first start of each of its servers still needs approval; `haft grants add 'server NAME@HASH'` gives it beforehand (the refusal names the hash)\n");
    }
    if hooks {
        let trusting = Options { trust: true, ..options.clone() };
        let found = trusting.hooks_of(place, &workspace);
        let of_workspace: Vec<_> = found
            .hooks
            .list()
            .iter()
            .filter(|it| it.whose == runtime::hooks::Whose::Workspace)
            .cloned()
            .collect();
        said.push_str("trusted until they or the files that they run change: the hooks of this workspace\n");
        said.push_str(&super::hooks::listed(&of_workspace));
    }
    if !tools.is_empty() {
        said.push_str("trusted, with every later change: the tools of this workspace; `[tool.NAME]` applies to their current content only\n");
    }
    for tool in tools {
        let by_model =
            if tool.by_model { "  (written by a model or a tool; trusted from now on)" } else { "" };
        said.push_str(&format!("{}{by_model}\n", tool.file));
    }
    // The text came with the workspace, and the person decides by it.
    print::out(&said);
    for line in aside {
        print::err(&format!("haft: {line}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the trust. A haft that serves the workspace drops its tools at once; running calls finish.
fn end(workspace: &Path, place: &Place) -> Result<ExitCode, Fault> {
    let shown = workspace.display();
    print::out(&match Trusted::in_state(&place.state).end(workspace)? {
        true => format!("no longer trusted: {shown}"),
        false => format!("was not trusted: {shown}"),
    });
    Ok(ExitCode::SUCCESS)
}
