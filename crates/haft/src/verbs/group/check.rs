//! `haft group check`: a recipe is loaded and its graph is printed; nothing runs.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use groups::recipe;
use kit::Fault;
use serde_json::json;

use super::{places, show::drawn};
use crate::{Options, Place, print, verbs::close};

#[derive(Args)]
pub(super) struct Check {
    /// Recipe, or a folder with one
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let places = places(&opened.runtime, place, Some(&self.file));
        close(&opened.runtime);
        let recipe = recipe::load(&self.file, &places)?;
        let (topology, members) = recipe.graph().map_err(|error| Fault::bad_args(error.to_string()))?;
        let notes: Vec<String> = recipe.all_notes().into_iter().chain(recipe.dangling()).collect();
        if self.json {
            let specs: Vec<_> = members.iter().map(|it| &it.1).collect();
            print::json(&json!({"name": recipe.name, "graph": topology, "members": specs, "notes": notes}));
            return Ok(ExitCode::SUCCESS);
        }
        let mut text = format!("{}: {}\n", recipe.name, kit::counted(members.len(), "agent"));
        text.push_str(&drawn(&topology));
        for (_, spec) in &members {
            let usual = if spec.on.is_some() { "the worker's model" } else { "the group's model" };
            let model = spec.model.as_deref().unwrap_or(usual);
            let tools = match &spec.tools {
                Some(tools) if tools.is_empty() => "none".to_owned(),
                Some(tools) => tools.join(", "),
                None => "all".to_owned(),
            };
            let triggers: Vec<&str> = spec.triggers.iter().map(|it| it.kind.as_str()).collect();
            text.push_str(&format!(
                "{}: {model}; tools: {tools}; prompt of {}{}{}{}{}\n",
                spec.name,
                kit::counted(spec.prompt.len(), "byte"),
                if triggers.is_empty() {
                    String::new()
                } else {
                    format!("; triggers: {}", triggers.join(", "))
                },
                if spec.startup.is_some() { "; startup prompt" } else { "" },
                if spec.process { "; a process of its own" } else { "" },
                spec.on.as_ref().map_or_else(String::new, |it| format!("; on workers: {it}")),
            ));
        }
        print::out(&text);
        notes.iter().for_each(|it| print::err(&format!("haft: {it}")));
        Ok(ExitCode::SUCCESS)
    }
}
