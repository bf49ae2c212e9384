//! Tools for parts to print: OpenSCAD source, STL meshes and pictures of them.

mod model_3d;
mod render_3d;
mod scad_lint;
mod solid;
mod source;
mod stl;

use std::sync::Arc;

use kit::{AnyTool, erase};

pub(crate) use model_3d::{Measure, Model3d};
pub(crate) use render_3d::{Draw, Render3d};
pub(crate) use scad_lint::ScadLint;

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<Model3d>(), erase::<Render3d>(), erase::<ScadLint>()]
}
