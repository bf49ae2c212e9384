//! Does it?
