//! Does an idea become a solid part, on the shipped binary, with the real OpenSCAD?

mod golden;
mod hostile;
mod part;
