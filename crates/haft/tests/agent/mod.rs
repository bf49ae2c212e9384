//! Conversations of the built program across the end of its process.

mod cut_off;
mod jobs;
mod killed;
mod rewound;
mod stopped;
mod support;
