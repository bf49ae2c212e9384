//! Hooks in effect: those of the person's own configuration, and those of a workspace that the person trusts.

use std::path::Path;

use runtime::{
    config::{CLAUDE, CLAUDE_SETTINGS, Config, FILE, another_text, has_hooks, text_of_another},
    hooks::{Found, Hook, Hooks, Whose, in_settings},
};

use super::Options;
use crate::environment::Place;

/// The hooks in effect, and a line for each that is ignored.
#[derive(Debug, Default)]
pub(crate) struct HooksFound {
    pub(crate) hooks: Hooks,
    pub(crate) aside: Vec<String>,
    /// A line for each event of Claude Code that haft does not have.
    pub(crate) unknown: Vec<String>,
}

impl Options {
    /// Finds the hooks of this workspace; none of the person's own, if their configuration can't be read.
    pub(crate) fn hooks_of(&self, place: &Place, workspace: &Path) -> HooksFound {
        let home = place.home();
        let (mut list, mut aside, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        let own_file = place.config.join(FILE);
        // A broken file is reported elsewhere; everything is read-only then, and no hook could widen that.
        let own = Config::read(&own_file);
        let is_broken = own.is_err();
        let own = own.unwrap_or_default();
        let (claude, write) = (own.claude_hooks, own.claude_hooks_write);
        let file = own_file.display().to_string();
        let found = Found { whose: Whose::Person, file: &file, workspace, home: &home, claude_names: false };
        for section in own.hook {
            match Hook::new(section, found) {
                Ok(hook) => list.push(hook),
                Err(fault) => aside.push(format!("{file}: {}", fault.what)),
            }
        }
        if claude {
            let path = home.join(CLAUDE).join("settings.json");
            let file = path.display().to_string();
            let found = Found { file: &file, claude_names: true, ..found };
            match another_text(&path) {
                Ok(text) => {
                    let it = in_settings(text.as_deref().unwrap_or("{}"), found, write);
                    list.extend(it.hooks);
                    aside.extend(it.aside);
                    unknown.extend(it.unknown);
                }
                Err(error) => aside.push(format!("{file} can't be read, so its hooks don't run: {error}")),
            }
        }
        let files = self.config_folder(workspace);
        if !has_hooks(files) {
            return HooksFound { hooks: Hooks::new(list), aside, unknown };
        }
        if is_broken || !self.trusts_hooks(place, workspace) {
            aside.push(
                "the workspace's hooks are ignored until you run `haft trust`: you have not trusted them, or they or a \
                 file that they run have changed"
                    .to_owned(),
            );
            return HooksFound { hooks: Hooks::new(list), aside, unknown };
        }
        let found = Found { whose: Whose::Workspace, file: FILE, ..found };
        // A broken file is reported elsewhere.
        for section in Config::read_workspace(files).map(|it| it.hook).unwrap_or_default() {
            match Hook::new(section, found) {
                Ok(hook) => list.push(hook),
                Err(fault) => aside.push(format!("{FILE}: {}", fault.what)),
            }
        }
        for name in CLAUDE_SETTINGS {
            let file = format!("{CLAUDE}/{name}");
            match text_of_another(files, CLAUDE, name) {
                Ok(text) => {
                    let found = Found { file: &file, claude_names: true, ..found };
                    let it = in_settings(text.as_deref().unwrap_or("{}"), found, write);
                    list.extend(it.hooks);
                    aside.extend(it.aside);
                    unknown.extend(it.unknown);
                }
                Err(error) => aside.push(format!("{file} can't be read, so its hooks don't run: {error}")),
            }
        }
        HooksFound { hooks: Hooks::new(list), aside, unknown }
    }
}
