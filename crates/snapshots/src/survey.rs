//! Survey: all files of a folder that travel, each with a content that it had at one moment.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    io::Read as _,
    os::unix::fs::PermissionsExt,
    time::SystemTime,
};

use kit::{
    Fault, Kind,
    files::{EntryKind, Files, Go, Identity, Ignored, Met, Named, OuterRules, Walk},
};
use parking_lot::Mutex;

use crate::{
    BlobHash, Blobs, Source,
    index::{Index, Known},
    manifest::{LeftOut, Node, Why, check, stays},
};

/// How often a file is read that changes meanwhile.
const TRIES: usize = 5;

/// The files that were found.
#[derive(Default)]
pub(crate) struct Survey {
    pub(crate) files: BTreeMap<String, Node>,
    pub(crate) left_out: Vec<LeftOut>,
    known: HashMap<String, Known>,
}

/// A file as it was at one moment.
struct ReadFile {
    content: Vec<u8>,
    executable: bool,
    identity: Identity,
}

impl ReadFile {
    fn node(&self) -> Node {
        let (hash, len) = (BlobHash::of(&self.content), self.content.len() as u64);
        Node::File { hash, len, executable: self.executable }
    }
}

/// Why a file is not read.
enum Not {
    There,
    Travels(Why),
}

/// Surveys a folder: what the rules don't ignore, and `also`, whether it is ignored or not.
pub(crate) fn survey(source: &Source, rules: &[(String, String)], also: &[String]) -> Result<Survey, Fault> {
    let began = SystemTime::now();
    let index = Index::open(source.index.as_deref());
    let outer = OuterRules::parse(rules.iter().map(|(way, text)| (way.as_str(), text.as_str())));
    let reader = Reader::of(source)?;
    let found = Mutex::new(Survey::default());
    let meet = |met: &Met<'_>| {
        let Some((path, read)) = reader.meet(met, &index) else { return Go::On };
        let mut found = found.lock();
        match read {
            Ok((node, identity)) => found.add(path, node, identity),
            Err(why) => found.left_out.push(LeftOut { path, why }),
        }
        if found.files.len() > source.limits.files { Go::Stop } else { Go::On }
    };
    let walk = Walk { ignored: Ignored::AsGit, depth: usize::MAX };
    let walked = reader.files.walk_within(".", walk, &outer, &|| Ok(()), &meet)?;
    if walked.unreadable > 0 {
        let what = format!("{} can't be read", kit::counted(walked.unreadable, "folder"));
        return Err(Fault::new(Kind::Unavailable, format!("the workspace can't travel whole: {what}"))
            .next("Make them readable, or have git ignore them."));
    }
    let mut found = found.into_inner();
    let left_out: std::collections::HashSet<String> =
        found.left_out.iter().map(|it| it.path.clone()).collect();
    for path in also {
        if !found.files.contains_key(path) && !left_out.contains(path) {
            reader.add(path, &mut found);
        }
    }
    within_limits(source, &found)?;
    index.save(began, std::mem::take(&mut found.known));
    Ok(found)
}

/// Stores those contents of the files chosen by `only` that `blobs` lacks. They are read again, and the survey then has what
/// they hold now.
pub(crate) fn store(
    source: &Source,
    survey: &mut Survey,
    blobs: &dyn Blobs,
    only: impl Fn(&str, &Node) -> bool,
) -> Result<(), Fault> {
    let mut paths: BTreeMap<BlobHash, Vec<String>> = BTreeMap::new();
    let mut contents = Vec::new();
    for (path, node) in &survey.files {
        if let Node::File { hash, len, .. } = node
            && only(path, node)
        {
            let of_content = paths.entry(*hash).or_default();
            if of_content.is_empty() {
                contents.push((*hash, *len));
            }
            of_content.push(path.clone());
        }
    }
    let reader = Reader::of(source)?;
    for hash in blobs.lacking_contents(&contents)? {
        for path in paths.remove(&hash).unwrap_or_default() {
            survey.files.remove(&path);
            let read = match reader.by_name(&path) {
                Ok(read) => read,
                Err(Not::There) => continue,
                Err(Not::Travels(why)) => {
                    survey.left_out.push(LeftOut { path, why });
                    continue;
                }
            };
            let node = read.node();
            let now = node.hash().unwrap_or(hash);
            if now == hash || !blobs.lacking(&[now])?.is_empty() {
                blobs.put(&now, &read.content)?;
            }
            survey.files.insert(path, node);
            if now == hash {
                // The other files of this content need it once.
                break;
            }
        }
    }
    survey.left_out.sort_by(|one, other| one.path.cmp(&other.path));
    within_limits(source, survey)
}

fn within_limits(source: &Source, survey: &Survey) -> Result<(), Fault> {
    let limits = &source.limits;
    let too_big = |what: String| {
        Err(Fault::new(Kind::TooBig, format!("the workspace has {what}"))
            .next("Have git ignore what need not travel, or work in a folder below."))
    };
    if survey.files.len() > limits.files {
        return too_big(format!("more than {} files that git does not ignore", limits.files));
    }
    let length = |node: &Node| if let Node::File { len, .. } = node { *len } else { 0 };
    let total: u64 = survey.files.values().map(length).sum();
    if total > limits.total {
        return too_big(format!("{total} bytes that git does not ignore; at most {} travel", limits.total));
    }
    Ok(())
}

impl Survey {
    fn add(&mut self, path: String, node: Node, identity: Option<Identity>) {
        if let Some(identity) = identity {
            self.known.insert(path.clone(), Known { identity, node: node.clone() });
        }
        self.files.insert(path, node);
    }
}

/// Access to the files of a source.
struct Reader<'a> {
    source: &'a Source,
    files: Files,
}

type Read = Result<(Node, Option<Identity>), Why>;

impl<'a> Reader<'a> {
    fn of(source: &'a Source) -> Result<Self, Fault> {
        let workspace = source.roots.workspace();
        let Some(path) = workspace.to_str() else {
            return Err(Fault::bad_args(format!("`{}` is not UTF-8", workspace.display())));
        };
        // An absolute path: relative ones may begin at a folder below.
        let location = source.roots.locate(path)?;
        Ok(Self { source, files: Files::reading(source.roots.clone(), location) })
    }

    /// Returns a file that the walk met, or why it is left out; `None` for what a snapshot does not have.
    fn meet(&self, met: &Met<'_>, index: &Index) -> Option<(String, Read)> {
        if met.kind == EntryKind::Folder {
            return None;
        }
        let Some(path) = met.path.to_str().map(str::to_owned) else {
            return Some((met.path.to_string_lossy().into_owned(), Err(Why::Name)));
        };
        // The `.git` file of a worktree or a submodule.
        check(&path, None).ok()?;
        let read = match met.kind {
            EntryKind::Folder => return None,
            EntryKind::Special => Err(Why::Special),
            EntryKind::Link => link(&path, met.link_target()).map(|it| (it, None)),
            EntryKind::File => {
                let known = met.identity().and_then(|it| Some((index.get(&path, &it)?.clone(), Some(it))));
                match known.map_or_else(|| self.read(met), Ok) {
                    Ok(known) => Ok(known),
                    Err(Not::There) => return None,
                    Err(Not::Travels(why)) => Err(why),
                }
            }
        };
        Some((path, read))
    }

    /// Reads a file that the walk met, again if it changes meanwhile.
    fn read(&self, met: &Met<'_>) -> Result<(Node, Option<Identity>), Not> {
        for _ in 0..TRIES {
            let Some((file, identity)) = met.open() else {
                let is_gone = met.identity().is_none();
                return Err(if is_gone { Not::There } else { Not::Travels(Why::Unreadable) });
            };
            if identity.size > self.source.limits.file {
                return Err(Not::Travels(Why::TooLarge { len: identity.size }));
            }
            let about = file.metadata().map_err(|_| Not::Travels(Why::Unreadable))?;
            let mut content = Vec::with_capacity(usize::try_from(identity.size).unwrap_or(0) + 1);
            file.take(self.source.limits.file + 1)
                .read_to_end(&mut content)
                .map_err(|_| Not::Travels(Why::Unreadable))?;
            // By its name: also where another file has taken its place.
            if met.identity() != Some(identity) || content.len() as u64 != identity.size {
                continue;
            }
            if (self.source.holds_secret)(&content) {
                return Err(Not::Travels(Why::Secret));
            }
            let executable = about.permissions().mode() & 0o100 != 0;
            return Ok((ReadFile { content, executable, identity }.node(), Some(identity)));
        }
        Err(Not::Travels(Why::Changing))
    }

    /// Reads a file by its name, again if it changes meanwhile.
    fn by_name(&self, path: &str) -> Result<ReadFile, Not> {
        let absolute = self.source.roots.workspace().join(path);
        let name = absolute.to_str().ok_or(Not::Travels(Why::Name))?;
        for _ in 0..TRIES {
            // Hidden, or through a symlink: not part of the workspace by this name.
            let is_here =
                |it: &(kit::files::Location, Named)| it.1 == Named::File && it.0.absolute() == absolute;
            if !self.files.named(name).is_ok_and(|it| is_here(&it)) {
                return Err(Not::There);
            }
            let opened = match self.files.open(name) {
                Ok(opened) => opened,
                Err(fault) if fault.kind == Kind::NotFound => return Err(Not::There),
                Err(_) => return Err(Not::Travels(Why::Unreadable)),
            };
            let len = opened.identity.size;
            if len > self.source.limits.file {
                return Err(Not::Travels(Why::TooLarge { len }));
            }
            match opened.load(name, self.source.limits.file) {
                Ok(loaded) => {
                    let content = loaded.bytes.to_vec();
                    if (self.source.holds_secret)(&content) {
                        return Err(Not::Travels(Why::Secret));
                    }
                    let executable = loaded.is_executable_by_owner();
                    return Ok(ReadFile { content, executable, identity: loaded.identity });
                }
                Err(fault) if matches!(fault.kind, Kind::Stale | Kind::TooBig) => {}
                Err(_) => return Err(Not::Travels(Why::Unreadable)),
            }
        }
        Err(Not::Travels(Why::Changing))
    }

    /// Adds a file that the walk did not meet because it is ignored.
    fn add(&self, path: &str, found: &mut Survey) {
        let absolute = self.source.roots.workspace().join(path);
        let Some(name) = absolute.to_str().filter(|_| check(path, None).is_ok()) else { return };
        let left_out = |why: Why| LeftOut { path: path.to_owned(), why };
        match self.files.named(name) {
            Ok((location, Named::Link(target))) if location.absolute() == absolute => {
                match link(path, Some(target)) {
                    Ok(node) => found.add(path.to_owned(), node, None),
                    Err(why) => found.left_out.push(left_out(why)),
                }
            }
            Ok((_, Named::File)) => match self.by_name(path) {
                Ok(read) => found.add(path.to_owned(), read.node(), Some(read.identity)),
                Err(Not::There) => {}
                Err(Not::Travels(why)) => found.left_out.push(left_out(why)),
            },
            Ok(_) | Err(_) => {}
        }
    }
}

fn link(path: &str, target: Option<OsString>) -> Result<Node, Why> {
    let target = target.and_then(|it| it.into_string().ok()).ok_or(Why::LeadsOut)?;
    if stays(path, &target) { Ok(Node::Link { target }) } else { Err(Why::LeadsOut) }
}
