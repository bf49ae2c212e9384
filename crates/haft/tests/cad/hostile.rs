//! Sources and meshes that want to run for ever, to look elsewhere, or to be believed.

use std::{fs, process::Command};

use serde_json::json;

use crate::support::TestWorkspace;

#[test]
fn endless_render_ends_at_its_timeout_with_its_tree() {
    kit::needs!(OpenScad);
    let test_ws = TestWorkspace::new();
    let endless = [
        "for (i = [0:1e9]) translate([i, 0, 0]) cube(1);",
        "x = [for (i = 0; true; i = i + 1) if (i < 0) i]; cube(len(x));",
        "minkowski() { sphere(10, $fn = 300); sphere(3, $fn = 300); }",
        "sphere(10, $fn = 1e6);",
        "module m(n) { translate([n, 0, 0]) { cube(1); m(n + 1); m(n + 2); } }\nm(0);",
        "function f(n) = f(n + 1) + f(n + 2);\ncube(f(0));",
    ];
    for code in endless {
        // The path distinguishes its process from those of other tests.
        test_ws.put("endless.scad", code);
        let called = test_ws
            .call("model_3d", &json!({"path": "endless.scad", "output": "a.stl", "timeout_ms": 2_500}));
        let kind = called.kind().to_owned();
        // Some of them OpenSCAD sees through, or runs out of its memory.
        assert!(matches!(kind.as_str(), "timeout" | "failed"), "{code}: {}", called.text());
        assert!(!test_ws.at("a.stl").exists(), "{code}");
        if kind == "timeout" {
            assert!(called.text().contains("2500 ms") && called.text().contains("nothing was written"));
        }
    }
    let base = test_ws.base().display().to_string();
    let processes = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    let left: Vec<String> = String::from_utf8_lossy(&processes.stdout)
        .lines()
        .filter(|it| it.contains("openscad") && it.contains(&base))
        .map(str::to_owned)
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn files_outside_the_roots_are_not_found() {
    kit::needs!(OpenScad);
    let test_ws = TestWorkspace::new();
    fs::write(test_ws.outside().join("secret.scad"), "module secret() { cube([7, 7, 7]); }\nwidth = 7;\n")
        .unwrap();
    fs::write(test_ws.outside().join("secret.dat"), "1 2 3\n4 5 6\n").unwrap();
    let outside = test_ws.outside().display().to_string();
    for (code, says) in [
        (format!("include <{outside}/secret.scad>\nsecret();"), "Can't open include file"),
        (format!("use <{outside}/secret.scad>\nsecret();"), "Can't open library"),
        ("use <../outside/secret.scad>\nsecret();".to_owned(), "Can't open library"),
        (format!("surface(file = \"{outside}/secret.dat\");"), "couldn't be opened"),
        (format!("import(\"{outside}/secret.stl\");"), "Can't open import file"),
    ] {
        let called = test_ws.call("model_3d", &json!({"code": code, "output": "a.stl"}));
        assert_eq!(called.kind(), "failed", "{code}: {}", called.text());
        assert!(called.text().contains(says), "{code}: {}", called.text());
    }
    let called = test_ws.call("model_3d", &json!({"code": "import(\"/etc/passwd\");", "output": "a.stl"}));
    assert!(!called.ok() && !called.text().contains("root:"), "{}", called.text());
    test_ws.call("model_3d", &json!({"code": "cube(1);", "output": "../outside/a.stl"})).must("denied");
    test_ws.call("model_3d", &json!({"path": "../outside/secret.scad", "output": "a.stl"})).must("denied");
    assert!(!test_ws.outside().join("a.stl").exists());
}

#[test]
fn a_file_that_is_no_mesh_is_refused_and_nothing_else_is_replaced() {
    let test_ws = TestWorkspace::new();
    let mut lying = vec![0; 84];
    lying[80..84].copy_from_slice(&u32::MAX.to_le_bytes());
    test_ws.put("lying.stl", lying);
    let says = test_ws.call("render_3d", &json!({"path": "lying.stl"})).must("failed").text();
    assert!(says.contains("says 4294967295 triangles"), "{says}");
    test_ws.put("text.stl", "solid x\nfacet normal 0 0 1\nouter loop\nvertex 0 0 nan\n");
    test_ws.call("render_3d", &json!({"path": "text.stl"})).must("failed");

    // Longer than may be read, and of holes only.
    fs::File::create(test_ws.at("big.stl")).unwrap().set_len(200 << 20).unwrap();
    test_ws.call("render_3d", &json!({"path": "big.stl"})).must("too_big");

    let one = "solid x\nvertex 0 0 0\nvertex 9 0 0\nvertex 0 9 0\nendloop\nendsolid\n";
    test_ws.put("one.stl", one);
    test_ws.put("one-top.png", "my notes");
    let says =
        test_ws.call("render_3d", &json!({"path": "one.stl", "views": ["top"]})).must("bad_args").text();
    assert!(says.contains("`one-top.png` exists and is not a PNG"), "{says}");
    assert_eq!(test_ws.text("one-top.png"), "my notes");
    for arguments in [
        json!({"path": "one.stl", "width": 100_000}),
        json!({"path": "one.stl", "width": 2048, "height": 2048}),
        json!({"path": "one.stl", "views": ["top", "iso", "left", "right"]}),
        json!({"path": "one.stl", "views": []}),
        json!({"path": "one.stl", "views": ["above"]}),
    ] {
        test_ws.call("render_3d", &arguments).must("bad_args");
    }
    test_ws.put("a.stl", "something else");
    test_ws.call("model_3d", &json!({"code": "cube(1);", "output": "a.stl"})).must("bad_args");
    assert_eq!(test_ws.text("a.stl"), "something else");
}
