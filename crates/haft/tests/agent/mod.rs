//! Does a conversation of the shipped program survive whatever becomes of its process?

mod killed;
mod rewound;
mod stopped;
mod support;
