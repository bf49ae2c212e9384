//! How fast is haft, and does it keep its promises over many cases?

pub mod haystack;
pub mod layers;
pub mod promise;
pub mod speed;
pub mod terminal_svg;
