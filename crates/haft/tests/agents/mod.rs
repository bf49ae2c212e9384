//! Do agents start others, switch profiles and plan, and hold to what they may?

mod ask;
mod bounds;
mod cancel;
mod command_line;
mod delegate;
mod plan;
mod support;
mod switch;
