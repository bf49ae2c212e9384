//! Volume and surface of a mesh, and the check whether it is closed.

use std::{collections::HashMap, ops::ControlFlow};

use super::stl::{Mesh, Triangle};

/// The corners of each triangle as indexes of points: equal points have equal indexes.
pub(super) struct Welded {
    pub(super) corners: Vec<[u32; 3]>,
    /// Number of different points.
    pub(super) points: u32,
}

/// The measurements of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Solid {
    /// In mm³; negative where the facets are turned inside out.
    pub(super) volume: f64,
    /// In mm².
    pub(super) surface: f64,
    /// Number of pieces that share no corner.
    pub(super) bodies: usize,
    /// Number of edges with one facet only, or with two of opposite orientation.
    pub(super) open: usize,
    /// Number of edges with more than two facets.
    pub(super) shared: usize,
}

impl Welded {
    pub(super) fn of(mesh: &Mesh) -> Self {
        let mut numbers: HashMap<[u32; 3], u32> = HashMap::with_capacity(mesh.len() / 2);
        let mut corners = Vec::with_capacity(mesh.len());
        mesh.each(|_, triangle| {
            corners.push(triangle.map(|point| {
                // Both zeroes are equal.
                let place = point.map(|it| (it + 0.0).to_bits());
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                *numbers.entry(place).or_insert(next)
            }));
            ControlFlow::Continue(())
        });
        Self { corners, points: u32::try_from(numbers.len()).unwrap_or(u32::MAX) }
    }

    fn bodies(&self) -> usize {
        let mut parents: Vec<u32> = (0..self.points).collect();
        for [a, b, c] in &self.corners {
            let root = find(&mut parents, *a);
            for other in [*b, *c] {
                let other = find(&mut parents, other);
                if let Some(parent) = parents.get_mut(other as usize) {
                    *parent = root;
                }
            }
        }
        (0..self.points).zip(&parents).filter(|(own, parent)| own == *parent).count()
    }

    /// Returns the number of open edges, and of those with more than two facets.
    fn edges(&self) -> (usize, usize) {
        // One for each side of a facet: the edge from its lower point, and the direction of the facet.
        let mut sides: Vec<(u64, bool)> = Vec::with_capacity(self.corners.len() * 3);
        for [a, b, c] in &self.corners {
            if a == b || b == c || c == a {
                continue;
            }
            for (from, to) in [(*a, *b), (*b, *c), (*c, *a)] {
                sides.push((u64::from(from.min(to)) << 32 | u64::from(from.max(to)), from < to));
            }
        }
        sides.sort_unstable();
        let (mut open, mut shared) = (0, 0);
        for edge in sides.chunk_by(|a, b| a.0 == b.0) {
            let there = edge.iter().filter(|it| it.1).count();
            if there * 2 != edge.len() {
                open += 1;
            } else if edge.len() > 2 {
                shared += 1;
            }
        }
        (open, shared)
    }
}

/// Returns the point that represents the piece of this one.
fn find(parents: &mut [u32], mut point: u32) -> u32 {
    loop {
        let parent = parents.get(point as usize).copied().unwrap_or(point);
        if parent == point {
            return point;
        }
        let above = parents.get(parent as usize).copied().unwrap_or(parent);
        if let Some(it) = parents.get_mut(point as usize) {
            *it = above;
        }
        point = above;
    }
}

impl Solid {
    pub(super) fn of(mesh: &Mesh) -> Self {
        let welded = Welded::of(mesh);
        let (open, shared) = welded.edges();
        // Relative to its centre, so that a part far from the origin loses no digits.
        let middle = [0, 1, 2].map(|it| {
            let of = |point: &[f32; 3]| f64::from(point.get(it).copied().unwrap_or(0.0));
            f64::midpoint(of(&mesh.low), of(&mesh.high))
        });
        let (mut volume, mut surface) = (0.0, 0.0);
        mesh.each(|_, triangle| {
            let (tetrahedron, area) = share(triangle, middle);
            volume += tetrahedron;
            surface += area;
            ControlFlow::Continue(())
        });
        Self { volume, surface, bodies: welded.bodies(), open, shared }
    }

    pub(super) fn is_watertight(&self) -> bool {
        self.open == 0 && self.shared == 0
    }
}

/// Returns what a triangle adds to volume and surface.
fn share(triangle: &Triangle, [mx, my, mz]: [f64; 3]) -> (f64, f64) {
    let [a, b, c] = triangle.map(|[x, y, z]| [f64::from(x) - mx, f64::from(y) - my, f64::from(z) - mz]);
    let normal = cross(minus(b, a), minus(c, a));
    (dot(a, cross(b, c)) / 6.0, dot(normal, normal).sqrt() / 2.0)
}

fn minus([a, b, c]: [f64; 3], [x, y, z]: [f64; 3]) -> [f64; 3] {
    [a - x, b - y, c - z]
}

fn dot([a, b, c]: [f64; 3], [x, y, z]: [f64; 3]) -> f64 {
    a * x + b * y + c * z
}

fn cross([a, b, c]: [f64; 3], [x, y, z]: [f64; 3]) -> [f64; 3] {
    [b * z - c * y, c * x - a * z, a * y - b * x]
}

/// Returns the twelve triangles of a box.
#[cfg(test)]
pub(super) fn a_box(low: [f32; 3], high: [f32; 3]) -> Vec<Triangle> {
    let corner = |bits: u8| {
        let pick = |axis: usize| {
            let side = if bits >> axis & 1 == 1 { high } else { low };
            side.get(axis).copied().unwrap_or(0.0)
        };
        [pick(0), pick(1), pick(2)]
    };
    let faces: [[u8; 4]; 6] =
        [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]];
    let halves = faces.into_iter().flat_map(|[a, b, c, d]| [[a, b, c], [a, c, d]]);
    halves.map(|it| it.map(corner)).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::{super::stl::binary, *};

    fn solid(triangles: &[Triangle]) -> Solid {
        Solid::of(&Mesh::read("a", binary(b"", triangles)).unwrap())
    }

    #[test]
    fn a_box_is_what_it_encloses_wherever_it_stands() {
        let expected = Solid { volume: 24.0, surface: 52.0, bodies: 1, open: 0, shared: 0 };
        assert_eq!(solid(&a_box([0.0; 3], [2.0, 3.0, 4.0])), expected);
        let far = 65_536.0;
        assert_eq!(solid(&a_box([far; 3], [far + 2.0, far + 3.0, far + 4.0])), expected);
        assert_eq!(solid(&a_box([-0.0; 3], [2.0, 3.0, 4.0])), expected);
    }

    #[test]
    fn pieces_are_counted_and_what_is_missing_leaves_open_edges() {
        let one = a_box([0.0; 3], [1.0; 3]);
        let two = [one.clone(), a_box([2.0; 3], [3.0; 3])].concat();
        assert_eq!(solid(&two).bodies, 2);
        assert!(solid(&two).is_watertight());
        let holed: Vec<_> = one.iter().skip(1).copied().collect();
        assert_eq!(solid(&holed).open, 3);
        // Two boxes that touch along an edge: it is ambiguous which sides belong together.
        let touching = [one.clone(), a_box([1.0, 1.0, 0.0], [2.0, 2.0, 1.0])].concat();
        assert_eq!((solid(&touching).open, solid(&touching).shared), (0, 1));
        let inside_out: Vec<_> = one.iter().map(|[a, b, c]| [*a, *c, *b]).collect();
        assert!(solid(&inside_out).volume < 0.0 && solid(&inside_out).is_watertight());
        // A facet without an extent is not a hole.
        let flat = [one.clone(), vec![[[0.0; 3], [0.0; 3], [1.0; 3]]]].concat();
        assert!(solid(&flat).is_watertight());
    }
}
