//! The Python behind pyenv's `python3`: resolves the shim without running it.
//!
//! The shim is a shell script that takes longer to find Python than Python takes to start. haft reads the
//! same files as the shim, each time. Where they differ from the plain case, haft runs the shim.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Limit of a shim and of a version file, in bytes.
const LONGEST: u64 = 4096;

/// Folders with scripts that may change the result.
const HOOKS: [&str; 3] = ["/usr/local/etc/pyenv.d", "/etc/pyenv.d", "/usr/lib/pyenv/hooks"];

/// The scripts that come with pyenv, which don't change the result for `python3`.
const HARMLESS: [&str; 4] =
    ["pip-rehash.bash", "python-config.bash", "system-site-packages.bash", "conda.bash"];

/// Returns the Python that `name` resolves to in this folder, with these variables, if `name` is a pyenv
/// shim.
pub(super) fn python(name: &str, folder: &Path, variables: &[(String, String)]) -> Option<PathBuf> {
    let value = |name: &str| variables.iter().find(|(it, _)| it == name).map(|it| it.1.as_str());
    let shim = value("PATH")?.split(':').map(|it| Path::new(it).join(name)).find(|it| it.is_file())?;
    let root = root(&shim)?;
    let version = match value("PYENV_VERSION").filter(|it| !it.is_empty()) {
        Some(version) => version.to_owned(),
        None => {
            let local = folder.ancestors().map(|it| it.join(".python-version")).find(|it| it.is_file());
            only_word(&text(&local.unwrap_or_else(|| root.join("version")))?)?
        }
    };
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    if !version.starts_with(|it: char| it.is_ascii_alphanumeric()) || !version.chars().all(is_plain) {
        return None;
    }
    // `system`, and a prefix of a version, have no folder.
    let python = root.join("versions").join(version).join("bin").join(name);
    (python.is_file() && value("PYENV_HOOK_PATH").is_none() && !has_hooks(&root)).then_some(python)
}

/// Returns the root folder of the pyenv that this shim belongs to.
fn root(shim: &Path) -> Option<PathBuf> {
    let text = text(shim)?;
    let of = |line: &str| line.strip_prefix("export PYENV_ROOT=\"")?.strip_suffix('"').map(str::to_owned);
    let root = text.lines().find_map(of)?;
    let ends = format!("exec \"{root}/libexec/pyenv\" exec \"$program\" \"$@\"");
    (text.lines().last()? == ends).then(|| root.into())
}

fn text(path: &Path) -> Option<String> {
    let about = fs::metadata(path).ok().filter(|it| it.is_file() && it.len() <= LONGEST)?;
    // A file without a length is not a plain file.
    (about.len() > 0).then(|| fs::read_to_string(path).ok()).flatten()
}

/// Returns the word of a text that has one word and no comment.
fn only_word(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    words.next().filter(|_| words.next().is_none()).map(str::to_owned)
}

fn has_hooks(root: &Path) -> bool {
    let plugins = entries(&root.join("plugins")).map(|it| it.join("etc/pyenv.d"));
    let mut places = HOOKS.iter().map(PathBuf::from).chain([root.join("pyenv.d")]).chain(plugins);
    let is_one = |it: PathBuf| {
        it.file_name()
            .and_then(|it| it.to_str())
            .is_none_or(|it| it.ends_with(".bash") && !HARMLESS.contains(&it))
    };
    places.any(|it| {
        ["exec", "which", "version-name", "version-origin"].iter().any(|of| entries(&it.join(of)).any(is_one))
    })
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn version_files_decide_and_other_cases_run_the_shim() {
        let folder = tempfile::tempdir().unwrap();
        let (root, work) = (folder.path().join("pyenv"), folder.path().join("a/b"));
        fs::create_dir_all(&work).unwrap();
        let shown = root.display();
        let shim = format!(
            "#!/bin/sh\nexport PYENV_ROOT=\"{shown}\"\nexec \"{shown}/libexec/pyenv\" exec \"$program\" \"$@\"\n"
        );
        put(&root.join("shims/python3"), &shim);
        put(&root.join("version"), "3.11.7\n");
        for version in ["3.11.7", "3.12.1", "mine"] {
            put(&root.join("versions").join(version).join("bin/python3"), "");
        }
        let variables = |version: &str| {
            let path = root.join("shims").display().to_string();
            [("PATH", format!("/nowhere:{path}")), ("PYENV_VERSION", version.to_owned())]
                .map(|(name, value)| (name.to_owned(), value))
        };
        let found = |version: &str| {
            let python = python("python3", &work, &variables(version))?;
            Some(python.strip_prefix(root.join("versions")).unwrap().display().to_string())
        };
        let is = |version: &str| Some(format!("{version}/bin/python3"));
        assert_eq!(found(""), is("3.11.7"));
        assert_eq!(found("mine"), is("mine"));
        put(&folder.path().join("a/.python-version"), "3.12.1");
        assert_eq!(found(""), is("3.12.1"));
        for unclear in ["3.12.1 3.11.7", "3.12", "system", "../versions/mine", "# 3.12.1", "", "-"] {
            put(&work.join(".python-version"), unclear);
            assert_eq!(found(""), None, "{unclear}");
        }
        put(&work.join(".python-version"), "mine");
        put(&root.join("plugins/x/etc/pyenv.d/which/conda.bash"), "");
        assert_eq!(found(""), is("mine"));
        put(&root.join("plugins/x/etc/pyenv.d/exec/other.bash"), "");
        assert_eq!(found(""), None);
        put(&root.join("shims/python3"), "#!/bin/sh\nexec another\n");
        fs::remove_dir_all(root.join("plugins")).unwrap();
        assert_eq!(found(""), None);
    }
}
