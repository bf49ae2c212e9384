//! Conversations of the built program across the end of its process.

mod killed;
mod rewound;
mod stopped;
mod support;
