//! The picture of a part: light, edges, dimensions.

use super::{
    super::stl::Mesh,
    letters::{self, rows_of},
    raster::{Samples, Turned},
    smooth::Smooth,
    view::{Camera, View, dot},
};

/// Samples in each direction of a pixel.
const FINE: usize = 2;
/// The cosine of the angle from which on two sides meet in an edge: 30°.
const EDGE: f32 = 0.866;

type Colour = [f32; 3];

const PAPER: [Colour; 2] = [[248.0, 249.0, 251.0], [222.0, 227.0, 233.0]];
const OUTSIDE: Colour = [126.0, 164.0, 204.0];
/// The inside of a facet is seen only where a part is open or turned inside out.
const INSIDE: Colour = [214.0, 122.0, 92.0];
const INK: Colour = [52.0, 58.0, 66.0];
const AXES: [(&str, Colour); 3] =
    [("X", [208.0, 62.0, 62.0]), ("Y", [46.0, 148.0, 72.0]), ("Z", [52.0, 96.0, 208.0])];

/// A picture, three bytes a pixel.
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pixels: Vec<u8>,
}

impl Picture {
    /// Draws a mesh from this side.
    pub(super) fn of(
        mesh: &Mesh,
        smooth: Option<&Smooth>,
        view: View,
        (width, height): (usize, usize),
    ) -> Self {
        let fine = (width * FINE, height * FINE);
        let mut picture = Self { width, height, pixels: Vec::with_capacity(width * height * 3) };
        // The axes and the bar are below the part; in a low picture they overlap it.
        let below = (picture.zoom() * 66).min(height * 3 / 10) * FINE;
        let camera = Camera::fit(mesh, view, (fine.0 as f32, fine.1 as f32), below as f32);
        let samples = Samples::of(mesh, smooth, &camera, fine);
        picture.shade(&samples);
        picture.axes(&camera);
        picture.scale(camera.scale / FINE as f32);
        let zoom = picture.zoom();
        picture.write(7 * zoom, 7 * zoom, zoom, INK, view.name());
        picture
    }

    fn shade(&mut self, samples: &Samples) {
        for y in 0..self.height {
            let down = y as f32 / self.height as f32;
            let paper = [0, 1, 2].map(|it| blend(part(PAPER[0], it), part(PAPER[1], it), down));
            for x in 0..self.width {
                let mut sum = [0.0; 3];
                for sample in 0..FINE * FINE {
                    let (sx, sy) = (x * FINE + sample % FINE, y * FINE + sample / FINE);
                    let colour = samples.colour(sx, sy).unwrap_or(paper);
                    sum = [0, 1, 2].map(|it| part(sum, it) + part(colour, it));
                }
                self.pixels.extend(sum.map(|it| (it / (FINE * FINE) as f32 + 0.5) as u8));
            }
        }
    }

    /// Draws three arrows in the lower left corner.
    fn axes(&mut self, camera: &Camera) {
        let zoom = self.zoom() as f32;
        let long = 22.0 * zoom;
        let (x, y) = (36.0 * zoom, self.height as f32 - 36.0 * zoom);
        let mut axes: Vec<_> = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
            .map(|it| camera.turned(it))
            .into_iter()
            .zip(AXES)
            .collect();
        // The arrow towards the eye is drawn last.
        axes.sort_by(|a, b| a.0[2].total_cmp(&b.0[2]));
        for ([right, up, near], (name, colour)) in axes {
            let flat = right.hypot(up);
            let (tip_x, tip_y) = (x + right * long, y - up * long);
            if flat > 0.1 {
                self.line((x, y), (tip_x, tip_y), 0.9 * zoom, colour);
                let (dx, dy) = (right / flat, -up / flat);
                for side in [-0.45, 0.45] {
                    let back = (tip_x - (dx - dy * side) * 5.0 * zoom, tip_y - (dy + dx * side) * 5.0 * zoom);
                    self.line((tip_x, tip_y), back, 0.9 * zoom, colour);
                }
                let (at_x, at_y) = (tip_x + dx * 7.0 * zoom, tip_y + dy * 7.0 * zoom);
                self.write(
                    (at_x - 2.5 * zoom) as usize,
                    (at_y - 3.5 * zoom) as usize,
                    zoom as usize,
                    colour,
                    name,
                );
            } else {
                // It points at the eye, or away from it.
                self.line((x, y), (x + 0.01, y), if near > 0.0 { 3.0 * zoom } else { 1.6 * zoom }, colour);
                self.write(
                    (x - 10.0 * zoom) as usize,
                    (y + 4.0 * zoom) as usize,
                    zoom as usize,
                    colour,
                    name,
                );
            }
        }
    }

    /// Draws a bar of a round length in the lower right corner.
    fn scale(&mut self, per_mm: f32) {
        let zoom = self.zoom();
        let (length, label) = round_length(self.width as f32 * 0.22 / per_mm);
        let long = length * per_mm;
        let (right, y) = ((self.width - 12 * zoom) as f32, (self.height - 12 * zoom) as f32);
        let (left, tick, thin) = (right - long, 3.0 * zoom as f32, 0.6 * zoom as f32);
        self.line((left, y), (right, y), thin, INK);
        for end in [left, right] {
            self.line((end, y - tick), (end, y + tick), thin, INK);
        }
        let wide = label.chars().count() * 6 * zoom;
        let middle = f32::midpoint(left, right) as usize;
        let from = middle.saturating_sub(wide / 2).min(self.width.saturating_sub(wide + 2 * zoom));
        self.write(from, self.height.saturating_sub(26 * zoom), zoom, INK, &label);
    }

    /// Returns the scale of the lettering.
    fn zoom(&self) -> usize {
        (self.width.min(self.height) / 340).clamp(1, 4)
    }

    fn write(&mut self, x: usize, y: usize, zoom: usize, colour: Colour, text: &str) {
        for (place, letter) in text.chars().enumerate() {
            for (row, bits) in rows_of(letter).into_iter().enumerate() {
                for column in (0..letters::WIDE).filter(|it| bits >> (letters::WIDE - 1 - it) & 1 == 1) {
                    for dot in 0..zoom * zoom {
                        let at_x = x + (place * (letters::WIDE + 1) + column) * zoom + dot % zoom;
                        self.mix(at_x as isize, (y + row * zoom + dot / zoom) as isize, colour, 1.0);
                    }
                }
            }
        }
    }

    /// Draws a line with soft sides and round ends.
    fn line(&mut self, from: (f32, f32), to: (f32, f32), half: f32, colour: Colour) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let square = (dx * dx + dy * dy).max(1e-9);
        let least = |a: f32, b: f32| (a.min(b) - half - 1.0).floor() as isize;
        let most = |a: f32, b: f32| (a.max(b) + half + 1.0).ceil() as isize;
        for y in least(from.1, to.1)..=most(from.1, to.1) {
            for x in least(from.0, to.0)..=most(from.0, to.0) {
                let (px, py) = (x as f32 + 0.5 - from.0, y as f32 + 0.5 - from.1);
                let along = ((px * dx + py * dy) / square).clamp(0.0, 1.0);
                let away = (px - along * dx).hypot(py - along * dy);
                self.mix(x, y, colour, (half + 0.5 - away).clamp(0.0, 1.0));
            }
        }
    }

    fn mix(&mut self, x: isize, y: isize, colour: Colour, how: f32) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x >= self.width || y >= self.height || how <= 0.0 {
            return;
        }
        let at = (y * self.width + x) * 3;
        for (value, ink) in self.pixels.iter_mut().skip(at).take(3).zip(colour) {
            *value = (blend(f32::from(*value), ink, how) + 0.5) as u8;
        }
    }
}

impl Samples {
    /// Returns the colour of a sample; `None` for the background.
    fn colour(&self, x: usize, y: usize) -> Option<Colour> {
        let at = y * self.width + x;
        let turned = self.turned.get(at).copied().filter(|it| !it.is_nothing())?;
        let normal = turned.normal();
        let base = if turned.is_inside() { INSIDE } else { OUTSIDE };
        let dark = if self.is_edge(x, y, at, turned) { 0.42 } else { 1.0 };
        let light = lit(normal);
        Some(base.map(|it| (it * light.0 + light.1).min(255.0) * dark))
    }

    /// Returns whether another side, another part or the background begins here.
    fn is_edge(&self, x: usize, y: usize, at: usize, own: Turned) -> bool {
        let normal = own.normal();
        let near = self.near.get(at).copied().unwrap_or(0.0);
        let steep = normal[2].max(0.05);
        let differs = |other: usize, slope: f32| {
            let Some(turned) = self.turned.get(other).copied().filter(|it| !it.is_nothing()) else {
                return true;
            };
            let drop = (self.near.get(other).copied().unwrap_or(near) - near).abs();
            dot(normal, turned.normal()) < EDGE || drop > 3.0 + 2.5 * (slope / steep).abs()
        };
        (x + 1 < self.width && differs(at + 1, normal[0]))
            || (y + 1 < self.height && differs(at + self.width, normal[1]))
            || (x > 0 && self.turned.get(at - 1).is_some_and(|it| it.is_nothing()))
            || (y > 0 && self.turned.get(at - self.width).is_some_and(|it| it.is_nothing()))
    }
}

/// Returns how much a side shows of its own colour, and of the lights'. The lights move with the eye: one
/// above to the left, a weak one below to the right, and one behind for sides that turn away.
fn lit(normal: [f32; 3]) -> (f32, f32) {
    const KEY: [f32; 3] = [-0.42, 0.62, 0.66];
    const FILL: [f32; 3] = [0.70, -0.28, 0.65];
    const HALF: [f32; 3] = [-0.23, 0.34, 0.91];
    let key = dot(normal, KEY).max(0.0);
    let fill = dot(normal, FILL).max(0.0);
    let shine = dot(normal, HALF).max(0.0).powi(40);
    let rim = (1.0 - normal[2].clamp(0.0, 1.0)).powi(4);
    (0.48 + 0.56 * key + 0.12 * fill, 22.0 * shine + 14.0 * rim)
}

fn part(colour: Colour, at: usize) -> f32 {
    colour.get(at).copied().unwrap_or(0.0)
}

fn blend(a: f32, b: f32, how: f32) -> f32 {
    a + (b - a) * how
}

/// Returns the longest of 1, 2, 5, 10, 20, … millimetres within the limit, and its text.
fn round_length(most: f32) -> (f32, String) {
    let power = most.log10().floor();
    let ten = 10_f32.powf(power);
    let lead = [5.0, 2.0, 1.0].into_iter().find(|it| it * ten <= most * 1.0001).unwrap_or(1.0);
    let decimals = if power < 0.0 { (-power) as usize } else { 0 };
    (lead * ten, format!("{:.decimals$} mm", lead * ten))
}

#[cfg(test)]
mod tests {
    use super::round_length;

    #[test]
    fn the_bar_has_a_round_length() {
        for (most, says) in [
            (12.0, "10 mm"),
            (9.9, "5 mm"),
            (0.3, "0.2 mm"),
            (2000.0, "2000 mm"),
            (1.0, "1 mm"),
            (0.012, "0.01 mm"),
        ] {
            assert_eq!(round_length(most).1, says, "{most}");
        }
    }
}
