//! Tool sources: the tool files and MCP servers that the configuration in effect names, with their permissions.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use runtime::{
    config::{Config, DOT_MCP, FILE, Tables, ToolSection, parse_path, servers_text},
    mcp_client::{Server, configured, granted, imported},
    plugins::{Folder, OWN, ToolFiles, Whose},
};

use super::Options;
use crate::environment::Place;

impl Options {
    pub(super) fn tool_files_of(
        &self,
        place: &Place,
        workspace: &Path,
        config: &mut Config,
        toolset: &str,
    ) -> (ToolFiles, Vec<String>) {
        let trusted = self.trusts_tools(place, workspace);
        let whose = if trusted { Whose::Workspace } else { Whose::Untrusted };
        let home = place.home();
        let resolved = |sections: BTreeMap<String, ToolSection>| {
            let path = |it: &mut PathBuf| *it = parse_path(it, &home);
            let of_tool = |(name, mut section): (String, ToolSection)| {
                section.read.iter_mut().chain(&mut section.write).for_each(path);
                (name, section)
            };
            sections.into_iter().map(of_tool).collect()
        };
        let (servers, unused) = self.servers(place, workspace, config);
        let (folders, mut refused) = tool_folders(place, workspace, &config.tools_dirs, whose);
        refused.extend(unused);
        let sections = std::mem::take(&mut config.sections);
        let files = ToolFiles {
            folders,
            servers,
            vouched_now: self.trust && self.frozen.is_none(),
            attested: self.frozen.as_ref().map(|it| it.frozen.attested.clone()).unwrap_or_default(),
            sections: resolved(sections.user),
            workspace_sections: resolved(sections.workspace),
            // It is navi's word; with haft's own tools a profile's list is the whole list.
            enables: toolset != tools::HAFT,
        };
        (files, refused)
    }

    /// Returns the MCP servers that haft may use, a person's own first; and a line for each that it may not.
    fn servers(&self, place: &Place, workspace: &Path, config: &mut Config) -> (Vec<Server>, Vec<String>) {
        let Tables { user: mine, workspace: theirs } = std::mem::take(&mut config.servers);
        let (whole, grants): (BTreeMap<_, _>, BTreeMap<_, _>) =
            mine.into_iter().partition(|(_, section)| section.is_whole());
        let file = place.config.join(FILE);
        let own = whole.iter().map(|(name, section)| configured(name, section, Whose::Person, &file));
        let of_workspace =
            theirs.iter().map(|(name, section)| configured(name, section, Whose::Workspace, Path::new(FILE)));
        let (mut servers, mut aside) = (self.servers.clone(), Vec::new());
        for server in own.chain(of_workspace) {
            match server {
                Ok(server) => servers.push(server),
                Err(why) => aside.push(why),
            }
        }
        match servers_text(self.config_folder(workspace)) {
            Ok(None) => {}
            Ok(Some(text)) if imported(&text) == (Vec::new(), Vec::new()) => {}
            Ok(Some(_)) if !self.trusts_servers(place, workspace) => {
                aside.push(format!("the servers in {DOT_MCP} are ignored until you run `haft trust`"));
            }
            Ok(Some(text)) => {
                let (named, wrong) = imported(&text);
                servers.extend(named);
                aside.extend(wrong);
            }
            Err(error) => aside.push(format!("{DOT_MCP} can't be read: {error}")),
        }
        let home = place.home();
        for server in &mut servers {
            if let Some(mine) = grants.get(&server.name).filter(|_| server.whose == Whose::Workspace) {
                *server = granted(server.clone(), mine);
            }
            let section = &mut server.section;
            for path in section.read.iter_mut().chain(&mut section.write).chain(&mut section.cwd) {
                *path = parse_path(path, &home);
            }
        }
        (servers, aside)
    }
}

/// Returns the folders of tool files, in the order in which names are resolved; and a line for each configured folder
/// that is refused.
pub(crate) fn tool_folders(
    place: &Place,
    workspace: &Path,
    more: &[PathBuf],
    whose: Whose,
) -> (Vec<Folder>, Vec<String>) {
    let home = place.home();
    let control = workspace.join(OWN).parent().map(Path::to_owned).unwrap_or_default();
    let mut folders = vec![Folder { path: place.config.join("tools"), whose: Whose::Person }];
    let mut refused = Vec::new();
    let own = workspace.join(OWN);
    for path in more.iter().map(|path| parse_path(path, &home)).chain([own]) {
        let real = path.canonicalize();
        let names = || [Some(&path), real.as_ref().ok()].into_iter().flatten();
        // A folder in the workspace belongs to the workspace, whatever path leads there.
        let inside = names().any(|it| it.starts_with(workspace));
        if inside && !names().all(|it| it.starts_with(&control)) && path != workspace.join(OWN) {
            refused.push(format!(
                "`tools_dirs` names {}, which any command in the workspace may change, so haft loads no tools from it: \
                 put them below .haft, which commands can't change",
                path.strip_prefix(workspace).unwrap_or(&path).display()
            ));
            continue;
        }
        let folder = Folder { path, whose: if inside { whose } else { Whose::Person } };
        if !folders.iter().any(|it| it.path == folder.path) {
            folders.push(folder);
        }
    }
    (folders, refused)
}
