//! Configuration files as values: YAML, JSON and TOML, bounded in size and depth, below allowed folders only.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kit::Fault;
use serde_json::{Map, Value};

/// Maximum size of a file, in bytes.
const LARGEST: u64 = 256 << 10;

/// Limits of a YAML file. Anchors can't expand to gigabytes.
const NODES: usize = 20_000;
const DEPTH: usize = 24;
const ALIASES: usize = 200;

/// The names of a config file in a folder.
const CONFIGS: [&str; 4] = ["config.yaml", "config.yml", "config.json", "config.toml"];

/// How far up a `creatures/…` reference is looked for.
const UP: usize = 10;

/// The folders whose files a recipe may name.
#[derive(Debug, Clone, Default)]
pub struct Places {
    folders: Vec<PathBuf>,
    /// The folder of installed packages, for `@package/path`.
    packages: Option<PathBuf>,
}

impl Places {
    /// Allows the files below these folders, and below the folder of installed packages.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>, packages: Option<PathBuf>) -> Self {
        let real = |it: PathBuf| it.canonicalize().ok();
        Self { folders: folders.into_iter().filter_map(real).collect(), packages: packages.and_then(real) }
    }

    /// Also allows the project of a recipe that the person named: the nearest folder above it with `.git` or
    /// `creatures`, or its own folder.
    #[must_use]
    pub fn with_project_of(mut self, recipe: &Path) -> Self {
        let Ok(real) = recipe.canonicalize() else { return self };
        if self.allows(&real) {
            return self;
        }
        let folder = if real.is_dir() { real.as_path() } else { real.parent().unwrap_or(&real) };
        let is_project = |it: &&Path| it.join(".git").exists() || it.join("creatures").is_dir();
        // Not the root of the file system, nor what is directly below it.
        let above = folder.ancestors().take(UP).filter(|it| it.components().count() > 2).find(is_project);
        self.folders.push(above.unwrap_or(folder).to_owned());
        self
    }

    fn allows(&self, real: &Path) -> bool {
        self.folders.iter().chain(&self.packages).any(|it| real.starts_with(it))
    }

    /// Returns the real path of a file or folder that a config in `from` names.
    ///
    /// # Errors
    /// When there is none, or it is outside.
    pub fn find(&self, from: &Path, named: &str) -> Result<PathBuf, Fault> {
        let named = named.trim().trim_matches(['"', '\'']);
        let path = if let Some(package) = named.strip_prefix('@') {
            let packages = self.packages.as_ref().ok_or_else(|| {
                Fault::not_found(format!("`{named}` names a package, and no packages are installed"))
                    .next("Name the folder of the creature, such as `creatures/NAME`.")
            })?;
            packages.join(package)
        } else if named.starts_with("creatures/") && !from.join(named).exists() {
            let above = from.ancestors().take(UP).map(|it| it.join(named)).find(|it| it.exists());
            above.unwrap_or_else(|| from.join(named))
        } else {
            from.join(named)
        };
        let real = path
            .canonicalize()
            .map_err(|_| Fault::not_found(format!("`{named}` does not exist (from {})", from.display())))?;
        if !self.allows(&real) {
            let what = format!("`{named}` is outside of the workspace and of the recipe's project");
            return Err(Fault::new(kit::Kind::Denied, what).next("Copy it into the workspace."));
        }
        Ok(real)
    }

    /// Reads a text file that a config in `from` names.
    ///
    /// # Errors
    /// Those of [`find`](Self::find), and when it is not a text of a bounded size.
    pub fn read(&self, from: &Path, named: &str) -> Result<String, Fault> {
        text_of(&self.find(from, named)?)
    }
}

fn text_of(path: &Path) -> Result<String, Fault> {
    let shown = path.display();
    let about = fs::metadata(path).map_err(|error| Fault::not_found(format!("{shown}: {error}")))?;
    if !about.is_file() || about.len() > LARGEST {
        return Err(Fault::bad_args(format!("{shown} is not a regular file of at most {LARGEST} bytes")));
    }
    let bytes = fs::read(path).map_err(|error| Fault::not_found(format!("{shown}: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| Fault::bad_args(format!("{shown} is not UTF-8")))?;
    // Escaped, so that a prompt hides nothing from the person.
    Ok(kit::escape::visible(text.trim_start_matches('\u{feff}')).0.replace("\r\n", "\n"))
}

/// Reads a config file as a mapping.
///
/// # Errors
/// The file and line, and what is wrong there.
pub fn mapping(path: &Path) -> Result<Map<String, Value>, Fault> {
    let text = text_of(path)?;
    let kind = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
    parse(kind, &text).map_err(|why| Fault::bad_args(format!("{}: {why}", path.display())))
}

/// Parses a text as a mapping: `yaml`, `json` or `toml`.
///
/// # Errors
/// The line, and what is wrong there.
pub fn parse(kind: &str, text: &str) -> Result<Map<String, Value>, String> {
    let value: Value = match kind {
        "yaml" | "yml" if text.trim().is_empty() => Value::Null,
        "yaml" | "yml" => serde_saphyr::from_str_with_options(text, bounds()).map_err(|error| {
            let line = error.location().map_or(1, |it| it.line());
            format!("line {line}: {}", error.to_string().lines().next().unwrap_or_default())
        })?,
        "json" => serde_json::from_str(text).map_err(|error| error.to_string())?,
        "toml" => toml::from_str(text).map_err(|error: toml::de::Error| {
            let at = error.span().and_then(|it| text.get(..it.start));
            format!("line {}: {}", at.map_or(1, |it| it.lines().count().max(1)), error.message())
        })?,
        other => return Err(format!("`.{other}` is not a config file: yaml, json or toml")),
    };
    match value {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        other => Err(format!("it is {}; it must be a mapping", kind_of(&other))),
    }
}

/// Returns the config file of a folder, or the file itself.
///
/// # Errors
/// When there is none.
pub fn config_in(path: &Path) -> Result<PathBuf, Fault> {
    if path.is_file() {
        return Ok(path.to_owned());
    }
    CONFIGS.iter().map(|it| path.join(it)).find(|it| it.is_file()).ok_or_else(|| {
        Fault::not_found(format!("{} has no config file", path.display()))
            .next(format!("One of these is needed: {}.", CONFIGS.join(", ")))
    })
}

/// Returns what kind of value this is, in a word.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

fn bounds() -> serde_saphyr::Options {
    let budget = serde_saphyr::budget! {
        max_aliases: ALIASES,
        max_anchors: ALIASES,
        max_nodes: NODES,
        max_depth: DEPTH,
    };
    serde_saphyr::options! { budget: budget }
}

/// Replaces `${NAME:default}` by its default: a config does not see the environment. Names what has no default.
pub fn without_variables(value: &mut Value, missing: &mut Vec<String>) {
    match value {
        Value::String(text) if text.contains("${") => *text = replaced(text, missing),
        Value::Array(items) => items.iter_mut().for_each(|it| without_variables(it, missing)),
        Value::Object(fields) => fields.values_mut().for_each(|it| without_variables(it, missing)),
        _ => {}
    }
}

fn replaced(text: &str, missing: &mut Vec<String>) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, from)) = rest.split_once("${") {
        whole.push_str(before);
        let Some((inside, after)) = from.split_once('}') else {
            whole.push_str("${");
            rest = from;
            continue;
        };
        match inside.split_once(':') {
            Some((_, default)) => whole.push_str(default.trim_start_matches('-')),
            None => missing.push(inside.to_owned()),
        }
        rest = after;
    }
    whole.push_str(rest);
    whole
}
