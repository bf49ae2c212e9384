//! Which doors may other programs knock on?
//!
//! One so far: [`mcp_stdio`], the Model Context Protocol on standard input and output.
#![warn(missing_docs)]

mod answer;
mod batch;
mod flights;
mod lines;
mod mcp;
mod message;
mod progress;
mod stdio;

pub use mcp::{About, Hands, mcp, mcp_stdio};
