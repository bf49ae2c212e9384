//! What does `haft mcp --http` do for those who may, and to those who may not?

mod attacks;
mod killed;
mod names;
mod sessions;
mod slow;
mod support;
