//! `model_3d`: makes a part from OpenSCAD source.

mod compile;
mod messages;
mod parameters;

use std::time::Duration;

use kit::{
    decoders::{Decoded, Decoder},
    files::{Before, Loaded},
    prelude::*,
    text::Content,
};
use serde::Serialize;
use serde_json::{Map, Value};

use self::{compile::Compile, messages::Messages};
use super::{
    scad_lint,
    solid::Solid,
    source::Source,
    stl::{self, Mesh, short},
};

/// The default and the maximum time of a compilation.
const USUAL_MS: u64 = 120_000;
const LONGEST_MS: u64 = 600_000;

/// Compile OpenSCAD source to a binary STL file; says size in mm, volume, and whether it is watertight.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Model3d")]
pub(crate) struct Model3d {
    /// The .scad file.
    #[serde(default)]
    path: String,
    /// Source instead of a file; it stands in the workspace.
    #[serde(default)]
    code: String,
    /// The STL file to write; beside `path` by default.
    #[serde(default)]
    output: String,
    /// Values for variables that the source sets at its top: numbers, strings, booleans, lists.
    #[serde(default)]
    parameters: Map<String, Value>,
    /// How long it may take; 120000 by default, 600000 at most.
    #[serde(default = "usual")]
    timeout_ms: u64,
}

fn usual() -> u64 {
    USUAL_MS
}

impl Tool for Model3d {
    const NAME: &str = "model_3d";
    const AT_MOST: Kinds = Kinds::WRITE.with(Kinds::RUN);

    fn touches(&self) -> Touches {
        let touches = Source::touches(&self.path);
        let touches =
            if self.output().is_empty() { touches } else { touches.and(Touch::Write(self.output())) };
        touches.and(Touch::Run(self.title()))
    }

    fn time_limit(&self) -> Option<Duration> {
        // OpenSCAD's own time limit comes first, and is reported.
        Some(Duration::from_millis(self.timeout_ms.min(LONGEST_MS)) + Duration::from_secs(10))
    }

    fn title(&self) -> String {
        let source = if self.path.is_empty() { "-" } else { &self.path };
        let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
        format!("openscad -o {} {}", quoted(&self.output()), quoted(source))
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let output = self.output();
        if output.is_empty() {
            return Err(Fault::bad_args("`output` is empty").next("Name the STL file to write."));
        }
        if !ends_in(&output, ".stl") {
            return Err(Fault::bad_args(format!("`output` is `{output}`, and what is written is STL"))
                .next("Let its name end in `.stl`."));
        }
        if !(1..=LONGEST_MS).contains(&self.timeout_ms) {
            return Err(Fault::bad_args(format!("`timeout_ms` is {}", self.timeout_ms))
                .next(format!("Give 1 to {LONGEST_MS}.")));
        }
        let definitions = parameters::definitions(&self.parameters)?;
        let source = Source::of(cx, &self.path, &self.code)?;
        source.can_be_read()?;
        // Checked now, not after minutes.
        before(cx, &output)?;
        let compiled =
            Compile { source: &source, definitions, at_most: Duration::from_millis(self.timeout_ms) }
                .run(cx)
                .await?;
        let messages = Messages::of(&compiled.said, &source, &compiled.folder);
        if compiled.stl.is_empty() || !compiled.exit.is_success() {
            return Err(failed(cx, &compiled, &messages, &source));
        }
        let notes = self.without_effect(&source);
        let stl = Content::from(compiled.stl);
        // The source is untrusted, and so is OpenSCAD's output.
        let measure = Measure { name: output.clone() };
        let mut lines = cx.decode(&format!("`{output}`"), measure, &stl).await?.answer;
        cx.blocking(move |cx| {
            let before = before(cx, &output)?;
            cx.files().save(&output, before.as_ref().map_or(Before::Absent, Before::Was), &stl)?;
            lines.extend(notes);
            lines.extend(messages.lines);
            Ok(Output::text(lines.join("\n")))
        })
        .await
    }
}

impl Model3d {
    /// Returns the path of the STL file.
    fn output(&self) -> String {
        if !self.output.is_empty() || self.path.is_empty() {
            return self.output.clone();
        }
        format!("{}.stl", self.path.strip_suffix(".scad").unwrap_or(&self.path))
    }

    /// Returns notes on parameters that the source does not set.
    fn without_effect(&self, source: &Source<'_>) -> Vec<String> {
        let Some(known) = scad_lint::variables(&source.text) else { return Vec::new() };
        let lost = self.parameters.keys().filter(|it| !it.starts_with('$') && !known.contains(*it));
        lost.map(|it| format!("warning: `{it}` of `parameters` is not a variable at the top of the source"))
            .collect()
    }
}

/// Returns whether a file's name has this ending, in either case.
fn ends_in(path: &str, ending: &str) -> bool {
    let stem = path.len().checked_sub(ending.len()).filter(|it| *it > 0);
    stem.and_then(|it| path.get(it..)).is_some_and(|it| it.eq_ignore_ascii_case(ending))
}

/// Measures an STL file: its size, its volume, and whether it is closed; in lines for a model.
#[derive(Serialize, Deserialize)]
pub(crate) struct Measure {
    /// The name of the file.
    name: String,
}

impl Decoder for Measure {
    type Answer = Vec<String>;

    const NAME: &'static str = "mesh_measure";
    const DEADLINE: Duration = stl::DEADLINE;

    fn memory(bytes: u64) -> u64 {
        stl::memory(bytes)
    }

    fn decode(self, data: Vec<u8>) -> Result<Decoded<Vec<String>>, Fault> {
        let bytes = data.len();
        let mesh = Mesh::read(&self.name, data)?;
        Ok(measurements(&self.name, &mesh, &Solid::of(&mesh), bytes).into())
    }
}

/// Formats the measurements for a model.
fn measurements(output: &str, mesh: &Mesh, solid: &Solid, bytes: usize) -> Vec<String> {
    let place = |point: stl::Point| point.map(|it| short(f64::from(it))).join(", ");
    let plural =
        |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let closed = if solid.is_watertight() {
        "watertight".to_owned()
    } else {
        let mut why = Vec::new();
        if solid.open > 0 {
            why.push(plural(solid.open, "open edge", "open edges"));
        }
        if solid.shared > 0 {
            why.push(plural(solid.shared, "edge", "edges") + " with more than two facets");
        }
        format!("not watertight: {}", why.join(", "))
    };
    vec![
        format!("Wrote {output} ({} triangles, {bytes} bytes)", mesh.len()),
        format!("size {}, from ({}) to ({})", mesh.size(), place(mesh.low), place(mesh.high)),
        format!(
            "volume {} mm³ ({} cm³), surface {} mm²",
            short(solid.volume),
            short(solid.volume / 1000.0),
            short(solid.surface)
        ),
        format!("{closed}; {}", plural(solid.bodies, "body", "bodies")),
    ]
}

/// Messages that OpenSCAD prints in every run.
const NOISE: [&str; 8] = [
    "Geometries in cache",
    "Geometry cache size",
    "CGAL Polyhedrons in cache",
    "CGAL cache size",
    "Total rendering time",
    "Could not initialize localization",
    "Rendering Polygon Mesh",
    "Compiling design",
];

/// Returns the fault for a run without a part.
fn failed(cx: &Cx, compiled: &compile::Compiled, messages: &Messages, source: &Source<'_>) -> Fault {
    let name = source.name();
    let said = &compiled.said;
    let (what, next) = if said.contains("Parser error") || said.contains("Can't parse file") {
        let found = scad_lint::findings(cx, source);
        let lines = [messages.lines.clone(), found].concat();
        return Fault::new(Kind::Failed, format!("`{name}` can't be read by OpenSCAD"))
            .next("Mend the lines below, then compile it again.")
            .seen(Output::text(lines.join("\n")));
    } else if said.contains("not a 3D object") {
        (
            format!("`{name}` makes a flat shape, no part"),
            "Give it a height, as in `linear_extrude(height = 5) …`.",
        )
    } else if messages.has_errors {
        (format!("OpenSCAD stopped at an error in `{name}`"), "Mend it, then compile it again.")
    } else if said.contains("top level object is empty") {
        let unknown = messages.lines.iter().any(|it| it.contains("Ignoring unknown module"));
        (
            format!("`{name}` makes nothing"),
            if unknown {
                "Mend what is unknown in the lines below[? (`tool:scad_lint` names what is meant)?], then compile it again."
            } else {
                "Call a module at its top, and look that `difference` and `intersection` leave something."
            },
        )
    } else {
        (
            format!("OpenSCAD ended with {} and made no part of `{name}`", compile::how(compiled.exit)),
            "Make the model simpler: a smaller `$fn`, fewer repetitions.",
        )
    };
    let mut lines = messages.lines.clone();
    if lines.is_empty() {
        let telling = said.lines().filter(|it| !NOISE.iter().any(|noise| it.trim_start().starts_with(noise)));
        lines.extend(telling.rev().take(5).map(str::to_owned));
        lines.reverse();
    }
    lines.extend(cx.denials(compiled.exit, said));
    Fault::new(Kind::Failed, what).hint(next).seen(Output::text(lines.join("\n")))
}

/// Loads the existing file, if it is an STL: nothing else is replaced.
fn before(cx: &Cx, file: &str) -> Result<Option<Loaded>, Fault> {
    if !cx.files().exists(file)? {
        return Ok(None);
    }
    let loaded = cx.files().load(file, stl::LONGEST)?;
    if stl::is_one(&loaded.bytes) {
        return Ok(Some(loaded));
    }
    Err(Fault::bad_args(format!("`{file}` exists and is not an STL; it was not replaced"))
        .next("Name another `output`."))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_input_is_refused_before_anything_starts() {
        let test_ws = TestWorkspace::new("//- a.scad\ncube(1);\n//- a.stl\nno STL at all\n");
        let says = |arguments: serde_json::Value| test_ws.says::<Model3d>(&arguments);
        assert!(says(json!({"path": "a.scad"})).contains("`a.stl` exists and is not an STL"));
        assert!(says(json!({"code": "cube(1);"})).contains("`output` is empty"));
        assert!(says(json!({"output": "b.stl"})).contains("Give `path` or `code`"));
        assert!(says(json!({"path": "a.scad", "code": "x", "output": "b.stl"})).contains("both given"));
        assert!(
            says(json!({"path": "a.scad", "output": "b.stl", "timeout_ms": 0})).contains("`timeout_ms` is 0")
        );
        for output in ["b.3mf", "b", "..", "out/"] {
            let said = says(json!({"path": "a.scad", "output": output}));
            assert!(said.contains(&format!("`output` is `{output}`")) && said.contains("`.stl`"), "{said}");
        }
        assert!(says(json!({"path": "b.scad"})).contains("Did you mean `a.scad`"));
    }

    #[test]
    fn files_that_are_not_source_are_refused_without_running_openscad() {
        let test_ws = TestWorkspace::empty();
        std::fs::write(test_ws.path().join("long.scad"), format!("\n{}", "x".repeat(300_000))).unwrap();
        let said = test_ws.says::<Model3d>(&json!({"path": "long.scad"}));
        assert!(
            said.starts_with("bad_args: `long.scad` can't be OpenSCAD source: line 2 has a word of 300000 ")
        );
        assert!(said.len() < 400, "{said}");
        std::fs::write(test_ws.path().join("picture.scad"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01")
            .unwrap();
        let said = test_ws.says::<Model3d>(&json!({"path": "picture.scad"}));
        assert!(
            said.starts_with("bad_args: `picture.scad` is not text: it is binary, by its content image/png")
        );
    }
}
