//! Tools that are files: written by a person, or by a model.

mod calls;
mod command_line;
mod crashes;
mod denied;
mod folders;
mod formats;
mod grants;
mod hostile;
mod manuals;
mod missing;
mod new_tool;
mod packages;
mod programs;
mod reload;
mod replaced;
mod session;
mod support;
mod toolsmith;
mod trust;
