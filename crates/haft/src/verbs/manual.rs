//! `haft manual`: how is a tool used?

use std::{process::ExitCode, sync::Arc};

use clap::Args;
use kit::{Fault, Spec};
use runtime::Unattended;
use serde_json::{Map, Value};

use super::close;
use crate::{Options, Place, print};

#[derive(Args)]
pub struct Manual {
    /// The tool's name.
    tool: String,
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
        let Some(tool) = catalog.get(&self.tool) else {
            let all: Vec<&str> = catalog.specs().map(|spec| spec.name.as_str()).collect();
            return Err(Fault::not_found(format!("there is no tool `{}`", self.tool))
                .next(format!("The tools are: {}.", all.join(", "))));
        };
        let written = (opened.toolset == tools::HAFT).then(|| tools::manual(&self.tool)).flatten();
        let mut text = from_schema(tool.spec());
        if let Some(written) = written {
            text.push('\n');
            text.push_str(written);
        }
        print::out(&text);
        Ok(ExitCode::SUCCESS)
    }
}

/// What the schema says, as a person reads it.
fn from_schema(spec: &Spec) -> String {
    let mut text = format!("# {}\n\n{}\n\n## Arguments\n\n", spec.name, spec.description);
    let required = names(spec.schema.get("required"));
    describe(&mut text, spec.schema.get("properties").and_then(Value::as_object), &required, "");
    text
}

/// One line for each argument, those of the items of a list below it.
fn describe(text: &mut String, properties: Option<&Map<String, Value>>, required: &[&str], indent: &str) {
    for (name, schema) in properties.into_iter().flatten() {
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or("value");
        let must = if required.contains(&name.as_str()) { ", required" } else { "" };
        let says = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        text.push_str(&format!("{indent}- `{name}` ({kind}{must}): {says}\n"));
        if let Some(items) = schema.get("items") {
            let below = items.get("properties").and_then(Value::as_object);
            describe(text, below, &names(items.get("required")), &format!("{indent}  "));
        }
    }
}

fn names(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}
