//! Output of the program about itself: help, completions, man pages, configuration and messages.

mod config;
mod doctor;
mod escaped;
mod help;
mod messages;
