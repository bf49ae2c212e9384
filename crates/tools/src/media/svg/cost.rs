//! The cost of drawing an SVG, estimated before it is drawn.

use kit::{Fault, Kind};
use resvg::{
    tiny_skia::{Path, PathSegment, Rect},
    usvg::{self, ClipPath, Group, Mask, Node, Paint, Pattern, Transform, Tree, filter},
};

/// Maximum steps, each about as long as setting a pixel: some seconds in all.
const MOST_STEPS: f64 = 3e9;

/// Maximum bytes of all nested layers at one time.
const MOST_BYTES: f64 = 300e6;

/// Maximum size of a renderer's layer, in multiples of the picture, as filters extend beyond it.
const LARGEST_LAYER: f64 = 25.0;

const BYTES_OF_PIXEL: f64 = 4.0;

/// Refuses a drawing that exceeds the limits. The renderer can't be cancelled.
///
/// # Errors
/// [`Kind::TooBig`], with the exceeded limit.
pub(super) fn affordable(tree: &Tree, place: Transform, (width, height): (u32, u32)) -> Result<(), Fault> {
    let canvas = f64::from(width) * f64::from(height);
    let mut cost = Cost { canvas, steps: 0.0, most: 0.0 };
    cost.nodes(tree.root(), Spot { ts: place, pixels: canvas, held: canvas * BYTES_OF_PIXEL });
    if exceeds(cost.most, MOST_BYTES) {
        let what = format!("its layers, masks and patterns take {} MB", rounded(cost.most / 1e6));
        return Err(refused(&what, MOST_BYTES / 1e6, "MB"));
    }
    if exceeds(cost.steps, MOST_STEPS) {
        let what = format!("drawing it takes {} million steps", rounded(cost.steps / 1e6));
        return Err(refused(&what, MOST_STEPS / 1e6, "million"));
    }
    Ok(())
}

fn refused(what: &str, most: f64, unit: &str) -> Fault {
    let what = format!("{what}; at most {} {unit} are used", rounded(most));
    Fault::new(Kind::TooBig, what)
        .next("Take out large filters, masks and patterns, or look at a PNG that another program made of it.")
}

/// Returns whether a value exceeds the limit; NaN does.
fn exceeds(value: f64, most: f64) -> bool {
    value > most || value.is_nan()
}

fn rounded(number: f64) -> u64 {
    number.ceil() as u64
}

struct Cost {
    canvas: f64,
    steps: f64,
    /// Maximum bytes held at one time.
    most: f64,
}

/// The target of a drawing operation.
#[derive(Clone, Copy)]
struct Spot {
    ts: Transform,
    /// Pixels of its layer.
    pixels: f64,
    /// Bytes of all layers held meanwhile.
    held: f64,
}

impl Spot {
    /// Returns the number of pixels that this covers.
    fn covered(&self, rect: Rect, most: f64) -> f64 {
        let (wide, high) = self.ts.get_scale();
        let sides = (f64::from(rect.width()) * f64::from(wide)).ceil() + 1.0;
        (sides * ((f64::from(rect.height()) * f64::from(high)).ceil() + 1.0)).min(most)
    }

    fn scale(&self) -> f64 {
        let (wide, high) = self.ts.get_scale();
        f64::from(wide.max(high))
    }
}

impl Cost {
    fn is_too_much(&self) -> bool {
        exceeds(self.steps, MOST_STEPS) || exceeds(self.most, MOST_BYTES)
    }

    fn holds(&mut self, bytes: f64) {
        // Also for NaN.
        self.most = if bytes <= self.most { self.most } else { bytes };
    }

    fn nodes(&mut self, group: &Group, spot: Spot) {
        for node in group.children() {
            if self.is_too_much() {
                return;
            }
            match node {
                Node::Group(group) => self.group(group, spot),
                Node::Text(text) => self.group(text.flattened(), spot),
                Node::Path(path) => self.path(path, spot),
                Node::Image(image) => {
                    let own = f64::from(image.size().width()) * f64::from(image.size().height());
                    self.holds(spot.held + own * 2.0 * BYTES_OF_PIXEL);
                    self.steps += 16.0 * spot.covered(image.bounding_box(), spot.pixels) + 8.0 * own;
                }
            }
        }
    }

    fn group(&mut self, group: &Group, spot: Spot) {
        let ts = spot.ts.pre_concat(group.transform());
        if !group.should_isolate() {
            return self.nodes(group, Spot { ts, ..spot });
        }
        let most = self.canvas * LARGEST_LAYER;
        let pixels = Spot { ts, ..spot }.covered(group.layer_bounding_box().to_rect(), most);
        let held = spot.held + pixels * BYTES_OF_PIXEL;
        let layer = Spot { ts, pixels, held };
        self.holds(held);
        self.steps += 8.0 * pixels;
        self.nodes(group, layer);
        for filter in group.filters() {
            self.filter(filter, layer);
        }
        if let Some(clip) = group.clip_path() {
            self.clip(clip, layer);
        }
        if let Some(mask) = group.mask() {
            self.mask(mask, layer);
        }
    }

    fn clip(&mut self, clip: &ClipPath, layer: Spot) {
        let held = layer.held + layer.pixels * (BYTES_OF_PIXEL + 1.0);
        self.holds(held);
        self.steps += 8.0 * layer.pixels;
        let ts = layer.ts.pre_concat(clip.transform());
        self.nodes(clip.root(), Spot { ts, held, ..layer });
        if let Some(further) = clip.clip_path().filter(|_| !self.is_too_much()) {
            self.clip(further, Spot { held, ..layer });
        }
    }

    fn mask(&mut self, mask: &Mask, layer: Spot) {
        let held = layer.held + layer.pixels * (BYTES_OF_PIXEL + 1.0);
        self.holds(held);
        self.steps += 12.0 * layer.pixels;
        self.nodes(mask.root(), Spot { held, ..layer });
        if let Some(further) = mask.mask().filter(|_| !self.is_too_much()) {
            self.mask(further, Spot { held, ..layer });
        }
    }

    fn path(&mut self, path: &usvg::Path, spot: Spot) {
        if !path.is_visible() {
            return;
        }
        let covered = spot.covered(path.stroke_bounding_box(), spot.pixels);
        let scale = spot.scale();
        let outline = Outline::of(path.data(), scale, spot.pixels);
        if let Some(fill) = path.fill() {
            self.steps += covered + outline.crossed + 50.0 * outline.points;
            self.paint(fill.paint(), covered, spot);
        }
        if let Some(stroke) = path.stroke() {
            let dashes = stroke.dasharray().map_or(0.0, |it| {
                let once: f64 = it.iter().copied().map(f64::from).sum();
                let length = it.len() as f64;
                // The renderer's limit is a million.
                (outline.length / scale.max(1e-9) / once.max(1e-9) * length).min(1e6)
            });
            self.holds(spot.held + 200.0 * (dashes + outline.points));
            self.steps += covered + 4.0 * outline.crossed + 200.0 * (outline.points + 4.0 * dashes);
            self.paint(stroke.paint(), covered, spot);
        }
    }

    fn paint(&mut self, paint: &Paint, covered: f64, spot: Spot) {
        match paint {
            Paint::Color(_) => {}
            Paint::LinearGradient(_) | Paint::RadialGradient(_) => self.steps += 4.0 * covered,
            Paint::Pattern(pattern) => self.pattern(pattern, covered, spot),
        }
    }

    /// Adds the cost of a pattern: it is drawn anew for each use, as a whole, even if little of it is visible.
    fn pattern(&mut self, pattern: &Pattern, covered: f64, spot: Spot) {
        let (wide, high) = spot.ts.pre_concat(pattern.transform()).get_scale();
        let ts = Transform::from_scale(wide, high);
        let pixels = Spot { ts, ..spot }.covered(pattern.rect().to_rect(), f64::INFINITY);
        let held = spot.held + pixels * BYTES_OF_PIXEL;
        self.holds(held);
        self.steps += 10.0 * covered + pixels;
        if !self.is_too_much() {
            self.nodes(pattern.root(), Spot { ts, pixels, held });
        }
    }

    fn filter(&mut self, filter: &filter::Filter, layer: Spot) {
        // Each result is kept until the last one is done.
        let kept = filter.primitives().len() as f64 + 4.0;
        self.holds(layer.held + layer.pixels * BYTES_OF_PIXEL * kept);
        for primitive in filter.primitives() {
            let each = match primitive.kind() {
                filter::Kind::ConvolveMatrix(it) => {
                    6.0 * f64::from(it.matrix().columns()) * f64::from(it.matrix().rows())
                }
                filter::Kind::Morphology(it) => {
                    let side = |radius: f32| 2.0 * f64::from(radius) * layer.scale() + 1.0;
                    6.0 * side(it.radius_x().get()) * side(it.radius_y().get())
                }
                filter::Kind::Turbulence(it) => 150.0 * f64::from(it.num_octaves()),
                filter::Kind::GaussianBlur(it) => {
                    self.blur(it.std_dev_x().get().max(it.std_dev_y().get()), layer)
                }
                filter::Kind::DropShadow(it) => {
                    self.blur(it.std_dev_x().get().max(it.std_dev_y().get()), layer)
                }
                filter::Kind::DiffuseLighting(_) | filter::Kind::SpecularLighting(_) => 100.0,
                filter::Kind::Merge(it) => 8.0 * (it.inputs().len() as f64 + 1.0),
                filter::Kind::Image(it) => {
                    self.nodes(it.root(), layer);
                    16.0
                }
                filter::Kind::Blend(_)
                | filter::Kind::ColorMatrix(_)
                | filter::Kind::ComponentTransfer(_)
                | filter::Kind::Composite(_)
                | filter::Kind::DisplacementMap(_)
                | filter::Kind::Flood(_)
                | filter::Kind::Offset(_)
                | filter::Kind::Tile(_) => 16.0,
            };
            // Colours are converted there and back for each.
            self.steps += (each + 16.0) * layer.pixels;
        }
    }

    /// Returns the cost of a blur per pixel, and adds its radius once per line.
    fn blur(&mut self, deviation: f32, layer: Spot) -> f64 {
        let radius = 2.0 * f64::from(deviation) * layer.scale();
        self.steps += 20.0 * radius * layer.pixels.sqrt() * 4.0;
        100.0
    }
}

/// The length of a shape's outline, and the number of pixel rows that it crosses.
struct Outline {
    points: f64,
    length: f64,
    crossed: f64,
}

impl Outline {
    fn of(path: &Path, scale: f64, pixels: f64) -> Self {
        // Each pixel row is sampled four times; parts outside of the layer are clipped.
        let most = pixels.max(1.0);
        let mut outline = Self { points: 0.0, length: 0.0, crossed: 0.0 };
        let mut from = (0.0, 0.0);
        for segment in path.segments() {
            let points: &[_] = match &segment {
                PathSegment::MoveTo(point) => {
                    from = (f64::from(point.x), f64::from(point.y));
                    continue;
                }
                PathSegment::LineTo(point) => &[*point],
                PathSegment::QuadTo(one, two) => &[*one, *two],
                PathSegment::CubicTo(one, two, three) => &[*one, *two, *three],
                PathSegment::Close => continue,
            };
            for point in points {
                let to = (f64::from(point.x), f64::from(point.y));
                let long = (to.0 - from.0).hypot(to.1 - from.1) * scale;
                outline.points += 1.0;
                outline.length += long;
                outline.crossed += (4.0 * long).min(4.0 * most);
                from = to;
            }
        }
        outline
    }
}
