//! Tools for files that are not text: pictures, documents, files for the person.

mod bare;
mod content_publish;
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
pub(crate) use image_view::ImageView;
#[cfg(feature = "pdf")]
pub(crate) use pdf::ReadPages;
pub(crate) use reading::read;
pub(crate) use share_file::ShareFile;
pub(crate) use view::{Look, LookWithFonts, Wish, view};

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<ImageView>(), erase::<ShareFile>(), erase::<ContentPublish>()]
}
