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

/// Limit of a credentials file, in bytes.
const MOST: u64 = 1 << 20;

/// The folder of credentials within the state folder, with one file per server and address.
#[derive(Debug, Clone)]
pub struct Logins {
    dir: PathBuf,
}

/// The credentials file of one server at one address.
pub(super) struct Page {
    file: PathBuf,
    url: String,
}

/// The content of a credentials file.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct CredentialFile {
    /// The address that the credentials are for.
    pub(super) url: String,
    /// The tokens that haft got.
    pub(super) tokens: Option<Tokens>,
    /// The challenge with which the server refused haft.
    pub(super) challenge: Option<String>,
}

/// The tokens of an authorization server.
#[derive(Serialize, Deserialize)]
pub(super) struct Tokens {
    /// The issuer.
    pub(super) issuer: Option<String>,
    /// haft's client id there.
    pub(super) client: String,
    /// The client secret, if there is one.
    pub(super) secret: Option<String>,
    /// The redirect address of the sign-in.
    pub(super) redirect: String,
    /// The tokens and their metadata.
    pub(super) credentials: StoredCredentials,
}

impl Logins {
    /// Returns the credentials of this state folder.
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
    /// Returns the path of the file.
    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.file
    }

    /// Reads the file; returns empty credentials where there is none.
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
        // The file name has a hash of the address, but tokens must not depend on a hash alone.
        Ok(if kept.url == self.url { kept } else { nothing() })
    }

    /// Writes the credentials in place of the stored ones.
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

    /// Removes the credentials; returns false if there were none.
    pub(super) fn forget(&self) -> io::Result<bool> {
        match fs::remove_file(&self.file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Locks out all other users of the credentials, also in other processes, until the file is dropped.
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
    /// Returns the access token.
    pub(super) fn access(&self) -> Option<String> {
        self.field("access_token")?.as_str().map(str::to_owned)
    }

    /// Returns whether there is a refresh token.
    pub(super) fn can_renew(&self) -> bool {
        self.field("refresh_token").is_some_and(|it| it.is_string())
    }

    /// Returns the time at which the access token expires, in Unix seconds.
    pub(super) fn ends(&self) -> Option<u64> {
        Some(self.credentials.token_received_at? + self.field("expires_in")?.as_u64()?)
    }

    // The answer's type is from a crate that haft does not depend on; its JSON is that of RFC 6749.
    fn field(&self, name: &str) -> Option<Value> {
        let answer = serde_json::to_value(self.credentials.token_response.as_ref()?).ok()?;
        answer.get(name).cloned()
    }
}
