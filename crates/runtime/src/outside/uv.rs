//! Which packages does a Python file say it needs (PEP 723), and where are they?
//!
//! They are kept in an environment for each list of them, which `uv` makes once, in a sandbox of its own: building a
//! package runs its code. Tools read environments and never write them.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kit::{
    Fault, Kind, Touches,
    procs::{Exit, Program, Stdin, Streams},
};
use rustix::fs::{FlockOperation, flock};
use serde::Deserialize;

use crate::{
    Runtime,
    grants::host_matches,
    ground::{ENVIRONMENTS, Ground},
    store::create_folder,
};

/// The hosts of the index where nothing else is configured.
const INDEX: [&str; 2] = ["pypi.org", "files.pythonhosted.org"];

/// The variables that name another index, the most decisive first.
const DEFAULT: [&str; 3] = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"];

/// Those that name more of them, several in one.
const MORE: [&str; 3] = ["UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"];

/// Variables of uv's that are about places which its sandbox does not have.
const NOT_PASSED: [&str; 6] =
    ["UV_CACHE_DIR", "UV_CONFIG_FILE", "UV_PROJECT", "UV_PYTHON", "UV_TOOL", "UV_WORKING_DIR"];

/// The oldest Python that haft's host runs on.
const OLDEST: &str = ">=3.8";

/// How much of what uv said is in a fault.
const LINES: usize = 12;

/// What a file says that it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Script {
    /// Packages, as PEP 508 writes them.
    pub(crate) dependencies: Vec<String>,
    /// Which Python.
    pub(crate) requires_python: Option<String>,
    /// Where packages are looked for, and whether that is in place of the usual index.
    pub(crate) indexes: Vec<(String, bool)>,
}

/// What the block of a file says; nothing, where it has none.
///
/// # Errors
/// When there are several, or it is not what PEP 723 wants.
pub(crate) fn wanted(source: &[u8]) -> Result<Option<Script>, String> {
    let text = String::from_utf8_lossy(source).replace("\r\n", "\n");
    let blocks: Vec<String> =
        blocks(&text).into_iter().filter(|it| it.0 == "script").map(|it| it.1).collect();
    let block = match blocks.as_slice() {
        [] => return Ok(None),
        [one] => one,
        several => {
            return Err(format!("the file has {} `# /// script` blocks; PEP 723 allows one", several.len()));
        }
    };
    let block: Block =
        toml::from_str(block).map_err(|error| format!("the `# /// script` block can't be read: {error}"))?;
    if let Some(one) =
        block.dependencies.iter().find(|it| it.trim_start().starts_with('-') || it.contains('\n'))
    {
        return Err(format!("`{one}` in the `# /// script` block is no package"));
    }
    let uv = block.tool.uv;
    let named = uv.index.into_iter().map(|it| (it.url, it.default));
    let indexes = uv
        .index_url
        .map(|it| (it, true))
        .into_iter()
        .chain(uv.extra_index_url.into_iter().map(|it| (it, false)));
    Ok(Some(Script {
        dependencies: block.dependencies,
        requires_python: block.requires_python.filter(|it| !it.trim().is_empty()),
        indexes: indexes.chain(named).collect(),
    }))
}

#[derive(Deserialize)]
struct Block {
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(rename = "requires-python")]
    requires_python: Option<String>,
    #[serde(default)]
    tool: OfTools,
}

#[derive(Default, Deserialize)]
struct OfTools {
    #[serde(default)]
    uv: OfUv,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct OfUv {
    index_url: Option<String>,
    #[serde(default)]
    extra_index_url: Vec<String>,
    #[serde(default)]
    index: Vec<Index>,
}

#[derive(Deserialize)]
struct Index {
    url: String,
    #[serde(default)]
    default: bool,
}

/// Every block of comments with its type, as the reference finds them: the last closing line of a run counts.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut found = Vec::new();
    let mut rest = lines.as_slice();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let Some(kind) = first.strip_prefix("# /// ").filter(|it| is_type(it)) else { continue };
        let run = after.iter().take_while(|it| **it == "#" || it.starts_with("# ")).count();
        let (run, _) = after.split_at(run);
        let Some(end) = run.iter().rposition(|it| *it == "# ///").filter(|it| *it > 0) else { continue };
        let (content, left) = after.split_at(end);
        let content = content.iter().map(|it| format!("{}\n", it.get(2..).unwrap_or_default()));
        found.push((kind, content.collect()));
        rest = left.get(1..).unwrap_or_default();
    }
    found
}

fn is_type(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
}

/// The environments of all tools. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Environments {
    folder: PathBuf,
    variables: Arc<Vec<(String, String)>>,
}

impl Environments {
    /// Those in the state folder of this runtime.
    pub(crate) fn of(runtime: &Runtime) -> Self {
        Self::new(runtime.state(), &runtime.commands().variables)
    }

    /// Those in this state folder.
    pub(crate) fn new(state: &Path, variables: &[(String, String)]) -> Self {
        Self { folder: state.join(ENVIRONMENTS), variables: Arc::new(variables.to_vec()) }
    }

    /// Does a file that says this need an environment at all?
    fn is_needed(&self, script: &Script) -> bool {
        !script.dependencies.is_empty() || script.requires_python.is_some() && self.uv().is_some()
    }

    /// The Python of the environment for this, if it has been made.
    pub(crate) fn made(&self, script: &Script) -> Option<PathBuf> {
        let folder = self.folder_of(script);
        let python = python_in(&folder);
        // A link to a Python that was updated away leads nowhere.
        (ready(&folder).exists() && python.exists()).then_some(python)
    }

    /// Where that environment is: what a tool that uses it has to be able to read.
    pub(crate) fn folder_of(&self, script: &Script) -> PathBuf {
        let files: Vec<_> = script
            .dependencies
            .iter()
            .filter_map(|it| local_file(it))
            .map(|it| fs::read(it).map(|it| blake3::hash(&it).to_string()).ok())
            .collect();
        let all = serde_json::json!([1, script, files, std::env::consts::OS, std::env::consts::ARCH]);
        let hash = blake3::hash(all.to_string().as_bytes()).to_hex();
        let folder = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        folder.join(hash.get(..32).unwrap_or_default())
    }

    /// The hosts that have to be reached before a tool that says this can run: those of the package index, and of what is
    /// named by its address. None, once the environment is there.
    fn hosts(&self, script: &Script) -> Vec<String> {
        if self.made(script).is_some() {
            return Vec::new();
        }
        let mut hosts: Vec<String> = Vec::new();
        let mut add = |host: String| {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        };
        let addresses = script.dependencies.iter().filter_map(|it| it.split_once('@')).map(|it| it.1);
        addresses.filter_map(|it| host_of(it, "")).for_each(&mut add);
        let by_name = script.dependencies.iter().any(|it| !it.contains("://"));
        let is_set = |name: &str| self.value(name).is_some_and(|it| !["", "0", "false"].contains(&it));
        if by_name && !is_set("UV_NO_INDEX") && !is_set("UV_OFFLINE") {
            self.indexes(script, &mut add);
        }
        hosts
    }

    fn indexes(&self, script: &Script, add: &mut dyn FnMut(String)) {
        let of_script = script.indexes.iter().filter(|it| it.1).find_map(|it| host_of(&it.0, ""));
        let default = || DEFAULT.iter().find_map(|it| self.value(it)).and_then(of_person);
        match of_script.or_else(default) {
            None => INDEX.iter().for_each(|it| add((*it).to_owned())),
            Some(host) => {
                let files = host.strip_prefix("pypi.org").map(|port| format!("files.pythonhosted.org{port}"));
                add(host);
                files.into_iter().for_each(&mut *add);
            }
        }
        let more = MORE.iter().filter_map(|it| self.value(it)).flat_map(str::split_whitespace);
        more.filter_map(of_person).for_each(&mut *add);
        script.indexes.iter().filter(|it| !it.1).filter_map(|it| host_of(&it.0, "")).for_each(add);
    }

    /// The Python of an environment with what this file needs, which is made if it is not there. Only `reach` of the
    /// network is reached for that: give it the [`hosts`](Self::hosts) that were decided on.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when there is no `uv`; [`Kind::Failed`] with what it said when it can't be made.
    async fn python(
        &self,
        ground: &Ground,
        script: &Script,
        file: &str,
        reach: &[String],
    ) -> Result<PathBuf, Fault> {
        if let Some(python) = self.made(script) {
            return Ok(python);
        }
        let uv = self.uv().filter(|it| !ground.is_in_a_root(it)).ok_or_else(|| no_uv(script, file))?;
        let trouble = |error: io::Error| {
            Fault::new(
                Kind::Unavailable,
                format!("no folder could be made for the packages of {file}: {error}"),
            )
            .caused_by(error)
        };
        create_folder(&self.folder).map_err(trouble)?;
        let folder = self.folder_of(script);
        let lock = lock(folder.with_extension("lock")).await.map_err(trouble)?;
        // Somebody else may have made it while we waited.
        if let Some(python) = self.made(script) {
            return Ok(python);
        }
        // What is there is half made, or its Python is gone.
        let _ = fs::remove_file(ready(&folder));
        let _ = fs::remove_dir_all(&folder);
        create_folder(&folder).map_err(trouble)?;
        let making = Making { uv, folder: &folder, script, file, reach };
        let made = making.make(self, ground).await;
        let cache = folder.join("cache");
        if made.is_err() {
            let _ = fs::remove_dir_all(&folder);
        }
        made?;
        let _ = fs::remove_dir_all(cache);
        File::create(ready(&folder)).map_err(trouble)?;
        drop(lock);
        Ok(python_in(&folder))
    }

    /// What this source of a file says it needs, and the Python that has it; nothing where it needs none. What is not
    /// there is fetched from those hosts that are among the granted ones.
    ///
    /// # Errors
    /// Those of [`python`](Self::python), and [`Kind::BadArgs`] when it says so wrongly.
    pub(crate) async fn provide(
        &self,
        ground: &Ground,
        file: &str,
        source: &[u8],
        granted: impl FnOnce() -> Vec<String>,
    ) -> Result<Option<(Script, PathBuf)>, Fault> {
        let script = wanted(source).map_err(|why| Fault::bad_args(format!("{file}: {why}")))?;
        let Some(script) = script.filter(|it| self.is_needed(it)) else { return Ok(None) };
        let mut reach = self.hosts(&script);
        if !reach.is_empty() {
            let granted = granted();
            reach.retain(|host| granted.iter().any(|it| host_matches(it, host)));
        }
        let python = self.python(ground, &script, file, &reach).await?;
        Ok(Some((script, python)))
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|it| it.0 == name).map(|it| it.1.as_str()).filter(|it| !it.is_empty())
    }

    /// The program itself.
    pub(crate) fn uv(&self) -> Option<PathBuf> {
        let folders = self.value("PATH")?.split(':').map(Path::new).filter(|it| it.is_absolute());
        folders.map(|it| it.join("uv")).find(|it| it.is_file())
    }

    /// What uv is told by variables, beside what every command has.
    fn variables_of_uv(&self, folder: &Path) -> Vec<(String, String)> {
        let is_passed = |name: &str| {
            (name.starts_with("UV_") || name.starts_with("PIP_"))
                && !NOT_PASSED.iter().any(|it| name.starts_with(it))
        };
        let mut env: Vec<_> = self.variables.iter().filter(|it| is_passed(&it.0)).cloned().collect();
        let mut default = |name: &str, value: Option<&str>| {
            if let Some(value) = value
                && !env.iter().any(|it| it.0 == name)
            {
                env.push((name.to_owned(), value.to_owned()));
            }
        };
        // uv knows no variables of pip's.
        default("UV_DEFAULT_INDEX", self.value("UV_INDEX_URL").or_else(|| self.value("PIP_INDEX_URL")));
        default("UV_EXTRA_INDEX_URL", self.value("PIP_EXTRA_INDEX_URL"));
        default("SSL_CERT_FILE", self.value("SSL_CERT_FILE").or_else(|| self.value("PIP_CERT")));
        env.push(("UV_CACHE_DIR".to_owned(), folder.join("cache").to_string_lossy().into_owned()));
        env.push(("UV_PYTHON_DOWNLOADS".to_owned(), "never".to_owned()));
        env.push(("UV_NO_CONFIG".to_owned(), "1".to_owned()));
        env
    }
}

/// The making of one environment.
struct Making<'a> {
    uv: PathBuf,
    folder: &'a Path,
    script: &'a Script,
    file: &'a str,
    reach: &'a [String],
}

impl Making<'_> {
    async fn make(&self, environments: &Environments, ground: &Ground) -> Result<(), Fault> {
        let files =
            self.script.dependencies.iter().filter_map(|it| local_file(it)?.canonicalize().ok()).collect();
        let env = environments.variables_of_uv(self.folder);
        let ground = ground.apart(self.folder.to_owned(), files, self.reach, env);
        let requires = self.script.requires_python.as_ref();
        let python = requires.map_or_else(|| OLDEST.to_owned(), |it| format!("{OLDEST},{it}"));
        let place = self.folder.join("venv");
        let place = place.to_string_lossy();
        self.run(&ground, &["venv", "--quiet", "--no-project", "--python", &python, &place]).await?;
        if self.script.dependencies.is_empty() {
            return Ok(());
        }
        let interpreter = python_in(self.folder);
        let interpreter = interpreter.to_string_lossy();
        let mut arguments = vec!["pip", "install", "--quiet", "--compile-bytecode", "--python", &interpreter];
        for (url, default) in &self.script.indexes {
            arguments.extend([if *default { "--default-index" } else { "--index" }, url]);
        }
        arguments.push("--");
        arguments.extend(self.script.dependencies.iter().map(String::as_str));
        self.run(&ground, &arguments).await
    }

    async fn run(&self, ground: &Ground, arguments: &[&str]) -> Result<(), Fault> {
        let procs = ground.of_call(&Touches::run("uv"), &[]);
        let program = Program {
            argv: [&*self.uv.to_string_lossy()].iter().chain(arguments).map(|it| (*it).to_owned()).collect(),
            cwd: self.folder.to_owned(),
            env: Vec::new(),
            stdin: Stdin::Null,
            streams: Streams::Together,
            files: Vec::new(),
        };
        let process = procs.start(program).await?;
        let exit = process.finished(Duration::from_secs(1)).await;
        if exit.is_success() {
            return Ok(());
        }
        Err(self.failed(exit, &process.output().since(0, 64 * 1024).text, &ground.hosts().take_refused()))
    }

    fn failed(&self, exit: Exit, said: &str, refused: &[String]) -> Fault {
        let lines: Vec<&str> = said.lines().filter(|it| !it.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n");
        let how = if lines.is_empty() { format!("`uv` ended with {}", exit.code()) } else { last };
        let fault = Fault::new(
            Kind::Failed,
            format!("the packages that {} needs ({}) can't be had: {how}", self.file, list(self.script)),
        );
        if refused.is_empty() {
            return fault;
        }
        let grants: Vec<String> = refused.iter().map(|it| format!("`haft grants add 'net {it}'`")).collect();
        fault.next(format!(
            "{} was refused. A person can grant it with {}.",
            refused.join(", "),
            grants.join(", ")
        ))
    }
}

fn no_uv(script: &Script, file: &str) -> Fault {
    let what = format!("`uv` is needed for the packages of {file} ({}) and is not installed", list(script));
    Fault::new(Kind::Unavailable, what).next(
        "A person can install it: https://docs.astral.sh/uv/ or `pip install uv`, so that it is on haft's PATH. Until then \
         the tool can do without packages, or carry what it needs beside it.",
    )
}

/// What is needed, for a person.
fn list(script: &Script) -> String {
    let python = script.requires_python.iter().map(|it| format!("Python {it}"));
    script.dependencies.iter().cloned().chain(python).collect::<Vec<_>>().join(", ")
}

fn python_in(folder: &Path) -> PathBuf {
    folder.join("venv/bin/python")
}

/// The file whose presence says that an environment is whole. Nothing that is run while it is made can make it.
fn ready(folder: &Path) -> PathBuf {
    folder.with_extension("ready")
}

/// Waits until nobody else makes this environment; also another process of haft's.
async fn lock(path: PathBuf) -> io::Result<File> {
    let locked = tokio::task::spawn_blocking(move || {
        let file = File::create(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    });
    locked.await.map_err(io::Error::other)?
}

/// The file that a dependency of the form `name @ file:///path` names.
fn local_file(dependency: &str) -> Option<PathBuf> {
    let (_, address) = dependency.split_once('@')?;
    let path = address.trim().strip_prefix("file://")?;
    let path = path.split([';', '#', '?']).next()?.trim();
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// The host of an index that the person configured: with its port, as it may be at an address that is not public.
fn of_person(address: &str) -> Option<String> {
    host_of(address, if address.contains("http://") { ":80" } else { ":443" })
}

/// The host of an address, with its port or, where it names none, this one.
fn host_of(address: &str, port: &str) -> Option<String> {
    let (scheme, rest) = address.trim().split_once("://")?;
    let authority = rest.split(['/', '?', '#', ';']).next()?.trim();
    let host = authority.rsplit_once('@').map_or(authority, |it| it.1);
    if scheme.ends_with("file") || host.is_empty() {
        return None;
    }
    let is_port = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    let has_port = host.rsplit_once(':').is_some_and(|it| is_port(it.1));
    Some(if has_port { host.to_owned() } else { format!("{host}{port}") })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn script(dependencies: &[&str]) -> Script {
        let dependencies = dependencies.iter().map(|it| (*it).to_owned()).collect();
        Script { dependencies, ..Script::default() }
    }

    fn hosts(variables: &[(&str, &str)], script: &Script) -> Vec<String> {
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Environments::new(Path::new("/nowhere"), &variables).hosts(script)
    }

    #[test]
    fn a_block_is_found_as_the_reference_finds_it() {
        let source = "#!/usr/bin/env python3\n# /// other\n# dependencies = [\"no\"]\n# ///\n\n# /// script\r\n# requires-python = \">=3.9\"\r\n\
            # dependencies = [\n#   \"requests<3\",\n#\n#   'rich',\n# ]\n# [tool.uv]\n# index-url = \"https://a.example/simple\"\n\
            # [[tool.uv.index]]\n# name = 'b'\n# url = \"https://b.example/simple\"\n# ///\nimport x\n";
        let found = wanted(source.as_bytes()).unwrap().unwrap();
        assert_eq!(found.dependencies, ["requests<3", "rich"]);
        assert_eq!(found.requires_python.as_deref(), Some(">=3.9"));
        let indexes =
            [("https://a.example/simple".to_owned(), true), ("https://b.example/simple".to_owned(), false)];
        assert_eq!(found.indexes, indexes);
    }

    #[test]
    fn what_is_no_block_is_none() {
        for source in [
            "import x",
            "# /// script\n# dependencies = []\n",
            "# /// script\n# ///\n",
            "# /// script\n#dependencies = []\n# ///\n",
            " # /// script\n # a = 1\n # ///\n",
            "# /// script \n# a = 1\n# ///\n",
            "# /// script\n# a = 1\n\n# ///\n",
        ] {
            assert_eq!(wanted(source.as_bytes()), Ok(None), "{source}");
        }
        // The last closing line of a run of comments counts.
        let text = wanted(b"# /// script\n# x = \"\"\"\n# ///\n# \"\"\"\n# ///\n");
        assert_eq!(text, Ok(Some(Script::default())));
    }

    #[test]
    fn what_is_wrong_with_a_block_is_said() {
        let one = "# /// script\n# dependencies = ['a']\n# ///\n";
        for (source, says) in [
            (format!("{one}\n{one}"), "2 `# /// script` blocks"),
            (one.replace("['a']", "'a'"), "can't be read"),
            (one.replace("['a']", "['-r x']"), "is no package"),
        ] {
            assert!(wanted(source.as_bytes()).unwrap_err().contains(says), "{source}");
        }
    }

    #[test]
    fn the_hosts_of_the_index_are_those_that_are_configured() {
        let plain = script(&["requests>=2"]);
        assert_eq!(hosts(&[], &plain), INDEX);
        assert_eq!(
            hosts(&[("PIP_INDEX_URL", "http://u:p@nexus.corp:8081/simple")], &plain),
            ["nexus.corp:8081"]
        );
        let uv = [
            ("UV_DEFAULT_INDEX", "corp=https://pypi.org/simple"),
            ("UV_INDEX", "https://x.example/a b=https://y.example"),
        ];
        let all = ["pypi.org:443", "files.pythonhosted.org:443", "x.example:443", "y.example:443"];
        assert_eq!(hosts(&uv, &plain), all);
        assert_eq!(hosts(&[("UV_NO_INDEX", "1")], &plain), [""; 0]);
    }

    #[test]
    fn what_is_named_by_its_address_needs_no_index() {
        assert_eq!(hosts(&[], &script(&["a @ file:///w/a.whl"])), [""; 0]);
        assert_eq!(
            hosts(&[], &script(&["a @ https://h.example/a.whl", "b @ git+https://g.example:8443/b"])),
            ["h.example", "g.example:8443"]
        );
        assert_eq!(hosts(&[], &script(&["a @ file:///w/a.whl", "b"])), INDEX);
    }

    #[test]
    fn environments_are_told_apart_by_what_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let environments = Environments::new(dir.path(), &[]);
        let wheel = dir.path().join("a.whl");
        let by_file = script(&[&format!("a @ file://{}", wheel.display())]);
        fs::write(&wheel, "1").unwrap();
        let first = environments.folder_of(&by_file);
        fs::write(&wheel, "2").unwrap();
        let python = Script { requires_python: Some(">=3.9".to_owned()), ..script(&["a"]) };
        let index = Script { indexes: vec![("https://x.example".to_owned(), true)], ..script(&["a"]) };
        let mut all: Vec<_> =
            [&by_file, &script(&["a"]), &python, &index].map(|it| environments.folder_of(it)).to_vec();
        all.push(first);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 5);
    }
}
