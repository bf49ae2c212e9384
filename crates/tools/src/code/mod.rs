//! Tools that run code.

mod adapters;
mod interpreter;
mod python;
mod run;
mod warm;

use std::sync::Arc;

use kit::{AnyTool, erase};

#[expect(unused_imports, reason = "the toolsets of navi and terrarium show them")]
pub(crate) use adapters::{CodeExec, TerrariumPython};

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<python::Python>()]
}
