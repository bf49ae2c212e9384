//! A repository, as far as a snapshot needs it: the commit, the tracked files, and the ignore rules outside of the workspace.
//!
//! Everything is read from its files. No program of git is started, as a repository's configuration can make git run others.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::manifest::Git;

/// Maximum size of the files that are read, in bytes.
const MOST: u64 = 256 << 20;

/// The repository around a workspace.
pub(crate) struct Repository {
    /// Its top folder.
    top: PathBuf,
    /// The path from its top folder down to the workspace.
    way: String,
    /// The folder of this checkout: `.git`, or the one that a `.git` file names.
    checkout: PathBuf,
    /// The folder that all checkouts share.
    common: PathBuf,
}

impl Repository {
    /// Finds the repository that a workspace lies in.
    pub(crate) fn around(workspace: &Path) -> Option<Self> {
        let top = workspace.ancestors().find(|it| it.join(".git").symlink_metadata().is_ok())?;
        let way = workspace.strip_prefix(top).ok()?.to_str()?.to_owned();
        let dot = top.join(".git");
        let checkout = match fs::metadata(&dot).ok()?.is_dir() {
            true => dot,
            false => top.join(read(&dot)?.trim().strip_prefix("gitdir:")?.trim()),
        };
        let common =
            read(&checkout.join("commondir")).map_or(checkout.clone(), |it| checkout.join(it.trim()));
        Some(Self { top: top.to_owned(), way, checkout, common })
    }

    /// Returns the commit and the branch that are checked out.
    pub(crate) fn head(&self) -> Git {
        let head = read(&self.checkout.join("HEAD")).unwrap_or_default();
        let head = head.trim();
        let Some(name) = head.strip_prefix("ref:").map(str::trim) else {
            return Git { commit: Some(head.to_owned()).filter(|it| is_hash(it)), branch: None };
        };
        let packed = || {
            let packed = read(&self.common.join("packed-refs"))?;
            let line = packed.lines().find(|it| it.split_once(' ').is_some_and(|(_, one)| one == name))?;
            line.split(' ').next().map(str::to_owned)
        };
        // A name with `..` would lead elsewhere.
        let loose = Some(name).filter(|it| !it.contains("..")).and_then(|it| read(&self.common.join(it)));
        let commit = loose.map(|it| it.trim().to_owned()).or_else(packed).filter(|it| is_hash(it));
        Git { commit, branch: Some(name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()) }
    }

    /// Returns the ignore rules outside of the workspace, the lowest precedence first, each with the path from where it applies
    /// down to the workspace.
    pub(crate) fn outer_rules(&self) -> Vec<(String, String)> {
        let mut rules = Vec::new();
        rules.extend(self.excludes_file().and_then(|it| read(&it)).map(|it| (self.way.clone(), it)));
        rules.extend(read(&self.common.join("info/exclude")).map(|it| (self.way.clone(), it)));
        let workspace = self.top.join(&self.way);
        let mut folder = self.top.clone();
        for name in Path::new(&self.way) {
            let way = workspace.strip_prefix(&folder).ok().and_then(Path::to_str).unwrap_or_default();
            rules.extend(read(&folder.join(".gitignore")).map(|it| (way.to_owned(), it)));
            folder.push(name);
        }
        rules
    }

    /// Returns the person's own list of ignored files: `core.excludesFile`, or git's default place.
    fn excludes_file(&self) -> Option<PathBuf> {
        let variable = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let home = variable("HOME");
        let settings = variable("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
        let configs = [
            Some(self.common.join("config")),
            home.as_ref().map(|it| it.join(".gitconfig")),
            settings.as_ref().map(|it| it.join("git/config")),
            Some(PathBuf::from("/etc/gitconfig")),
        ];
        let named = configs.into_iter().flatten().find_map(|it| excludes_of(&read(&it)?));
        match (named, home) {
            (Some(named), Some(home)) => Some(match named.strip_prefix("~/") {
                Some(below) => home.join(below),
                None => self.top.join(named),
            }),
            (Some(named), None) => Some(self.top.join(named)),
            (None, _) => Some(settings?.join("git/ignore")),
        }
    }

    /// Returns the files below the workspace that the index tracks; `None` if this form of index can't be read.
    pub(crate) fn tracked(&self) -> Option<Vec<String>> {
        let path = self.checkout.join("index");
        match fs::metadata(&path) {
            Ok(about) if about.len() <= MOST => {}
            Ok(_) => return None,
            Err(_) => return Some(Vec::new()),
        }
        let bytes = fs::read(&path).ok()?;
        // Only the right length of a hash leads from entry to entry.
        let names = names(&bytes, 20).or_else(|| names(&bytes, 32))?;
        let prefix = if self.way.is_empty() { String::new() } else { format!("{}/", self.way) };
        let below = |name: Vec<u8>| Some(String::from_utf8(name).ok()?.strip_prefix(&prefix)?.to_owned());
        Some(names.into_iter().filter_map(below).collect())
    }
}

fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|it| it.is_ascii_hexdigit())
}

fn read(path: &Path) -> Option<String> {
    let about = fs::metadata(path).ok()?;
    if !about.is_file() || about.len() > MOST {
        return None;
    }
    fs::read(path).ok().map(|it| String::from_utf8_lossy(&it).into_owned())
}

/// Returns the value of `core.excludesFile` in a configuration, which may be quoted.
fn excludes_of(config: &str) -> Option<String> {
    let mut in_core = false;
    let mut found = None;
    for line in config.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            in_core = section.trim_end_matches(']').trim().eq_ignore_ascii_case("core");
        } else if in_core
            && let Some((key, value)) = line.split_once('=')
            && key.trim().eq_ignore_ascii_case("excludesfile")
        {
            found = Some(value.trim().trim_matches('"').to_owned());
        }
    }
    found.filter(|it| !it.is_empty())
}

/// Parses the names of an index: <https://git-scm.com/docs/index-format>. `None` for one that is split or sparse, or whose
/// hashes have another length.
fn names(bytes: &[u8], hash: usize) -> Option<Vec<Vec<u8>>> {
    let number = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..at + 4)?.first_chunk()?));
    if bytes.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (number(4)?, number(8)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut at = 12;
    let mut names: Vec<Vec<u8>> = Vec::new();
    for _ in 0..count {
        let start = at;
        let mode = number(start + 24)?;
        at += 40 + hash;
        let flags = u16::from_be_bytes(*bytes.get(at..at + 2)?.first_chunk()?);
        at += if flags & 0x4000 == 0 { 2 } else { 4 };
        let mut name = Vec::new();
        if version == 4 {
            let (strip, next) = offset(bytes, at)?;
            at = next;
            let before = names.last().map_or(&[][..], Vec::as_slice);
            name.extend_from_slice(before.get(..before.len().checked_sub(strip)?)?);
        }
        let end = at + bytes.get(at..)?.iter().position(|it| *it == 0)?;
        name.extend_from_slice(bytes.get(at..end)?);
        // The length in the flags tells whether the length of a hash was the right one.
        let length = usize::from(flags & 0x0fff);
        if length < 0x0fff && length != name.len() {
            return None;
        }
        at = if version == 4 { end + 1 } else { start + (end - start) / 8 * 8 + 8 };
        // A folder of a sparse index, whose files have no entries.
        if mode >> 12 == 0o4 {
            return None;
        }
        names.push(name);
    }
    // Extensions: `link` names another file with the entries. The hash of the whole comes last.
    while at + 8 + hash <= bytes.len() {
        if bytes.get(at..at + 4)? == b"link" {
            return None;
        }
        at += 8 + usize::try_from(number(at + 4)?).ok()?;
    }
    Some(names)
}

/// Reads a number of version 4: seven bits to a byte, with one added for each further byte.
fn offset(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
    }
    Some((value, at + 1))
}
