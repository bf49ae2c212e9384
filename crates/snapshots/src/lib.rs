//! Content-addressed workspaces: a workspace travels as a list of hashes, and its changes return as a patch.
//!
//! The sender calls [`take`]: the manifest names each file that git does not ignore, with the hash of its content, and the
//! contents that the other side lacks go into [`Blobs`]. The worker calls [`materialize`] to make the same files in an empty
//! folder, lets the work run there, and calls [`Patch::between`]. The sender calls [`land`]: each file is changed only if it
//! still has the content that the patch was made on, through the file layer of `edit` and `write`, so that `haft undo` takes
//! the whole patch back as one step. Files that can't land are named, with their present lines.
//!
//! ```text
//! sender: take(source, blobs) ──manifest──> worker: materialize(manifest, blobs, cache, dir)
//! sender: land(session, patch, blobs) <──patch── worker: Patch::between(manifest, source, blobs)
//! ```
//!
//! Everything here blocks but for [`land`]: call it from `spawn_blocking`.

mod blobs;
mod git;
mod index;
mod landing;
mod manifest;
mod materialize;
mod patch;
mod refusal;
mod source;
mod survey;
mod take;

pub use blobs::{BlobHash, Blobs, Cache};
pub use landing::{Fate, Landed, Landing, land};
pub use manifest::{Git, LeftOut, Manifest, Node, Why};
pub use materialize::materialize;
pub use patch::{Change, Patch};
pub use source::{Limits, Source};
pub use take::take;
