//! Attestation: the content of a tool that a person vouches for, so that `[tool.NAME]` applies to it.
//!
//! Names prove nothing: any tool may create a file with the name of another. So a person attests content. A
//! tool with grants imports from its folder exactly the attested text, wherever the files lie by then.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;

use super::{
    Folder, Section, Version, Whose,
    folders::{self, CodeFile, Sort},
    provenance_records::{ProvenanceRecords, Provenances},
};

/// The grants of a tool that are in effect.
#[derive(Clone, Default)]
pub(crate) struct Grant {
    /// The section that applies.
    pub(super) section: Section,
    /// The modules that it may import from its folder; none, if the tool has no grants: it may import any.
    pub(super) beside: Option<Arc<Attested>>,
    /// Checked before each call of a program, which runs from its folder, among whatever lies there by then.
    pub(super) guard: Option<Arc<Guard>>,
    /// The reason why its section does not apply, and what to do.
    pub(super) lapsed: Option<String>,
}

/// The Python files of a tool folder that are as a person attested them, and those that are not.
pub(super) struct Attested {
    modules: Vec<Module>,
    /// Code that nobody attested in its present content.
    strange: Vec<PathBuf>,
    /// Code that is not a tool's file and was attested with other content.
    changed: Option<PathBuf>,
    key: blake3::Hash,
}

/// A file, with the name by which Python imports it.
#[derive(Serialize)]
pub(super) struct Module {
    name: String,
    path: PathBuf,
    is_package: bool,
    source: String,
}

/// The data to check again whether a section applies to a program.
pub(super) struct Guard {
    written: ProvenanceRecords,
    folder: Folder,
    workspace: PathBuf,
    version: Arc<Version>,
    name: String,
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.beside.as_ref().map(|it| it.key);
        write!(f, "{:?} {key:?} {:?}", self.section, self.lapsed)
    }
}

impl Section {
    /// Returns whether the section grants something that an attacker could want.
    pub(super) fn is_grant(&self) -> bool {
        let Self { net, read, write, env, timeout_seconds: _, manual_first: _, replaces_built_in } = self;
        *replaces_built_in || !(net.is_empty() && read.is_empty() && write.is_empty() && env.is_empty())
    }

    /// Returns the section without its grants.
    fn ungranted(&self) -> Self {
        Self { timeout_seconds: self.timeout_seconds, manual_first: self.manual_first, ..Self::default() }
    }
}

impl Attested {
    /// Reads the code of this folder as it is now.
    pub(super) fn read(folder: &Folder, workspace: &Path, marks: &Provenances) -> Result<Self, String> {
        let mut beside =
            Self { modules: Vec::new(), strange: Vec::new(), changed: None, key: blake3::hash(&[]) };
        let mut hasher = blake3::Hasher::new();
        for file in folders::code(folder, workspace)? {
            if file.hash.is_some_and(|hash| marks.vouches(&file.path, &hash)) {
                if let Some(module) = Module::of(&file, &folder.path) {
                    hasher.update(module.path.as_os_str().as_encoded_bytes()).update(b"\0");
                    hasher.update(blake3::hash(module.source.as_bytes()).as_bytes());
                    beside.modules.push(module);
                }
                continue;
            }
            if !file.is_tool && beside.changed.is_none() && marks.vouched_before(&file.path) {
                beside.changed = Some(file.path.clone());
            }
            beside.strange.push(file.path);
        }
        beside.key = hasher.finalize();
        Ok(beside)
    }

    /// Returns the modules for the host.
    pub(super) fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Returns the hash of the modules.
    pub(super) fn key(&self) -> &blake3::Hash {
        &self.key
    }
}

impl Module {
    fn of(file: &CodeFile, folder: &Path) -> Option<Self> {
        let below = file.path.strip_prefix(folder).ok()?.with_extension("");
        let mut parts: Vec<&str> = below.iter().map(|it| it.to_str()).collect::<Option<_>>()?;
        let is_package = parts.last() == Some(&"__init__") && parts.len() > 1;
        if is_package {
            parts.pop();
        }
        let source = String::from_utf8(file.python.as_ref()?.to_vec()).ok()?;
        Some(Self { name: parts.join("."), path: file.path.clone(), is_package, source })
    }
}

/// Returns the reason why `[tool.NAME]` does not apply to this version, if there is one.
fn lapse(
    version: &Version,
    sort: Sort,
    name: &str,
    beside: &Result<Arc<Attested>, String>,
    workspace: &Path,
    marks: &Provenances,
) -> Option<String> {
    let shown = |path: &Path| path.strip_prefix(workspace).unwrap_or(path).display().to_string();
    let file = shown(&version.path);
    if !marks.vouches(&version.path, &version.hash) {
        return Some(format!(
            "`[tool.{name}]` does not count for {file} as it is now: read it, then `haft trust {name}`"
        ));
    }
    let beside = match beside {
        Ok(beside) => beside,
        Err(why) => return Some(format!("`[tool.{name}]` does not count for {file}: {why}")),
    };
    let near = || beside.strange.iter().find(|it| it.starts_with(around(version)));
    // A program runs from its folder, and haft can't know which files it reads there.
    let other = match sort {
        Sort::Python => beside.changed.as_ref(),
        Sort::Manifest | Sort::Program => near(),
    }?;
    Some(format!(
        "`[tool.{name}]` does not count for {file}, as nobody vouches for {} beside it as it is now: read it, then `haft trust {name}`",
        shown(other)
    ))
}

/// Returns the folder of the files that a program may need.
fn around(version: &Version) -> &Path {
    version.path.parent().unwrap_or(&version.folder)
}

/// The sections of one folder, and what decides whether they apply.
pub(super) struct Sections<'a> {
    pub(super) of: Option<&'a std::collections::BTreeMap<String, Section>>,
    pub(super) beside: &'a Result<Arc<Attested>, String>,
    pub(super) marks: &'a Provenances,
    pub(super) written: &'a ProvenanceRecords,
    pub(super) folder: Option<&'a Folder>,
    pub(super) workspace: &'a Path,
}

impl Sections<'_> {
    /// Returns the grant of a tool in this version.
    pub(super) fn grant(&self, version: &Arc<Version>, sort: Sort, name: &str) -> Grant {
        let Some(section) = self.of.and_then(|it| it.get(name)) else { return Grant::default() };
        if !section.is_grant() {
            return Grant { section: section.clone(), ..Grant::default() };
        }
        if let Some(why) = lapse(version, sort, name, self.beside, self.workspace, self.marks) {
            return Grant { section: section.ungranted(), lapsed: Some(why), ..Grant::default() };
        }
        let guard = self.folder.filter(|_| sort != Sort::Python).map(|folder| {
            Arc::new(Guard {
                written: self.written.clone(),
                folder: folder.clone(),
                workspace: self.workspace.to_owned(),
                version: version.clone(),
                name: name.to_owned(),
            })
        });
        Grant { section: section.clone(), beside: self.beside.clone().ok(), guard, lapsed: None }
    }
}

impl Guard {
    /// Returns the reason why the section no longer applies, if there is one.
    pub(super) fn lapsed(&self) -> Option<String> {
        let marks = self.written.marks();
        let beside = Attested::read(&self.folder, &self.workspace, &marks).map(Arc::new);
        lapse(&self.version, Sort::Program, &self.name, &beside, &self.workspace, &marks)
    }
}

/// Returns the code that a person attests together with this tool: its file, code of the folder that is not a
/// tool, and for a program all that lies in its folder.
pub(super) fn code_of(
    folder: &Folder,
    workspace: &Path,
    file: &Path,
    sort: Sort,
) -> Result<Vec<(PathBuf, blake3::Hash)>, String> {
    let near = file.parent().unwrap_or(&folder.path);
    let is_meant = |it: &CodeFile| match sort {
        _ if it.path == file => true,
        Sort::Python => !it.is_tool,
        Sort::Manifest | Sort::Program => it.path.starts_with(near),
    };
    let all = folders::code(folder, workspace)?;
    Ok(all.into_iter().filter(is_meant).filter_map(|it| Some((it.path, it.hash?))).collect())
}

/// Returns all code in the folders of a workspace.
pub(super) fn all_code(folders: &[Folder], workspace: &Path) -> Vec<(PathBuf, blake3::Hash)> {
    let own = folders.iter().filter(|it| it.whose != Whose::Person);
    // The load reports folders that can't be searched.
    let code = own.flat_map(|folder| folders::code(folder, workspace).unwrap_or_default());
    code.filter_map(|it| Some((it.path, it.hash?))).collect()
}
