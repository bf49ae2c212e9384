//! Tests: the findings for sources, good and bad.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path};

use expect_test::{Expect, expect};
use kit::testing::TestWorkspace;
use serde_json::json;

use super::ScadLint;

#[expect(clippy::needless_pass_by_value, reason = "as it stands in the tests")]
fn check(code: &str, expected: Expect) {
    let test_ws = TestWorkspace::empty();
    expected.assert_eq(&test_ws.says::<ScadLint>(&json!({"code": code})));
}

#[test]
fn good_source_has_no_problems() {
    check(
        "w = 20; $fn = 60;\n\
         function area(r) = PI * r ^ 2;\n\
         f = function (x) x * 2;\n\
         points = [for (i = [0:3], a = i * 90) if (i != 1) [cos(a), sin(a)] else each [[0, 0], [1, 1]]];\n\
         steps = [for (i = 0, s = 1; i < 3; i = i + 1, s = s * 2) s];\n\
         more = [each points, (let (q = 2) [q, q]), let (z = 1) z + 1, (for (k = steps) [k, f(k)])];\n\
         module plate(size = [w, 10], holes) {\n  inner = size[0] - 2;\n  difference() {\n    cube(size, center = true);\n\
             for (x = holes) translate([x, 0]) #cylinder(h = area(inner), d = 3, $fn = 12);\n  }\n  children();\n}\n\
         %plate(holes = [1, 2]) sphere(r = more[0].x);\n\
         if (w > 3) { text(\"a\", halign = \"center\"); } else if (w < 1) echo(w) assert(w > 0, \"no\"); else { }\n\
         let (u = 3) rotate([0, 0, u]) !square(u);\n\
         x = let (b = 2) assert(b > 1) echo(b) b ? b : -b;\n\
         linear_extrude(x, twist = 3) offset(delta = 1, chamfer = true) circle(d = 4);\n",
        expect!["code: no problems"],
    );
}

#[test]
fn brackets_are_reported_where_they_were_opened() {
    check(
        "module a() {\n  translate([1, 2, 3) cube(1);\n}\na();\n",
        expect!["code:2:13 error `[` is not closed before the `)` at 2:21"],
    );
    check("module a() {\n  cube(1);\n\na();\n", expect!["code:1:12 error `{` is not closed"]);
}

#[test]
fn a_missing_semicolon_is_placed_where_it_belongs() {
    check(
        "w = 3\nh = 4;\nmodule a() { cube([w, h, 1]) }\na();\nfunction f(x) = x\nsphere(f(1))\n",
        expect![[r#"
            code:1:6 error `;` is missing after the value of `w`
            code:3:29 error `;` is missing after `cube(…)`
            code:5:18 error `;` is missing after the function `f`
            code:6:13 error `;` is missing after `sphere(…)`"#]],
    );
    check(
        "cube(1)\nsphere(2);\nmodule box() { cube(3); }\nbox() cube(1);\n",
        expect![[r#"
            code:1:8 warning `cube` does nothing with `sphere` behind it: is `;` missing here?
            code:4:6 warning `box` does nothing with `cube` behind it: is `;` missing here?"#]],
    );
}

#[test]
fn unknown_names_come_with_the_one_that_was_meant() {
    check(
        "module bracket(width) { cube(widht); }\nbraket(width = 3);\ncubee(3);\ncube(sine(30));\ncube(len);\nsphere();\ncos(3);\nx = cube(3);\n",
        expect![[r#"
            code:1:30 warning unknown variable `widht`; did you mean `width`?
            code:2:1 error unknown module `braket`; did you mean `bracket`?
            code:3:1 error unknown module `cubee`; did you mean `cube`?
            code:4:6 error unknown function `sine`; did you mean `sin`?
            code:5:6 warning `len` is a function: call it, as `len(…)`
            code:7:1 error `cos` is a function, not a module
            code:8:1 warning `x` is never used
            code:8:5 error `cube` is a module, not a function"#]],
    );
}

#[test]
fn arguments_are_those_that_there_are() {
    check(
        "cube(size = 3, centre = true);\nsphere(1, 2);\nmodule a(x, y = 2) { cube([x, y, 1]); }\na(1, 2, 3);\na(z = 3, $fn = 3);\necho(sin(), f(1, 2));\nfunction f(q) = q;\nlinear_extrude(hight = 3) circle(1);\n",
        expect![[r#"
            code:1:16 error `cube` has no argument `centre`; did you mean `center`?
            code:2:11 error `sphere` takes 1 argument; this one is ignored
            code:4:9 error `a` takes 2 arguments; this one is ignored
            code:5:3 warning `a` has no argument `z`; it has x, y
            code:6:6 error `sin` takes 1 argument, not 0
            code:6:18 error `f` takes 1 argument; this one is ignored
            code:8:16 error `linear_extrude` has no argument `hight`; did you mean `height`?"#]],
    );
}

#[test]
fn values_set_twice_or_never_used_are_warnings() {
    check(
        "w = 3;\nw = 4;\nunused = 1;\n$fn = 3;\n_quiet = 2;\nmodule m(p) { t = p; q = 1; cube(q); }\nmodule m(p) { cube(p); }\nm(w);\n",
        expect![[r#"
            code:2:1 warning `w` is assigned a second time (first at 1:1): OpenSCAD uses the last value everywhere
            code:3:1 warning `unused` is never used
            code:6:15 warning `t` is never used
            code:7:8 warning module `m` is defined a second time (first at 6:8): OpenSCAD uses the last"#]],
    );
}

#[test]
fn files_that_are_used_or_included_bring_their_names() {
    let test_ws = TestWorkspace::new(
        "//- parts/a.scad\nuse <lib/b.scad>\ninclude <../sizes.scad>\nb(size); c(); echo(area(2), hidden);\n\
         //- parts/lib/b.scad\nuse <c.scad>\ninclude <../../more.scad>\nhidden = 2;\nmodule b(x) { cube(x); }\nfunction area(x) = x;\n\
         //- parts/lib/c.scad\nmodule c() { cube(1); }\n\
         //- more.scad\nmodule more() { cube(1); }\n\
         //- sizes.scad\nsize = 3;\nuse <parts/lib/c.scad>\n\
         //- lost.scad\nuse <nowhere/to/be.scad>\ninclude <MCAD/units.scad>\nwhatever(1); cube(inch);\n\
         //- out.scad\ninclude <../../../../../etc/passwd>\n",
    );
    let says = |path: &str| test_ws.says::<ScadLint>(&json!({"path": path}));
    expect!["parts/a.scad:3:29 warning unknown variable `hidden`: its value is undef"]
        .assert_eq(&says("parts/a.scad"));
    expect!["parts/lib/b.scad: no problems"].assert_eq(&says("parts/lib/b.scad"));
    let lost = says("lost.scad");
    assert!(lost.starts_with("lost.scad:1:1 error there is no file `nowhere/to/be.scad`"), "{lost}");
    assert!(!lost.contains("whatever"), "{lost}");
    assert!(says("out.scad").starts_with("out.scad:1:1 error "), "{}", says("out.scad"));
}

#[test]
fn hostile_source_is_refused_in_bounded_time() {
    let test_ws = TestWorkspace::empty();
    let says = |code: String| test_ws.says::<ScadLint>(&json!({"code": code}));
    assert!(says(format!("x = {}1{};", "(".repeat(100_000), ")".repeat(100_000))).contains("deep"));
    assert!(says(format!("{}{}", "union() {".repeat(50_000), "}".repeat(50_000))).contains("deep"));
    assert!(says("translate([0]) ".repeat(50_000) + "cube(1);").contains("deep"));
    assert!(says("}".repeat(100_000)).ends_with("at least 150 more"));
    assert!(says("\u{0}é$ ".repeat(100)).contains("error"));
    let chain = "x = 1".to_owned() + &" + 1 ? 2 : 3".repeat(20_000) + "; cube(x);";
    assert_eq!(says(chain), "code: no problems");
    let chain = "if (1) cube(1);".to_owned() + &" else if (2) cube(2);".repeat(20_000);
    assert_eq!(says(chain), "code: no problems");
}

/// Lints every OpenSCAD file below a folder; returns their number, and the errors.
fn errors_below(top: &Path) -> (usize, Vec<String>) {
    let test_ws = TestWorkspace::at(top);
    let (mut looked, mut errors) = (0, Vec::new());
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "scad") {
                let name = path.strip_prefix(top).unwrap().to_str().unwrap();
                let says = test_ws.says::<ScadLint>(&json!({"path": name}));
                errors.extend(says.lines().filter(|it| it.contains(" error ")).map(str::to_owned));
                looked += 1;
            }
        }
    }
    (looked, errors)
}

#[test]
fn examples_of_openscad_have_no_errors() {
    kit::needs!(OpenScad);
    let (looked, errors) = errors_below(Path::new("/usr/share/openscad/examples"));
    // The package `openscad` of Debian 12 has 48.
    assert!(looked >= 40, "{looked}");
    assert_eq!(errors, [""; 0]);
}

#[test]
fn library_mcad_has_no_errors_but_its_own() {
    kit::needs!(OpenScadMcad);
    let (looked, errors) = errors_below(Path::new("/usr/share/openscad/libraries/MCAD"));
    assert!(looked >= 30, "{looked}");
    // A call of a module that no file has: OpenSCAD leaves it out as well.
    assert_eq!(errors, ["regular_shapes.scad:260:1 error unknown module `test_square_pyramid`"]);
}

#[test]
fn the_number_of_reported_problems_is_bounded() {
    let test_ws = TestWorkspace::empty();
    for code in ["(".repeat(100_000), "]".repeat(100_000), "a=1;".repeat(100_000)] {
        let says = test_ws.says::<ScadLint>(&json!({"code": code}));
        assert!(says.ends_with("\nat least 150 more"), "{}", says.lines().last().unwrap());
    }
}

#[test]
fn a_picture_is_reported_as_not_text() {
    let test_ws = TestWorkspace::empty();
    fs::write(test_ws.path().join("part.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01").unwrap();
    expect![[r#"
        bad_args: `part.png` is not text: it is binary, by its content image/png (.png)
        `image_view` {"path": "part.png"} shows it."#]]
    .assert_eq(&test_ws.says::<ScadLint>(&json!({"path": "part.png"})));
    fs::write(test_ws.path().join("wide.scad"), b"\xff\xfec\0u\0b\0e\0(\x001\0)\0;\0").unwrap();
    expect![[r#"
        bad_args: `wide.scad` is UTF-16, and OpenSCAD reads UTF-8
        Write it again as UTF-8."#]]
    .assert_eq(&test_ws.says::<ScadLint>(&json!({"path": "wide.scad"})));
}
