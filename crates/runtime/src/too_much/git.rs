//! Contents that git can bring back: objects that a ref, a reflog, a stash or the index leads to.
//!
//! git runs in a sandbox that can change nothing and reaches no host, so a repository's configuration can't
//! make it do harm.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

use kit::procs::{Ending, Procs, Program, Stdin, Streams};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

/// Time limits: for the tips of all branches, and for the whole history.
const TIPS: Duration = Duration::from_secs(10);
const HISTORY: Duration = Duration::from_secs(20);
/// Time to wait for the last output.
const DRAIN: Duration = Duration::from_millis(100);
/// The longest content that is read.
const LONGEST: u64 = 64 << 20;
/// The most output that is read: one line for each object.
const OUTPUT: usize = 8 << 20;

/// Variables of git: it fetches nothing, writes nothing, and reads no configuration but the repository's.
const ENV: &[(&str, &str)] = &[
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("LC_ALL", "C"),
];

/// git with settings under which it starts no program of the repository.
const GIT: &str =
    "git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c protocol.allow=never -c core.pager=cat";

/// A file that is gone, with the image of its content.
#[derive(Debug, Clone)]
pub(crate) struct Gone {
    /// Its path before the call.
    pub(crate) path: PathBuf,
    /// The file that holds its content, and the number of bytes that count.
    pub(crate) image: PathBuf,
    pub(crate) bytes: u64,
}

/// Returns the paths whose content git can bring back.
pub(crate) async fn recoverable(procs: &Procs, roots: &[PathBuf], gone: Vec<Gone>) -> HashSet<PathBuf> {
    let mut repositories: BTreeMap<PathBuf, Vec<Gone>> = BTreeMap::new();
    for one in gone {
        if let Some(repository) = repository_of(&one.path, roots) {
            repositories.entry(repository).or_default().push(one);
        }
    }
    let mut found = HashSet::new();
    for (repository, gone) in repositories {
        match of_repository(procs, &repository, gone).await {
            Ok(paths) => found.extend(paths),
            Err(error) => tracing::debug!("git can't say what it has in {}: {error}", repository.display()),
        }
    }
    found
}

/// Returns the innermost folder around a path that has a repository now.
fn repository_of(path: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let around = path.ancestors().skip(1).take_while(|it| roots.iter().any(|root| it.starts_with(root)));
    around.into_iter().find(|it| fs::symlink_metadata(it.join(".git")).is_ok()).map(Path::to_owned)
}

async fn of_repository(procs: &Procs, repository: &Path, gone: Vec<Gone>) -> io::Result<Vec<PathBuf>> {
    let format = run(procs, repository, format!("{GIT} rev-parse --show-object-format"), None, TIPS).await?;
    let is_sha256 = match format.trim() {
        "sha1" => false,
        "sha256" => true,
        other => return Err(io::Error::other(format!("objects of the format `{other}`"))),
    };
    let ids = tokio::task::spawn_blocking(move || ids(gone, is_sha256)).await.map_err(io::Error::other)?;
    let mut wanted: HashSet<&str> = ids.keys().map(String::as_str).collect();
    let mut found: Vec<PathBuf> = Vec::new();
    for (which, limit) in [("--no-walk --indexed-objects", TIPS), ("", HISTORY)] {
        if wanted.is_empty() {
            break;
        }
        let script = format!(
            "{GIT} rev-list --objects --no-object-names {which} --all --reflog | grep -Fx -m {} -f /dev/fd/3",
            wanted.len()
        );
        let list = listed(&wanted)?;
        let output = run(procs, repository, script, Some(list), limit).await?;
        for id in output.lines() {
            if wanted.remove(id) {
                found.extend(ids.get(id).into_iter().flatten().cloned());
            }
        }
    }
    Ok(found)
}

/// Returns a file without a name, with these lines.
fn listed(wanted: &HashSet<&str>) -> io::Result<OwnedFd> {
    let mut file = tempfile::tempfile()?;
    let mut lines: Vec<&str> = wanted.iter().copied().collect();
    lines.sort_unstable();
    file.write_all(lines.join("\n").as_bytes())?;
    file.write_all(b"\n")?;
    file.rewind()?;
    Ok(file.into())
}

/// Runs a script in the repository, and returns its output.
async fn run(
    procs: &Procs,
    repository: &Path,
    script: String,
    list: Option<OwnedFd>,
    limit: Duration,
) -> io::Result<String> {
    let program = Program {
        argv: vec!["sh".to_owned(), "-c".to_owned(), script],
        cwd: repository.to_owned(),
        env: ENV.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        stdin: Stdin::Null,
        streams: Streams::Apart,
        files: list.into_iter().map(|file| (3, file)).collect(),
    };
    let process = procs.start(program).await.map_err(|fault| io::Error::other(fault.what))?;
    let ended = timeout(limit, process.finished(DRAIN)).await;
    process.end(Ending::within(Duration::ZERO)).await;
    match ended {
        Ok(_) => Ok(process.output().since(0, OUTPUT).text),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Returns the object ids of these contents, with the paths that had them. A text with CRLF has two, as git may
/// keep it with LF.
fn ids(gone: Vec<Gone>, is_sha256: bool) -> HashMap<String, Vec<PathBuf>> {
    let mut ids: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for one in gone {
        let Ok(content) = content(&one) else { continue };
        let unix = with_line_feeds(&content);
        for content in [Some(content), unix].into_iter().flatten() {
            ids.entry(blob_id(&content, is_sha256)).or_default().push(one.path.clone());
        }
    }
    ids
}

fn content(gone: &Gone) -> io::Result<Vec<u8>> {
    if gone.bytes > LONGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut content = Vec::new();
    File::open(&gone.image)?.take(gone.bytes).read_to_end(&mut content)?;
    Ok(content)
}

fn with_line_feeds(content: &[u8]) -> Option<Vec<u8>> {
    if !content.windows(2).any(|it| it == b"\r\n") {
        return None;
    }
    let mut unix = Vec::with_capacity(content.len());
    for (at, byte) in content.iter().enumerate() {
        if !(*byte == b'\r' && content.get(at + 1) == Some(&b'\n')) {
            unix.push(*byte);
        }
    }
    Some(unix)
}

/// Returns the id that git gives to this content.
fn blob_id(content: &[u8], is_sha256: bool) -> String {
    let head = format!("blob {}\0", content.len());
    let hex = |digest: &[u8]| digest.iter().map(|byte| format!("{byte:02x}")).collect();
    if is_sha256 {
        hex(Sha256::new().chain_update(head).chain_update(content).finalize().as_slice())
    } else {
        hex(Sha1::new().chain_update(head).chain_update(content).finalize().as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        assert_eq!(blob_id(b"", false), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(blob_id(b"hello\n", false), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(
            blob_id(b"hello\n", true),
            "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4"
        );
        assert_eq!(with_line_feeds(b"a\r\nb\rc\r\n"), Some(b"a\nb\rc\n".to_vec()));
        assert_eq!(with_line_feeds(b"a\nb"), None);
    }
}
