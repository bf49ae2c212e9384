//! A real part, from the idea to the picture.

use std::fs;

use serde_json::json;

use crate::support::TestWorkspace;

/// An angle with a boss, four holes, and a slip on line 17: `tranlate`.
const BRACKET: &str = "\
// A bracket for a shaft.
use <parts/holes.scad>

base = [60, 40, 6];   // the plate that is screwed down
wall = 6;
rise = 30;
shaft = 12;
screw = 5;
$fn = 96;

module body() {
    translate([-base[0] / 2, -base[1] / 2, 0]) cube(base);
    translate([-base[0] / 2, -base[1] / 2, 0]) cube([wall, base[1], rise]);
    cylinder(h = base[2] + 10, d = shaft + 10);
}

module corners() { for (x = [22], y = [-12, 12]) tranlate([x, y, 0]) children(); }

difference() {
    body();
    through(d = shaft, h = base[2] + 10);
    corners() through(d = screw, h = base[2]);
    translate([-base[0] / 2, 0, 20]) rotate([0, 90, 0]) through(d = 10, h = wall);
}
";

const HOLES: &str = "\
// A hole that sticks out of what it goes through.
module through(d, h) { translate([0, 0, -1]) cylinder(h = h + 2, d = d); }
";

/// Returns the area of a regular polygon in a circle of this diameter, as OpenSCAD makes one.
fn round(d: f64, corners: f64) -> f64 {
    corners / 2.0 * (d / 2.0).powi(2) * (std::f64::consts::TAU / corners).sin()
}

#[test]
fn a_bracket_goes_from_lint_to_stl_to_pictures_to_the_person() {
    kit::needs!(OpenScad);
    let test_ws = TestWorkspace::new();
    test_ws.put("bracket.scad", BRACKET);
    test_ws.put("parts/holes.scad", HOLES);

    let lint = test_ws.call("scad_lint", &json!({"path": "bracket.scad"})).must("ok").text();
    assert_eq!(lint, "bracket.scad:17:50 error unknown module `tranlate`; did you mean `translate`?");

    test_ws.put("bracket.scad", BRACKET.replace("tranlate", "translate"));
    let lint = test_ws.call("scad_lint", &json!({"path": "bracket.scad"})).must("ok").text();
    assert_eq!(lint, "bracket.scad: no problems");

    let made = test_ws.call("model_3d", &json!({"path": "bracket.scad"})).must("ok").text();
    let lines: Vec<&str> = made.lines().collect();
    assert!(lines[0].starts_with("Wrote bracket.stl ("), "{made}");
    assert_eq!(lines[1], "size 60 × 40 × 30 mm, from (-30, -20, 0) to (30, 20, 30)");
    assert_eq!(lines[3], "watertight; 1 body");
    assert_eq!(lines.len(), 4, "{made}");
    let volume: f64 = lines[2].split(' ').nth(1).unwrap().parse().unwrap();
    let expected = 60.0 * 40.0 * 6.0 + 6.0 * 40.0 * 24.0 + round(22.0, 96.0) * 10.0
        - round(12.0, 96.0) * 16.0
        - 2.0 * round(5.0, 96.0) * 6.0
        - round(10.0, 96.0) * 6.0;
    assert!((volume - expected).abs() < expected * 1e-4, "{volume} for {expected}");
    let stl = test_ws.bytes("bracket.stl");
    assert_eq!(stl.len(), 84 + 50 * u32::from_le_bytes(stl[80..84].try_into().unwrap()) as usize);

    let drawn = test_ws
        .call("render_3d", &json!({"path": "bracket.stl", "width": 400, "height": 300}))
        .must("ok")
        .text();
    for name in ["bracket-iso.png", "bracket-front.png", "bracket-top.png"] {
        assert!(drawn.contains(&format!("{name} (400 × 300)")), "{drawn}");
        let picture = image::open(test_ws.at(name)).unwrap();
        assert_eq!((picture.width(), picture.height()), (400, 300));
    }

    let published = test_ws.call("content_publish", &json!({"path": "bracket-iso.png"})).must("ok").text();
    assert!(published.contains("bracket-iso.png"), "{published}");
    let published = test_ws.call("content_publish", &json!({"path": "bracket.stl"})).must("ok").text();
    assert!(published.contains("bracket.stl"), "{published}");
}

#[test]
fn parameters_are_values_and_nothing_else() {
    kit::needs!(OpenScad);
    let test_ws = TestWorkspace::new();
    let code = "size = 1; label = \"\"; shape = [1, 1, 1]; tall = false;\necho(label);\ncube(shape * size * (tall ? 2 : 1));\n";
    let evil = "x\"; cube(1000); //\\\n\u{e9}";
    let parameters = json!({"size": 2.5, "label": evil, "shape": [2, 4, 6], "tall": true, "typo": 1});
    let made = test_ws
        .call("model_3d", &json!({"code": code, "output": "out/p.stl", "parameters": parameters}))
        .must("ok")
        .text();
    assert!(made.contains("size 10 × 20 × 30 mm, from (0, 0, 0) to (10, 20, 30)"), "{made}");
    assert!(made.contains("volume 6000 mm³ (6 cm³), surface 2200 mm²"), "{made}");
    assert!(made.contains("`typo` of `parameters` is not a variable"), "{made}");
    // Again, with another size: an STL that is there is replaced, and can be put back.
    let again = json!({"code": code, "output": "out/p.stl"});
    assert!(test_ws.call("model_3d", &again).must("ok").text().contains("size 1 × 1 × 1 mm"));
    let bad = json!({"code": code, "output": "out/p.stl", "parameters": {"size=1;cube(9);//": 1}});
    assert!(test_ws.call("model_3d", &bad).must("bad_args").text().contains("is not a name of a variable"));
}

#[test]
fn what_openscad_finds_wrong_names_the_file_and_shows_the_line() {
    kit::needs!(OpenScad);
    let test_ws = TestWorkspace::new();
    test_ws.put("parts/a.scad", "w = 3;\ncube([w, w, 3)\n");
    let says = test_ws.call("model_3d", &json!({"path": "parts/a.scad"})).must("failed").text();
    assert!(says.contains("parts/a.scad:2 error Parser error: syntax error\n  cube([w, w, 3)"), "{says}");
    assert!(says.contains("parts/a.scad:2:6 error `[` is not closed before the `)` at 2:14"), "{says}");
    assert!(!test_ws.at("parts/a.stl").exists());

    let of = |code: &str| test_ws.call("model_3d", &json!({"code": code, "output": "a.stl"}));
    let says = of("cube(1);\nfoo();\n").must("ok").text();
    assert!(says.ends_with("code:2 warning Ignoring unknown module 'foo'\n  foo();"), "{says}");
    let says = of("x = 1;\nassert(x > 1, \"too small\");\ncube(x);\n").must("failed").text();
    assert!(says.contains("code:2 error Assertion") && says.contains("too small"), "{says}");
    assert!(of("square(3);").must("failed").text().contains("linear_extrude"));
    assert!(of("x = 3;").must("failed").text().contains("`code` makes nothing"));
    assert!(
        of("difference() { cube(1); cube(3, center = true); }")
            .must("failed")
            .text()
            .contains("makes nothing")
    );
}

#[test]
fn the_example_of_the_manual_compiles() {
    kit::needs!(OpenScad);
    let test_ws = TestWorkspace::new();
    let manual = test_ws.run(&["manual", "model_3d"]).out;
    let code = manual.split("```openscad\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(test_ws.call("scad_lint", &json!({"code": code})).must("ok").text(), "code: no problems");
    let made = test_ws.call("model_3d", &json!({"code": code, "output": "a.stl"})).must("ok").text();
    assert!(made.contains("size 40 × 20 × 3 mm") && made.contains("watertight; 1 body"), "{made}");
}

#[test]
fn without_the_program_it_is_said_what_to_install() {
    let test_ws = TestWorkspace::new();
    fs::create_dir_all(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), "[programs]\nopenscad = \"/nowhere/openscad\"\n").unwrap();
    let says =
        test_ws.call("model_3d", &json!({"code": "cube(1);", "output": "a.stl"})).must("unavailable").text();
    assert!(says.contains("`/nowhere/openscad`") && says.contains("apt install openscad"), "{says}");
    assert!(says.contains("[programs]"), "{says}");
}
