//! The spec that an executable prints.

use std::path::Path;

use kit::procs::{Ending, Process, Program, Stdin, Streams};
use kit::{Kind, Touches, spans};
use serde_json::{Map, Value, json};
use tokio::time::{Duration, timeout};
use tracing::Instrument as _;

use super::{DRAIN, exit_words, is_manifest};
use crate::{
    arguments,
    execution::{Execution, Own},
    plugins::{Described, Version, declared, manifest::Manifest},
};

/// Time limit for a program to print its spec.
const LONGEST: Duration = Duration::from_secs(10);
/// Limit of a spec, in bytes.
const LARGEST: u64 = 1 << 20;
/// Characters shown of output that is not a spec.
const SHOWN: usize = 600;
/// Limit of tools per program.
const TOOLS: usize = 64;
/// The argument that requests the spec.
const ASKED: &str = "--tool";

/// Returns the tools of a program, from `--tool` or from the `tool.toml` that this version is, or the reason
/// why there are none.
pub(crate) async fn describe(execution: &Execution, version: &Version) -> Result<Vec<Described>, String> {
    if is_manifest(&version.path) {
        return of_manifest(execution, version).map(|it| vec![it]);
    }
    // A shell would run any text as a script.
    let text = version.source.text().map_err(|fault| fault.what)?;
    let is_text = !text.is_empty() && !text.iter().take(512).any(|it| *it == 0);
    if is_text && !text.starts_with(b"#!") {
        return Err(not_a_program(&version.path));
    }
    let said = ask(execution, version).await?;
    let file = version.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let wrong = |why: &str| {
        format!(
            "`{file} {ASKED}` has to print a JSON object with `name`, `description` and `parameters`, or a list of such: {why}; it printed: {}",
            head(&said)
        )
    };
    let value: Value = serde_json::from_str(said.trim()).map_err(|error| wrong(&error.to_string()))?;
    let several = match value {
        Value::Array(several) => several,
        one => vec![one],
    };
    if several.is_empty() || several.len() > TOOLS {
        return Err(wrong(&format!("the list has {} tools, and may have 1 to {TOOLS}", several.len())));
    }
    let mut tools: Vec<Described> = Vec::new();
    for one in &several {
        let Value::Object(spec) = one else { return Err(wrong("this is not an object")) };
        let tool = of_spec(spec).map_err(|why| wrong(&why))?;
        if tools.iter().any(|it| it.name == tool.name) {
            return Err(wrong(&format!("`{}` is there twice", tool.name)));
        }
        tools.push(tool);
    }
    Ok(tools)
}

/// Runs the program with `--tool` and returns its output.
async fn ask(execution: &Execution, version: &Version) -> Result<String, String> {
    let file = version.path.display();
    let execution = execution.of_tool(Own {
        folder: version.folder.clone(),
        code: vec![version.path.clone()],
        ..Own::default()
    });
    let procs = execution.of_call(&Touches::run(ASKED), &[]);
    let program = Program {
        argv: vec![version.path.display().to_string(), ASKED.to_owned()],
        cwd: version.folder.clone(),
        env: Vec::new(),
        stdin: Stdin::Null,
        streams: Streams::Apart,
        files: Vec::new(),
    };
    let span = spans::PluginProcess::begin(Some(&version.path), None);
    let process = match procs.start(program).instrument(span.span()).await {
        Ok(process) => process,
        Err(fault) if fault.kind == Kind::BadArgs => return Err(not_a_program(&version.path)),
        Err(fault) => return Err(fault.as_text()),
    };
    let over = timeout(LONGEST, async {
        let too_much = async {
            // From then on it is not a spec, so the program need not end.
            while process.output().grown(process.output().total()).await {
                if process.output().total() > LARGEST {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            exit = process.finished(DRAIN) => Some(exit),
            () = too_much => None,
        }
    })
    .await;
    process.end(Ending::NOW).await;
    let printed = shown(&process);
    match over {
        Err(_) => Err(format!(
            "`{file} {ASKED}` did not end within {} s; is it a tool? What is none is not executable, or has a name that begins with `_`{printed}",
            LONGEST.as_secs()
        )),
        Ok(None) => Err(format!("`{file} {ASKED}` printed more than {LARGEST} bytes{printed}")),
        Ok(Some(exit)) if !exit.is_success() => {
            Err(format!("`{file} {ASKED}` {}{printed}", exit_words(exit)))
        }
        Ok(Some(_)) => {
            let bytes = process.output().whole(LARGEST).unwrap_or_default();
            String::from_utf8(bytes)
                .map_err(|_| format!("`{file} {ASKED}` printed what is not UTF-8{printed}"))
        }
    }
}

fn shown(process: &Process) -> String {
    let printed = process.output().since(0, SHOWN).text;
    let errors = process.errors().map(|it| it.since(0, SHOWN).text).unwrap_or_default();
    let printed = [printed.trim(), errors.trim()].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>();
    if printed.is_empty() { "; it printed nothing".to_owned() } else { format!(":\n{}", printed.join("\n")) }
}

/// Returns the message for a file that the kernel can't run.
pub(super) fn not_a_program(path: &Path) -> String {
    format!(
        "{} is not a program that this machine runs: begin a script with `#!` and its interpreter, such as `#!/bin/sh`",
        path.display()
    )
}

/// Checks that the program exists that this manifest names by its path. [`describe`] reports errors in the
/// manifest itself.
///
/// # Errors
/// The reason why it can't be started.
pub(crate) fn is_startable(version: &Version) -> Result<(), String> {
    let folder = version.path.parent().unwrap_or(&version.folder);
    let text = version.source.text().map_err(|fault| fault.what)?;
    Manifest::parse(&text).map_or(Ok(()), |it| it.is_startable(folder, None))
}

fn of_manifest(execution: &Execution, version: &Version) -> Result<Described, String> {
    let folder = version.path.parent().unwrap_or(&version.folder);
    let manifest = Manifest::parse(&version.source.text().map_err(|fault| fault.what)?)?;
    manifest.is_startable(folder, execution.search_path().as_deref())?;
    let manual = manifest.manual(folder)?;
    described(Described {
        name: manifest.name.clone(),
        description: manifest.description.clone(),
        schema: manifest.schema(folder)?,
        format: "executable".to_owned(),
        entry: String::new(),
        touches: manifest.touches,
        timeout_seconds: manifest.timeout_seconds,
        manual,
        manual_first: manifest.manual_first,
        contribution: None,
        mode: None,
        notes: Vec::new(),
    })
}

fn of_spec(spec: &Map<String, Value>) -> Result<Described, String> {
    const KNOWN: [&str; 9] = [
        "name",
        "description",
        "parameters",
        "inputSchema",
        "input_schema",
        "touches",
        "timeout_seconds",
        "manual",
        "manual_first",
    ];
    let text = |key: &str| match spec.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("`{key}` is not text")),
        None => Err(format!("`{key}` is missing")),
    };
    let schema = ["parameters", "inputSchema", "input_schema"].into_iter().find_map(|it| spec.get(it));
    let touches = match spec.get("touches") {
        None | Some(Value::Null) => None,
        Some(lines) => {
            let lines: Option<Vec<String>> = lines
                .as_array()
                .and_then(|lines| lines.iter().map(|it| it.as_str().map(str::to_owned)).collect());
            Some(lines.ok_or("`touches` is not a list of texts")?)
        }
    };
    let timeout_seconds = match spec.get("timeout_seconds") {
        None | Some(Value::Null) => None,
        Some(seconds) => Some(seconds.as_f64().ok_or("`timeout_seconds` is not a number")?),
    };
    let manual = match spec.get("manual") {
        None | Some(Value::Null) => None,
        Some(_) => Some(text("manual")?),
    };
    let manual_first = match spec.get("manual_first") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(first)) => *first,
        Some(_) => return Err("`manual_first` is neither true nor false".to_owned()),
    };
    let strange = spec.keys().filter(|it| !KNOWN.contains(&it.as_str()));
    described(Described {
        name: text("name")?,
        description: text("description")?,
        schema: schema.cloned().unwrap_or_else(|| json!({"type": "object", "properties": {}})),
        format: "executable".to_owned(),
        entry: String::new(),
        touches,
        timeout_seconds,
        manual,
        manual_first,
        contribution: None,
        mode: None,
        notes: strange.map(|it| format!("`{it}` means nothing in a tool's description")).collect(),
    })
}

/// Checks and completes a description, from whichever source.
fn described(mut tool: Described) -> Result<Described, String> {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if tool.name.is_empty()
        || tool.name.len() > 64
        || tool.name.starts_with('_')
        || !tool.name.chars().all(is_word)
    {
        return Err(format!(
            "`{}` can't be the name of a tool: it has 1 to 64 letters, digits, `_` and `-`, and does not begin with `_`",
            head(&tool.name)
        ));
    }
    if tool.description.trim().is_empty() {
        return Err("`description` is empty: a model would not know when to call it".to_owned());
    }
    let unchecked = arguments::fitted(&mut tool.schema)?;
    if tool.timeout_seconds.is_some_and(|it| !(it > 0.0 && it.is_finite())) {
        return Err("`timeout_seconds` is not a number above 0".to_owned());
    }
    if let Some(lines) = &tool.touches {
        declared::check(lines, &tool.schema)?;
    }
    tool.notes.extend(unchecked);
    Ok(tool)
}

fn head(text: &str) -> String {
    let mut head: String = text.trim().chars().take(SHOWN).collect();
    if head.len() < text.trim().len() {
        head.push('…');
    }
    if head.is_empty() { "nothing".to_owned() } else { head }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn of(spec: &Value) -> Result<Described, String> {
        of_spec(spec.as_object().unwrap())
    }

    #[test]
    fn a_spec_is_read_under_each_name_that_people_give_its_schema() {
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        for key in ["parameters", "inputSchema", "input_schema"] {
            let spec = json!({"name": "disk", "description": "D.", key: schema, "touches": ["read {path}"],
                "timeout_seconds": 2.5, "manual": "M", "manual_first": true});
            let tool = of(&spec).unwrap();
            assert_eq!(
                (tool.name.as_str(), tool.format.as_str(), &tool.schema),
                ("disk", "executable", &schema)
            );
            assert_eq!(
                (tool.touches.unwrap(), tool.timeout_seconds),
                (vec!["read {path}".to_owned()], Some(2.5))
            );
            assert_eq!((tool.manual.as_deref(), tool.manual_first, tool.notes.len()), (Some("M"), true, 0));
        }
        assert_eq!(
            of(&json!({"name": "x", "description": "D."})).unwrap().schema,
            json!({"type": "object", "properties": {}})
        );
        assert_eq!(
            of(&json!({"name": "x", "description": "D.", "parameters": {}})).unwrap().schema,
            json!({"type": "object", "properties": {}})
        );
    }

    #[test]
    fn errors_in_a_spec_are_named() {
        for (spec, why) in [
            (json!({"description": "D."}), "`name` is missing"),
            (json!({"name": 5, "description": "D."}), "`name` is not text"),
            (json!({"name": "a b", "description": "D."}), "`a b` can't be the name of a tool"),
            (json!({"name": "_a", "description": "D."}), "`_a` can't be the name"),
            (json!({"name": "a"}), "`description` is missing"),
            (json!({"name": "a", "description": " "}), "`description` is empty"),
            (
                json!({"name": "a", "description": "D.", "parameters": []}),
                "must be the JSON schema of an object",
            ),
            (
                json!({"name": "a", "description": "D.", "parameters": {"type": "string"}}),
                "`parameters.type` is \"string\"; it must be \"object\"",
            ),
            (json!({"name": "a", "description": "D.", "touches": "all"}), "`touches` is not a list"),
            (json!({"name": "a", "description": "D.", "touches": ["all"]}), "begins with none of the words"),
            (json!({"name": "a", "description": "D.", "timeout_seconds": 0}), "is not a number above 0"),
            (json!({"name": "a", "description": "D.", "timeout_seconds": "5"}), "is not a number"),
            (json!({"name": "a", "description": "D.", "manual_first": "yes"}), "neither true nor false"),
        ] {
            let said = of(&spec).unwrap_err();
            assert!(said.contains(why), "{spec}: {said}");
        }
    }

    #[test]
    fn oddities_in_a_spec_are_noted() {
        let spec = json!({"name": "a", "description": "D.", "colour": 1, "parameters": {"properties": {"x": {"pattern": "(?=a)"}}}});
        let notes = of(&spec).unwrap().notes;
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert_eq!(notes.first().unwrap(), "`colour` means nothing in a tool's description");
    }
}
