//! `tool.toml` manifests: a tool made of any command.

use std::{
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use kit::quote::quote;

/// Limit of a file that a manifest names, in bytes.
const LARGEST: u64 = 1 << 20;

/// A manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// The tool's name.
    pub(super) name: String,
    /// Its description.
    pub(super) description: String,
    /// The program to start, and its arguments.
    pub(super) command: Vec<String>,
    /// The JSON schema of the arguments.
    parameters: Option<Map<String, Value>>,
    /// The file with the JSON schema, instead.
    schema: Option<String>,
    pub(super) touches: Option<Vec<String>>,
    pub(super) timeout_seconds: Option<f64>,
    /// The file with the manual.
    manual: Option<String>,
    /// Whether a call requires reading the manual first.
    #[serde(default)]
    pub(super) manual_first: bool,
    /// The command that builds the program, named in the error if the program is missing.
    build: Option<String>,
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// The problem, with its line.
    pub(super) fn parse(source: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(source).map_err(|error| format!("it is not UTF-8: {error}"))?;
        let manifest: Self = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        if manifest.command.first().is_none_or(String::is_empty) {
            return Err(
                "`command` names no program: it is a list such as [\"./disk.sh\", \"--fast\"]".to_owned()
            );
        }
        if manifest.parameters.is_some() && manifest.schema.is_some() {
            return Err("it has both `[parameters]` and `schema`: one of them is the schema".to_owned());
        }
        Ok(manifest)
    }

    /// Returns the command line, for a manifest in this folder. Words that begin with `./` or `../` are
    /// relative to it; a bare program name is looked up in `PATH`.
    pub(super) fn argv(&self, folder: &Path) -> Vec<String> {
        let placed = |(index, word): (usize, &String)| {
            let is_beside = word.starts_with("./") || word.starts_with("../");
            let is_path = index == 0 && word.contains('/') && !word.starts_with('/');
            if is_beside || is_path { normal(&folder.join(word)).display().to_string() } else { word.clone() }
        };
        self.command.iter().enumerate().map(placed).collect()
    }

    /// Checks that its program can be started. Looks up a bare name in `search`, and skips that check without
    /// it.
    ///
    /// # Errors
    /// The reason, and what to do.
    pub(super) fn is_startable(&self, folder: &Path, search: Option<&str>) -> Result<(), String> {
        let argv = self.argv(folder);
        let Some(program) = argv.first() else { return Ok(()) };
        let path = Path::new(program);
        if !program.contains('/') {
            let Some(search) = search else { return Ok(()) };
            let mut all = search.split(':').map(|it| Path::new(it).join(program));
            return if all.any(|it| mode(&it).is_ok_and(|it| it & 0o111 != 0)) {
                Ok(())
            } else {
                Err(format!(
                    "`command`: there is no program `{program}` in PATH ({search}){}",
                    self.how_to_build()
                ))
            };
        }
        let why = match mode(path) {
            Ok(mode) if mode & 0o111 == 0 => {
                return Err(format!("`command`: {program} is not executable: `chmod +x {}`", quote(program)));
            }
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "is not there".to_owned(),
            Err(error) => format!("can't be started: {error}"),
        };
        Err(format!("`command`: {program} {why}{}", self.how_to_build()))
    }

    fn how_to_build(&self) -> String {
        self.build.as_ref().map(|build| format!("; build it: `{build}`")).unwrap_or_default()
    }

    /// Returns the schema of the arguments.
    pub(super) fn schema(&self, folder: &Path) -> Result<Value, String> {
        match (&self.parameters, &self.schema) {
            (Some(parameters), _) => Ok(Value::Object(parameters.clone())),
            (None, Some(file)) => {
                let text = beside(folder, file)?;
                serde_json::from_str(&text).map_err(|error| format!("`schema`: {file} is not JSON: {error}"))
            }
            (None, None) => Ok(json!({"type": "object", "properties": {}})),
        }
    }

    /// Returns the manual, if it has one.
    pub(super) fn manual(&self, folder: &Path) -> Result<Option<String>, String> {
        self.manual.as_deref().map(|file| beside(folder, file)).transpose()
    }
}

/// Returns the permissions of a file.
fn mode(path: &Path) -> std::io::Result<u32> {
    let found = path.metadata()?;
    if !found.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    Ok(found.permissions().mode())
}

/// Resolves `.` and `..` in a path by its text alone.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// Reads a file beside the manifest. Rejects `..` and links: a model sees the content.
fn beside(folder: &Path, file: &str) -> Result<String, String> {
    let is_below =
        Path::new(file).components().all(|it| matches!(it, Component::Normal(_) | Component::CurDir));
    if !is_below || file.is_empty() {
        return Err(format!("{file} does not lie beside the tool.toml"));
    }
    let wrong = |error: &dyn std::fmt::Display| format!("{file} can't be read: {error}");
    let path = folder.join(file).canonicalize().map_err(|error| wrong(&error))?;
    if !folder.canonicalize().is_ok_and(|folder| path.starts_with(folder)) {
        return Err(format!("{file} is a link that leads away from the tool.toml"));
    }
    if !path.is_file() {
        return Err(wrong(&"it is not a file"));
    }
    let mut text = String::new();
    let file = std::fs::File::open(&path).map_err(|error| wrong(&error))?;
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(|error| wrong(&error))?;
    if text.len() as u64 > LARGEST {
        return Err(wrong(&format!("it has more than {LARGEST} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn wrong(text: &str) -> String {
        Manifest::parse(text.as_bytes()).unwrap_err()
    }

    const START: &str = "name = 'd'\ndescription = 'D.'\n";

    #[test]
    fn it_names_a_command_that_lies_beside_it_or_in_the_path() {
        let argv = |command: &str| {
            Manifest::parse(format!("{START}command = {command}").as_bytes()).unwrap().argv(Path::new("/t/d"))
        };
        assert_eq!(argv("['./disk.sh', '--fast']"), ["/t/d/disk.sh", "--fast"]);
        assert_eq!(argv("['bin/disk']"), ["/t/d/bin/disk"]);
        assert_eq!(argv("['node', './a.mjs', 'b/c', '../x']"), ["node", "/t/d/a.mjs", "b/c", "/t/x"]);
        assert_eq!(argv("['/bin/df']"), ["/bin/df"]);
    }

    #[test]
    fn error_names_its_line() {
        let unknown = wrong(&format!("{START}command = ['x']\ntimeout = 5\n"));
        assert!(unknown.contains("line 4") && unknown.contains("unknown field `timeout`"), "{unknown}");
        assert!(wrong("name = 'd'\n").contains("missing field `description`"));
        assert!(wrong(&format!("{START}command = 'x'\n")).contains("line 3"));
        assert!(wrong(&format!("{START}command = []\n")).contains("names no program"));
        assert!(wrong(&format!("{START}command = ['x']\nschema = 'a'\n[parameters]\n")).contains("both"));
    }

    #[test]
    fn its_schema_is_in_it_or_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let schema = |text: &str| {
            Manifest::parse(format!("{START}command = ['x']\n{text}").as_bytes()).unwrap().schema(dir.path())
        };
        let inline =
            schema("[parameters]\ntype = 'object'\nproperties.n = { type = 'integer', minimum = 1 }");
        assert_eq!(
            inline.unwrap(),
            json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}})
        );
        assert_eq!(schema("").unwrap(), json!({"type": "object", "properties": {}}));
        std::fs::write(dir.path().join("s.json"), "{\"type\": \"object\"}").unwrap();
        assert_eq!(schema("schema = 's.json'").unwrap(), json!({"type": "object"}));
        std::fs::write(dir.path().join("bad.json"), "{").unwrap();
        assert!(schema("schema = 'bad.json'").unwrap_err().contains("not JSON"));
    }

    #[test]
    fn no_file_elsewhere_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("tool");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        for file in ["../secret", "link", "/etc/passwd", "", "missing", "."] {
            let manifest = format!("{START}command = ['x']\nmanual = '{file}'\n");
            assert!(Manifest::parse(manifest.as_bytes()).unwrap().manual(&folder).is_err(), "{file}");
        }
    }
}
