//! Pictures of any format, converted to one that models accept.

use std::{collections::HashSet, io::Cursor};

use image::{
    AnimationDecoder as _, DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, Limits, Rgb, RgbImage,
    codecs::{gif::GifDecoder, jpeg::JpegEncoder, png::PngDecoder, webp::WebPDecoder},
    imageops::FilterType,
    metadata::Orientation,
};
use kit::{Fault, Kind};

use super::bare::bare_png;

/// Maximum side of a picture that is shown, in pixels: models shrink larger ones, and charge for their full size.
pub(super) const LONGEST: u32 = 1568;

/// Maximum bytes of a picture that is shown: as base64, with the text beside it, it fits into an answer.
const MOST_BYTES: usize = 560 << 10;

/// Maximum number of pixels that are decoded.
const MOST_PIXELS: u64 = 64_000_000;

/// Maximum memory for decoding one picture.
const MOST_MEMORY: u64 = 120 << 20;

/// A picture with at most this many colours is a drawing, whose edges a JPEG would blur.
const FEW_COLOURS: usize = 2_048;

/// JPEG qualities that are tried until the picture is small enough.
const QUALITIES: [u8; 3] = [85, 70, 50];

/// A part of a picture: left, top, width, height.
pub(super) type Region = [u32; 4];

/// A decoded picture, upright, and no larger than is shown.
pub(super) struct Decoded {
    pub(super) picture: DynamicImage,
    /// Its original size, upright.
    pub(super) size: (u32, u32),
    /// Notes for the reader.
    pub(super) notes: Vec<String>,
}

/// A picture for a model.
pub(super) struct Shown {
    pub(super) mime: &'static str,
    pub(super) data: Vec<u8>,
    pub(super) size: (u32, u32),
}

/// Returns the format, if it is supported, and its name.
pub(super) fn format_of(data: &[u8]) -> Option<(ImageFormat, &'static str)> {
    let format = image::guess_format(data).ok()?;
    let name = match format {
        ImageFormat::Png => "PNG",
        ImageFormat::Jpeg => "JPEG",
        ImageFormat::Gif => "GIF",
        ImageFormat::WebP => "WebP",
        ImageFormat::Bmp => "BMP",
        ImageFormat::Tiff => "TIFF",
        _ => return None,
    };
    Some((format, name))
}

/// Decodes a picture, or a part of it. The cost is checked by its header before.
///
/// # Errors
/// [`Kind::TooBig`] for one over the limits, [`Kind::Failed`] for a broken one, [`Kind::BadArgs`] for a part
/// outside of it.
pub(super) fn decode(
    data: &[u8],
    format: ImageFormat,
    called: &str,
    region: Option<Region>,
) -> Result<Decoded, Fault> {
    let broken =
        |error: image::ImageError| Fault::new(Kind::Failed, format!("it is broken as {called}: {error}"));
    let bare = bare_png(data);
    let data = bare.as_deref().unwrap_or(data);
    let mut reader = ImageReader::with_format(Cursor::new(data), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_MEMORY + MOST_MEMORY / 4);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|error| match error {
        image::ImageError::Limits(_) => {
            Fault::new(Kind::TooBig, format!("it takes more memory than is used to decode {called}"))
        }
        error => broken(error),
    })?;
    let (width, height) = decoder.dimensions();
    affordable(data, format, (width, height), decoder.total_bytes())?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(broken)?;
    let turned = is_turned(orientation);
    let size = if turned { (height, width) } else { (width, height) };
    if let Some(region) = region {
        let [x, y, width, height] = lying(inside(region, size)?, orientation, (width, height));
        picture = picture.crop_imm(x, y, width, height);
    }
    let mut picture = reduced(picture, LONGEST);
    if region.is_some() {
        picture = enlarged(picture);
    }
    picture.apply_orientation(orientation);
    let mut notes = Vec::new();
    if orientation != Orientation::NoTransforms {
        notes.push("turned upright as its EXIF says".to_owned());
    }
    notes.extend(frames(data, format));
    Ok(Decoded { picture, size, notes })
}

/// Refuses a picture that costs too much to decode.
fn affordable(data: &[u8], format: ImageFormat, size: (u32, u32), bytes: u64) -> Result<(), Fault> {
    let (width, height) = size;
    let pixels = u64::from(width) * u64::from(height);
    // The memory of the decoder besides the picture itself.
    let beside = match format {
        ImageFormat::Jpeg if is_progressive(data) => pixels.saturating_mul(6),
        ImageFormat::WebP | ImageFormat::Gif | ImageFormat::Tiff => bytes,
        _ => 0,
    };
    let memory = bytes.saturating_add(beside);
    if pixels > 0 && pixels <= MOST_PIXELS && memory <= MOST_MEMORY {
        return Ok(());
    }
    if pixels == 0 {
        return Err(Fault::new(Kind::Failed, format!("it has {width} x {height} pixels")));
    }
    let what = format!(
        "it has {width} x {height} pixels, for which {} MB are needed; at most {} megapixels in {} MB are decoded",
        memory >> 20,
        MOST_PIXELS / 1_000_000,
        MOST_MEMORY >> 20
    );
    Err(Fault::new(Kind::TooBig, what)
        .next("Make a smaller copy of it with a program first, and look at that."))
}

/// Returns whether a JPEG is progressive, so that its decoder keeps all its data until the end.
fn is_progressive(data: &[u8]) -> bool {
    let mut at = 2;
    while let Some([0xff, marker, high, low]) = data.get(at..at + 4) {
        match marker {
            0xc2 | 0xc6 | 0xca | 0xce => return true,
            0xc0 | 0xc1 | 0xda => return false,
            0xff => at += 1,
            0x01 | 0xd0..=0xd9 => at += 2,
            _ => at += 2 + usize::from(u16::from_be_bytes([*high, *low])),
        }
    }
    false
}

/// Returns a note that only the first frame of an animation is shown.
fn frames(data: &[u8], format: ImageFormat) -> Option<String> {
    const MOST: usize = 1_000;
    match format {
        ImageFormat::Gif => {
            // Frames are counted as long as that is cheap.
            let small = image_size(data).is_some_and(|(width, height)| width * height <= 1_000_000);
            let decoder = GifDecoder::new(Cursor::new(data)).ok()?;
            let most = if small { MOST } else { 2 };
            match decoder.into_frames().take(most).filter(Result::is_ok).count() {
                0 | 1 => None,
                count if count < most => Some(format!("the first of {count} frames")),
                _ => Some(format!("the first of {most} frames or more")),
            }
        }
        ImageFormat::WebP => WebPDecoder::new(Cursor::new(data))
            .is_ok_and(|it| it.has_animation())
            .then(|| "the first frame of an animation".to_owned()),
        ImageFormat::Png => PngDecoder::new(Cursor::new(data))
            .is_ok_and(|it| it.is_apng().unwrap_or(false))
            .then(|| "the first frame of an animation".to_owned()),
        _ => None,
    }
}

fn image_size(data: &[u8]) -> Option<(u64, u64)> {
    let (width, height) =
        ImageReader::new(Cursor::new(data)).with_guessed_format().ok()?.into_dimensions().ok()?;
    Some((u64::from(width), u64::from(height)))
}

/// Clips the part to the picture.
pub(super) fn inside(region: Region, (width, height): (u32, u32)) -> Result<Region, Fault> {
    let [x, y, wide, high] = region;
    if wide > 0 && high > 0 && x < width && y < height {
        return Ok([x, y, wide.min(width - x), high.min(height - y)]);
    }
    let why = if wide == 0 || high == 0 { "has no size; it is part of" } else { "is not inside" };
    Err(Fault::bad_args(format!(
        "`region` [{x}, {y}, {wide}, {high}] {why} the picture, which has {width} x {height} pixels"
    ))
    .next("It is [left, top, width, height] in pixels of the whole picture."))
}

fn is_turned(orientation: Orientation) -> bool {
    match orientation {
        Orientation::NoTransforms
        | Orientation::Rotate180
        | Orientation::FlipHorizontal
        | Orientation::FlipVertical => false,
        Orientation::Rotate90
        | Orientation::Rotate270
        | Orientation::Rotate90FlipH
        | Orientation::Rotate270FlipH => true,
    }
}

/// Maps a part of the upright picture to the stored picture of this size.
fn lying([x, y, wide, high]: Region, orientation: Orientation, (width, height): (u32, u32)) -> Region {
    let back = |from: u32, long: u32, all: u32| all.saturating_sub(from).saturating_sub(long);
    match orientation {
        Orientation::NoTransforms => [x, y, wide, high],
        Orientation::Rotate180 => [back(x, wide, width), back(y, high, height), wide, high],
        Orientation::FlipHorizontal => [back(x, wide, width), y, wide, high],
        Orientation::FlipVertical => [x, back(y, high, height), wide, high],
        Orientation::Rotate90 => [y, back(x, wide, height), high, wide],
        Orientation::Rotate270 => [back(y, high, width), x, high, wide],
        Orientation::Rotate90FlipH => [y, x, high, wide],
        Orientation::Rotate270FlipH => [back(y, high, width), back(x, wide, height), high, wide],
    }
}

/// Enlarges a small part by a whole factor, so that its longest side has about a thousand pixels, at most
/// eight times.
fn enlarged(picture: DynamicImage) -> DynamicImage {
    const ENOUGH: u32 = 1_024;
    let times = (ENOUGH / picture.width().max(picture.height()).max(1)).min(8);
    if times < 2 {
        return picture;
    }
    picture.resize(picture.width() * times, picture.height() * times, FilterType::CatmullRom)
}

/// Reduces the picture so that its longest side is no longer than this.
pub(super) fn reduced(mut picture: DynamicImage, longest: u32) -> DynamicImage {
    let side = picture.width().max(picture.height());
    if side <= longest {
        return picture;
    }
    // A good resize holds the picture in floating point, so it gets no more than it needs.
    if side > 2 * longest {
        picture = picture.thumbnail(2 * longest, 2 * longest);
    }
    picture.resize(longest, longest, FilterType::CatmullRom)
}

/// Encodes the picture in a format that models accept, without any metadata.
///
/// # Errors
/// When it can't be made small enough.
pub(super) fn encode(picture: DynamicImage) -> Result<Shown, Fault> {
    let failed = |error: image::ImageError| Fault::bug(format!("it can't be encoded: {error}"));
    let mut picture = in_eight_bits(picture);
    if picture.color().has_alpha() || has_few_colours(&picture) {
        let mut png = Vec::new();
        picture.write_to(&mut Cursor::new(&mut png), ImageFormat::Png).map_err(failed)?;
        if png.len() <= MOST_BYTES {
            let size = (picture.width(), picture.height());
            return Ok(Shown { mime: "image/png", data: png, size });
        }
    }
    picture = DynamicImage::ImageRgb8(on_white(&picture));
    loop {
        for quality in QUALITIES {
            let mut jpeg = Vec::new();
            picture.write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, quality)).map_err(failed)?;
            if jpeg.len() <= MOST_BYTES {
                let size = (picture.width(), picture.height());
                return Ok(Shown { mime: "image/jpeg", data: jpeg, size });
            }
        }
        let side = picture.width().max(picture.height()) * 3 / 4;
        if side == 0 {
            return Err(Fault::bug("it can't be made small enough"));
        }
        picture = reduced(picture, side);
    }
}

/// Converts to 8 bits per channel, with an alpha channel only if something is transparent.
fn in_eight_bits(picture: DynamicImage) -> DynamicImage {
    if !picture.color().has_alpha() {
        return if picture.color().has_color() {
            DynamicImage::ImageRgb8(picture.into_rgb8())
        } else {
            DynamicImage::ImageLuma8(picture.into_luma8())
        };
    }
    let rgba = picture.into_rgba8();
    if rgba.pixels().all(|it| it.0[3] == 255) {
        return DynamicImage::ImageRgb8(DynamicImage::ImageRgba8(rgba).into_rgb8());
    }
    DynamicImage::ImageRgba8(rgba)
}

fn has_few_colours(picture: &DynamicImage) -> bool {
    let DynamicImage::ImageRgb8(picture) = picture else { return true };
    let mut colours = HashSet::new();
    picture.pixels().all(|it| {
        colours.insert(it.0);
        colours.len() <= FEW_COLOURS
    })
}

fn on_white(picture: &DynamicImage) -> RgbImage {
    let DynamicImage::ImageRgba8(rgba) = picture else { return picture.to_rgb8() };
    RgbImage::from_fn(rgba.width(), rgba.height(), |x, y| {
        let [red, green, blue, alpha] = rgba.get_pixel(x, y).0;
        let over = |it: u8| {
            let (it, alpha) = (u16::from(it), u16::from(alpha));
            u8::try_from((it * alpha + 255 * (255 - alpha)) / 255).unwrap_or(u8::MAX)
        };
        Rgb([over(red), over(green), over(blue)])
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use image::GenericImageView as _;

    use super::*;

    #[test]
    fn a_part_of_a_turned_picture_is_the_part_that_is_seen() {
        let picture = RgbImage::from_fn(7, 5, |x, y| {
            Rgb([u8::try_from(x).unwrap() * 30, u8::try_from(y).unwrap() * 30, 0])
        });
        let picture = DynamicImage::ImageRgb8(picture);
        for exif in 1..=8 {
            let orientation = Orientation::from_exif(exif).unwrap();
            let mut upright = picture.clone();
            upright.apply_orientation(orientation);
            let seen = upright.crop_imm(1, 2, 3, 2);
            let [x, y, width, height] = lying([1, 2, 3, 2], orientation, picture.dimensions());
            let mut found = picture.crop_imm(x, y, width, height);
            found.apply_orientation(orientation);
            assert_eq!(found.to_rgb8(), seen.to_rgb8(), "{orientation:?}");
        }
    }

    #[test]
    fn a_part_is_shown_larger_and_cut_at_the_edge() {
        let mut png = Vec::new();
        DynamicImage::new_rgb8(300, 200).write_to(&mut Cursor::new(&mut png), ImageFormat::Png).unwrap();
        let part = |region| decode(&png, ImageFormat::Png, "PNG", Some(region));
        assert_eq!(part([0, 0, 200, 100]).unwrap().picture.dimensions(), (1000, 500));
        assert_eq!(
            part([290, 150, 500, 500]).unwrap().picture.dimensions(),
            (80, 400),
            "10 x 50, eight times"
        );
        for wrong in [[300, 0, 5, 5], [0, 0, 0, 5]] {
            assert_eq!(part(wrong).err().unwrap().kind, Kind::BadArgs);
        }
    }

    #[test]
    fn a_photo_becomes_a_jpeg_and_a_drawing_stays_a_png() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        let photo = RgbImage::from_fn(1568, 1568, |_, _| Rgb([next(), next(), next()]));
        let shown = encode(DynamicImage::ImageRgb8(photo)).unwrap();
        assert_eq!((shown.mime, shown.data.len() <= MOST_BYTES), ("image/jpeg", true));
        let drawing = RgbImage::from_pixel(900, 900, Rgb([1, 2, 3]));
        assert_eq!(encode(DynamicImage::ImageRgb8(drawing)).unwrap().mime, "image/png");
        let clear = DynamicImage::new_rgba8(9, 9);
        let shown = encode(clear).unwrap();
        assert_eq!(image::load_from_memory(&shown.data).unwrap().get_pixel(0, 0).0[3], 0);
    }
}
