//! Which doors may other programs knock on?
//!
//! [`mcp_stdio`] is the Model Context Protocol on standard input and output.
#![warn(missing_docs)]

mod answer;
mod batch;
mod client;
mod documents;
mod flights;
mod hands;
mod lines;
mod mcp;
mod message;
mod progress;
mod stdio;

pub use client::{Ask, Client, Filled, Level, Offers};
pub use documents::{Blank, Content, Document, Line, Notice, Pattern, Prompt, Speaker, Subject};
pub use hands::{Abilities, Changes, Hands};
pub use mcp::{About, mcp, mcp_stdio};
