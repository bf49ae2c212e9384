//! How does an idea become a solid part?

mod model_3d;
mod render_3d;
mod scad_lint;
mod solid;
mod source;
mod stl;

use std::sync::Arc;

use kit::{AnyTool, erase};

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<model_3d::Model3d>(), erase::<render_3d::Render3d>(), erase::<scad_lint::ScadLint>()]
}
