//! Stored OAuth credentials: private files, one per server.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use reqwest::Url;
use rmcp::transport::auth::StoredCredentials;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// More than this is none of our files.
const MOST: u64 = 1 << 20;

/// The folder of the state in which it is, a file for each server at each address.
#[derive(Debug, Clone)]
pub struct Logins {
    dir: PathBuf,
}

/// The file of one server at one address.
pub(super) struct Page {
    file: PathBuf,
    url: String,
}

/// What is in it.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct CredentialFile {
    /// For which address all of it is.
    pub(super) url: String,
    /// What haft was given.
    pub(super) tokens: Option<Tokens>,
    /// What the server said when it did not let haft in.
    pub(super) challenge: Option<String>,
}

/// What an authorization server gave.
#[derive(Serialize, Deserialize)]
pub(super) struct Tokens {
    /// Which one.
    pub(super) issuer: Option<String>,
    /// As whom haft is known to it.
    pub(super) client: String,
    /// And by which secret, where it gave one.
    pub(super) secret: Option<String>,
    /// Where it sent the person back to.
    pub(super) redirect: String,
    /// The tokens themselves.
    pub(super) credentials: StoredCredentials,
}

impl Logins {
    /// Those of this state folder.
    pub fn in_state(state: &Path) -> Self {
        Self { dir: state.join("mcp").join("logins") }
    }

    pub(super) fn page(&self, name: &str, url: &Url) -> Page {
        let hash = blake3::hash(format!("{name}\n{url}").as_bytes()).to_hex();
        let safe: String =
            name.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).take(40).collect();
        let hash = hash.get(..16).unwrap_or_default();
        Page { file: self.dir.join(format!("{safe}-{hash}.json")), url: url.to_string() }
    }
}

impl Page {
    /// The file.
    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.file
    }

    /// What is kept; nothing, where there is no file.
    pub(super) fn read(&self) -> io::Result<CredentialFile> {
        let nothing = || CredentialFile { url: self.url.clone(), ..CredentialFile::default() };
        let mut options = OpenOptions::new();
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let file = match options.read(true).custom_flags(flags.bits().cast_signed()).open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(nothing()),
            Err(error) => return Err(self.named(&error.to_string())),
        };
        let about = file.metadata()?;
        if !about.is_file() || about.mode() & 0o077 != 0 {
            return Err(self.named("others may read it, so it is not used; `haft mcp logout` removes it"));
        }
        let mut text = String::new();
        file.take(MOST).read_to_string(&mut text)?;
        let kept: CredentialFile =
            serde_json::from_str(&text).map_err(|_| self.named("it is not as haft writes it"))?;
        // The name of the file says so too, but what a token is for is not left to a hash.
        Ok(if kept.url == self.url { kept } else { nothing() })
    }

    /// Keeps this, and nothing else.
    pub(super) fn write(&self, kept: &CredentialFile) -> io::Result<()> {
        let dir = self.dir()?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let new = dir.join(format!(".{:016x}", u64::from_le_bytes(random)));
        let text = serde_json::to_vec(kept)?;
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &self.file)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// Removes what is kept; `false`, if there was nothing.
    pub(super) fn forget(&self) -> io::Result<bool> {
        match fs::remove_file(&self.file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Keeps everybody else out, other processes too, until the file is dropped.
    pub(super) async fn lock(&self) -> io::Result<File> {
        let lock = self.dir()?.join(".lock");
        let locked = tokio::task::spawn_blocking(move || {
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(lock)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        locked.await.map_err(io::Error::other)?
    }

    fn dir(&self) -> io::Result<&Path> {
        let dir = self.file.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
        Ok(dir)
    }

    fn named(&self, why: &str) -> io::Error {
        io::Error::other(format!("{}: {why}", self.file.display()))
    }
}

impl Tokens {
    /// The token that requests carry.
    pub(super) fn access(&self) -> Option<String> {
        self.field("access_token")?.as_str().map(str::to_owned)
    }

    /// Can it be renewed without a person?
    pub(super) fn can_renew(&self) -> bool {
        self.field("refresh_token").is_some_and(|it| it.is_string())
    }

    /// When it ends, in seconds of Unix.
    pub(super) fn ends(&self) -> Option<u64> {
        Some(self.credentials.token_received_at? + self.field("expires_in")?.as_u64()?)
    }

    // The type of the answer is of a crate that haft does not name; its JSON is that of RFC 6749.
    fn field(&self, name: &str) -> Option<Value> {
        let answer = serde_json::to_value(self.credentials.token_response.as_ref()?).ok()?;
        answer.get(name).cloned()
    }
}
