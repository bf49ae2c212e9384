//! What does an agent look at, and give away?

mod bare;
mod content_publish;
mod decoding;
mod image_view;
mod kind;
#[cfg(feature = "pdf")]
pub(crate) mod pdf;
mod picture;
mod reading;
mod share_file;
#[cfg(feature = "svg")]
mod svg;
mod view;

use std::sync::Arc;

use kit::{AnyTool, erase};

pub(crate) use content_publish::ContentPublish;
pub(crate) use decoding::turn;
pub(crate) use image_view::ImageView;
pub(crate) use reading::read;
pub(crate) use share_file::ShareFile;
pub(crate) use view::{Wish, view};

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<ImageView>(), erase::<ShareFile>(), erase::<ContentPublish>()]
}
