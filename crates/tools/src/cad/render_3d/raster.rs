//! Rasterizer with a depth buffer.

use std::ops::ControlFlow;

use super::{
    super::stl::{Mesh, Point, Triangle},
    smooth::Smooth,
    view::{Camera, cross, minus, unit},
};

/// The front surface at each sample: its depth and its direction.
pub(super) struct Samples {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) near: Vec<f32>,
    pub(super) turned: Vec<Turned>,
}

/// A direction in 30 bits, and whether the inside of a facet is visible. Zero for the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turned(u32);

impl Turned {
    pub(super) const NOTHING: Self = Self(0);
    const THERE: u32 = 1 << 31;
    const INSIDE: u32 = 1 << 30;

    fn new(normal: Point, inside: bool) -> Self {
        let part = |it: f32| ((it * 511.0) as i32 + 512).clamp(0, 1023) as u32;
        let flag = if inside { Self::INSIDE } else { 0 };
        Self(Self::THERE | flag | part(normal[0]) << 20 | part(normal[1]) << 10 | part(normal[2]))
    }

    pub(super) fn is_nothing(self) -> bool {
        self.0 == 0
    }

    pub(super) fn is_inside(self) -> bool {
        self.0 & Self::INSIDE != 0
    }

    pub(super) fn normal(self) -> Point {
        let part = |shift: u32| ((self.0 >> shift & 1023) as f32 - 512.0) / 511.0;
        [part(20), part(10), part(0)]
    }
}

impl Samples {
    /// Draws a mesh.
    pub(super) fn of(
        mesh: &Mesh,
        smooth: Option<&Smooth>,
        camera: &Camera,
        (width, height): (usize, usize),
    ) -> Self {
        let count = width * height;
        let mut samples = Self {
            width,
            height,
            near: vec![f32::NEG_INFINITY; count],
            turned: vec![Turned::NOTHING; count],
        };
        mesh.each(|number, triangle| {
            samples.draw(number, triangle, smooth, camera);
            ControlFlow::Continue(())
        });
        samples
    }

    fn draw(&mut self, number: usize, triangle: &Triangle, smooth: Option<&Smooth>, camera: &Camera) {
        let [a, b, c] = triangle.map(|it| camera.seen(it));
        // The samples whose centres lie in its bounds: mostly none if there are more triangles than samples.
        let first = |low: f32| (low - 0.5).ceil().max(0.0) as usize;
        let last = |high: f32, count: usize| ((high - 0.5).floor() as isize).min(count as isize - 1);
        let (left, right) = (first(a[0].min(b[0]).min(c[0])), last(a[0].max(b[0]).max(c[0]), self.width));
        let (top, bottom) = (first(a[1].min(b[1]).min(c[1])), last(a[1].max(b[1]).max(c[1]), self.height));
        if left as isize > right || top as isize > bottom {
            return;
        }
        let twice = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
        if twice == 0.0 {
            return;
        }
        // Down is positive here: counterclockwise from outside is clockwise in the picture.
        let inside = twice > 0.0;
        let Some(normal) = facing(a, b, c, inside).filter(|it| it[2] > 1e-4) else { return };
        let corners = smooth
            .filter(|_| !inside)
            .and_then(|it| it.corners(number))
            .map(|it| it.map(|it| camera.turned(it)));
        let flat = Turned::new(normal, inside);
        // The change of the corners' weights from sample to sample.
        let step = |p: Point, q: Point| [(p[1] - q[1]) / twice, (q[0] - p[0]) / twice];
        let (to_a, to_b) = (step(b, c), step(c, a));
        let to_c = [-to_a[0] - to_b[0], -to_a[1] - to_b[1]];
        // Neighbours overlap slightly, so that no sample between them is lost to rounding.
        let least = |to: [f32; 2]| -0.02 * (to[0].abs() + to[1].abs());
        let (least_a, least_b, least_c) = (least(to_a), least(to_b), least(to_c));
        let begin = [left as f32 + 0.5, top as f32 + 0.5];
        let weight = |to: [f32; 2], p: Point| (begin[0] - p[0]) * to[0] + (begin[1] - p[1]) * to[1];
        let (mut row_a, mut row_b) = (weight(to_a, b), weight(to_b, c));
        let [near_a, near_b] = [a[2] - c[2], b[2] - c[2]];
        // If both sides of a thin wall are equally near, the outside is shown.
        let behind = if inside { c[2] - 0.01 } else { c[2] };
        let wide = right as usize - left + 1;
        for row in top..=bottom as usize {
            let from = row * self.width + left;
            let near = self.near.get_mut(from..from + wide).unwrap_or_default();
            let turned = self.turned.get_mut(from..from + wide).unwrap_or_default();
            let (mut in_a, mut in_b) = (row_a, row_b);
            for (near, turned) in near.iter_mut().zip(turned) {
                let in_c = 1.0 - in_a - in_b;
                if in_a >= least_a && in_b >= least_b && in_c >= least_c {
                    let depth = behind + in_a * near_a + in_b * near_b;
                    if depth > *near {
                        *near = depth;
                        *turned = corners.map_or(flat, |[u, v, w]| {
                            let mixed = [0, 1, 2].map(|it| mix(it, [in_a, in_b, in_c], [&u, &v, &w]));
                            unit(mixed).map_or(flat, |it| Turned::new(it, false))
                        });
                    }
                }
                in_a += to_a[0];
                in_b += to_b[0];
            }
            row_a += to_a[1];
            row_b += to_b[1];
        }
    }
}

fn mix(axis: usize, weights: [f32; 3], of: [&Point; 3]) -> f32 {
    of.iter().zip(weights).map(|(point, weight)| point.get(axis).copied().unwrap_or(0.0) * weight).sum()
}

/// Returns the direction of a triangle in the picture, with up as positive, towards the eye.
fn facing(a: Point, b: Point, c: Point, inside: bool) -> Option<Point> {
    let flip = |p: Point| [p[0], -p[1], p[2]];
    let (a, b, c) = (flip(a), flip(b), flip(c));
    let normal = unit(cross(minus(b, a), minus(c, a)))?;
    Some(if inside { normal.map(|it| -it) } else { normal })
}
