//! How does an SVG look, with nothing but itself?

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use image::{DynamicImage, RgbaImage};
use kit::{Fault, Kind};
use resvg::{
    tiny_skia::{Color, Pixmap, Transform},
    usvg::{Group, ImageHrefResolver, ImageKind, Node, Options, Tree, fontdb::Database, roxmltree::Document},
};

use super::picture::{Decoded, LONGEST, Region, format_of, inside};

/// The longest SVG that is drawn, in bytes.
const MOST_BYTES: usize = 8 << 20;

/// The most elements that it draws, each counted as often as it is used.
const MOST_ELEMENTS: u64 = 100_000;

/// The longest text that an entity stands for.
const LONGEST_ENTITY: usize = 4 << 10;

/// So many layers lie over each other at most: each is as large as the picture.
const MOST_LAYERS: usize = 8;

/// The most pixels of all pictures within it.
const MOST_PIXELS: u64 = 16_000_000;

/// A drawing without a size worth the name is drawn so large.
const AT_LEAST: f32 = 512.0;

/// Does this begin as an SVG does?
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
/// [`Kind::TooBig`] for one that draws more than is drawn, [`Kind::Failed`] for one that is broken.
pub(super) fn draw(data: &[u8], region: Option<Region>) -> Result<Decoded, Fault> {
    if data.len() > MOST_BYTES {
        return Err(too_big(format!("it has {} bytes; at most {MOST_BYTES} are drawn", data.len())));
    }
    let text = str::from_utf8(data).map_err(|_| broken("it is not UTF-8"))?;
    // An entity may be used some hundred times, wherever it is.
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
    let fonts = if has_text { fonts() } else { Arc::default() };
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
    // Letters are black mostly, and so is what some models take nothing for.
    pixmap.fill(Color::WHITE);
    let place = Transform::from_scale(whole * closer, whole * closer)
        .post_translate(-(x as f32) * closer, -(y as f32) * closer);
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
            // A picture that is written into it; none that is an SVG again.
            resolve_data: Box::new(move |_, data, _| {
                use std::sync::atomic::Ordering::Relaxed;
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

/// The fonts of this machine, read at first use.
fn fonts() -> Arc<Database> {
    static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
    let load = || {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        // A family that is not here is shown in one that is.
        if let Some(family) = family(&fonts) {
            fonts.set_serif_family(&family);
            fonts.set_sans_serif_family(&family);
            fonts.set_monospace_family(&family);
            fonts.set_cursive_family(&family);
            fonts.set_fantasy_family(family);
        }
        Arc::new(fonts)
    };
    FONTS.get_or_init(load).clone()
}

/// The family that has most letters, by its name; or any.
fn family(fonts: &Database) -> Option<String> {
    let names = || fonts.faces().filter_map(|face| face.families.first()).map(|(name, _)| name);
    let known = |name: &&str| names().any(|it| it == name);
    let wide = ["DejaVu Sans", "Noto Sans", "Liberation Sans", "Arial", "Helvetica"];
    wide.iter().find(|it| known(it)).map(|it| (*it).to_owned()).or_else(|| names().next().cloned())
}

/// How many elements are drawn in the end, where some are used by others; very many, if one uses itself.
fn drawn(document: &Document<'_>) -> u64 {
    let by_id: HashMap<&str, _> =
        document.descendants().filter_map(|it| Some((it.attribute("id")?, it))).collect();
    let mut known = HashMap::new();
    weight(document.root_element(), &by_id, &mut known, 0)
}

fn weight<'a>(
    node: resvg::usvg::roxmltree::Node<'a, 'a>,
    by_id: &HashMap<&str, resvg::usvg::roxmltree::Node<'a, 'a>>,
    known: &mut HashMap<resvg::usvg::roxmltree::NodeId, u64>,
    depth: usize,
) -> u64 {
    const DEEPEST: usize = 1_000;
    if let Some(weight) = known.get(&node.id()) {
        return *weight;
    }
    if depth > DEEPEST {
        return u64::MAX;
    }
    // While it is looked at, its own weight is nothing: what uses itself is not drawn by anybody.
    known.insert(node.id(), 0);
    let below = node
        .children()
        .filter(resvg::usvg::roxmltree::Node::is_element)
        .map(|it| weight(it, by_id, known, depth + 1));
    let below = below.fold(0u64, u64::saturating_add);
    // Anything may refer to anything: by `href`, or as `url(#id)` in any attribute.
    let mut referred = 0u64;
    for attribute in node.attributes() {
        for id in ids_in(attribute.name(), attribute.value()) {
            if let Some(target) = by_id.get(id) {
                referred = referred.saturating_add(weight(*target, by_id, known, depth + 1));
            }
        }
    }
    let weight = 1u64.saturating_add(below).saturating_add(referred);
    known.insert(node.id(), weight);
    weight
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
