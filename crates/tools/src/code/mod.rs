//! Tools that run code in a fresh interpreter.

mod adapters;
mod interpreter;
mod python;
mod run;
mod warm;

use std::sync::Arc;

use kit::{AnyTool, erase};

pub(crate) use adapters::{CodeExec, TerrariumPython};

/// The name of the session's warm interpreter, which runs code by forks of itself.
const INTERPRETER: &str = "interpreter";

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<python::Python>()]
}
