//! Host keys: `known_hosts`, and trust on first use.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use kit::{Fault, Kind, OrFault, Preferences, base64};
use russh::keys::{HashAlg, PublicKey, parse_public_key_base64};
use rustix::fs::{FlockOperation, flock};
use sha1::Sha1;

use super::{config::fits, destination::Hop};

/// The machine's file of known hosts.
const OF_MACHINE: &str = "/etc/ssh/ssh_known_hosts";

/// Maximum size of a file of known hosts.
const LONGEST: u64 = 16 << 20;

/// The known keys of one machine.
#[derive(Debug, Default, Clone)]
pub(super) struct Known {
    keys: Vec<(PublicKey, String)>,
    revoked: Vec<PublicKey>,
    /// Whether a line with a certificate authority covers it.
    pub(super) by_authority: bool,
}

/// The status of a host key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyStatus {
    Known,
    /// No key of the machine is known.
    New,
    /// Other keys of the machine are known.
    Changed,
    Revoked,
}

impl Known {
    /// Reads the known keys of this machine.
    ///
    /// # Errors
    /// When a file exists but can't be read.
    pub(super) fn of(hop: &Hop, preferences: &Preferences) -> Result<Self, Fault> {
        let mut known = Self::default();
        let mut files: Vec<PathBuf> = preferences.ssh.known_hosts.iter().cloned().collect();
        files.extend(preferences.home.iter().map(|it| it.join(".ssh/known_hosts")));
        files.push(OF_MACHINE.into());
        files.dedup();
        for file in files {
            known.take(&text_of(&file)?, &file, &name_of(hop));
        }
        Ok(known)
    }

    /// Adds a key.
    pub(super) fn with(mut self, key: PublicKey) -> Self {
        self.keys.push((key, String::new()));
        self
    }

    fn take(&mut self, text: &str, file: &Path, name: &str) {
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace().peekable();
            let marker = words.next_if(|it| it.starts_with('@'));
            let (Some(names), Some(_), Some(key)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if names.starts_with('#') || !names_fit(names, name) {
                continue;
            }
            let Ok(key) = parse_public_key_base64(key) else { continue };
            match marker {
                None => self.keys.push((key, format!("{}:{}", file.display(), number + 1))),
                Some("@revoked") => self.revoked.push(key),
                Some("@cert-authority") => self.by_authority = true,
                // Any other marker does not make the key known.
                Some(_) => {}
            }
        }
    }

    /// Returns the status of this key of the machine.
    pub(super) fn status(&self, key: &PublicKey) -> KeyStatus {
        let same = |it: &PublicKey| it.key_data() == key.key_data();
        if self.revoked.iter().any(same) {
            KeyStatus::Revoked
        } else if self.keys.iter().any(|(it, _)| same(it)) {
            KeyStatus::Known
        } else if self.keys.is_empty() {
            KeyStatus::New
        } else {
            KeyStatus::Changed
        }
    }

    /// Returns the known keys, each with its file and line.
    pub(super) fn keys(&self) -> &[(PublicKey, String)] {
        &self.keys
    }
}

/// Returns the name of a machine in `known_hosts`.
pub(super) fn name_of(hop: &Hop) -> String {
    match &hop.known_as {
        Some(name) => name.to_lowercase(),
        None if hop.port == 22 => hop.host.clone(),
        None => format!("[{}]:{}", hop.host, hop.port),
    }
}

/// Formats a key's fingerprint.
pub(super) fn fingerprint(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm().as_str(), key.fingerprint(HashAlg::Sha256))
}

/// Matches names with commas between them, with `*`, `?` and `!`, or one hashed name.
fn names_fit(names: &str, name: &str) -> bool {
    if let Some(hashed) = names.strip_prefix("|1|") {
        return hashed_fits(hashed, name).unwrap_or(false);
    }
    // In `[host]:port` the brackets are literal.
    fits(&names.split(',').map(str::to_owned).collect::<Vec<_>>(), name)
}

fn hashed_fits(hashed: &str, name: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    let (salt, hash) = (base64::decoded(salt)?, base64::decoded(hash)?);
    let hmac = Hmac::<Sha1>::new_from_slice(&salt).ok()?;
    Some(hmac.chain_update(name.as_bytes()).verify_slice(&hash).is_ok())
}

fn text_of(file: &Path) -> Result<String, Fault> {
    let cant = || format!("`{}`, which says which machines are known, can't be read", file.display());
    let open = match File::open(file) {
        Ok(open) => open,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error).or_fault(Kind::Unavailable, &cant()),
    };
    let mut text = Vec::new();
    open.take(LONGEST).read_to_end(&mut text).or_fault(Kind::Unavailable, &cant())?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the file for new keys.
pub(super) fn file_of(preferences: &Preferences) -> Option<PathBuf> {
    let usual = || preferences.home.as_ref().map(|it| it.join(".ssh/known_hosts"));
    preferences.ssh.known_hosts.clone().or_else(usual)
}

/// Formats the line of a key.
pub(super) fn line_of(hop: &Hop, key: &PublicKey) -> Option<String> {
    let mut key = key.clone();
    key.set_comment("");
    Some(format!("{} {}", name_of(hop), key.to_openssh().ok()?.trim_end()))
}

/// Adds a line to the file, atomically.
pub(super) fn add(file: &Path, line: &str) -> io::Result<()> {
    // A symlink is kept, and its target gets the line.
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().unwrap_or(Path::new("/"));
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // Serializes concurrent additions.
    let lock = File::open(folder)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let (mut text, mode) = match fs::read(&file) {
        Ok(text) => (text, fs::metadata(&file)?.permissions().mode() & 0o777),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (Vec::new(), 0o600),
        Err(error) => return Err(error),
    };
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend_from_slice(line.as_bytes());
    text.push(b'\n');
    let new = folder.join(format!(".known_hosts.haft-{}", std::process::id()));
    let _ = fs::remove_file(&new);
    let mut out = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    let written = out.write_all(&text).and_then(|()| out.sync_all()).and_then(|()| fs::rename(&new, &file));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written?;
    lock.sync_all()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const ONE: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const TWO: &str = "AAAAC3NzaC1lZDI1NTE5AAAAILIG2T/B0l0gaqj3puu510tu9N1OkQ4znY3LYuEm5zCF";

    fn status(text: &str, name: &str) -> KeyStatus {
        let mut known = Known::default();
        known.take(text, Path::new("known_hosts"), name);
        known.status(&parse_public_key_base64(ONE).unwrap())
    }

    #[test]
    fn a_key_is_known_new_changed_or_revoked() {
        let line = |names: &str, key: &str| format!("# a comment\n\n{names} ssh-ed25519 {key} me@here\n");
        for names in ["a.org", "b.org,a.org", "*.org", "a.?rg", "A.ORG"] {
            assert_eq!(status(&line(names, ONE), "a.org"), KeyStatus::Known, "{names}");
            assert_eq!(status(&line(names, TWO), "a.org"), KeyStatus::Changed, "{names}");
        }
        for names in ["b.org", "*.org,!a.org", "#a.org", "[a.org]:22", "a.or"] {
            assert_eq!(status(&line(names, ONE), "a.org"), KeyStatus::New, "{names}");
        }
        assert_eq!(status(&line("[a.org]:2222", ONE), "[a.org]:2222"), KeyStatus::Known);
        assert_eq!(status(&line("a.org", ONE), "[a.org]:2222"), KeyStatus::New);
        let revoked = line("a.org", ONE) + &line("@revoked *", ONE);
        assert_eq!(status(&revoked, "a.org"), KeyStatus::Revoked);
        assert_eq!(status(&line("@cert-authority *", ONE), "a.org"), KeyStatus::New);
        assert_eq!(status("a.org ssh-ed25519 garbage\n", "a.org"), KeyStatus::New);
    }

    #[test]
    fn a_line_is_added_whole_and_the_file_keeps_its_mode() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".ssh/known_hosts");
        add(&file, "a one two").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(&file, "x y z").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        add(&link, "b one two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "x y z\nb one two\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }
}
