//! Review of changes before they are written: a person sees exactly what would be written, and an approval
//! holds for exactly that.
//!
//! [`Files::save`] and its like ask by themselves. A tool that changes several files in one call asks once,
//! with [`Files::propose`].

use std::path::PathBuf;

use super::{Becomes, Before, Files, Loaded, Was, nodes::ReviewedNode, save::still};
use crate::{
    Fault,
    services::{After, Proposed},
    text::{Content, Digest},
};

/// A change that a tool is about to make.
pub enum Proposal<'a> {
    /// New content for a file, as [`Files::save`] takes it.
    Save {
        /// The file.
        path: &'a str,
        /// The content that it must still have.
        before: Before<'a>,
        /// The new content.
        content: &'a Content,
    },
    /// A file to delete, as [`Files::remove`] takes it.
    Remove {
        /// The file.
        path: &'a str,
        /// The content that it must still have.
        before: &'a Loaded,
    },
    /// A file or a symlink to replace, as [`Files::replace`] takes it.
    Replace {
        /// The file.
        path: &'a str,
        /// The state that it must still have.
        was: Was<'a>,
        /// The new state.
        becomes: Becomes<'a>,
    },
}

/// A change that a person approved: of this file, from this content to that one.
#[derive(PartialEq, Eq)]
pub(super) struct Approved {
    path: PathBuf,
    before: Option<Digest>,
    after: Option<Digest>,
}

impl Files {
    /// Asks a person to review these changes together, before the first of them is made. Each is then made as
    /// it was proposed, without another question. Does nothing if changes are not reviewed. Blocks.
    ///
    /// # Errors
    /// [`Kind::Denied`](crate::Kind::Denied) when the person refuses, or the call may not write there;
    /// [`Kind::Stale`](crate::Kind::Stale) when a file has changed.
    pub fn propose(&self, changes: &[Proposal<'_>]) -> Result<(), Fault> {
        if !self.is_reviewed() {
            return Ok(());
        }
        let mut nodes = Vec::new();
        for change in changes {
            if let Proposal::Replace { path, was, becomes } = change {
                nodes.push(self.reviewed_node(path, *was, *becomes)?);
            }
        }
        let mut wanted: Vec<Wanted<'_>> = nodes.iter().map(ReviewedNode::wanted).collect();
        for change in changes {
            let (path, before, after) = match change {
                Proposal::Save { path, before, content } => (*path, *before, Some(*content)),
                Proposal::Remove { path, before } => (*path, Before::Was(before), None),
                Proposal::Replace { .. } => continue,
            };
            let file = self.to_be_changed(path, before)?;
            wanted.push(Wanted {
                file,
                before: content_of(before),
                after: after.map_or(After::Gone, After::Holds),
                digest: after.map(Content::digest),
            });
        }
        let approved = self.ask(wanted)?;
        self.inner.approved.lock().extend(approved);
        Ok(())
    }

    /// Asks a person to review one change, unless they have approved exactly this one.
    pub(super) fn review(
        &self,
        path: &str,
        before: Before<'_>,
        after: After<'_>,
        digest: Option<Digest>,
    ) -> Result<(), Fault> {
        let file = self.to_be_changed(path, before)?;
        self.ask(vec![Wanted { file, before: content_of(before), after, digest }]).map(drop)
    }

    /// Returns whether a person reviews changes.
    pub(super) fn is_reviewed(&self) -> bool {
        self.inner.review.is_some()
    }

    /// Returns the file that would be changed. Changes that would fail anyway are not asked about.
    fn to_be_changed(&self, path: &str, before: Before<'_>) -> Result<PathBuf, Fault> {
        let opened = self.resolve(path)?;
        self.may_write(path, &opened.location)?;
        still(path, &opened, before)?;
        Ok(opened.location.absolute())
    }

    /// Asks about the changes that are not approved yet; returns those approved now.
    pub(super) fn ask(&self, wanted: Vec<Wanted<'_>>) -> Result<Vec<Approved>, Fault> {
        let Some(review) = &self.inner.review else { return Ok(Vec::new()) };
        let mut open = Vec::new();
        for it in wanted {
            let mut approved = self.inner.approved.lock();
            // An approval is used once.
            match approved.iter().position(|yes| *yes == it.approved()) {
                Some(at) => drop(approved.swap_remove(at)),
                // A change that changes nothing needs no approval.
                None if it.before.map(Content::digest) == it.digest => {}
                None => open.push(it),
            }
        }
        if !open.is_empty() {
            review.review(&open.iter().map(Wanted::proposed).collect::<Vec<_>>())?;
        }
        Ok(open.iter().map(Wanted::approved).collect())
    }
}

/// A change that is to be reviewed.
pub(super) struct Wanted<'a> {
    pub(super) file: PathBuf,
    pub(super) before: Option<&'a Content>,
    pub(super) after: After<'a>,
    /// The digest of the new content.
    pub(super) digest: Option<Digest>,
}

impl Wanted<'_> {
    fn proposed(&self) -> Proposed<'_> {
        Proposed { path: &self.file, before: self.before, after: self.after }
    }

    fn approved(&self) -> Approved {
        Approved { path: self.file.clone(), before: self.before.map(Content::digest), after: self.digest }
    }
}

fn content_of(before: Before<'_>) -> Option<&Content> {
    match before {
        Before::Absent => None,
        Before::Was(loaded) => Some(&loaded.bytes),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{fs, sync::Arc};

    use parking_lot::Mutex;

    use super::*;
    use crate::{
        Kind,
        files::{Access, Grant},
        services::Review,
        testing::TestWorkspace,
    };

    /// A reviewer that records what it was shown and gives a fixed answer; meanwhile another program may
    /// change the files.
    #[derive(Default)]
    struct Person {
        shown: Mutex<Vec<String>>,
        refuses: bool,
        meanwhile: Option<Box<dyn Fn() + Send + Sync>>,
    }

    impl Review for Person {
        fn review(&self, changes: &[Proposed<'_>]) -> Result<(), Fault> {
            let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
            let told: Vec<String> = changes
                .iter()
                .map(|it| {
                    let name = it.path.file_name().unwrap().display();
                    let before = it.before.map_or_else(|| "none".to_owned(), |it| text(it));
                    let after = match it.after {
                        After::Gone => "none".to_owned(),
                        After::Holds(content) => text(content),
                        After::Long(bytes) => format!("{bytes} bytes"),
                    };
                    format!("{name}: {before} -> {after}")
                })
                .collect();
            self.shown.lock().push(told.join(", "));
            if let Some(meanwhile) = &self.meanwhile {
                meanwhile();
            }
            if self.refuses { Err(Fault::denied("no")) } else { Ok(()) }
        }
    }

    fn files(test_ws: &TestWorkspace, person: &Arc<Person>) -> Files {
        let roots = test_ws.cx().files().roots().clone();
        let grant = |path: &str| Grant { location: roots.locate(path).unwrap(), access: Access::Write };
        let grants = ["a", "b", "c"].map(grant).to_vec();
        let history = test_ws.cx().services().history.clone();
        Files::reviewed(roots, grants, history, Some(person.clone()))
    }

    fn content(text: &str) -> Content {
        text.as_bytes().into()
    }

    #[test]
    fn every_way_to_change_a_file_is_reviewed_and_a_refusal_changes_nothing() {
        let test_ws = TestWorkspace::new("//- a\none");
        let person = Arc::new(Person { refuses: true, ..Person::default() });
        let files = files(&test_ws, &person);
        let loaded = files.load("a", 100).unwrap();
        let mut incoming = files.begin("c").unwrap();
        incoming.write(b"four").unwrap();
        let all = [
            files.save("a", Before::Was(&loaded), b"two").map(drop),
            files.save("b", Before::Absent, b"new").map(drop),
            files.remove("a", &loaded),
            incoming.finish().map(drop),
        ];
        assert!(all.iter().all(|it| it.as_ref().is_err_and(|it| it.kind == Kind::Denied)), "{all:?}");
        assert_eq!(
            *person.shown.lock(),
            ["a: one -> two", "b: none -> new", "a: one -> none", "c: none -> 4 bytes"]
        );
        assert_eq!(test_ws.bytes("a"), b"one");
        assert!(!test_ws.path().join("b").exists() && !test_ws.path().join("c").exists());
    }

    #[test]
    fn changes_that_were_proposed_together_are_asked_about_once_and_only_as_they_were_proposed() {
        let test_ws = TestWorkspace::new("//- a\none");
        let person = Arc::new(Person::default());
        let files = files(&test_ws, &person);
        let loaded = files.load("a", 100).unwrap();
        let (two, new) = (content("two"), content("new"));
        files
            .propose(&[
                Proposal::Save { path: "a", before: Before::Was(&loaded), content: &two },
                Proposal::Save { path: "b", before: Before::Absent, content: &new },
            ])
            .unwrap();
        files.save("b", Before::Absent, &new).unwrap();
        // Content other than what was shown is another question.
        files.save("a", Before::Was(&loaded), b"three").unwrap();
        assert_eq!(*person.shown.lock(), ["a: one -> two, b: none -> new", "a: one -> three"]);
        // An approval is used once.
        let made = files.load("b", 100).unwrap();
        files.remove("b", &made).unwrap();
        files.save("b", Before::Absent, &new).unwrap();
        assert_eq!(person.shown.lock().len(), 4);
    }

    #[test]
    fn a_file_that_changes_during_approval_is_left_alone() {
        let test_ws = TestWorkspace::new("//- a\none");
        let path = test_ws.path().join("a");
        let meanwhile = Box::new(move || fs::write(&path, "theirs").unwrap());
        let person = Arc::new(Person { meanwhile: Some(meanwhile), ..Person::default() });
        let files = files(&test_ws, &person);
        let loaded = files.load("a", 100).unwrap();
        let fault = files.save("a", Before::Was(&loaded), b"two").unwrap_err();
        assert_eq!((fault.kind, test_ws.bytes("a").as_slice()), (Kind::Stale, b"theirs".as_slice()));
        // A change that would fail anyway, or that changes nothing, is not asked about.
        assert_eq!(files.save("a", Before::Was(&loaded), b"two").unwrap_err().kind, Kind::Stale);
        assert_eq!(files.save("a", Before::Absent, b"two").unwrap_err().kind, Kind::Stale);
        assert_eq!(files.save("other", Before::Absent, b"two").unwrap_err().kind, Kind::Denied);
        let now = files.load("a", 100).unwrap();
        files.save("a", Before::Was(&now), b"theirs").unwrap();
        assert_eq!(person.shown.lock().len(), 1);
    }
}
