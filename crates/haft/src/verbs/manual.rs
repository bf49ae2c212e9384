//! `haft manual`: the manual of a tool.

use std::{process::ExitCode, sync::Arc};

use clap::Args;
use kit::{
    Fault, Origin, Spec,
    references::{Named, rendered},
};
use runtime::{Catalog, Runtime, Unattended};

use super::{close, tools::first_sentence};
use crate::{Options, Place, options::Opened, print};

#[derive(Args)]
pub struct Manual {
    /// Name of the tool; without it, haft lists the tools that have a manual beyond their description
    tool: Option<String>,
}

impl Manual {
    /// # Errors
    /// When there is no such tool.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        opened.runtime.load_tools().await;
        let session = opened.runtime.session(None, "cli", Arc::new(Unattended));
        close(&opened.runtime);
        let catalog = session.catalog();
        let Some(name) = &self.tool else {
            print::out(&list(&opened, &catalog));
            return Ok(ExitCode::SUCCESS);
        };
        // Only agents and MCP clients have the tools of an agent, but a person can read their manuals.
        let of_agents = tools::of_agents(&opened.toolset);
        let of_agent = of_agents.iter().map(|it| it.spec()).find(|it| it.name == *name);
        let Some(spec) = catalog.get(name).map(|it| it.spec()).or(of_agent) else {
            let all: Vec<&str> = catalog.specs().map(|spec| spec.name.as_str()).collect();
            let agents: Vec<&str> = of_agents.iter().map(|it| it.spec().name.as_str()).collect();
            let mut next = match all.as_slice() {
                [] => "No tool is switched on here.".to_owned(),
                all => format!("The tools are: {}.", all.join(", ")),
            };
            if !agents.is_empty() {
                next.push_str(&format!(" Agents and MCP clients also have: {}.", agents.join(", ")));
            }
            return Err(Fault::not_found(format!("there is no tool `{name}`")).next(next));
        };
        let mut text = described(&opened.toolset, spec);
        if !catalog.has(name) {
            text.push_str("\nIt needs an agent or an MCP client: `haft run`, `haft chat` and `haft mcp` have it, `haft call` doesn't.\n");
        }
        text.push_str(&at_length(&opened.runtime, &opened.toolset, spec));
        print::out(&text);
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the fault for a call of a tool that only agents and MCP clients have; `None` for all other names.
pub(super) fn needs_agent(toolset: &str, name: &str) -> Option<Fault> {
    let is_there = tools::of_agents(toolset).iter().any(|it| it.spec().name == name);
    is_there.then(|| {
        Fault::bad_args(format!("`{name}` works only inside an agent, not with `haft call`")).next(format!(
            "`haft run`, `haft chat` and `haft mcp` have it; `haft manual {name}` explains it."
        ))
    })
}

/// Returns description, arguments and manual of a tool, for a session that has it.
pub(crate) fn whole(runtime: &Runtime, toolset: &str, spec: &Spec) -> String {
    described(toolset, spec) + &at_length(runtime, toolset, spec)
}

fn described(toolset: &str, spec: &Spec) -> String {
    let mut text = named(toolset, &spec.manual());
    if let Origin::File(path) = &spec.origin {
        text.push_str(&format!("\nDefined in {}.\n", path.display()));
    }
    text
}

fn at_length(runtime: &Runtime, toolset: &str, spec: &Spec) -> String {
    written(runtime, toolset, spec).map(|it| format!("\n{it}")).unwrap_or_default()
}

/// Returns a text with the names that the tools have in this toolset.
fn named(toolset: &str, text: &str) -> String {
    let shown = tools::shown_in(toolset);
    rendered(text, &|own| Named::among(shown.iter(), own)).into_owned()
}

/// Returns a line for each tool that has a manual of its own.
fn list(opened: &Opened, catalog: &Catalog) -> String {
    let (with, without): (Vec<&Spec>, Vec<&Spec>) =
        catalog.specs().partition(|spec| written(&opened.runtime, &opened.toolset, spec).is_some());
    let width = with.iter().map(|spec| spec.name.len()).max().unwrap_or(0);
    let line = |spec: &&Spec| format!("{:width$}  {}\n", spec.name, first_sentence(&spec.description));
    let lines: String = with.iter().map(line).collect();
    format!(
        "{lines}`haft manual NAME` prints one. For the other {} tools (`haft tools`) it shows description and arguments.",
        without.len()
    )
}

/// Returns the manual of a tool, if it has one.
fn written(runtime: &Runtime, toolset: &str, spec: &Spec) -> Option<String> {
    let is_ours = spec.origin == Origin::Program;
    let of_program =
        || tools::manual_in(toolset, &spec.name).filter(|_| is_ours).map(|manual| named(toolset, manual));
    runtime.plugins().manual(&spec.name).or_else(of_program)
}
