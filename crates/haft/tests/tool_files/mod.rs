//! Do tools that are files work as the others do, whatever is in them; and those that a model writes?

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
mod support;
mod toolsmith;
mod trust;
