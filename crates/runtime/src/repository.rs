//! The git repository of a workspace: its newest commit, what differs from it, and the command that commits files.
//!
//! git reads in a sandbox that can change nothing and reaches no host: a repository's configuration and attributes name programs,
//! and these run there, too.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use kit::{
    Fault, Kind, Touches,
    procs::{Ending, Procs, Program, Stdin, Streams},
    quote::quote,
};
use sandbox::SandboxMode;
use store::{
    changes::{ChangeKind, Version, Versions},
    undo::Restore as _,
};
use tokio::time::timeout;

use crate::{Runtime, execution::Execution, put_back::UndoFiles};

/// Time limit of one run of git, and time to wait for its last output.
const LIMIT: Duration = Duration::from_secs(20);
const DRAIN: Duration = Duration::from_millis(100);

/// The longest list of changed files that is read, in bytes.
const LIST: usize = 4 << 20;

/// The largest file that is compared, and the size of all contents of commits together, in bytes.
const LARGEST: u64 = 2 << 20;
const ALL: u64 = 32 << 20;

/// Maximum number of files that are compared.
const COMPARED: usize = 500;

/// The longest commit message, and the longest command that commits, in bytes: a program takes no longer argument.
const MESSAGE: usize = 16 << 10;
const COMMAND: usize = 120 << 10;

/// The name of the session in whose sandbox git reads. No other has such a name.
const SESSION: &str = "=git";

/// Variables of git: it fetches nothing, writes nothing, and asks nobody.
const ENV: &[(&str, &str)] = &[
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("LC_ALL", "C"),
];

/// git with settings under which it starts few programs of the repository.
const GIT: &str = "git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c protocol.allow=never -c core.pager=cat -c core.quotePath=false";

/// The exit code of the script where there is no repository.
const NONE: i32 = 9;

/// A repository as it was found.
#[derive(Debug)]
pub struct Repository {
    /// Its folder.
    pub folder: PathBuf,
    /// The newest commit of the branch; none, if nothing was committed yet.
    pub commit: Option<String>,
    /// The branch; none, if `HEAD` is detached.
    pub branch: Option<String>,
    /// The files below the workspace that differ from the commit, also new ones. Those that git ignores are left out, and so are
    /// submodules.
    pub changed: Vec<Differs>,
    /// Whether there are more than could be read.
    pub has_more: bool,
}

/// A file that differs from the newest commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differs {
    /// Its absolute path.
    pub path: PathBuf,
    /// How it differs.
    pub kind: ChangeKind,
    /// The object that the commit has at this path.
    object: Option<String>,
    /// Its mode in the commit and now.
    modes: [String; 2],
}

impl Differs {
    /// Returns a description of the change of its mode, if the mode is another one.
    pub fn mode_change(&self) -> Option<String> {
        let [before, after] = &self.modes;
        (self.kind == ChangeKind::Changed && before != after).then(|| format!("mode: {before} -> {after}"))
    }
}

impl Runtime {
    /// Returns the repository of the workspace.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when there is none, and when git can't be run.
    pub async fn repository(&self) -> Result<Repository, Fault> {
        let workspace = self.roots().workspace().to_owned();
        let script = format!(
            "top=$({GIT} rev-parse --show-toplevel 2>&1) || {{ printf %s \"$top\" | head -c 2000; exit {NONE}; }}\n\
             printf '%s\\0' \"$top\" >&3\n\
             {{ {GIT} status --porcelain=v2 -z --branch --untracked-files=all --no-renames --ignore-submodules=all -- . 3>&-; printf 'end %s\\0' $?; }} | head -c {LIST} >&3"
        );
        let read = run(&self.git(), &workspace, script, None).await?;
        if read.code == NONE {
            let why = String::from_utf8_lossy(&read.said).trim().to_owned();
            tracing::debug!(why, "no repository");
            let what =
                format!("{} is not in a git repository that commands here can read", workspace.display());
            let why = if why.contains("not a git repository") { String::new() } else { format!(": {why}") };
            return Err(Fault::not_found(format!("{what}{why}")).next(format!(
                "`git init` in the workspace makes one; a `.git` above {} is out of the sandbox's reach.",
                workspace.display()
            )));
        }
        parse(&read.written, &workspace)
    }

    /// Returns these files as the newest commit has them and as they are, those that do not differ left out. Of some hundreds only
    /// the first are compared.
    ///
    /// # Errors
    /// When git can't be run.
    pub async fn against_head(
        &self,
        repository: &Repository,
        files: &BTreeSet<PathBuf>,
    ) -> Result<Vec<Versions>, Fault> {
        let wanted: Vec<Differs> =
            repository.changed.iter().filter(|it| files.contains(&it.path)).take(COMPARED).cloned().collect();
        let objects: BTreeSet<&str> = wanted.iter().filter_map(|it| it.object.as_deref()).collect();
        let contents = self.contents(objects).await?;
        let files = UndoFiles::of(self.undo_workspace(), self.policy());
        let compared = tokio::task::spawn_blocking(move || {
            wanted.into_iter().map(|it| versions(it, &contents, &files)).collect()
        });
        compared.await.map_err(|error| Fault::bug(format!("files were not compared: {error}")))
    }

    /// Returns the command that commits these files of the workspace, and no others, with this message. It is for this sandbox of a
    /// session: hooks of the repository run in it.
    ///
    /// # Errors
    /// [`Kind::Denied`] when commands here run outside the sandbox or write nothing, [`Kind::BadArgs`] when a file or the message is
    /// not valid, and [`Kind::NotFound`] when a file does not differ from the newest commit.
    pub fn commit_command(
        &self,
        sandbox: SandboxMode,
        repository: &Repository,
        message: &str,
        paths: &[String],
    ) -> Result<String, Fault> {
        match sandbox {
            SandboxMode::Workspace => {}
            SandboxMode::Full => {
                return Err(Fault::denied(
                    "commands run outside the sandbox here (`sandbox = \"full\"`), and a commit would run the repository's hooks with all your rights",
                )
                .next("Serve the workspace with `--sandbox workspace`, or commit at a terminal."));
            }
            SandboxMode::ReadOnly => {
                return Err(Fault::denied("the sandbox is read-only, so nothing can be committed")
                    .next("Widen the sandbox of the session to `workspace`, or commit at a terminal."));
            }
        }
        if message.trim().is_empty() || message.len() > MESSAGE || message.contains('\0') {
            return Err(Fault::bad_args(format!(
                "a commit message has 1 to {} KiB of text, and this one has {} bytes",
                MESSAGE >> 10,
                message.len()
            )));
        }
        if paths.is_empty() {
            return Err(Fault::bad_args("no file to commit is named").next("Name files in `paths`."));
        }
        let mut named = Vec::new();
        for path in paths {
            let file = self.roots().locate(path)?.absolute();
            let Some(differs) = repository.changed.iter().find(|it| it.path == file) else {
                return Err(Fault::not_found(format!("`{path}` is as the newest commit has it, or ignored"))
                    .next("`GET …/diff?against=head` lists the files that differ."));
            };
            let inside = differs.path.strip_prefix(&repository.folder).unwrap_or(&differs.path);
            named.push(quote(&inside.to_string_lossy()));
        }
        let git = format!("git -C {} --literal-pathspecs", quote(&repository.folder.to_string_lossy()));
        let has_commit = repository.commit.is_some();
        let command = commit_script(&git, has_commit, &quote(message), &named.join(" "));
        if command.len() > COMMAND {
            let what = format!("{} files are too many for one command", paths.len());
            return Err(Fault::new(Kind::TooBig, what).next("Commit them in parts."));
        }
        Ok(command)
    }

    /// Returns the starter of git where it only reads.
    fn git(&self) -> Procs {
        let execution = Execution::contained(&self.resources(), SESSION).of_check();
        execution.of_call(&Touches::run("git"), &[])
    }

    /// Returns the contents of objects, as far as they are not too large.
    async fn contents(&self, objects: BTreeSet<&str>) -> Result<HashMap<String, Version>, Fault> {
        if objects.is_empty() {
            return Ok(HashMap::new());
        }
        let (git, workspace) = (self.git(), self.roots().workspace());
        let list = |objects: &[&str]| written(objects).map_err(|error| broken(&error));
        let all: Vec<&str> = objects.into_iter().collect();
        let script = format!(
            "{GIT} cat-file --batch-check='%(objectname) %(objectsize)' <&4 3>&- | head -c {LIST} >&3"
        );
        let sizes = run(&git, workspace, script, Some(list(&all)?)).await?.written;
        let (mut contents, mut wanted, mut sum) = (HashMap::new(), Vec::new(), 0);
        let sizes = String::from_utf8_lossy(&sizes).into_owned();
        for (object, size) in sizes.lines().filter_map(|it| it.split_once(' ')) {
            let Ok(size) = size.parse::<u64>() else { continue };
            if size > LARGEST || sum + size > ALL {
                contents.insert(object.to_owned(), Version::Long(size));
                continue;
            }
            sum += size;
            wanted.push(object);
        }
        let most = ALL + (LIST as u64);
        let script = format!("{GIT} cat-file --batch <&4 3>&- | head -c {most} >&3");
        let read = run(&git, workspace, script, Some(list(&wanted)?)).await?.written;
        contents.extend(objects_of(&read));
        Ok(contents)
    }
}

/// Returns the command that commits these files. It works on a copy of the index: neither a hook that refuses nor a kill leaves
/// files staged, or a lock file that stops the next commit.
fn commit_script(git: &str, has_commit: bool, message: &str, files: &str) -> String {
    let under_way = ["MERGE_HEAD", "CHERRY_PICK_HEAD"]
        .map(|it| format!("{git} rev-parse --quiet --verify {it} >/dev/null"))
        .join(" || ");
    // Of entries that are as the commit has them, the copy keeps what git knows of their files.
    let copied = if has_commit {
        format!(
            "cp \"$(env -u GIT_INDEX_FILE {git} rev-parse --path-format=absolute --git-path index)\" \"$GIT_INDEX_FILE\" 2>/dev/null; \
             {git} read-tree --reset HEAD && "
        )
    } else {
        String::new()
    };
    format!(
        "if {under_way}; then echo 'a merge or cherry-pick is under way' >&2; exit 1; fi; \
         copy=$(mktemp -d) && trap 'rm -rf \"$copy\"' EXIT && \
         (export GIT_INDEX_FILE=$copy/index; {copied}{git} add --all -- {files} && {git} commit -m {message}) && \
         {git} reset --quiet -- {files}"
    )
}

/// The output of a script.
struct Ran {
    code: i32,
    /// The bytes that it wrote to descriptor 3.
    written: Vec<u8>,
    /// The beginning of its standard output.
    said: Vec<u8>,
}

/// Runs a script in this folder; descriptor 4 is `input`.
async fn run(procs: &Procs, folder: &Path, script: String, input: Option<File>) -> Result<Ran, Fault> {
    let mut output = tempfile::tempfile().map_err(|error| broken(&error))?;
    let for_child = output.try_clone().map_err(|error| broken(&error))?;
    let files = [(3, Some(for_child)), (4, input)];
    let program = Program {
        argv: vec!["sh".to_owned(), "-c".to_owned(), script],
        cwd: folder.to_owned(),
        env: ENV.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        stdin: Stdin::Null,
        streams: Streams::Apart,
        files: files.into_iter().filter_map(|(number, file)| Some((number, file?.into()))).collect(),
    };
    let process = procs.start(program).await?;
    let ended = timeout(LIMIT, process.finished(DRAIN)).await;
    process.end(Ending::within(Duration::ZERO)).await;
    let exit = ended.map_err(|_| {
        let what = format!("git took longer than {} s in {}", LIMIT.as_secs(), folder.display());
        Fault::new(Kind::Timeout, what)
    })?;
    let said = process.output().raw(0, 4096).1;
    let mut written = Vec::new();
    let read = output.rewind().and_then(|()| output.read_to_end(&mut written));
    read.map_err(|error| broken(&error))?;
    Ok(Ran { code: exit.code(), written, said })
}

fn broken(error: &io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("git can't be asked: {error}"))
}

/// Returns a file without a name that has these lines.
fn written(lines: &[&str]) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(lines.join("\n").as_bytes())?;
    file.write_all(b"\n")?;
    file.rewind()?;
    Ok(file)
}

/// Reads the output of `git status`, after the folder of the repository.
fn parse(output: &[u8], workspace: &Path) -> Result<Repository, Fault> {
    let mut records = output.split(|it| *it == 0);
    let folder = PathBuf::from(OsStr::from_bytes(records.next().unwrap_or_default()));
    let mut found = Repository { folder, commit: None, branch: None, changed: Vec::new(), has_more: true };
    let mut records: Vec<&[u8]> = records.collect();
    // Each record ends with a zero, so what follows the last is empty or was cut.
    records.pop();
    for record in records {
        let text = String::from_utf8_lossy(record);
        if let Some(commit) = text.strip_prefix("# branch.oid ") {
            found.commit = Some(commit.to_owned()).filter(|it| it != "(initial)");
        } else if let Some(branch) = text.strip_prefix("# branch.head ") {
            found.branch = Some(branch.to_owned()).filter(|it| it != "(detached)");
        } else if let Some(code) = text.strip_prefix("end ") {
            if code != "0" {
                return Err(Fault::new(Kind::Failed, format!("`git status` failed with exit code {code}")));
            }
            found.has_more = false;
        } else if let Some(differs) = differs(record, &found.folder) {
            found.changed.push(differs);
        }
    }
    found.changed.retain(|it| it.path.starts_with(workspace));
    found.changed.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Reads one changed file of `git status --porcelain=v2 -z`.
fn differs(record: &[u8], folder: &Path) -> Option<Differs> {
    let fields = |count| record.splitn(count, |it| *it == b' ').collect::<Vec<_>>();
    let at = |path: &[u8]| folder.join(OsStr::from_bytes(path));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (before, after, object, path) = match fields(11).as_slice() {
        [b"u", _, _, _, before, _, after, _, object, _, path] => (*before, *after, *object, *path),
        [b"?", ..] => {
            let path = at(record.get(2..)?);
            return Some(Differs {
                path,
                kind: ChangeKind::Created,
                object: None,
                modes: [String::new(), String::new()],
            });
        }
        [b"1", ..] => match fields(9).as_slice() {
            [_, _, _, before, _, after, object, _, path] => (*before, *after, *object, *path),
            _ => return None,
        },
        _ => return None,
    };
    let object = Some(text(object)).filter(|it| it.bytes().any(|digit| digit != b'0'));
    let kind = match (&object, after) {
        (None, _) => ChangeKind::Created,
        (Some(_), b"000000") => ChangeKind::Deleted,
        (Some(_), _) => ChangeKind::Changed,
    };
    Some(Differs { path: at(path), kind, object, modes: [text(before), text(after)] })
}

/// Reads the output of `git cat-file --batch`.
fn objects_of(mut output: &[u8]) -> HashMap<String, Version> {
    let mut objects = HashMap::new();
    while let Some(end) = output.iter().position(|it| *it == b'\n') {
        let head = String::from_utf8_lossy(output.get(..end).unwrap_or_default()).into_owned();
        output = output.get(end + 1..).unwrap_or_default();
        let mut words = head.split(' ');
        let (Some(object), Some("blob"), Some(size)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Some(content) = size.parse().ok().and_then(|size: usize| output.get(..size)) else { break };
        objects.insert(object.to_owned(), Version::Known(content.to_vec().into()));
        output = output.get(content.len() + 1..).unwrap_or_default();
    }
    objects
}

/// Returns a file as the commit has it and as it is.
fn versions(differs: Differs, contents: &HashMap<String, Version>, files: &UndoFiles) -> Versions {
    let Differs { path, object, .. } = differs;
    let before = object.map_or(Version::Absent, |it| {
        contents.get(&it).cloned().unwrap_or_else(|| Version::Unknown("git has no such object".to_owned()))
    });
    let after = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Version::Absent,
        Err(error) => Version::Unknown(format!("it can't be read: {error}")),
        Ok(about) if !about.is_file() => Version::Unknown("it is not a regular file now".to_owned()),
        Ok(about) if about.len() > LARGEST => Version::Long(about.len()),
        Ok(_) => match files.read(&path) {
            Ok(Some(bytes)) => Version::Known(bytes.into()),
            Ok(None) => Version::Absent,
            Err(fault) => Version::Unknown(fault.what),
        },
    };
    Versions { path, before, after }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn status_is_read_with_new_changed_deleted_and_unmerged_files() {
        let (zero, one, two) = ("0".repeat(40), "1".repeat(40), "2".repeat(40));
        let records = [
            "/w".to_owned(),
            format!("# branch.oid {one}"),
            "# branch.head main".to_owned(),
            format!("1 .M N... 100644 100644 100755 {one} {one} a b.txt"),
            format!("1 .D N... 100644 100644 000000 {one} {one} gone"),
            format!("1 A. N... 000000 100644 100644 {zero} {two} added"),
            format!("u UU N... 100644 100644 100644 100644 {zero} {two} {one} both"),
            "? new one".to_owned(),
            "end 0".to_owned(),
        ];
        let output: String = records.iter().map(|it| format!("{it}\0")).collect();
        let found = parse(output.as_bytes(), Path::new("/w")).unwrap();
        assert_eq!((found.commit.as_ref(), found.branch.as_deref()), (Some(&one), Some("main")));
        let all: Vec<_> = found
            .changed
            .iter()
            .map(|it| (it.path.to_str().unwrap(), it.kind, it.object.as_deref()))
            .collect();
        assert_eq!(
            all,
            [
                ("/w/a b.txt", ChangeKind::Changed, Some(&*one)),
                ("/w/added", ChangeKind::Created, None),
                ("/w/both", ChangeKind::Changed, Some(&*two)),
                ("/w/gone", ChangeKind::Deleted, Some(&*one)),
                ("/w/new one", ChangeKind::Created, None),
            ]
        );
        assert!(!found.has_more);
        assert!(
            parse(output.as_bytes().get(..200).unwrap(), Path::new("/w")).unwrap().has_more,
            "a list that was cut"
        );
        assert_eq!(
            found.changed.iter().find_map(Differs::mode_change).as_deref(),
            Some("mode: 100644 -> 100755")
        );
    }

    #[test]
    fn objects_are_read_with_their_bytes() {
        let output = b"aa blob 3\nx\n\x00\nbb missing\ncc blob 0\n\ndd blob 9\ncut";
        let objects = objects_of(output);
        assert_eq!(objects.get("aa"), Some(&Version::Known(b"x\n\x00".to_vec().into())));
        assert_eq!(objects.get("cc"), Some(&Version::Known(Vec::new().into())));
        assert_eq!(objects.len(), 2);
    }
}
