//! Which model did the person ask for?

use std::{path::Path, sync::Arc};

use kit::Fault;

use super::{Model, script::Script};

/// The model of this name: `PROVIDER:MODEL`, or `script:FILE`.
///
/// # Errors
/// When there is no such provider, or what it needs is missing; with what to do.
pub fn choose(name: &str) -> Result<Arc<dyn Model>, Fault> {
    match name.split_once(':') {
        Some(("script", file)) => Ok(Arc::new(Script::read(Path::new(file))?)),
        _ => Err(Fault::bad_args(format!("`{name}` is no model"))
            .next("Name one such as `anthropic:claude-sonnet-4-5`, or `script:FILE`.")),
    }
}
