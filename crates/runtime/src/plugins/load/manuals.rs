//! Manuals of tool files, and which tools require reading theirs first.

use std::{fs::File, io::Read};

use super::{
    super::{Folder, OWN, Whose},
    Plugins,
};
use kit::escape::visible;

use crate::registry::is_name;

/// The folder of a workspace's own manuals, beside that of its tools.
const MANUALS: &str = "manuals";

/// Limit of the text that tool files add to the system prompt, in bytes, all together.
const MOST_CONTRIBUTED: usize = 16 << 10;

/// Limit of a manual, in bytes; haft ignores the rest.
const LONGEST: u64 = 256 << 10;

impl Plugins {
    /// Returns the manual of this tool: the workspace's own, if the person trusts the workspace's tools, or
    /// else the one in its file.
    pub fn manual(&self, name: &str) -> Option<String> {
        self.workspace_manual(name).or_else(|| self.now.load().tools.get(name)?.declaration.manual().cloned())
    }

    /// Returns the names that have `[tool.NAME]` sections, in the person's configuration and in the
    /// workspace.
    pub fn names_of_sections(&self) -> Vec<String> {
        let decided = self.decided.now();
        decided.sections.keys().chain(decided.workspace_sections.keys()).cloned().collect()
    }

    /// Returns whether its file, or `[tool.NAME]`, requires reading the manual before the first call. Any
    /// file may require it: it grants nothing.
    pub(crate) fn manual_first(&self, name: &str) -> bool {
        let decided = self.decided.now();
        let of = [&decided.sections, &decided.workspace_sections];
        of.iter().any(|it| it.get(name).is_some_and(|section| section.manual_first))
            || self.now.load().tools.get(name).is_some_and(|made| made.declaration.is_manual_first())
    }

    /// Returns the texts that the files of these tools add to the system prompt: `NAME: text` each, by bucket
    /// and name, at most 16 KiB in all. Files that a model wrote add nothing.
    pub fn contributions<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let now = self.now.load();
        let made = names.into_iter().filter_map(|name| Some((name, now.tools.get(name)?)));
        let mut found: Vec<_> = made
            .filter(|(_, made)| !made.file.by_model)
            .filter_map(|(name, made)| made.declaration.contribution().map(|it| (it.bucket, name, &it.text)))
            .collect();
        found.sort();
        let mut left = MOST_CONTRIBUTED;
        let mut texts = Vec::new();
        for (_, name, text) in found {
            let line = format!("{name}: {}", visible(text).0);
            let Some(rest) = left.checked_sub(line.len()) else {
                texts.push(format!("{name}: its words for the prompt don't fit; its manual may have them."));
                continue;
            };
            left = rest;
            texts.push(line);
        }
        texts
    }

    fn workspace_manual(&self, name: &str) -> Option<String> {
        let own = self.workspace.join(OWN);
        let is_trusted = |it: &Folder| it.path == own && it.whose == Whose::Workspace;
        if !is_name(name) || !self.decided.now().folders.iter().any(is_trusted) {
            return None;
        }
        let folder = own.with_file_name(MANUALS).canonicalize().ok()?;
        let path = folder.join(format!("{name}.md")).canonicalize().ok()?;
        // A link that leads out of the folder, or to something other than a file, is not a manual.
        if !folder.starts_with(&self.workspace) || !path.starts_with(&folder) || !path.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (!text.trim().is_empty()).then_some(text)
    }
}
