//! SVG drawings, drawn from nothing but their own content and the fonts of this machine. Decoded in a worker only.

mod cost;
mod fonts;

use std::{collections::HashMap, sync::Arc};

use image::{DynamicImage, RgbaImage};
use kit::{Fault, Kind};
use resvg::{
    tiny_skia::{Color, Pixmap, Transform},
    usvg::{Group, ImageHrefResolver, ImageKind, Node, Options, Tree, fontdb::Database, roxmltree::Document},
};

pub(super) use fonts::prepare as prepare_fonts;

use super::{
    bare::bare_png,
    picture::{Decoded, LONGEST, Region, format_of, inside},
};

/// Maximum size of an SVG, in bytes.
const MOST_BYTES: usize = 8 << 20;

/// Maximum number of elements drawn, each counted as often as it is used. A letter counts as one element, and
/// so do this many bytes of attributes.
const MOST_ELEMENTS: u64 = 100_000;
const BYTES_OF_ELEMENT: usize = 200;

/// Maximum length of an entity's text.
const LONGEST_ENTITY: usize = 4 << 10;

/// Maximum nesting of layers, each as large as the picture.
const MOST_LAYERS: usize = 8;

/// Maximum pixels of all embedded pictures.
const MOST_PIXELS: u64 = 16_000_000;

/// The size at which a drawing without a useful size is drawn.
const AT_LEAST: f32 = 512.0;

/// Returns whether this begins as an SVG does.
pub(super) fn is_svg(data: &[u8]) -> bool {
    let head = data.get(..data.len().min(4096)).unwrap_or_default();
    let head = String::from_utf8_lossy(head);
    let head = head.trim_start_matches('\u{feff}').trim_start();
    let first_tag = head.find("<svg").or_else(|| head.find(":svg"));
    let page = head.to_ascii_lowercase().find("<html");
    head.starts_with('<') && first_tag.is_some_and(|at| page.is_none_or(|page| at < page))
}

/// Draws it, or a part of it. It reaches no file and no network, and its scripts do not run.
///
/// # Errors
/// [`Kind::TooBig`] for one over the limits, [`Kind::Failed`] for a broken one.
pub(super) fn draw(data: &[u8], region: Option<Region>) -> Result<Decoded, Fault> {
    if data.len() > MOST_BYTES {
        return Err(too_big(format!("it has {} bytes; at most {MOST_BYTES} are drawn", data.len())));
    }
    let text = str::from_utf8(data).map_err(|_| broken("it is not UTF-8"))?;
    // An entity may be used some hundred times.
    let entities = text.split("<!ENTITY").skip(1).map(|it| it.find('>').unwrap_or(it.len()));
    if entities.max().is_some_and(|longest| longest > LONGEST_ENTITY) {
        return Err(too_big(format!("it has an entity of more than {LONGEST_ENTITY} bytes")));
    }
    let document = Document::parse_with_options(
        text,
        resvg::usvg::roxmltree::ParsingOptions {
            allow_dtd: true,
            nodes_limit: 400_000,
            ..Default::default()
        },
    )
    .map_err(broken)?;
    if drawn(&document) > MOST_ELEMENTS {
        return Err(too_big(format!("it draws more than {MOST_ELEMENTS} elements")));
    }
    let mut notes = Vec::new();
    let has_text = document.descendants().any(|it| it.tag_name().name() == "text");
    let fonts = if has_text { fonts::all() } else { Arc::default() };
    if has_text && fonts.is_empty() {
        notes.push(
            "its text is missing: this machine has no fonts (`apt install fonts-dejavu-core`)".to_owned(),
        );
    }
    let tree = Tree::from_xmltree(&document, &options(fonts)).map_err(broken)?;
    if layers(tree.root()) > MOST_LAYERS {
        return Err(too_big(format!("it has more than {MOST_LAYERS} layers over each other")));
    }
    let (width, height) = (tree.size().width(), tree.size().height());
    let side = width.max(height);
    let longest = f32::from(u16::try_from(LONGEST).unwrap_or(u16::MAX));
    let whole = side.clamp(AT_LEAST, longest) / side;
    let size = (pixels(width * whole), pixels(height * whole));
    let [x, y, wide, high] = inside(region.unwrap_or([0, 0, size.0, size.1]), size)?;
    // A part is drawn as large as the whole would be.
    let closer = if region.is_some() { (longest / (wide.max(high) as f32)).min(16.0) } else { 1.0 };
    let (out_wide, out_high) = (pixels(wide as f32 * closer), pixels(high as f32 * closer));
    let mut pixmap = Pixmap::new(out_wide, out_high).ok_or_else(|| broken("it has no size"))?;
    // Letters are mostly black, and some models take transparency for black.
    pixmap.fill(Color::WHITE);
    let place = Transform::from_scale(whole * closer, whole * closer)
        .post_translate(-(x as f32) * closer, -(y as f32) * closer);
    cost::affordable(&tree, place, (out_wide, out_high))?;
    resvg::render(&tree, place, &mut pixmap.as_mut());
    let straight = pixmap.take_demultiplied();
    let picture = RgbaImage::from_raw(out_wide, out_high, straight)
        .ok_or_else(|| Fault::bug("an SVG was drawn in another size than it has"))?;
    Ok(Decoded { picture: DynamicImage::ImageRgba8(picture), size, notes })
}

fn pixels(length: f32) -> u32 {
    (length.round() as u32).clamp(1, 2 * LONGEST)
}

fn options(fonts: Arc<Database>) -> Options<'static> {
    let left = std::sync::atomic::AtomicU64::new(MOST_PIXELS);
    Options {
        fontdb: fonts,
        image_href_resolver: ImageHrefResolver {
            // An embedded picture; an SVG within an SVG is not drawn.
            resolve_data: Box::new(move |_, data, _| {
                use std::sync::atomic::Ordering::Relaxed;
                let data = match bare_png(&data) {
                    Some(bare) => Arc::new(bare),
                    None => data,
                };
                let size = image::ImageReader::new(std::io::Cursor::new(data.as_slice()))
                    .with_guessed_format()
                    .ok()?
                    .into_dimensions()
                    .ok()?;
                let pixels = u64::from(size.0) * u64::from(size.1);
                left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(pixels)).ok()?;
                match format_of(&data)?.0 {
                    image::ImageFormat::Png => Some(ImageKind::PNG(data)),
                    image::ImageFormat::Jpeg => Some(ImageKind::JPEG(data)),
                    image::ImageFormat::Gif => Some(ImageKind::GIF(data)),
                    image::ImageFormat::WebP => Some(ImageKind::WEBP(data)),
                    _ => None,
                }
            }),
            // The default would open files.
            resolve_string: Box::new(|_, _| None),
        },
        ..Options::default()
    }
}

/// Returns whether an SVG may have text. One without is drawn without fonts.
pub(super) fn may_have_text(data: &[u8]) -> bool {
    data.windows(5).any(|it| it == b"<text" || it == b":text")
}

/// Returns the number of elements drawn, including reuse; a very large number if an element uses itself.
fn drawn(document: &Document<'_>) -> u64 {
    let by_id: HashMap<&str, _> =
        document.descendants().filter_map(|it| Some((it.attribute("id")?, it))).collect();
    // A marker is drawn at each point of a path that has one, by attribute or by style.
    let mut marker = 0;
    for it in document.descendants().filter(|it| it.tag_name().name() == "marker") {
        marker = weight(it, &by_id, &mut HashMap::new(), 0, (0, false)).max(marker);
    }
    let source = document.input_text();
    let at_points =
        ["marker-mid", "marker:", "marker=", "marker ", "marker\n"].iter().any(|it| source.contains(it));
    weight(document.root_element(), &by_id, &mut HashMap::new(), 0, (marker, at_points))
}

fn weight<'a>(
    node: resvg::usvg::roxmltree::Node<'a, 'a>,
    by_id: &HashMap<&str, resvg::usvg::roxmltree::Node<'a, 'a>>,
    known: &mut HashMap<resvg::usvg::roxmltree::NodeId, u64>,
    depth: usize,
    marker: (u64, bool),
) -> u64 {
    const DEEPEST: usize = 1_000;
    if let Some(weight) = known.get(&node.id()) {
        return *weight;
    }
    if depth > DEEPEST {
        return u64::MAX;
    }
    // While it is being counted its own weight is zero: renderers don't draw an element that uses itself.
    known.insert(node.id(), 0);
    let below = node
        .children()
        .filter(resvg::usvg::roxmltree::Node::is_element)
        .map(|it| weight(it, by_id, known, depth + 1, marker));
    let below = below.fold(0u64, u64::saturating_add);
    // Any attribute may refer to an element: by `href`, or as `url(#id)`.
    let mut referred = 0u64;
    for attribute in node.attributes() {
        for id in ids_in(attribute.name(), attribute.value()) {
            if let Some(target) = by_id.get(id) {
                referred = referred.saturating_add(weight(*target, by_id, known, depth + 1, marker));
            }
        }
    }
    let weight = own(node, marker).saturating_add(below).saturating_add(referred);
    known.insert(node.id(), weight);
    weight
}

/// Returns the weight of an element itself.
fn own(node: resvg::usvg::roxmltree::Node<'_, '_>, (marker, at_points): (u64, bool)) -> u64 {
    let name = node.tag_name().name();
    let attributes: usize = node.attributes().map(|it| it.value().len()).sum();
    let letters: usize = match name {
        "style" | "script" | "title" | "desc" | "metadata" => 0,
        _ => {
            let texts =
                node.children().filter(resvg::usvg::roxmltree::Node::is_text).filter_map(|it| it.text());
            texts.map(|it| it.chars().filter(|it| !it.is_whitespace()).count()).sum()
        }
    };
    let embedded = name == "image";
    let points = match name {
        "path" | "polyline" | "polygon" | "line" if !at_points => 2,
        // A point takes at least two bytes.
        "path" | "polyline" | "polygon" | "line" => {
            2 + node.attribute("d").or(node.attribute("points")).map_or(0, |it| it.len() / 2)
        }
        _ => 0,
    };
    let attributes = if embedded { 0 } else { attributes / BYTES_OF_ELEMENT };
    (1 + attributes as u64)
        .saturating_add(letters as u64)
        .saturating_add(marker.saturating_mul(points as u64))
}

fn ids_in<'a>(name: &str, value: &'a str) -> Vec<&'a str> {
    if name == "href" {
        return value.trim().strip_prefix('#').into_iter().collect();
    }
    value
        .split("url(")
        .skip(1)
        .filter_map(|it| it.split(')').next())
        .map(|it| it.trim_matches(|it: char| it.is_whitespace() || it == '"' || it == '\''))
        .filter_map(|it| it.strip_prefix('#'))
        .collect()
}

fn layers(group: &Group) -> usize {
    let below = group.children().iter().map(|it| match it {
        Node::Group(group) => layers(group),
        Node::Path(_) | Node::Image(_) | Node::Text(_) => 0,
    });
    below.max().unwrap_or(0) + usize::from(group.should_isolate())
}

fn too_big(what: String) -> Fault {
    Fault::new(Kind::TooBig, what)
}

fn broken(why: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Failed, format!("it is broken as SVG: {why}"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn drawn_of(inner: &str) -> Result<Decoded, Fault> {
        let svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="1500" height="1500">{inner}</svg>"##
        );
        draw(svg.as_bytes(), None)
    }

    fn is_refused(inner: &str) {
        let fault = drawn_of(inner).err().unwrap();
        assert_eq!(fault.kind, Kind::TooBig, "{inner:.100}: {}", fault.what);
    }

    #[test]
    fn a_filter_that_takes_too_long_is_not_begun() {
        for it in [
            r#"<feTurbulence numOctaves="100000000" baseFrequency="0.9"/>"#.to_owned(),
            r#"<feMorphology radius="700"/>"#.to_owned(),
            format!(r#"<feConvolveMatrix order="100" kernelMatrix="{}"/>"#, "1 ".repeat(10_000)),
            r#"<feGaussianBlur stdDeviation="1000000"/>"#.to_owned(),
            r#"<feFlood/>"#.repeat(200),
        ] {
            is_refused(&format!(
                r##"<filter id="f">{it}</filter><rect width="1500" height="1500" filter="url(#f)"/>"##
            ));
        }
        is_refused(
            r##"<filter id="f" x="-100" y="-100" width="300" height="300"><feGaussianBlur stdDeviation="9"/></filter><rect width="1500" height="1500" filter="url(#f)"/>"##,
        );
    }

    #[test]
    fn an_ordinary_filter_is_drawn() {
        let shadow = r##"<filter id="f"><feDropShadow dx="2" dy="2" stdDeviation="3"/></filter><rect x="10" y="10" width="40" height="20" filter="url(#f)"/>"##;
        assert_eq!(drawn_of(shadow).unwrap().size, (1500, 1500));
    }

    #[test]
    fn drawings_beyond_the_memory_limit_are_not_begun() {
        is_refused(
            r##"<pattern id="p" width="30000" height="30000" patternUnits="userSpaceOnUse"><rect width="30000" height="30000"/></pattern><rect width="9" height="9" fill="url(#p)"/>"##,
        );
        let masks: String = (0..100)
            .map(|it| format!(r##"<mask id="m{it}" mask="url(#m{})"><rect width="1500" height="1500" fill="white"/></mask>"##, it + 1))
            .collect();
        is_refused(&format!(r##"{masks}<rect width="1500" height="1500" mask="url(#m0)"/>"##));
        is_refused(&format!("<text>{}</text>", "x".repeat(200_000)));
        let marked = format!(
            r##"<marker id="m">{}</marker><path marker-mid="url(#m)" d="M0 0{}"/>"##,
            "<rect/>".repeat(50),
            "h1".repeat(5_000)
        );
        is_refused(&marked);
    }
}
