//! Client roots: the workspace that an MCP client works in, where no `--dir` named one.
//!
//! GUI clients start their servers in the root or in the home folder. haft requests the roots of a client that offers
//! them once, and its calls wait for the answer. Without a root, calls are refused: nobody meant the whole machine, or
//! the whole home folder. A client's root that is too wide needs the same confirmation as any other start there.

use std::{
    future::Future,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kit::{
    Fault, Kind, Spec,
    services::{Jobs, Soon},
};
use parking_lot::RwLock;
use runtime::{Answer, Call};
use serve::{Abilities, Backend, Changes, Client, Content, Document, Line, Notice, Pattern, Prompt, Subject};
use tokio::sync::{Mutex, broadcast, watch};

use crate::{print, workspace_check::WideFolders};

/// The maximum number of notices that are queued for a client.
const NOTICES: usize = 64;

/// Opens the backend of a workspace, with further roots.
pub(crate) type Open<H> = Box<dyn Fn(PathBuf, Vec<PathBuf>) -> Soon<'static, Result<H, Fault>> + Send + Sync>;

/// A backend that follows the client's workspace.
pub(crate) struct ClientRoots<H> {
    now: RwLock<Arc<H>>,
    /// The reason why there is no workspace; `None` once there is one.
    nowhere: RwLock<Option<String>>,
    /// Held while the client's roots are requested. The mutex is fair, so calls continue in the order of their arrival.
    asking: Mutex<()>,
    started_in: PathBuf,
    wide: WideFolders,
    open: Open<H>,
    // These notify a client, whichever backend it uses.
    tools: Option<watch::Sender<u64>>,
    documents: Option<watch::Sender<u64>>,
    prompts: Option<watch::Sender<u64>>,
    notices: Option<broadcast::Sender<Notice>>,
}

impl<H: Backend> ClientRoots<H> {
    /// Starts with `backend` in the folder that haft was started in, until the client names its roots. Calls in the root
    /// or in the home folder are refused unless a person named them.
    pub(crate) fn new(backend: H, started_in: PathBuf, wide: WideFolders, open: Open<H>) -> Self {
        let changes = backend.changes();
        let channel = |it: &Option<watch::Receiver<u64>>| it.as_ref().map(|_| watch::Sender::new(0));
        let nowhere =
            wide.refused(&started_in).map(|_| "and the client did not say where it works".to_owned());
        let following = Self {
            nowhere: RwLock::new(nowhere),
            tools: channel(&changes.tools),
            documents: channel(&changes.documents),
            prompts: channel(&changes.prompts),
            notices: backend.notices().map(|_| broadcast::Sender::new(NOTICES)),
            now: RwLock::new(Arc::new(backend)),
            asking: Mutex::new(()),
            started_in,
            wide,
            open,
        };
        following.pass_on(&following.now());
        following
    }

    fn now(&self) -> Arc<H> {
        Arc::clone(&self.now.read())
    }

    /// Returns the backend, once the workspace is known.
    async fn known(&self) -> Arc<H> {
        drop(self.asking.lock().await);
        self.now()
    }

    async fn go(&self, workspace: PathBuf, others: Vec<PathBuf>) {
        let shown = workspace.display().to_string();
        match (self.open)(workspace, others).await {
            Ok(backend) => {
                let backend = Arc::new(backend);
                self.pass_on(&backend);
                *self.now.write() = backend;
                *self.nowhere.write() = None;
                // Lists that the client has are outdated.
                for sender in [&self.documents, &self.prompts].into_iter().flatten() {
                    sender.send_modify(|count| *count += 1);
                }
                print::err(&format!("haft: the workspace is {shown}, where the client works"));
            }
            Err(fault) => {
                let why =
                    format!("the client works in {shown}, which can't be the workspace: {}", fault.as_text());
                print::err(&format!("haft: {why}"));
                if let Some(nowhere) = self.nowhere.write().as_mut() {
                    *nowhere = format!("and {why}");
                }
            }
        }
    }

    /// Returns the error of a call while there is no workspace.
    fn refusal(&self) -> Option<Fault> {
        let nowhere = self.nowhere.read();
        Some(no_workspace(&self.started_in, nowhere.as_deref()?))
    }

    /// Passes the notifications of a backend on to the client.
    fn pass_on(&self, backend: &H) {
        let changes = backend.changes();
        let pairs = [
            (changes.tools, &self.tools),
            (changes.documents, &self.documents),
            (changes.prompts, &self.prompts),
        ];
        for (from, to) in pairs {
            let (Some(mut from), Some(to)) = (from, to.clone()) else { continue };
            tokio::spawn(async move {
                while from.changed().await.is_ok() {
                    to.send_modify(|count| *count += 1);
                }
            });
        }
        let (Some(mut from), Some(to)) = (backend.notices(), self.notices.clone()) else { return };
        tokio::spawn(async move {
            loop {
                match from.recv().await {
                    // The client may have no listener.
                    Ok(notice) => drop(to.send(notice)),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        });
    }
}

impl<H: Backend> Backend for ClientRoots<H> {
    async fn met(&self, folders: impl Future<Output = Vec<String>> + Send) {
        let _asking = self.asking.lock().await;
        let folders: Vec<PathBuf> = folders.await.iter().filter_map(|uri| folder_at(uri)).collect();
        let refused = folders.iter().find_map(|it| Some((it, self.wide.refused(it)?)));
        if let (Some((folder, what)), Some(nowhere)) = (refused, self.nowhere.write().as_mut()) {
            *nowhere = format!("and the client works in `{}`, {what}", folder.display());
        }
        if let Some((workspace, others)) = elsewhere(&self.started_in, &self.wide, folders) {
            self.go(workspace, others).await;
        }
    }

    fn specs(&self) -> Vec<Spec> {
        self.now().specs()
    }

    fn has(&self, name: &str) -> bool {
        self.now().has(name)
    }

    async fn find(&self, name: &str) -> bool {
        self.known().await.find(name).await
    }

    fn why_missing(&self, name: &str) -> Option<String> {
        self.now().why_missing(name)
    }

    async fn settled(&self) {
        self.known().await.settled().await;
    }

    fn changes(&self) -> Changes {
        let receiver = |it: &Option<watch::Sender<u64>>| it.as_ref().map(watch::Sender::subscribe);
        Changes {
            tools: receiver(&self.tools),
            documents: receiver(&self.documents),
            prompts: receiver(&self.prompts),
        }
    }

    fn abilities(&self) -> Abilities {
        self.now().abilities()
    }

    fn declares(&self, name: &str) -> bool {
        self.now().declares(name)
    }

    fn notices(&self) -> Option<broadcast::Receiver<Notice>> {
        self.notices.as_ref().map(broadcast::Sender::subscribe)
    }

    fn new_call_id(&self) -> Option<String> {
        self.now().new_call_id()
    }

    async fn call(&self, call: Call, client: Client) -> Answer {
        let backend = self.known().await;
        match self.refusal() {
            None => backend.call(call, client).await,
            Some(fault) => Answer {
                id: call.id.unwrap_or_default(),
                result: Err(fault),
                notes: Vec::new(),
                changes: Vec::new(),
                took: Duration::ZERO,
            },
        }
    }

    fn jobs(&self) -> Option<Arc<dyn Jobs>> {
        self.now().jobs()
    }

    fn promote(&self, call: &str) -> Result<String, Fault> {
        self.now().promote(call)
    }

    fn job_of(&self, call: &str) -> Option<String> {
        self.now().job_of(call)
    }

    fn task_delay(&self, tool: &str) -> Duration {
        self.now().task_delay(tool)
    }

    fn documents(&self) -> Result<Vec<Document>, Fault> {
        self.now().documents()
    }

    fn patterns(&self) -> Vec<Pattern> {
        self.now().patterns()
    }

    async fn read(&self, uri: &str, client: Client) -> Result<Vec<Content>, Fault> {
        self.known().await.read(uri, client).await
    }

    fn watch(&self, uri: &str) -> Option<watch::Receiver<u64>> {
        self.now().watch(uri)
    }

    fn prompts(&self) -> Vec<Prompt> {
        self.now().prompts()
    }

    async fn prompt(
        &self,
        name: &str,
        arguments: Vec<(String, String)>,
        client: Client,
    ) -> Result<Vec<Line>, Fault> {
        self.known().await.prompt(name, arguments, client).await
    }

    fn complete(&self, of: &Subject, argument: &str, begun: &str) -> Vec<String> {
        self.now().complete(of, argument, begun)
    }

    async fn end(&self) {
        self.now().end().await;
    }
}

/// Returns the error for calls without a workspace, with the reason.
pub(crate) fn no_workspace(started_in: &Path, why: &str) -> Fault {
    let shown = started_in.display();
    Fault::new(Kind::Unavailable, format!("there is no workspace: haft was started in `{shown}`, {why}"))
        .next("A person starts it with `--dir FOLDER`, or confirms that folder once at a terminal: `haft chat`, started there.")
}

/// Returns the workspace and further roots of a client that works in these folders, if they differ from `here`. Folders
/// that are too wide are left out.
fn elsewhere(here: &Path, wide: &WideFolders, mut folders: Vec<PathBuf>) -> Option<(PathBuf, Vec<PathBuf>)> {
    folders.retain(|folder| wide.refused(folder).is_none());
    if wide.what(here).is_none() && folders.iter().any(|folder| here.starts_with(folder)) {
        return None;
    }
    let mut folders = folders.into_iter();
    let first = folders.next().filter(|it| it != here)?;
    Some((first, folders.collect()))
}

/// Returns the folder at a `file:` address, if it exists.
fn folder_at(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let decoded = PathBuf::from(std::ffi::OsString::from_vec(decoded(path)?));
    let real = decoded.is_absolute().then(|| decoded.canonicalize().ok())??;
    // Kernel file systems are not workspaces: `/proc/PID/root` leads to the machine's root.
    let made_up = ["/proc", "/sys"].iter().any(|it| real.starts_with(it));
    (real.is_dir() && !made_up).then_some(real)
}

/// Decodes percent escapes such as `%20`; returns `None` if one is invalid.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        };
        decoded.push(byte);
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_s_first_folder_counts_where_haft_was_started_elsewhere() {
        let at = |paths: &[&str]| -> Vec<PathBuf> { paths.iter().map(PathBuf::from).collect() };
        let wide = WideFolders::around(vec![PathBuf::from("/home/me")]);
        for (here, folders, expected) in [
            ("/", &["/p"][..], Some("/p")),
            ("/home/me", &["/p", "/q"], Some("/p")),
            ("/home/me", &["/home/me/p"], Some("/home/me/p")),
            ("/home/me", &["/home/me"], None),
            ("/home/me", &["/home"], None),
            ("/", &["/home/me", "/p"], Some("/p")),
            ("/p", &["/p"], None),
            ("/p/deep", &["/q", "/p"], None),
            ("/other", &["/p"], Some("/p")),
            ("/p", &[], None),
            ("/", &[], None),
            ("/", &["/"], None),
            ("/", &["/", "/p"], Some("/p")),
            ("/other", &["/p", "/"], Some("/p")),
        ] {
            let others = folders
                .iter()
                .filter(|it| !["/", "/home", "/home/me", expected.unwrap_or_default()].contains(*it));
            let expected = expected.map(|first| (PathBuf::from(first), others.map(PathBuf::from).collect()));
            assert_eq!(elsewhere(Path::new(here), &wide, at(folders)), expected, "{here}");
        }
    }

    #[test]
    fn an_address_is_a_folder_only_if_it_is_one_of_this_machine() {
        let dir = tempfile::tempdir().ok().map(tempfile::TempDir::keep).unwrap_or_default();
        let spaced = dir.join("a b%ü");
        assert!(std::fs::create_dir(&spaced).is_ok());
        let uri = format!("file://{}/a%20b%25%C3%BC", dir.display());
        assert_eq!(folder_at(&uri), spaced.canonicalize().ok());
        assert_eq!(folder_at(&uri.replace("file://", "file://localhost")), spaced.canonicalize().ok());
        for uri in [
            "file:///no/such/folder",
            "vscode-remote://x/",
            "file://host/tmp",
            "file:///a%2",
            "file:///etc/passwd",
            "file:///proc/self",
            "/tmp",
        ] {
            assert_eq!(folder_at(uri), None, "{uri}");
        }
        assert!(std::fs::remove_dir_all(dir).is_ok());
    }
}
