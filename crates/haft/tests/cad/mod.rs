//! CAD tools of the built program, with the real OpenSCAD.

mod golden;
mod hostile;
mod part;
