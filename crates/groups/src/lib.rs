//! Groups of agents: members with a session, a model and tools of their own, connected by channels and wires.
//!
//! The graph, the recipes and the texts are data; [`service`] runs the members as sessions of this process, and
//! [`member_process`] one member in a process of its own.

pub mod graph;
pub mod member_process;
mod protocol;
pub mod recipe;
pub mod runtime_prompt;
pub mod service;
pub mod status;
pub mod wiring;
