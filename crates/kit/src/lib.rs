//! The contract of a tool, and guarded access to files, processes and the network.
//!
//! The contract is [`Tool`], [`Touches`], [`Output`], [`Fault`] and [`Cx`]; a tool author needs `use
//! kit::prelude::*` and nothing else. [`Cx`] gives a tool its access: [`Files`] opens nothing outside the
//! roots it was given, [`procs::Procs`] starts nothing that outlives its call, [`text::Text`] preserves a
//! file's encoding and line endings, [`edit`] applies a change where it was meant or not at all.
#![warn(missing_docs)]

mod cx;
mod download;
mod erased;
mod fault;
mod hint;
mod manual;
mod other_processor;
mod output;
mod plural;
mod preferences;
mod scratchpad;
mod show;
mod spec;
mod tool;
mod touches;

pub mod anchor;
pub mod base64;
pub mod decoders;
pub mod deliberate_faults;
pub mod edit;
pub mod effect;
pub mod escape;
pub mod files;
pub mod labels;
pub mod memory;
pub mod model_tools;
pub mod nearest;
pub mod net;
pub mod procs;
pub mod quote;
pub mod reactor;
pub mod redact;
pub mod references;
pub mod seen;
pub mod services;
pub mod spans;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
pub mod tool_writes;
pub mod tracking;

pub use cx::{Cx, Services, may_block, may_block_here};
pub use erased::{AnyTool, Prepared, Running, erase, json_bytes};
pub use fault::{Fault, Kind, OrFault};
pub use files::Files;
pub use hint::{Bucket, Hint, hints};
pub use other_processor::on_other_processor;
pub use output::{Body, Output, Part};
pub use plural::counted;
pub use preferences::{Preferences, Programs, Search, Ssh};
pub use scratchpad::Pad;
pub use spec::{Mode, Origin, Spec};
pub use tool::Tool;
pub use touches::{Address, Kinds, Touch, Touches};

/// Everything the file of a tool needs.
pub mod prelude {
    pub use schemars::JsonSchema;
    pub use serde::Deserialize;

    pub use crate::{
        Address, Cx, Fault, Kind, Kinds, Mode, OrFault, Output, Tool, Touch, Touches, counted,
        references::StandsFor,
    };
}

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
