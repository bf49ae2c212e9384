//! Which model did the person ask for?

use std::{collections::BTreeMap, path::Path, sync::Arc};

use kit::Fault;
use runtime::config::ModelSection;

use super::{Model, script::Script};

/// From what a model is chosen.
#[derive(Debug, Clone, Copy)]
pub struct Choices<'a> {
    /// Those that haft.toml names.
    pub models: &'a BTreeMap<String, ModelSection>,
    /// The environment: keys, and the addresses that the usual variables name.
    pub variables: &'a [(String, String)],
}

/// The model of this name: `PROVIDER:MODEL`, or `script:FILE`.
///
/// # Errors
/// When there is no such provider, or what it needs is missing; with what to do.
pub fn choose(name: &str, _among: Choices<'_>) -> Result<Arc<dyn Model>, Fault> {
    match name.split_once(':') {
        Some(("script", file)) => Ok(Arc::new(Script::read(Path::new(file))?)),
        _ => Err(Fault::bad_args(format!("`{name}` is no model"))
            .next("Name one such as `anthropic:claude-sonnet-4-5`, or `script:FILE`.")),
    }
}
