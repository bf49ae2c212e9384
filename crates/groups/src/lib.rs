//! Groups of agents: members with a session, a model and tools of their own, connected by channels and wires.
//!
//! The graph, the recipes and the texts are data; [`service`] runs the members as sessions of this process.

pub mod graph;
pub mod recipe;
pub mod runtime_prompt;
pub mod service;
pub mod status;
pub mod wiring;
