//! PDF documents: the text and the picture of a page. Decoded in a worker only.

mod lines;
mod unpacked;

use std::{
    cell::Cell,
    ops::Range,
    time::{Duration, Instant},
};

use hayro::{
    PixmapSettings, RenderCache, RenderSettings,
    hayro_interpret::{
        BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
        InterpreterSettings, SoftMask, TransformExt, font::GlyphRun, interpret_page,
    },
    hayro_syntax::{DecryptionError, LoadPdfError, Pdf, page::Page},
    kurbo::{BezPath, Rect},
};
use image::RgbaImage;
use kit::{
    Fault, Kind,
    decoders::{Decoded, Decoder, leave},
};
use serde::{Deserialize, Serialize};

use lines::Lines;

/// Time limit of one call on one document.
const LONGEST: Duration = Duration::from_secs(20);

/// Maximum number of glyphs, lines and areas that a call draws or reads.
const MOST_MARKS: usize = 3_000_000;

/// The cost of a layer, in marks.
const MARKS_OF_LAYER: usize = 8_000;

/// Maximum nesting of layers, each as large as the page.
const MOST_LAYERS: usize = 16;

/// Maximum pixels of all pictures on a page, however small they are shown.
const MOST_PIXELS: u64 = 48_000_000;

/// Maximum bytes of text of one call.
const MOST_TEXT: usize = 8 << 20;

/// Reads the text of these pages, counted from 0.
///
/// Its faults: [`Kind::BadArgs`] for a file that is not a PDF, needs a password, or has no such page;
/// [`Kind::TooBig`] for one that unpacks to more than the limit; [`Kind::Timeout`]; [`Kind::Failed`] for a
/// broken one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReadPages {
    pub(crate) pages: Range<usize>,
}

impl Decoder for ReadPages {
    type Answer = Text;

    const NAME: &'static str = "pdf_text";
    /// The budget ends the work before that.
    const DEADLINE: Duration = Duration::from_secs(LONGEST.as_secs() + 2);

    fn decode(self, data: Vec<u8>) -> Result<Decoded<Text>, Fault> {
        text(data, self.pages).map(Decoded::from)
    }
}

/// The text of a document's pages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Text {
    /// Number of pages of the document.
    pub(crate) total: usize,
    /// The requested pages that exist, in their order.
    pub(crate) pages: Vec<PageText>,
}

/// The text of a page.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PageText {
    /// Its text in reading order, a line for each line.
    pub(crate) text: String,
    /// Number of pictures on it.
    pub(crate) pictures: usize,
    /// Number of letters without a Unicode value.
    pub(crate) unreadable: usize,
}

impl Text {
    /// Returns a line on the parts of these pages that their text does not show.
    pub(crate) fn caution(&self) -> Option<String> {
        let all = |holds: fn(&PageText) -> bool| !self.pages.is_empty() && self.pages.iter().all(holds);
        let look = "[?; `tool:image_view` with `arg:image_view.page` shows how a page looks?]";
        if all(|it| it.text.is_empty() && it.pictures > 0 && it.unreadable == 0) {
            return Some(format!("these pages have pictures and no text: they are scanned{look}"));
        }
        let unreadable: usize = self.pages.iter().map(|it| it.unreadable).sum();
        let letters: usize = self.pages.iter().map(|it| it.text.len()).sum();
        if unreadable > 0 && unreadable * 10 > letters {
            return Some(format!("{unreadable} letters have no known meaning and are left out{look}"));
        }
        all(|it| it.text.is_empty()).then(|| format!("these pages have no text{look}"))
    }
}

/// Reads the text of pages, for a decoder that reads several formats. Only in a worker.
pub(crate) fn text(data: Vec<u8>, pages: Range<usize>) -> Result<Text, Fault> {
    opened(data, |pdf, budget| {
        let all = pdf.pages();
        if pages.start >= all.len() {
            return Err(no_page(pages.start, all.len()));
        }
        let cache = InterpreterCache::new();
        let mut found = Vec::new();
        let mut bytes = 0;
        for page in all.get(pages.start..pages.end.min(all.len())).unwrap_or_default() {
            let mut reader = Reader { budget, found: PageText::default(), lines: Lines::default() };
            look(page, &cache, &mut reader);
            let mut found_here = reader.found;
            found_here.text = reader.lines.into_text();
            bytes += found_here.text.len();
            found.push(found_here);
            if bytes > MOST_TEXT {
                break;
            }
        }
        Ok(Text { total: all.len(), pages: found })
    })
}

/// A page, drawn.
pub(super) struct Drawn {
    /// Number of pages of the document.
    pub(super) total: usize,
    /// The picture, on white.
    pub(super) picture: RgbaImage,
}

/// Draws the page `number`, counted from 0, with `longest` pixels on its longest side. Only in a worker.
///
/// # Errors
/// Those of [`ReadPages`].
pub(super) fn page(data: Vec<u8>, number: usize, longest: u16) -> Result<Drawn, Fault> {
    opened(data, |pdf, budget| {
        let all = pdf.pages();
        let Some(page) = all.get(number) else { return Err(no_page(number, all.len())) };
        // The renderer can't be cancelled, so its work is counted before.
        look(page, &InterpreterCache::new(), &mut Counter { budget, layers: 0 });
        let (width, height) = page.render_dimensions();
        let side = width.max(height);
        if !side.is_finite() || side <= 0.0 {
            return Err(Fault::new(Kind::Failed, format!("page {} has no size", number + 1)));
        }
        // The renderer truncates the size instead of rounding it.
        let scale = (f32::from(longest) + 0.01) / side;
        // A page that is much longer than wide keeps at least one pixel.
        let settings = PixmapSettings {
            x_scale: scale.max(1.0 / width),
            y_scale: scale.max(1.0 / height),
            bg_color: hayro::vello_cpu::color::palette::css::WHITE,
        };
        let drawn = hayro::render(
            page,
            &RenderCache::new(),
            &InterpreterSettings::default(),
            &RenderSettings::default(),
            &settings,
        );
        let (width, height) = (u32::from(drawn.width()), u32::from(drawn.height()));
        // On white nothing is transparent, so the colours need no conversion.
        let bytes = drawn.data_as_u8_slice().to_vec();
        let picture = RgbaImage::from_raw(width, height, bytes)
            .ok_or_else(|| Fault::bug("a page was drawn in another size than it has"))?;
        Ok(Drawn { total: all.len(), picture })
    })
}

/// Returns whether this begins as a PDF does.
pub(crate) fn is_pdf(data: &[u8]) -> bool {
    data.get(..data.len().min(1024)).is_some_and(|head| head.windows(5).any(|it| it == b"%PDF-"))
}

fn opened<T>(data: Vec<u8>, work: impl FnOnce(&Pdf, &Budget) -> Result<T, Fault>) -> Result<T, Fault> {
    if !is_pdf(&data) {
        return Err(Fault::bad_args("it is not a PDF: `%PDF-` is not at its beginning"));
    }
    let until = Instant::now() + LONGEST;
    unpacked::check(&data, &|| in_time(until))?;
    let pdf = Pdf::new(data).map_err(|error| unopened(&error))?;
    let budget = Budget { until, marks: Cell::new(MOST_MARKS), pixels: Cell::new(MOST_PIXELS) };
    work(&pdf, &budget)
}

fn unopened(error: &LoadPdfError) -> Fault {
    match error {
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) => {
            Fault::bad_args("the PDF can't be opened without its password")
                .next("A person who knows it can save a copy without one: `qpdf --password=… --decrypt in.pdf out.pdf`.")
        }
        LoadPdfError::Decryption(_) => {
            Fault::new(Kind::Failed, "the PDF is encrypted in a way that is not known")
        }
        LoadPdfError::Invalid => Fault::new(Kind::Failed, "the PDF is broken: no pages are found in it"),
    }
}

fn no_page(number: usize, total: usize) -> Fault {
    let pages = if total == 1 { "1 page".to_owned() } else { format!("{total} pages") };
    Fault::bad_args(format!("there is no page {}; the PDF has {pages}", number + 1))
}

fn in_time(until: Instant) -> Result<(), Fault> {
    if Instant::now() < until {
        return Ok(());
    }
    Err(Fault::new(Kind::Timeout, format!("the PDF took longer than {} s", LONGEST.as_secs()))
        .next("Ask for fewer pages at once."))
}

fn look<'a>(page: &'a Page<'a>, cache: &InterpreterCache<'a>, device: &mut impl Device<'a>) {
    let (width, height) = page.render_dimensions();
    let mut context = Context::new(
        page.initial_transform(true).to_kurbo(),
        Rect::new(0.0, 0.0, f64::from(width), f64::from(height)),
        cache,
        page.xref(),
        InterpreterSettings::default(),
    );
    interpret_page(page, &mut context, device);
}

/// The rest of a call's budget.
struct Budget {
    until: Instant,
    marks: Cell<usize>,
    pixels: Cell<u64>,
}

impl Budget {
    /// Spends some of it, or aborts.
    fn spend(&self, marks: usize) {
        let before = self.marks.get();
        let Some(left) = before.checked_sub(marks) else {
            leave(
                Fault::new(Kind::TooBig, format!("more than {MOST_MARKS} marks are on these pages"))
                    .next("Ask for fewer pages at once."),
            )
        };
        self.marks.set(left);
        // The clock is read now and then.
        if before / 256 != left / 256
            && let Err(fault) = in_time(self.until)
        {
            leave(fault)
        }
    }

    fn spend_picture(&self, image: &Image<'_, '_>) {
        self.spend(256);
        let pixels = u64::from(image.width()) * u64::from(image.height());
        let Some(left) = self.pixels.get().checked_sub(pixels) else {
            leave(Fault::new(
                Kind::TooBig,
                format!(
                    "the pictures on this page have more than {MOST_PIXELS} pixels, the last one {} x {}",
                    image.width(),
                    image.height()
                ),
            ))
        };
        self.pixels.set(left);
    }
}

/// Counts the drawing operations of a page.
struct Counter<'b> {
    budget: &'b Budget,
    /// Number of open layers.
    layers: usize,
}

impl<'a> Device<'a> for Counter<'_> {
    fn draw_path(&mut self, path: &BezPath, _: DrawProps<'a>, _: &DrawMode) {
        self.budget.spend(1 + path.elements().len());
    }

    fn push_clip_path(&mut self, clip: &ClipPath) {
        self.budget.spend(1 + clip.path.elements().len());
    }

    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {
        // A layer is as large as the page: creating and blending it takes milliseconds.
        self.budget.spend(MARKS_OF_LAYER);
        self.layers += 1;
        if self.layers > MOST_LAYERS {
            leave(Fault::new(
                Kind::TooBig,
                format!("more than {MOST_LAYERS} transparent layers lie over each other on this page"),
            ))
        }
    }

    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, _: DrawProps<'a>, _: &DrawMode) {
        self.budget.spend(1 + run.glyphs().len());
    }

    fn draw_image(&mut self, image: Image<'a, '_>, _: ImageDrawProps<'a>) {
        self.budget.spend_picture(&image);
    }

    fn pop_clip(&mut self) {}

    fn pop_transparency_group(&mut self) {
        self.layers = self.layers.saturating_sub(1);
    }
}

/// Reads the text of a page.
struct Reader<'b> {
    budget: &'b Budget,
    found: PageText,
    lines: Lines,
}

impl<'a> Device<'a> for Reader<'_> {
    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {
        self.budget.spend(1);
    }

    fn push_clip_path(&mut self, _: &ClipPath) {
        self.budget.spend(1);
    }

    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {
        self.budget.spend(1);
    }

    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, mode: &DrawMode) {
        self.budget.spend(1 + run.glyphs().len());
        // Text that is filled and stroked comes twice.
        if matches!(mode, DrawMode::Stroke(_)) && self.lines.just_had(run, &props.transform) {
            return;
        }
        self.found.unreadable += self.lines.add(run, &props.transform);
    }

    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {
        self.budget.spend(1);
        self.found.pictures += 1;
    }

    fn pop_clip(&mut self) {}

    fn pop_transparency_group(&mut self) {}
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::decoders::catch;

    use super::*;

    /// Returns a document of pages with these contents, in Helvetica, each 300 x 200 points.
    fn document(contents: &[&str]) -> Vec<u8> {
        let kids: Vec<String> = (0..contents.len()).map(|it| format!("{} 0 R", 4 + 2 * it)).collect();
        let mut pdf = format!(
            "%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n\
             2 0 obj <</Type/Pages/Kids[{}]/Count {}>> endobj\n\
             3 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>> endobj\n",
            kids.join(" "),
            contents.len()
        );
        for (at, content) in contents.iter().enumerate() {
            let (page, stream) = (4 + 2 * at, 5 + 2 * at);
            pdf.push_str(&format!(
                "{page} 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents {stream} 0 R\
                 /Resources<</Font<</F 3 0 R>>>>>> endobj\n\
                 {stream} 0 obj <</Length {}>> stream\n{content}\nendstream endobj\n",
                content.len()
            ));
        }
        pdf.push_str("trailer <</Root 1 0 R>>\n%%EOF\n");
        pdf.into_bytes()
    }

    fn says(contents: &[&str]) -> Text {
        text(document(contents), 0..100).unwrap()
    }

    #[test]
    fn letters_become_lines_in_the_order_of_reading() {
        let found = says(&[
            "BT /F 12 Tf 20 150 Td (Hello) Tj 40 0 Td (world.) Tj 0 -14 Td (second line) Tj ET",
            "BT /F 10 Tf 1 0 0 1 20 100 Tm [(Ke)20(rned wo)-600(rds)] TJ ET",
            "BT /F 10 Tf 20 100 Td (Name) Tj 80 0 Td (Amount) Tj 0 -40 Td (far below) Tj ET",
        ]);
        let pages: Vec<&str> = found.pages.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(found.total, 3);
        assert_eq!(pages, ["Hello world.\nsecond line", "Kerned wo rds", "Name  Amount\n\nfar below"]);
        assert_eq!(found.caution(), None);
    }

    #[test]
    fn a_page_without_text_says_so() {
        let empty = says(&["0 0 10 10 re f"]);
        assert!(empty.caution().unwrap().starts_with("these pages have no text"));
        let scanned = says(&["q 300 0 0 200 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \u{7f} EI Q"]);
        assert_eq!(scanned.pages, [PageText { pictures: 1, ..PageText::default() }]);
        assert!(scanned.caution().unwrap().contains("scanned"));
    }

    #[test]
    fn a_page_is_drawn_in_the_size_that_is_asked_for() {
        let drawn = page(document(&["1 0 0 rg 0 0 150 200 re f"]), 0, 600).unwrap();
        assert_eq!((drawn.total, drawn.picture.dimensions()), (1, (600, 400)));
        assert_eq!(drawn.picture.get_pixel(100, 200).0, [255, 0, 0, 255]);
        assert_eq!(drawn.picture.get_pixel(500, 200).0, [255, 255, 255, 255]);
    }

    #[test]
    fn a_page_of_any_size_is_drawn_no_larger() {
        let huge = |size: &str| {
            let text = String::from_utf8(document(&["0 0 1 rg 0 0 9999999 9999999 re f"])).unwrap();
            page(text.replace("[0 0 300 200]", size).into_bytes(), 0, 400)
        };
        assert_eq!(huge("[0 0 9000000 9000000]").unwrap().picture.dimensions(), (400, 400));
        assert_eq!(huge("[0 0 9000000 1]").unwrap().picture.dimensions().0, 400);
    }

    #[test]
    fn invalid_documents_and_endless_drawings_are_refused() {
        let kind = |data: &[u8]| text(data.to_vec(), 0..1).map(|_| ()).unwrap_err().kind;
        assert_eq!(kind(b"<html>"), Kind::BadArgs);
        assert_eq!(kind(b"%PDF-1.4\nnothing"), Kind::Failed);
        assert_eq!(
            text(document(&[""]), 3..4).map(|_| ()).unwrap_err().what,
            "there is no page 4; the PDF has 1 page"
        );
        let long = "0 0 1 1 re f ".repeat(700_000);
        let drawn = catch("a.pdf", || page(document(&[&long]), 0, 100).map(drop));
        assert_eq!(drawn.unwrap_err().kind, Kind::TooBig);
        // A form that draws itself twice, which would be drawn 2^50 times.
        let form = "6 0 obj <</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 6 0 R>>>>/Length 29>> \
                    stream\n0 0 1 1 re f /X Do /X Do    \nendstream endobj\ntrailer";
        let text = String::from_utf8(document(&["/X Do"])).unwrap();
        let text = text.replace("/Font<<", "/XObject<</X 6 0 R>>/Font<<").replace("trailer", form);
        let ended = catch("a.pdf", || page(text.into_bytes(), 0, 100).map(drop));
        // It ends, because either the loop is detected or the budget is spent.
        assert!(ended.is_ok() || ended.is_err_and(|it| matches!(it.kind, Kind::TooBig | Kind::Timeout)));
    }

    #[test]
    fn layers_over_each_other_and_very_many_of_them_are_refused() {
        let budget = || Budget {
            until: Instant::now() + LONGEST,
            marks: Cell::new(MOST_MARKS),
            pixels: Cell::new(MOST_PIXELS),
        };
        let push = |it: &mut Counter<'_>| it.push_transparency_group(1.0, None, BlendMode::default());
        let deep = catch("a.pdf", || {
            let budget = budget();
            let mut counter = Counter { budget: &budget, layers: 0 };
            (0..=MOST_LAYERS).for_each(|_| push(&mut counter));
            Ok(())
        });
        assert!(deep.unwrap_err().what.contains("lie over each other"));
        let many = catch("a.pdf", || {
            let budget = budget();
            let mut counter = Counter { budget: &budget, layers: 0 };
            for _ in 0..1_000 {
                push(&mut counter);
                counter.pop_transparency_group();
            }
            Ok(())
        });
        assert_eq!(many.unwrap_err().kind, Kind::TooBig);
    }
}
