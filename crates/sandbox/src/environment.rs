//! Environment variables of commands: an allowlist, without credentials.
//!
//! It starts empty. It has the variables that programs need to run at all, and those that a person granted by
//! name: a key in haft's environment is not passed to commands.

use std::path::{Path, PathBuf};

use super::{pass::USER, places};

/// Copied as they are, if set.
const TAKEN: &[&str] = &["USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "COLUMNS"];

/// Variables that name a toolchain's folder; the folders are visible to commands as well.
pub(super) const FOLDERS: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "PYENV_ROOT",
    "NVM_DIR",
    "NVM_BIN",
    "FNM_DIR",
    "VOLTA_HOME",
    "BUN_INSTALL",
    "DENO_INSTALL",
    "PNPM_HOME",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "SDKMAN_DIR",
    "ANDROID_HOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "MAMBA_ROOT_PREFIX",
    "RBENV_ROOT",
    "GEM_HOME",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "MISE_DATA_DIR",
    "OPAMROOT",
];

/// Other variables that toolchains read.
const TOOLCHAINS: &[&str] = &[
    "RUSTUP_TOOLCHAIN",
    "PYENV_VERSION",
    "ANDROID_SDK_ROOT",
    "CONDA_DEFAULT_ENV",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "LD_LIBRARY_PATH",
    "PKG_CONFIG_PATH",
    "LOCALE_ARCHIVE",
    "XDG_DATA_DIRS",
];

/// Settings for commands without a person: no prompts, no pager, no colours.
const ALWAYS: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("TMPDIR", "/tmp"),
    ("CI", "1"),
    // A server's log should be visible when it is written.
    ("PYTHONUNBUFFERED", "1"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_NO_INPUT", "1"),
];

/// The default `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns the variables of every command; `granted` are the names that the person allows.
pub fn environment(variables: &[(String, String)], granted: &[String]) -> Vec<(String, String)> {
    let value = |name: &str| variables.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone());
    let mut environment: Vec<(String, String)> = Vec::new();
    let mut set = |name: &str, value: String| match environment.iter_mut().find(|(it, _)| it == name) {
        Some(there) => there.1 = value,
        None => environment.push((name.to_owned(), value)),
    };
    set("PATH", path(&value("PATH").unwrap_or_default()));
    let home = places::home(variables).unwrap_or_else(|| PathBuf::from("/tmp"));
    set("HOME", home.to_string_lossy().into_owned());
    for (name, value) in variables {
        let taken = [TAKEN, FOLDERS, TOOLCHAINS].iter().any(|it| it.contains(&name.as_str()))
            || name.starts_with("LC_");
        if taken {
            set(name, value.clone());
        }
    }
    for (name, value) in ALWAYS {
        set(name, (*value).to_owned());
    }
    for name in granted {
        if let Some(value) = value(name) {
            set(name, value);
        }
    }
    environment
}

/// Returns the variables that direct programs to the proxy at this port inside the sandbox.
pub fn proxy_variables(port: u16, pass: Option<&str>) -> Vec<(String, String)> {
    let who = pass.map(|pass| format!("{USER}:{pass}@")).unwrap_or_default();
    let at = format!("http://{who}127.0.0.1:{port}");
    let names = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"];
    let mut variables: Vec<_> = names.iter().map(|name| ((*name).to_owned(), at.clone())).collect();
    // A server that a command starts is contacted directly. Python compares IPv6 with its brackets.
    let direct = "localhost,127.0.0.1,::1,[::1]";
    variables.extend(["no_proxy", "NO_PROXY"].map(|name| (name.to_owned(), direct.to_owned())));
    variables
}

/// Returns the existing absolute folders of a `PATH`, each once.
fn path(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for entry in path.split(':') {
        if Path::new(entry).is_absolute() && Path::new(entry).is_dir() && !kept.contains(&entry) {
            kept.push(entry);
        }
    }
    if kept.is_empty() { PATH.to_owned() } else { kept.join(":") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn commands_get_haft_s_keys_only_when_granted() {
        let of_haft = variables(&[
            ("PATH", "/usr/bin:.:/nowhere:/usr/bin"),
            ("AWS_SECRET_ACCESS_KEY", "k"),
            ("SSH_AUTH_SOCK", "/s"),
            ("LC_ALL", "C"),
            ("LD_PRELOAD", "/x.so"),
            ("HAFT_STATE_DIR", "/s"),
            ("TERM", "xterm"),
        ]);
        let given = environment(&of_haft, &[]);
        let names: Vec<_> = given.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD", "HAFT_STATE_DIR"] {
            assert!(!names.contains(&name), "{name}");
        }
        assert!(given.contains(&("PATH".to_owned(), "/usr/bin".to_owned())));
        assert!(given.contains(&("LC_ALL".to_owned(), "C".to_owned())));
        assert!(given.contains(&("TERM".to_owned(), "dumb".to_owned())));
        let granted = environment(&of_haft, &["AWS_SECRET_ACCESS_KEY".to_owned(), "NOT_SET".to_owned()]);
        assert!(granted.contains(&("AWS_SECRET_ACCESS_KEY".to_owned(), "k".to_owned())));
        assert_eq!(granted.len(), given.len() + 1);
    }
}
