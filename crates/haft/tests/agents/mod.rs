//! Sub-agents, profiles and plan mode, with scripted models.

mod ask;
mod bounds;
mod cancel;
mod command_line;
mod delegate;
mod messages;
mod plan;
mod support;
mod switch;
