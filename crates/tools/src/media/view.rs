//! Pictures for a model of a picture file, an SVG or a page of a PDF.

use kit::{
    Cx, Fault, Output, Part,
    decoders::{Decoded, Decoder},
    text::Content,
};
use serde::{Deserialize, Serialize};

use super::picture::{self, Decoded as Picture, Region};

/// The requested part of a file.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Wish {
    /// The page of a PDF, from 1.
    pub(crate) page: Option<usize>,
    /// A part of the picture: left, top, width, height.
    pub(crate) region: Option<Region>,
}

/// Returns a line on the file, and its picture or that of one of its pages.
///
/// # Errors
/// Those of the formats; [`kit::Kind::BadArgs`] for a file that is not a picture.
pub(crate) async fn view(cx: &Cx, name: &str, data: impl Into<Content>, wish: Wish) -> Result<Output, Fault> {
    let data = data.into();
    let look = Look { name: name.to_owned(), wish };
    let what = format!("`{name}`");
    let seen = if needs_fonts(&data) {
        cx.decode(&what, LookWithFonts(look), data).await
    } else {
        cx.decode(&what, look, data).await
    };
    // The fault names the picture.
    let seen = seen.map_err(|fault| {
        let is_said = fault.what.starts_with(&what);
        let said = if is_said { fault.what } else { format!("{what} can't be shown: {}", fault.what) };
        Fault { what: said, ..fault }
    })?;
    let Seen { line, mime } = seen.answer;
    let data = seen.blobs.into_iter().next().unwrap_or_default();
    Ok(Output { parts: vec![Part::Text { text: line }, Part::Image { mime, data }], ..Output::default() })
}

/// Returns whether an SVG has text. It then needs a worker that has read the fonts of this machine.
fn needs_fonts(data: &[u8]) -> bool {
    #[cfg(feature = "svg")]
    {
        picture::format_of(data).is_none() && super::svg::is_svg(data) && super::svg::may_have_text(data)
    }
    #[cfg(not(feature = "svg"))]
    {
        let _ = data;
        false
    }
}

/// Decodes a file into a picture that a model accepts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Look {
    name: String,
    wish: Wish,
}

/// The line on a picture, which follows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    line: String,
    mime: String,
}

/// The time limit of a PDF page, and some more.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(22);

impl Decoder for Look {
    type Answer = Seen;

    const NAME: &'static str = "look";
    const DEADLINE: std::time::Duration = DEADLINE;

    fn decode(self, data: Vec<u8>) -> Result<Decoded<Seen>, Fault> {
        looked(&self.name, data, self.wish)
    }
}

/// [`Look`] in a worker that has read the fonts of this machine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LookWithFonts(Look);

impl Decoder for LookWithFonts {
    type Answer = Seen;

    const NAME: &'static str = "look_with_fonts";
    const DEADLINE: std::time::Duration = DEADLINE;
    const PREPARES: bool = true;

    fn prepare() {
        #[cfg(feature = "svg")]
        super::svg::prepare_fonts();
    }

    fn decode(self, data: Vec<u8>) -> Result<Decoded<Seen>, Fault> {
        self.0.decode(data)
    }
}

fn looked(name: &str, data: Vec<u8>, wish: Wish) -> Result<Decoded<Seen>, Fault> {
    let bytes = data.len();
    if let Some((format, called)) = picture::format_of(&data) {
        no_page(wish, called)?;
        let decoded = picture::decode(&data, format, called, wish.region)?;
        drop(data);
        return shown(name, called, bytes, decoded, wish);
    }
    #[cfg(feature = "pdf")]
    if super::pdf::is_pdf(&data) {
        return page(name, data, wish);
    }
    #[cfg(feature = "svg")]
    if super::svg::is_svg(&data) {
        no_page(wish, "SVG")?;
        let decoded = super::svg::draw(&data, wish.region)?;
        return shown(name, "SVG", bytes, decoded, wish);
    }
    let kind = kind(&data);
    let next = if kind == "text" { "Read it as text files are read." } else { SHOWN };
    Err(Fault::bad_args(format!("by its content it is {kind}")).next(next))
}

const SHOWN: &str = "png, jpeg, gif, webp, bmp, tiff, svg and pages of a PDF can be shown.";

/// Describes a file by its content.
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
fn page(name: &str, data: Vec<u8>, wish: Wish) -> Result<Decoded<Seen>, Fault> {
    let number = wish.page.unwrap_or(1);
    let Some(at) = number.checked_sub(1) else {
        return Err(Fault::bad_args("`page` is 0, and pages are counted from 1"));
    };
    let bytes = data.len();
    let longest = u16::try_from(picture::LONGEST).unwrap_or(u16::MAX);
    // A part of a page is drawn larger: up to three times.
    let closer: u16 = match wish.region {
        Some([_, _, wide, high]) => {
            (picture::LONGEST / wide.max(high).max(1)).clamp(1, 3).try_into().unwrap_or(1)
        }
        None => 1,
    };
    let drawn = super::pdf::page(data, at, longest * closer)?;
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
    shown(name, &called, bytes, Picture { picture, size, notes: Vec::new() }, wish)
}

fn shown(
    name: &str,
    called: &str,
    bytes: usize,
    decoded: Picture,
    wish: Wish,
) -> Result<Decoded<Seen>, Fault> {
    let Picture { picture, size, notes } = decoded;
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
    Ok(Decoded { answer: Seen { line, mime: shown.mime.to_owned() }, blobs: vec![shown.data] })
}

/// Formats a number of bytes for people.
pub(crate) fn in_bytes(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}
