//! Pictures for a model: decodes, shrinks and stores them, and sends the newest ones.

use std::{collections::HashMap, io::Cursor, sync::Arc};

use image::{
    DynamicImage, ImageFormat, ImageReader, Limits, codecs::jpeg::JpegEncoder, imageops::FilterType,
};
use kit::{
    Fault, Kind,
    decoders::{Decoded, Decoder},
    text::Content,
};
use runtime::Session;
use serde::{Deserialize, Serialize};

use crate::{
    event::Shown,
    model::{Item, Piece},
};

/// Maximum side of a picture that is sent, in pixels: providers shrink larger ones themselves, and count them
/// in full.
const LONGEST: u32 = 1568;

/// Maximum size of a picture that is sent, in bytes: 5 MB as base64, the limit of providers.
const MOST_BYTES: usize = 3_500_000;

/// Maximum size of a file that is decoded, in bytes.
const LARGEST_FILE: usize = 64 << 20;

/// Maximum number of pixels of a picture that is decoded: a file of a few bytes may claim any size.
const MOST_PIXELS: u64 = 50_000_000;

/// Memory limit for decoding one picture, in bytes.
const MOST_MEMORY: u64 = 160 << 20;

/// JPEG qualities, tried in this order until the picture is small enough.
const QUALITIES: [u8; 3] = [85, 70, 50];

/// Number of the newest pictures that are sent; for older ones the model gets a line.
pub(crate) const NEWEST: usize = 4;

/// Prepares a picture for models, and stores it.
///
/// # Errors
/// The reason why it can't be shown, in words for the model.
pub(crate) async fn keep(session: &Session, claimed: String, data: Vec<u8>) -> Result<Shown, String> {
    if data.len() > LARGEST_FILE {
        return Err(format!("it has {} MB, more than {}", data.len() >> 20, LARGEST_FILE >> 20));
    }
    let data = Content::from(data);
    let fitted =
        session.decoders().run("it", Fit { claimed }, data.clone()).await.map_err(|fault| fault.what)?;
    let session = session.clone();
    let work = tokio::task::spawn_blocking(move || {
        let made = fitted.blobs.into_iter().next().map_or(data, Content::from);
        let handle = session.keep_output(&made).map_err(|fault| fault.what)?;
        Ok(Shown { handle, mime: fitted.answer, bytes: made.len() })
    });
    work.await.unwrap_or_else(|_| Err("it could not be kept".to_owned()))
}

/// Decodes a picture completely, and shrinks it to the limits of every provider.
#[derive(Serialize, Deserialize)]
pub(crate) struct Fit {
    /// The media type that its sender declared.
    claimed: String,
}

impl Decoder for Fit {
    /// The media type. The bytes follow if the picture was changed.
    type Answer = String;

    const NAME: &'static str = "fit";

    fn decode(self, data: Vec<u8>) -> Result<Decoded<String>, Fault> {
        let (mime, made) = fit(&self.claimed, &data).map_err(|why| Fault::new(Kind::Failed, why))?;
        Ok(Decoded { answer: mime.to_owned(), blobs: made.into_iter().collect() })
    }
}

/// Returns the media type of the picture, and its bytes if they changed. The result is decoded completely,
/// has a type that providers accept, and is within their size limits.
fn fit(claimed: &str, data: &[u8]) -> Result<(&'static str, Option<Vec<u8>>), String> {
    let reader = |data| ImageReader::new(Cursor::new(data)).with_guessed_format().ok();
    let found = reader(data).and_then(|it| it.format());
    let Some((format, mime)) = found.and_then(|it| mime_of(it).map(|mime| (it, mime))) else {
        return Err(format!("it is called {claimed}, and is not a png, jpeg, webp or gif"));
    };
    let broken = |error: image::ImageError| format!("it is broken as {mime}: {error}");
    let (width, height) =
        ImageReader::with_format(Cursor::new(data), format).into_dimensions().map_err(broken)?;
    if u64::from(width) * u64::from(height) > MOST_PIXELS || width == 0 || height == 0 {
        return Err(format!("it has {width} x {height} pixels; at most {MOST_PIXELS} are decoded"));
    }
    let mut reader = ImageReader::with_format(Cursor::new(data), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_MEMORY);
    reader.limits(limits);
    let picture = reader.decode().map_err(broken)?;
    if width.max(height) <= LONGEST && data.len() <= MOST_BYTES {
        return Ok((mime, None));
    }
    smaller(picture, format).map(|(mime, made)| (mime, Some(made)))
}

fn smaller(mut picture: DynamicImage, format: ImageFormat) -> Result<(&'static str, Vec<u8>), String> {
    let failed = |error: image::ImageError| format!("it can't be made smaller: {error}");
    let mut longest = LONGEST;
    loop {
        let side = picture.width().max(picture.height());
        // The resize filter holds the picture in floating point, so it first gets a smaller thumbnail.
        if side > 2 * longest {
            picture = picture.thumbnail(2 * longest, 2 * longest);
        }
        if side > longest {
            picture = picture.resize(longest, longest, FilterType::Triangle);
        }
        if format != ImageFormat::Jpeg {
            let mut png = Vec::new();
            picture.write_to(&mut Cursor::new(&mut png), ImageFormat::Png).map_err(failed)?;
            if png.len() <= MOST_BYTES {
                return Ok(("image/png", png));
            }
        }
        // JPEG has no transparency, so it is only for pictures that are too large otherwise.
        let opaque = DynamicImage::ImageRgb8(picture.to_rgb8());
        for quality in QUALITIES {
            let mut jpeg = Vec::new();
            opaque.write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, quality)).map_err(failed)?;
            if jpeg.len() <= MOST_BYTES {
                return Ok(("image/jpeg", jpeg));
            }
        }
        longest /= 2;
        if longest == 0 {
            return Err(format!("it can't be made smaller than {MOST_BYTES} bytes"));
        }
    }
}

fn mime_of(format: ImageFormat) -> Option<&'static str> {
    Some(match format {
        ImageFormat::Png => "image/png",
        ImageFormat::Jpeg => "image/jpeg",
        ImageFormat::WebP => "image/webp",
        ImageFormat::Gif => "image/gif",
        _ => return None,
    })
}

/// The bytes of the pictures that are sent with each request, by their handles.
#[derive(Default)]
pub(crate) struct Attached {
    bytes: HashMap<String, Arc<[u8]>>,
}

impl Attached {
    /// Attaches the bytes of the newest pictures to the items, and removes those of all others. Blocks for
    /// pictures that were not sent before; a picture that is no longer stored stays a line.
    pub(crate) fn attach(&mut self, session: &Session, items: &mut [Item]) {
        let mut left = NEWEST;
        let mut bytes = HashMap::new();
        for piece in items.iter_mut().rev().flat_map(pieces) {
            let Piece::Image { handle, data, .. } = piece else { continue };
            *data = None;
            if left == 0 {
                continue;
            }
            left -= 1;
            let known = bytes.get(handle).or_else(|| self.bytes.get(handle)).cloned();
            let read = || session.runtime().spills().read(session.name(), handle).ok().map(Arc::from);
            *data = known.or_else(read);
            if let Some(data) = data {
                bytes.insert(handle.clone(), data.clone());
            }
        }
        self.bytes = bytes;
    }
}

/// Returns the pieces of an item, the last one first.
fn pieces(item: &mut Item) -> Box<dyn Iterator<Item = &mut Piece> + '_> {
    match item {
        Item::Person { pieces } => Box::new(pieces.iter_mut().rev()),
        Item::Results { results } => {
            Box::new(results.iter_mut().rev().flat_map(|it| it.pieces.iter_mut().rev()))
        }
        Item::Model { .. } => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        DynamicImage::new_rgba8(width, height)
            .write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)
            .unwrap();
        bytes
    }

    /// Returns a picture that doesn't compress.
    fn noise(width: u32, height: u32) -> DynamicImage {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        DynamicImage::ImageRgb8(image::RgbImage::from_fn(width, height, |_, _| {
            image::Rgb([next(), next(), next()])
        }))
    }

    #[test]
    fn small_picture_is_unchanged_and_its_type_is_detected() {
        let bytes = png(20, 10);
        assert_eq!(fit("image/jpeg", &bytes), Ok(("image/png", None)));
    }

    #[test]
    fn large_picture_is_shrunk_and_keeps_its_aspect_ratio() {
        let (mime, bytes) = fit("image/png", &png(4000, 1000)).unwrap();
        let small = image::load_from_memory(&bytes.unwrap()).unwrap();
        assert_eq!((mime, small.width(), small.height()), ("image/png", 1568, 392));
    }

    #[test]
    fn picture_of_many_bytes_is_compressed_to_the_limit() {
        let mut bytes = Vec::new();
        noise(1500, 1500).write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).unwrap();
        assert!(bytes.len() > MOST_BYTES);
        let (mime, bytes) = fit("image/png", &bytes).unwrap();
        let bytes = bytes.unwrap();
        assert_eq!((mime, bytes.len() <= MOST_BYTES), ("image/jpeg", true));
        image::load_from_memory(&bytes).unwrap();
    }

    #[test]
    fn invalid_picture_is_refused_with_a_reason() {
        let why = fit("image/png", b"<!doctype html><p>not found").unwrap_err();
        assert!(why.contains("called image/png, and is not a png"), "{why}");
        let mut cut = png(300, 300);
        cut.truncate(cut.len() / 2);
        let why = fit("image/png", &cut).unwrap_err();
        assert!(why.contains("broken as image/png"), "{why}");
        assert!(fit("image/png", b"").is_err());
    }

    #[test]
    fn picture_that_claims_an_enormous_size_is_not_decoded() {
        let mut bomb = png(1, 1);
        // The size follows the signature and the name of the first chunk; its checksum comes after it.
        bomb.splice(16..24, [0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
        let mut crc = !0u32;
        for byte in bomb.get(12..29).unwrap() {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            }
        }
        bomb.splice(29..33, (!crc).to_be_bytes());
        let why = fit("image/png", &bomb).unwrap_err();
        assert!(why.contains("65535 x 65535 pixels"), "{why}");
    }
}
