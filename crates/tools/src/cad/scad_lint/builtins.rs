//! Built-in names of OpenSCAD, and their parameters.

/// A module or function of OpenSCAD.
pub(super) struct Builtin {
    pub(super) name: &'static str,
    /// Its positional parameters, in order.
    pub(super) placed: &'static [&'static str],
    /// Its named parameters.
    pub(super) named: &'static [&'static str],
    /// The number of positional arguments, if it differs from that of `placed`.
    most: Option<usize>,
    /// Whether it uses its children.
    pub(super) children: bool,
}

impl Builtin {
    /// Returns the maximum number of positional arguments.
    pub(super) fn most(&self) -> usize {
        self.most.unwrap_or(self.placed.len())
    }
}

/// Any number: for modules with names of the caller's own as arguments.
const ANY: usize = usize::MAX;

const fn shape(
    name: &'static str,
    placed: &'static [&'static str],
    named: &'static [&'static str],
) -> Builtin {
    Builtin { name, placed, named, most: None, children: false }
}

const fn around(
    name: &'static str,
    placed: &'static [&'static str],
    named: &'static [&'static str],
) -> Builtin {
    Builtin { name, placed, named, most: None, children: true }
}

const fn free(name: &'static str) -> Builtin {
    Builtin { name, placed: &[], named: &[], most: Some(ANY), children: true }
}

/// The modules of 2021.01, with those that later versions added.
pub(super) const MODULES: &[Builtin] = &[
    shape("cube", &["size", "center"], &[]),
    shape("sphere", &["r"], &["d"]),
    shape("cylinder", &["h", "r1", "r2", "center"], &["r", "d", "d1", "d2"]),
    shape("polyhedron", &["points", "faces", "convexity"], &["triangles"]),
    shape("square", &["size", "center"], &[]),
    shape("circle", &["r"], &["d"]),
    shape("polygon", &["points", "paths", "convexity"], &[]),
    shape(
        "text",
        &["text", "size", "font"],
        &["direction", "language", "script", "halign", "valign", "spacing"],
    ),
    shape(
        "import",
        &["file", "layer", "convexity", "origin", "scale"],
        &["width", "height", "filename", "layername", "center", "dpi", "id"],
    ),
    shape("import_stl", &["file", "layer", "convexity", "origin", "scale"], &["filename", "layername"]),
    shape("import_off", &["file", "layer", "convexity", "origin", "scale"], &["filename", "layername"]),
    shape("import_dxf", &["file", "layer", "convexity", "origin", "scale"], &["filename", "layername"]),
    shape("surface", &["file", "center", "convexity"], &["invert"]),
    around("union", &[], &[]),
    around("difference", &[], &[]),
    around("intersection", &[], &[]),
    around("group", &[], &[]),
    around("hull", &[], &[]),
    around("fill", &[], &[]),
    around("roof", &["method"], &["convexity"]),
    around("minkowski", &["convexity"], &[]),
    around("render", &["convexity"], &[]),
    around("translate", &["v"], &[]),
    around("rotate", &["a", "v"], &[]),
    around("scale", &["v"], &[]),
    around("mirror", &["v"], &[]),
    around("multmatrix", &["m"], &[]),
    around("resize", &["newsize", "auto", "convexity"], &[]),
    around("color", &["c", "alpha"], &[]),
    around("offset", &["r"], &["delta", "chamfer"]),
    around("projection", &["cut"], &["convexity"]),
    around(
        "linear_extrude",
        &["file", "layer", "height", "origin", "scale", "center", "twist", "slices"],
        &["convexity", "segments", "v", "h"],
    ),
    around("rotate_extrude", &["file", "layer", "origin", "scale"], &["angle", "convexity", "start", "a"]),
    around(
        "dxf_linear_extrude",
        &["file", "layer", "height", "origin", "scale", "center", "twist", "slices"],
        &["convexity"],
    ),
    around("dxf_rotate_extrude", &["file", "layer", "origin", "scale"], &["angle", "convexity"]),
    shape("children", &["index"], &[]),
    shape("child", &["index"], &[]),
    around("assert", &["condition", "message"], &[]),
    free("echo"),
    free("for"),
    free("intersection_for"),
    free("let"),
    free("assign"),
    free("each"),
];

/// The functions, each with the fewest and the most arguments it takes.
pub(super) const FUNCTIONS: &[(&str, usize, usize)] = &[
    ("abs", 1, 1),
    ("acos", 1, 1),
    ("asin", 1, 1),
    ("atan", 1, 1),
    ("atan2", 2, 2),
    ("ceil", 1, 1),
    ("chr", 0, ANY),
    ("concat", 0, ANY),
    ("cos", 1, 1),
    ("cross", 2, 2),
    ("dxf_cross", 0, ANY),
    ("dxf_dim", 0, ANY),
    ("exp", 1, 1),
    ("floor", 1, 1),
    ("fontmetrics", 0, ANY),
    ("has_key", 2, 2),
    ("import", 0, ANY),
    ("is_bool", 1, 1),
    ("is_function", 1, 1),
    ("is_list", 1, 1),
    ("is_num", 1, 1),
    ("is_object", 1, 1),
    ("is_string", 1, 1),
    ("is_undef", 1, 1),
    ("len", 1, 1),
    ("ln", 1, 1),
    ("log", 1, 2),
    ("lookup", 2, 2),
    ("max", 1, ANY),
    ("min", 1, ANY),
    ("norm", 1, 1),
    ("object", 0, ANY),
    ("ord", 1, 1),
    ("parent_module", 0, 1),
    ("pow", 2, 2),
    ("rands", 3, 4),
    ("round", 1, 1),
    ("search", 2, 4),
    ("sign", 1, 1),
    ("sin", 1, 1),
    ("sqrt", 1, 1),
    ("str", 0, ANY),
    ("tan", 1, 1),
    ("textmetrics", 0, ANY),
    ("version", 0, 0),
    ("version_num", 0, 1),
];

/// Returns the module of this name.
pub(super) fn module(name: &str) -> Option<&'static Builtin> {
    MODULES.iter().find(|it| it.name == name)
}

/// Returns the fewest and the most arguments of the function of this name.
pub(super) fn function(name: &str) -> Option<(usize, usize)> {
    FUNCTIONS.iter().find(|it| it.0 == name).map(|it| (it.1, it.2))
}
