//! Rendered parts against pictures that a person reviewed.
//!
//! `UPDATE_EXPECT=1` writes the pictures anew: look at them before they are kept.

use std::{fs, path::PathBuf};

use image::RgbImage;
use serde_json::json;

use crate::support::TestWorkspace;

/// The maximum mean difference of a colour; below, that of far-off pixels per thousand, which differ by more than
/// `FAR`.
const MEAN: f64 = 0.6;
const FAR: u8 = 24;
const PER_MILLE: usize = 8;

/// Draws what this source makes from there, as the picture of this name.
fn looks_as_before(name: &str, code: &str, view: &str) {
    let test_ws = TestWorkspace::new();
    test_ws.call("model_3d", &json!({"code": code, "output": "part.stl"})).must("ok");
    let arguments =
        json!({"path": "part.stl", "views": [view], "output": "seen.png", "width": 320, "height": 240});
    test_ws.call("render_3d", &arguments).must("ok");
    let golden =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cad/golden").join(format!("{name}.png"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::create_dir_all(golden.parent().unwrap()).unwrap();
        fs::copy(test_ws.at("seen.png"), &golden).unwrap();
    }
    let seen = image::open(test_ws.at("seen.png")).unwrap().to_rgb8();
    let before = image::open(&golden).unwrap().to_rgb8();
    let (mean, far) = difference(&seen, &before);
    assert!(mean <= MEAN && far <= PER_MILLE, "{name} looks different: mean {mean:.2}, {far} of 1000 pixels");
}

fn difference(one: &RgbImage, other: &RgbImage) -> (f64, usize) {
    assert_eq!(one.dimensions(), other.dimensions());
    let off = |a: &image::Rgb<u8>, b: &image::Rgb<u8>| {
        a.0.iter().zip(b.0).map(|(a, b)| a.abs_diff(b)).max().unwrap()
    };
    let offs: Vec<u8> = one.pixels().zip(other.pixels()).map(|(a, b)| off(a, b)).collect();
    let sum: f64 = offs.iter().map(|it| f64::from(*it)).sum();
    (sum / offs.len() as f64, offs.iter().filter(|it| **it > FAR).count() * 1000 / offs.len())
}

#[test]
fn a_cube() {
    kit::needs!(OpenScad);
    looks_as_before("cube", "cube(20);", "iso");
}

#[test]
fn a_sphere() {
    kit::needs!(OpenScad);
    looks_as_before("sphere", "sphere(20, $fn = 64);", "front");
}

#[test]
fn a_part_with_a_hole() {
    kit::needs!(OpenScad);
    let code =
        "difference() { cube([30, 20, 8]); translate([20, 10, -1]) cylinder(h = 10, d = 12, $fn = 64); }";
    looks_as_before("hole", code, "iso");
    looks_as_before("hole-top", code, "top");
}

#[test]
fn an_open_box_shows_its_inside() {
    // A box of triangles without its lid.
    let test_ws = TestWorkspace::new();
    let corners = [[0, 0, 0], [9, 0, 0], [9, 9, 0], [0, 9, 0], [0, 0, 9], [9, 0, 9], [9, 9, 9], [0, 9, 9]];
    let sides = [
        [0, 3, 2],
        [0, 2, 1],
        [0, 1, 5],
        [0, 5, 4],
        [1, 2, 6],
        [1, 6, 5],
        [2, 3, 7],
        [2, 7, 6],
        [3, 0, 4],
        [3, 4, 7],
    ];
    let mut text = "solid box\n".to_owned();
    for side in sides {
        text.push_str("facet normal 0 0 0\nouter loop\n");
        for [x, y, z] in side.map(|it: usize| corners[it]) {
            text.push_str(&format!("vertex {x} {y} {z}\n"));
        }
        text.push_str("endloop\nendfacet\n");
    }
    test_ws.put("box.stl", text + "endsolid box\n");
    let arguments = json!({"path": "box.stl", "views": ["iso", "bottom"], "width": 200, "height": 200});
    test_ws.call("render_3d", &arguments).must("ok");
    let orange = |name: &str| {
        let picture = image::open(test_ws.at(name)).unwrap().to_rgb8();
        let is = |it: &image::Rgb<u8>| it.0[0] > it.0[2].saturating_add(30) && it.0[1] > 60;
        picture.pixels().filter(|it| is(it)).count()
    };
    assert!(orange("box-iso.png") > 2_000, "{}", orange("box-iso.png"));
    assert!(orange("box-bottom.png") < 200, "{}", orange("box-bottom.png"));
}
