//! What does a model see of a file that is no text?

use kit::{Cx, Fault, Output, Part};

use super::{
    decoding::apart,
    picture::{self, Decoded, Region},
};

/// What of a file is to be seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wish {
    /// The page of a PDF, from 1.
    pub(crate) page: Option<usize>,
    /// A part of the picture: left, top, width, height.
    pub(crate) region: Option<Region>,
}

/// A line on the file and the picture that it is, or that one of its pages is. Blocks.
///
/// # Errors
/// Those of the formats; [`kit::Kind::BadArgs`] for what is no picture.
pub(crate) fn view(cx: &Cx, name: &str, data: Vec<u8>, wish: Wish) -> Result<Output, Fault> {
    cx.check()?;
    let name = name.to_owned();
    let named = name.clone();
    apart(&named, move || {
        // Whichever picture it was, the fault says so.
        looked(cx, &name, data, wish)
            .map_err(|fault| Fault { what: format!("`{name}` can't be shown: {}", fault.what), ..fault })
    })
}

fn looked(cx: &Cx, name: &str, data: Vec<u8>, wish: Wish) -> Result<Output, Fault> {
    let bytes = data.len();
    if let Some((format, called)) = picture::format_of(&data) {
        no_page(wish, called)?;
        let decoded = picture::decode(&data, format, called, wish.region)?;
        drop(data);
        return shown(cx, name, called, bytes, decoded, wish);
    }
    #[cfg(feature = "pdf")]
    if super::pdf::is_pdf(&data) {
        return page(cx, name, data, wish);
    }
    #[cfg(feature = "svg")]
    if super::svg::is_svg(&data) {
        no_page(wish, "SVG")?;
        let decoded = super::svg::draw(&data, wish.region)?;
        return shown(cx, name, "SVG", bytes, decoded, wish);
    }
    let kind = kind(&data);
    let next = if kind == "text" { "Read it as text files are read." } else { SHOWN };
    Err(Fault::bad_args(format!("by its content it is {kind}")).next(next))
}

const SHOWN: &str = "png, jpeg, gif, webp, bmp, tiff, svg and pages of a PDF can be shown.";

/// What a file is by its content, in words.
fn kind(data: &[u8]) -> String {
    if data.is_empty() {
        return "empty".to_owned();
    }
    let head = data.get(..data.len().min(8192)).unwrap_or_default();
    match infer::get(head) {
        Some(kind) => kind.mime_type().to_owned(),
        None if super::kind::is_text(head) => "text".to_owned(),
        None => "of no known type".to_owned(),
    }
}

fn no_page(wish: Wish, called: &str) -> Result<(), Fault> {
    match wish.page {
        None | Some(1) => Ok(()),
        Some(page) => Err(Fault::bad_args(format!("it is {called} and has no page {page}"))),
    }
}

#[cfg(feature = "pdf")]
fn page(cx: &Cx, name: &str, data: Vec<u8>, wish: Wish) -> Result<Output, Fault> {
    let number = wish.page.unwrap_or(1);
    let Some(at) = number.checked_sub(1) else {
        return Err(Fault::bad_args("`page` is 0, and pages are counted from 1"));
    };
    let bytes = data.len();
    let longest = u16::try_from(picture::LONGEST).unwrap_or(u16::MAX);
    // A part of a page is drawn larger: up to three times as large as the page is shown.
    let closer: u16 = match wish.region {
        Some([_, _, wide, high]) => {
            (picture::LONGEST / wide.max(high).max(1)).clamp(1, 3).try_into().unwrap_or(1)
        }
        None => 1,
    };
    let drawn = super::pdf::page(cx, data, at, longest * closer)?;
    let called = format!("PDF, page {number} of {}", drawn.total);
    let (width, height) = drawn.picture.dimensions();
    let closer = u32::from(closer);
    let size = (width / closer, height / closer);
    let mut picture = image::DynamicImage::ImageRgba8(drawn.picture);
    if let Some(region) = wish.region {
        let [x, y, wide, high] = picture::inside(region, size)?.map(|it| it * closer);
        picture = picture.crop_imm(x, y, wide, high);
    }
    let picture = picture::reduced(picture, picture::LONGEST);
    shown(cx, name, &called, bytes, Decoded { picture, size, notes: Vec::new() }, wish)
}

fn shown(
    cx: &Cx,
    name: &str,
    called: &str,
    bytes: usize,
    decoded: Decoded,
    wish: Wish,
) -> Result<Output, Fault> {
    cx.check()?;
    let Decoded { picture, size, notes } = decoded;
    let shown = picture::encode(picture)?;
    let mut line = format!("{name}: {called}, {} x {} pixels, {}", size.0, size.1, in_bytes(bytes));
    for note in notes {
        line.push_str(&format!(", {note}"));
    }
    if let Some(Ok([x, y, wide, high])) = wish.region.map(|it| picture::inside(it, size)) {
        line.push_str(&format!("; the part [{x}, {y}, {wide}, {high}]"));
    }
    if wish.region.is_some() || shown.size != size {
        line.push_str(&format!("; shown at {} x {}", shown.size.0, shown.size.1));
    }
    let image = Part::Image { mime: shown.mime.to_owned(), data: shown.data };
    Ok(Output { parts: vec![Part::Text { text: line }, image], ..Output::default() })
}

/// A number of bytes as a person says it.
pub(crate) fn in_bytes(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}
