//! Profiles: named agents with a prompt, a model and tools, from haft itself, the person and the workspace.

mod front;

use std::{fs, path::PathBuf, sync::Arc};

use kit::{Fault, files::Roots};

use crate::markdown_files;
use front::Format;
pub(crate) use front::names_here;

/// Maximum size of a profile file, in bytes; larger ones are ignored.
const LARGEST: u64 = 64 << 10;

/// Maximum number of files read from a folder.
const MOST: usize = 100;

/// Maximum size of all files together, in bytes; the files after that are ignored.
const ALL: usize = 2 << 20;

/// Maximum length of the reason why a file is not a profile; longer ones are cut.
const WHY: usize = 300;

/// The folders of a workspace with profiles; the first one that has a name wins.
const FOLDERS: [(&str, Format); 3] =
    [(".haft/agents", Format::Haft), (".claude/agents", Format::Claude), (".nav/subagents", Format::Nav)];

/// The profiles that are part of the program.
const BUILT_IN: [(&str, &str); 4] = [
    ("explore", include_str!("../profiles/explore.md")),
    ("critic", include_str!("../profiles/critic.md")),
    ("plan", include_str!("../profiles/plan.md")),
    ("general", include_str!("../profiles/general.md")),
];

/// The profile of plan mode.
pub const PLAN: &str = "plan";

/// A named agent. It can have fewer permissions than the person's options allow, never more.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The name that selects it.
    pub name: String,
    /// Its display name.
    pub title: String,
    /// Its purpose.
    pub description: String,
    /// Its prompt.
    pub prompt: String,
    /// Its model, if not the caller's.
    pub model: Option<String>,
    /// Its allowlist of tools, by their names here; without one, it has the caller's tools.
    pub tools: Option<Vec<String>>,
    /// The tools that it does not have.
    pub without: Vec<String>,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Maximum model responses for one task.
    pub max_turns: Option<usize>,
    /// The triggers of a session that begins with it, each with its name.
    pub triggers: Vec<NamedTrigger>,
    /// The source of the profile.
    pub origin: Origin,
    /// The settings in its file that are ignored, one line each.
    pub notes: Vec<String>,
}

/// A trigger of a profile: its name, and what it waits for.
pub type NamedTrigger = (String, triggers::Spec);

/// The source of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The program itself.
    Program,
    /// A file of the person.
    Person(PathBuf),
    /// A file of the workspace, by its relative path.
    Workspace(String),
}

impl Origin {
    /// Returns the source, as shown to a person.
    pub fn shown(&self) -> String {
        match self {
            Self::Program => "haft".to_owned(),
            Self::Person(path) => path.display().to_string(),
            Self::Workspace(path) => path.clone(),
        }
    }
}

/// The sources of profiles. They are read anew each time, so a saved file takes effect at once.
#[derive(Clone)]
pub struct Profiles {
    own: Option<PathBuf>,
    roots: Option<Roots>,
    trusted: bool,
    /// A profile that comes before all others.
    first: Option<Arc<Profile>>,
}

/// The profiles as they are now.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Each name once.
    pub profiles: Vec<Arc<Profile>>,
    /// The files that are not profiles, with the reason, one line each.
    pub broken: Vec<String>,
}

impl Profiles {
    /// Uses only the profiles of the program.
    pub fn built_in() -> Self {
        Self { own: None, roots: None, trusted: false, first: None }
    }

    /// Uses the profiles of the program, of the person's folder `own`, and of a workspace. The model of a
    /// profile is ignored if its workspace is not trusted.
    pub fn new(own: PathBuf, roots: Roots, trusted: bool) -> Self {
        Self { own: Some(own), roots: Some(roots), trusted, first: None }
    }

    /// Adds a profile that comes before all others: one of its name is not used.
    #[must_use]
    pub fn with_first(self, profile: Arc<Profile>) -> Self {
        Self { first: Some(profile), ..self }
    }

    /// Reads all profiles. Blocks.
    pub fn read(&self) -> Known {
        let mut known = Known::default();
        known.profiles.extend(self.first.clone());
        let mut left = ALL;
        if let Some(own) = &self.own {
            for (name, path) in files_in(own) {
                let text = markdown_files::of_person(&path, LARGEST);
                let shown = path.display().to_string();
                if !known.takes(&mut left, &shown, &text) {
                    break;
                }
                known.add(
                    &shown,
                    text,
                    |text| front::parse(Format::Haft, &name, text),
                    |mut it| {
                        it.origin = Origin::Person(path);
                        it
                    },
                );
            }
        }
        for (name, text) in BUILT_IN {
            known.add(
                name,
                Ok(text.as_bytes().to_vec()),
                |text| front::parse(Format::Haft, name, text),
                |it| it,
            );
        }
        for (folder, format) in FOLDERS {
            let Some(roots) = &self.roots else { break };
            for (name, path) in files_in(&roots.workspace().join(folder)) {
                let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let shown = format!("{folder}/{file}");
                let text = markdown_files::of_workspace(roots, &shown, LARGEST);
                if !known.takes(&mut left, &shown, &text) {
                    break;
                }
                known.add(
                    &shown,
                    text,
                    |text| front::parse(format, &name, text),
                    |it| self.of_workspace(it, shown.clone()),
                );
            }
        }
        known
    }

    /// Removes the model from a profile of an untrusted workspace: the model decides which provider reads the
    /// conversation, and the cost.
    fn of_workspace(&self, mut profile: Profile, file: String) -> Profile {
        if !self.trusted
            && let Some(model) = profile.model.take()
        {
            profile.notes.push(format!("its model `{model}` does not count until you run `haft trust`"));
        }
        if !self.trusted && !profile.triggers.is_empty() {
            profile.triggers.clear();
            profile.notes.push("its triggers do not count until you run `haft trust`".to_owned());
        }
        profile.origin = Origin::Workspace(file);
        profile
    }
}

impl Known {
    /// Returns the profile of this name.
    ///
    /// # Errors
    /// [`Kind::NotFound`](kit::Kind::NotFound) with the known names.
    pub fn find(&self, name: &str) -> Result<Arc<Profile>, Fault> {
        if let Some(profile) = self.profiles.iter().find(|it| it.name == name) {
            return Ok(profile.clone());
        }
        let names: Vec<&str> = self.profiles.iter().map(|it| it.name.as_str()).collect();
        let mut next = match names.as_slice() {
            [] => "There are no profiles.".to_owned(),
            names => format!("The profiles are: {}.", names.join(", ")),
        };
        for broken in self.broken.iter().filter(|it| it.contains(name)) {
            next.push_str(&format!("\n{broken}"));
        }
        Err(Fault::not_found(format!("there is no profile `{name}`")).next(next))
    }

    /// Returns whether this file fits into the size limit of all files.
    fn takes(&mut self, left: &mut usize, shown: &str, text: &Result<Vec<u8>, String>) -> bool {
        let bytes = text.as_ref().map_or(0, Vec::len);
        let Some(rest) = left.checked_sub(bytes) else {
            self.broken.push(format!(
                "{shown} and the files after it are ignored: profiles have at most {ALL} bytes in all"
            ));
            return false;
        };
        *left = rest;
        true
    }

    fn add(
        &mut self,
        shown: &str,
        text: Result<Vec<u8>, String>,
        parse: impl FnOnce(&str) -> Result<Profile, String>,
        finish: impl FnOnce(Profile) -> Profile,
    ) {
        let text = text.and_then(|it| String::from_utf8(it).map_err(|_| "it is not UTF-8".to_owned()));
        match text.and_then(|text| parse(&text)) {
            Ok(profile) => {
                let profile = finish(profile);
                let earlier = self.profiles.iter().find(|it| it.name == profile.name);
                match (earlier.map(|it| &it.origin), &profile.origin) {
                    (None, _) => self.profiles.push(Arc::new(profile)),
                    // Agents that plan or explore depend on the limits of these profiles.
                    (Some(Origin::Program), Origin::Workspace(_)) => {
                        self.broken.push(format!(
                            "{shown} is ignored: `{}` is a profile of haft's own",
                            profile.name
                        ));
                    }
                    (Some(_), _) => {}
                }
            }
            Err(why) => {
                let why: String = why.chars().take(WHY).collect();
                self.broken.push(format!("{shown} is not a profile: {why}"));
            }
        }
    }
}

/// Returns the Markdown files of a folder, sorted by name: each name without its extension, and the path.
fn files_in(folder: &std::path::Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries
        .flatten()
        .map(|it| it.path())
        .filter(|it| it.extension().is_some_and(|it| it == "md"))
        .filter_map(|it| Some((it.file_stem()?.to_str()?.to_owned(), it)))
        .take(MOST * 10)
        .collect();
    files.sort();
    files.truncate(MOST);
    files
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::{
        files::{OtherNames, RootSpec},
        testing::TestWorkspace,
    };

    use super::*;

    fn read(fixture: &str, own: &str, trusted: bool) -> (TestWorkspace, Known) {
        let test_ws = TestWorkspace::new(fixture);
        let roots = Roots::open(
            &[RootSpec { path: test_ws.path().to_owned(), read_only: false }],
            OtherNames::Refuse,
        );
        let known = Profiles::new(test_ws.path().join(own), roots.unwrap(), trusted).read();
        (test_ws, known)
    }

    #[test]
    fn only_the_person_can_replace_a_built_in_profile() {
        let file = |at: &str| format!("//- {at}\n---\ndescription: Other.\n---\nGo.\n");
        let (_room, known) = read(&file(".claude/agents/plan.md"), "own", true);
        assert_eq!(known.find(PLAN).unwrap().origin, Origin::Program);
        assert_eq!(known.broken, [".claude/agents/plan.md is ignored: `plan` is a profile of haft's own"]);
        let (_room, known) = read(&file("own/plan.md"), "own", true);
        assert_eq!(known.find(PLAN).unwrap().description, "Other.");
    }

    #[test]
    fn profiles_beyond_the_size_limit_are_ignored() {
        let prompt = "x".repeat(60 << 10);
        let file = |at| format!("//- .haft/agents/p{at:02}.md\n---\ndescription: x\n---\n{prompt}\n");
        let (_room, known) = read(&(0..40).map(file).collect::<String>(), "own", true);
        assert!(known.find("p00").is_ok() && known.find("p39").is_err());
        assert!(
            matches!(known.broken.as_slice(), [one] if one.contains("are ignored")),
            "{:?}",
            known.broken
        );
    }

    #[test]
    fn every_built_in_profile_can_be_read_and_has_its_file_s_name() {
        let known = Profiles::built_in().read();
        assert_eq!(known.broken, Vec::<String>::new());
        let names: Vec<&str> = known.profiles.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, BUILT_IN.map(|it| it.0));
        for profile in &known.profiles {
            assert!(!profile.description.is_empty() && profile.prompt.len() > 100, "{}", profile.name);
            assert_eq!(profile.origin, Origin::Program);
        }
        let plan = known.find(PLAN).unwrap();
        assert!(plan.read_only && plan.tools.as_ref().unwrap().iter().any(|it| it == "ask_user"));
    }

    #[test]
    fn first_folder_wins_and_the_others_add() {
        let (_room, known) = read(
            "//- own/scout.md\n---\ndescription: the person's\n---\nP\n\
             //- .haft/agents/scout.md\n---\ndescription: the workspace's\n---\nW\n\
             //- .claude/agents/judge.md\n---\nname: judge\ndescription: judges\ntools: Read, Grep, WebFetch\nmodel: inherit\n---\nJ\n\
             //- .nav/subagents/scribe.md\n---\nname: The Scribe\ndescription: writes\ntools: [read, write]\n---\nS\n",
            "own",
            true,
        );
        assert_eq!(known.broken, Vec::<String>::new());
        let names: Vec<&str> = known.profiles.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["scout", "explore", "critic", "plan", "general", "judge", "scribe"]);
        assert_eq!(known.find("scout").unwrap().description, "the person's");
        let judge = known.find("judge").unwrap();
        assert_eq!(judge.tools.as_ref().unwrap(), &["read", "grep", "web_fetch"]);
        assert_eq!(judge.model, None);
        assert_eq!(known.find("scribe").unwrap().title, "The Scribe");
    }

    #[test]
    fn a_broken_file_is_named_with_its_line_and_the_others_load() {
        let (_room, known) = read(
            "//- .haft/agents/a.md\n---\ndescription: x\nsandbox: full\n---\n\
             //- .haft/agents/b.md\nno front matter\n\
             //- .haft/agents/c.md\n---\ndescription: [\n---\n\
             //- .haft/agents/d.md\n---\ndescription: fine\n---\nD\n\
             //- .haft/agents/e.md\n---\ndescription: x\ntool: [read]\n---\n",
            "none",
            true,
        );
        assert!(known.find("d").is_ok());
        assert_eq!(known.broken.len(), 4, "{:?}", known.broken);
        for (file, line, what) in [
            ("a.md", "line 3", "`full`"),
            ("b.md", "line 1", "---"),
            ("c.md", "line ", ""),
            ("e.md", "line 3", "`tool`"),
        ] {
            let said = known.broken.iter().find(|it| it.contains(file)).unwrap();
            assert!(said.contains(line) && said.contains(what), "{said}");
        }
    }

    #[test]
    fn untrusted_workspace_can_not_choose_a_model() {
        let fixture = "//- .haft/agents/a.md\n---\ndescription: x\nmodel: openai:gpt-5\n---\nA\n";
        let (_room, known) = read(fixture, "none", false);
        let profile = known.find("a").unwrap();
        assert_eq!(profile.model, None);
        assert!(profile.notes.concat().contains("`openai:gpt-5` does not count"), "{:?}", profile.notes);
        assert_eq!(read(fixture, "none", true).1.find("a").unwrap().model.as_deref(), Some("openai:gpt-5"));
    }

    #[test]
    fn symlinks_out_of_the_workspace_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("x.md"), "---\ndescription: stolen\n---\nX\n").unwrap();
        let test_ws = TestWorkspace::new("//- .haft/agents/a.md\n---\ndescription: fine\n---\nA\n");
        std::os::unix::fs::symlink(outside.path().join("x.md"), test_ws.path().join(".haft/agents/x.md"))
            .unwrap();
        let roots = Roots::open(
            &[RootSpec { path: test_ws.path().to_owned(), read_only: false }],
            OtherNames::Refuse,
        );
        let known = Profiles::new(test_ws.path().join("none"), roots.unwrap(), true).read();
        assert!(known.find("a").is_ok() && known.find("x").is_err());
        assert!(known.broken.concat().contains("x.md"), "{:?}", known.broken);
    }
}
