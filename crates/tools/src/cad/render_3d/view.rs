//! Camera and projection.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::stl::{Mesh, Point};

/// A direction to look from, with Z up; `top` has Y up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum View {
    Iso,
    Front,
    Back,
    Left,
    Right,
    Top,
    Bottom,
}

/// A parallel projection, so that lengths can be compared anywhere in the picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Camera {
    axes: [Point; 3],
    middle: Point,
    /// The centre of the part.
    centre: [f32; 2],
    /// Pixels per millimetre.
    pub(super) scale: f32,
}

impl View {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Iso => "iso",
            Self::Front => "front",
            Self::Back => "back",
            Self::Left => "left",
            Self::Right => "right",
            Self::Top => "top",
            Self::Bottom => "bottom",
        }
    }

    /// Returns the directions that point right, up, and towards the eye.
    fn axes(self) -> [Point; 3] {
        const X: Point = [1.0, 0.0, 0.0];
        const Y: Point = [0.0, 1.0, 0.0];
        const Z: Point = [0.0, 0.0, 1.0];
        let back = |axis: Point| axis.map(|it| -it);
        match self {
            Self::Front => [X, Z, back(Y)],
            Self::Back => [back(X), Z, Y],
            Self::Left => [back(Y), Z, back(X)],
            Self::Right => [Y, Z, X],
            Self::Top => [X, Y, Z],
            Self::Bottom => [X, back(Y), back(Z)],
            Self::Iso => {
                let (s2, s3, s6) = (2_f32.sqrt().recip(), 3_f32.sqrt().recip(), 6_f32.sqrt().recip());
                [[s2, s2, 0.0], [-s6, s6, 2.0 * s6], [s3, -s3, s3]]
            }
        }
    }
}

impl Camera {
    /// Fits a whole mesh into a picture of this size, with a free strip at the bottom.
    pub(super) fn fit(mesh: &Mesh, view: View, (width, height): (f32, f32), below: f32) -> Self {
        let axes = view.axes();
        let [low, high] = [mesh.low, mesh.high];
        let middle = add(low, high).map(|it| it / 2.0);
        let mut camera = Self { axes, middle, centre: [0.0; 2], scale: 1.0 };
        let (mut least, mut most) = ([f32::INFINITY; 2], [f32::NEG_INFINITY; 2]);
        mesh.each(|_, triangle| {
            for point in triangle {
                let [x, y, _] = camera.seen(*point);
                least = [least[0].min(x), least[1].min(y)];
                most = [most[0].max(x), most[1].max(y)];
            }
            ControlFlow::Continue(())
        });
        let above = height * 0.08;
        let free = height - above - below;
        let (wide, high) = ((most[0] - least[0]).max(1e-6), (most[1] - least[1]).max(1e-6));
        camera.scale = (width * 0.84 / wide).min(free / high);
        camera.centre = [
            width / 2.0 - (least[0] + most[0]) / 2.0 * camera.scale,
            above + free / 2.0 - (least[1] + most[1]) / 2.0 * camera.scale,
        ];
        camera
    }

    /// Returns the place of a point in pixels: right, down, and towards the eye.
    pub(super) fn seen(&self, point: Point) -> Point {
        let from = [point[0] - self.middle[0], point[1] - self.middle[1], point[2] - self.middle[2]];
        let [right, up, near] = self.turned(from);
        [self.centre[0] + right * self.scale, self.centre[1] - up * self.scale, near * self.scale]
    }

    /// Returns a direction in the picture: right, up, and towards the eye.
    pub(super) fn turned(&self, direction: Point) -> Point {
        self.axes.map(|axis| dot(axis, direction))
    }
}

pub(super) fn dot(a: Point, b: Point) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(super) fn cross(a: Point, b: Point) -> Point {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub(super) fn add(a: Point, b: Point) -> Point {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

pub(super) fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// Returns a direction of length 1; `None` for a vector without length.
pub(super) fn unit(a: Point) -> Option<Point> {
    let length = dot(a, a).sqrt();
    (length > 0.0 && length.is_finite()).then(|| a.map(|it| it / length))
}
