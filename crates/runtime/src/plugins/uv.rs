//! Python environments with the packages that files declare.
//!
//! `uv` creates one environment for each list of packages, once, in a sandbox of its own: building a package
//! runs its code. Tools can read environments and never write them.

mod environments;
mod permit;
mod script;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kit::{
    Fault, Kind, Touches,
    procs::{Program, Stdin, Streams},
};
use policy::Approve;
use store::create_folder;
use tokio::time::timeout;

pub(crate) use environments::{InUse, prune};
pub(crate) use script::{Script, wanted};

use crate::execution::{ENVIRONMENTS, Execution};

/// The hosts of the default package index.
const INDEX: [&str; 2] = ["pypi.org", "files.pythonhosted.org"];

/// The variables that set another index, in order of precedence.
const DEFAULT: [&str; 3] = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"];

/// The variables that add indexes, several in one.
const MORE: [&str; 3] = ["UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"];

/// uv's variables about paths that its sandbox does not contain.
const NOT_PASSED: [&str; 6] =
    ["UV_CACHE_DIR", "UV_CONFIG_FILE", "UV_PROJECT", "UV_PYTHON", "UV_TOOL", "UV_WORKING_DIR"];

/// The oldest Python that runs haft's host script.
const OLDEST: &str = ">=3.8";

/// Lines of uv's output in a fault.
const LINES: usize = 12;

/// Time limit of one step of creating an environment.
const LONGEST: Duration = Duration::from_secs(300);

/// An environment with a file's packages.
#[derive(Clone)]
pub(crate) struct Provided {
    /// The Python of the environment.
    pub(crate) python: PathBuf,
    /// Its folder, which must be readable to run that Python.
    pub(crate) folder: PathBuf,
    _in_use: Arc<InUse>,
}

/// Returns the environment with the packages that a file's source declares; nothing if it needs none. Creates
/// the environment if it does not exist. For that uv may contact `granted` hosts, and those that a person
/// allows on request.
///
/// # Errors
/// [`Kind::BadArgs`] when the declaration is invalid, [`Kind::Unavailable`] when there is no `uv`,
/// [`Kind::Denied`] when a needed host is not granted, [`Kind::Failed`] when the packages can't be installed.
pub(crate) async fn provide(
    execution: &Execution,
    environments: &Environments,
    path: &Path,
    source: &[u8],
    granted: impl FnOnce() -> Vec<String> + Send,
) -> Result<Option<Provided>, Fault> {
    let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let script = wanted(source).map_err(|why| Fault::bad_args(format!("{file}: {why}")))?;
    let Some(script) = script.filter(|it| environments.is_needed(it)) else { return Ok(None) };
    let trouble = |error| no_folder(&file, error);
    create_folder(&environments.folder).map_err(trouble)?;
    let folder = environments.folder_of(&script);
    let in_use = Arc::new(environments::hold(&folder).await.map_err(trouble)?);
    let python = match environments.made(&script) {
        Some(python) => python,
        None => environments.make(execution, &script, &file, granted).await?,
    };
    Ok(Some(Provided { python, folder, _in_use: in_use }))
}

/// Returns a fingerprint of what environments depend on: after a change, a failed one may work.
pub(crate) fn fingerprint(execution: &Execution) -> String {
    let all = format!("{:?} {}", Environments::of(execution).uv(), permit::fingerprint(execution));
    blake3::hash(all.as_bytes()).to_hex().chars().take(16).collect()
}

/// The environments of all tools. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Environments {
    folder: PathBuf,
    variables: Arc<Vec<(String, String)>>,
}

impl Environments {
    /// Returns the environments in the state folder of this execution environment.
    pub(crate) fn of(execution: &Execution) -> Self {
        Self::new(execution.state().unwrap_or(Path::new("/")), execution.variables())
    }

    /// Returns the environments in this state folder.
    pub(crate) fn new(state: &Path, variables: &[(String, String)]) -> Self {
        Self { folder: state.join(ENVIRONMENTS), variables: Arc::new(variables.to_vec()) }
    }

    /// Returns whether a file with this metadata needs an environment.
    pub(crate) fn is_needed(&self, script: &Script) -> bool {
        !script.dependencies.is_empty() || script.requires_python.is_some() && self.uv().is_some()
    }

    /// Returns the Python of the environment, if it exists.
    pub(crate) fn made(&self, script: &Script) -> Option<PathBuf> {
        let folder = self.folder_of(script);
        let python = python_in(&folder);
        // A link to a Python that an update removed is broken.
        (ready(&folder).exists() && python.exists()).then_some(python)
    }

    /// Returns the folder of the environment, which tools that use it must be able to read.
    pub(crate) fn folder_of(&self, script: &Script) -> PathBuf {
        let mut files: Vec<_> = script
            .dependencies
            .iter()
            .filter_map(|it| local_file(it))
            .map(|it| (it.clone(), fs::read(it).map(|it| blake3::hash(&it).to_string()).ok()))
            .collect();
        files.sort();
        // The order of packages does not matter.
        let mut script = script.clone();
        script.dependencies.sort();
        let all = serde_json::json!([1, script, files, std::env::consts::OS, std::env::consts::ARCH]);
        let hash = blake3::hash(all.to_string().as_bytes()).to_hex();
        let folder = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        folder.join(hash.get(..32).unwrap_or_default())
    }

    /// Returns the hosts that haft has to contact before a tool with this metadata can run: those of the
    /// package index, and those in addresses of packages. None, if the environment exists.
    pub(crate) fn hosts(&self, script: &Script) -> Vec<String> {
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

    /// Creates the environment and returns its Python.
    async fn make(
        &self,
        execution: &Execution,
        script: &Script,
        file: &str,
        granted: impl FnOnce() -> Vec<String> + Send,
    ) -> Result<PathBuf, Fault> {
        let uv = self.uv().filter(|it| !execution.is_in_a_root(it)).ok_or_else(|| no_uv(script, file))?;
        let mut reach = permit::permit(execution, script, file, self.hosts(script), granted()).await?;
        if execution.approve() == Approve::Auto {
            // Building a package needs further packages.
            self.indexes(script, &mut |host| reach.push(host));
        }
        // A person who maps these names to a private mirror intends that.
        for host in reach.iter_mut().filter(|it| INDEX.contains(&it.as_str())) {
            host.push_str(":443");
        }
        let folder = self.folder_of(script);
        let trouble = |error| no_folder(file, error);
        let lock = environments::lock(&folder).await.map_err(trouble)?;
        // Another process may have created it meanwhile.
        if let Some(python) = self.made(script) {
            return Ok(python);
        }
        // The folder is incomplete, or its Python is gone.
        let _ = fs::remove_file(ready(&folder));
        let _ = fs::remove_dir_all(&folder);
        create_folder(&folder).map_err(trouble)?;
        let making = Making { uv, folder: &folder, script, file, reach: &reach };
        let made = making.make(self, execution).await;
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

    fn value(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|it| it.0 == name).map(|it| it.1.as_str()).filter(|it| !it.is_empty())
    }

    /// Returns the path of `uv`.
    pub(crate) fn uv(&self) -> Option<PathBuf> {
        let folders = self.value("PATH")?.split(':').map(Path::new).filter(|it| it.is_absolute());
        folders.map(|it| it.join("uv")).find(|it| it.is_file())
    }

    /// Returns the variables for uv, beside those of every command.
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
        // uv does not read pip's variables.
        default("UV_DEFAULT_INDEX", self.value("UV_INDEX_URL").or_else(|| self.value("PIP_INDEX_URL")));
        default("UV_EXTRA_INDEX_URL", self.value("PIP_EXTRA_INDEX_URL"));
        default("SSL_CERT_FILE", self.value("SSL_CERT_FILE").or_else(|| self.value("PIP_CERT")));
        env.push(("UV_CACHE_DIR".to_owned(), folder.join("cache").to_string_lossy().into_owned()));
        env.push(("UV_PYTHON_DOWNLOADS".to_owned(), "never".to_owned()));
        env.push(("UV_NO_CONFIG".to_owned(), "1".to_owned()));
        env
    }
}

/// The creation of one environment.
struct Making<'a> {
    uv: PathBuf,
    folder: &'a Path,
    script: &'a Script,
    file: &'a str,
    reach: &'a [String],
}

impl Making<'_> {
    async fn make(&self, environments: &Environments, of: &Execution) -> Result<(), Fault> {
        let files =
            self.script.dependencies.iter().filter_map(|it| local_file(it)?.canonicalize().ok()).collect();
        let env = environments.variables_of_uv(self.folder);
        let execution = of.apart(self.folder.to_owned(), files, self.reach, env);
        let requires = self.script.requires_python.as_ref();
        let python = requires.map_or_else(|| OLDEST.to_owned(), |it| format!("{OLDEST},{it}"));
        let place = self.folder.join("venv");
        let place = place.to_string_lossy();
        let venv = ["venv", "--quiet", "--no-project", "--python", &python, &place];
        self.run(&execution, &venv).await?.map_err(|it| self.no_python(&it.said))?;
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
        let installed = self.run(&execution, &arguments).await?;
        installed.map_err(|it| self.failed(&it.said, &execution.hosts().take_refused(), of))
    }

    /// Runs `uv` to its end. The inner error is its output when it failed.
    async fn run(&self, execution: &Execution, arguments: &[&str]) -> Result<Result<(), Unmade>, Fault> {
        let procs = execution.of_call(&Touches::run("uv"), &[]);
        let program = Program {
            argv: [&*self.uv.to_string_lossy()].iter().chain(arguments).map(|it| (*it).to_owned()).collect(),
            cwd: self.folder.to_owned(),
            // The sandbox does not contain an index on loopback: uv contacts it through the proxy, like all
            // others.
            env: ["no_proxy", "NO_PROXY"].map(|it| (it.to_owned(), String::new())).to_vec(),
            stdin: Stdin::Null,
            streams: Streams::Together,
            files: Vec::new(),
        };
        let process = procs.start(program).await?;
        let exit = timeout(LONGEST, process.finished(Duration::from_secs(1))).await;
        if matches!(&exit, Ok(exit) if exit.is_success()) {
            return Ok(Ok(()));
        }
        let said = process.output().since(0, 64 * 1024).text;
        let lines: Vec<&str> = said.lines().filter(|it| !it.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n");
        let said = match exit {
            Err(_) => format!("`uv` did not end within {} s\n{last}", LONGEST.as_secs()),
            Ok(exit) if last.is_empty() => format!("`uv` ended with {}", exit.code()),
            Ok(_) => last,
        };
        Ok(Err(Unmade { said: said.trim_end().to_owned() }))
    }

    /// Returns the fault if there is no Python that the file can run on.
    fn no_python(&self, said: &str) -> Fault {
        let Some(requires) = &self.script.requires_python else {
            let what = format!("there is no Python here for the packages of {}: {said}", self.file);
            return Fault::new(Kind::Unavailable, what);
        };
        let what = format!(
            "{} needs Python {requires} (`requires-python`), which is unavailable: {said}",
            self.file
        );
        Fault::new(Kind::Unavailable, what).next(
            "A person can install such a Python, so that it is on haft's PATH. Or ask for what the tool really needs: \
             haft runs tools on Python 3.8 or newer.",
        )
    }

    fn failed(&self, said: &str, refused: &[String], of: &Execution) -> Fault {
        let what =
            format!("the packages of {} ({}) can't be installed: {said}", self.file, list(self.script));
        let fault = Fault::new(Kind::Failed, what);
        if refused.is_empty() { fault } else { fault.next(permit::refused(of, refused, self.reach)) }
    }
}

/// The output of `uv` when it failed.
struct Unmade {
    said: String,
}

fn no_folder(file: &str, error: io::Error) -> Fault {
    let what = format!("no folder could be made for the packages of {file}: {error}");
    Fault::new(Kind::Unavailable, what).caused_by(error)
}

fn no_uv(script: &Script, file: &str) -> Fault {
    let what = format!("`uv` is needed for the packages of {file} ({}) and is not installed", list(script));
    Fault::new(Kind::Unavailable, what).next(
        "A person can install it: https://docs.astral.sh/uv/ or `pip install uv`, so that it is on haft's PATH. Until then \
         the tool can do without packages, or carry what it needs beside it.",
    )
}

/// Lists the needed packages, for a person.
fn list(script: &Script) -> String {
    let python = script.requires_python.iter().map(|it| format!("Python {it}"));
    script.dependencies.iter().cloned().chain(python).collect::<Vec<_>>().join(", ")
}

fn python_in(folder: &Path) -> PathBuf {
    folder.join("venv/bin/python")
}

/// Returns the file whose presence marks a complete environment. Programs that run during the creation can't
/// write it.
fn ready(folder: &Path) -> PathBuf {
    folder.with_extension("ready")
}

/// Returns the file that a dependency of the form `name @ file:///path` names.
fn local_file(dependency: &str) -> Option<PathBuf> {
    let (_, address) = dependency.split_once('@')?;
    let path = address.trim().strip_prefix("file://")?;
    let path = path.split([';', '#', '?']).next()?.trim();
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// Returns the host of an index that the person configured, with its port, as it may be at a private address.
fn of_person(address: &str) -> Option<String> {
    host_of(address, if address.contains("http://") { ":80" } else { ":443" })
}

/// Returns the host of an address, with its port or else this one.
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
    fn dependency_with_an_address_needs_no_index() {
        assert_eq!(hosts(&[], &script(&["a @ file:///w/a.whl"])), [""; 0]);
        assert_eq!(
            hosts(&[], &script(&["a @ https://h.example/a.whl", "b @ git+https://g.example:8443/b"])),
            ["h.example", "g.example:8443"]
        );
        assert_eq!(hosts(&[], &script(&["a @ file:///w/a.whl", "b"])), INDEX);
    }

    #[test]
    fn environments_differ_by_declared_packages() {
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
