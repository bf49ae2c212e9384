//! What the program says about itself: help, completions, man pages, configuration and messages.

mod config;
mod doctor;
mod help;
mod messages;
