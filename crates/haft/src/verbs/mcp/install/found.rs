//! MCP clients on this machine: lists them, and the files in which haft is installed.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;

use super::{
    NAME,
    clients::{ClientName, Scope},
    file::File,
    starts_haft,
};
use crate::Place;

/// A client that haft knows.
pub(crate) struct Client {
    /// The name that `haft mcp install` takes.
    pub(crate) name: String,
    /// The display name.
    pub(crate) title: &'static str,
    /// Whether it is on this machine, or was.
    pub(crate) is_there: bool,
    /// The file in which haft is installed: the user's own, else the workspace's.
    pub(crate) installed: Option<PathBuf>,
    /// The reason that its state is unknown.
    pub(crate) problem: Option<String>,
}

/// Looks for all clients, and for haft in their files.
pub(crate) fn clients(place: &Place, workspace: &Path) -> Vec<Client> {
    ClientName::value_variants().iter().map(|it| client(*it, place, workspace)).collect()
}

fn client(client: ClientName, place: &Place, workspace: &Path) -> Client {
    let (mut installed, mut problem) = (None, None);
    for scope in [Scope::User, Scope::Project(workspace)] {
        // Not every client has a file for a project.
        let Ok(path) = client.file(scope, place) else { continue };
        match is_installed(client, &path) {
            Ok(true) => installed = installed.or(Some(path)),
            Ok(false) => {}
            Err(why) => problem = problem.or(Some(format!("{}: {why}", path.display()))),
        }
    }
    let name = client.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default();
    Client { name, title: client.title(), is_there: client.is_there(place), installed, problem }
}

/// Returns whether this file has an entry that leads to haft.
///
/// # Errors
/// When the file can't be read, or its entry `haft` is another server.
fn is_installed(client: ClientName, path: &Path) -> Result<bool, String> {
    let file = File::read(path).map_err(|fault| fault.what)?;
    let whole = client.format().read(file.text())?;
    let Some(entry) = whole.get(client.key()).and_then(|it| it.get(NAME)) else { return Ok(false) };
    let is_elsewhere = entry.get("url").or(entry.get("httpUrl")).is_some();
    if starts_haft(entry) || is_elsewhere {
        return Ok(true);
    }
    Err(format!("it has another server named `{NAME}`"))
}
