//! Smooth shading: facets that belong to one round surface.

use std::ops::ControlFlow;

use super::{
    super::{
        solid::Welded,
        stl::{Mesh, Point, Triangle},
    },
    view::{add, cross, dot, minus, unit},
};

/// Maximum number of facets; more are too small to be distinguished.
const MOST: usize = 150_000;
/// The cosine of the angle up to which two facets are parts of one surface: 32°.
const ONE_SURFACE: f32 = 0.848;

/// The direction of the surface at the corners of each triangle.
pub(super) struct Smooth {
    corners: Vec<[Point; 3]>,
}

impl Smooth {
    /// Computes it; `None` if there are too many facets.
    pub(super) fn of(mesh: &Mesh) -> Option<Self> {
        if mesh.len() > MOST {
            return None;
        }
        let welded = Welded::of(mesh);
        // Each facet's direction, weighted by its area, and as a unit vector.
        let mut large = Vec::with_capacity(mesh.len());
        mesh.each(|_, [a, b, c]: &Triangle| {
            let normal = cross(minus(*b, *a), minus(*c, *a));
            large.push((normal, unit(normal)));
            ControlFlow::Continue(())
        });
        let mut at: Vec<Vec<u32>> = vec![Vec::new(); welded.points as usize];
        for (facet, corners) in (0_u32..).zip(&welded.corners) {
            for corner in corners {
                if let Some(facets) = at.get_mut(*corner as usize) {
                    facets.push(facet);
                }
            }
        }
        let corners = welded.corners.iter().zip(&large).map(|(corners, (_, own))| {
            let Some(own) = *own else { return [[0.0; 3]; 3] };
            corners.map(|corner| {
                let around = at.get(corner as usize).map(Vec::as_slice).unwrap_or_default();
                // Where very many facets meet, as at the tip of a cone, there is no single direction.
                if around.len() > 400 {
                    return own;
                }
                let near =
                    around.iter().filter_map(|it| large.get(*it as usize)).filter_map(|(normal, unit)| {
                        unit.filter(|it| dot(*it, own) > ONE_SURFACE).map(|_| *normal)
                    });
                unit(near.fold([0.0; 3], add)).unwrap_or(own)
            })
        });
        Some(Self { corners: corners.collect() })
    }

    pub(super) fn corners(&self, triangle: usize) -> Option<[Point; 3]> {
        self.corners.get(triangle).copied()
    }
}
