//! Client roots: the workspace that an MCP client works in, where no `--dir` named one.
//!
//! Programs with windows start their servers in the root or in the home folder. A client that offers its roots is asked
//! for them once, and what it calls waits for its answer. Without one, nothing is called there: nobody meant the whole
//! machine, or all that a person has. A client's root that is too wide needs the same confirmation as any other start there.

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

/// As many notices may wait for a client.
const NOTICES: usize = 64;

/// Opens the hands in a workspace, with further roots.
pub(crate) type Open<H> = Box<dyn Fn(PathBuf, Vec<PathBuf>) -> Soon<'static, Result<H, Fault>> + Send + Sync>;

/// Hands that go where the client works.
pub(crate) struct ClientRoots<H> {
    now: RwLock<Arc<H>>,
    /// Why there is no folder to work in, while there is none.
    nowhere: RwLock<Option<String>>,
    /// Whoever is asking where the client works holds it. It is fair, so calls go on in the order in which they came.
    asking: Mutex<()>,
    started_in: PathBuf,
    wide: WideFolders,
    open: Open<H>,
    // A client hears by these whichever hands it has.
    tools: Option<watch::Sender<u64>>,
    documents: Option<watch::Sender<u64>>,
    prompts: Option<watch::Sender<u64>>,
    notices: Option<broadcast::Sender<Notice>>,
}

impl<H: Backend> ClientRoots<H> {
    /// `hands` in the folder that haft was started in, until a client says that it works elsewhere. What is called in the
    /// root or in the home folder is refused, where nobody named them.
    pub(crate) fn new(hands: H, started_in: PathBuf, wide: WideFolders, open: Open<H>) -> Self {
        let changes = hands.changes();
        let channel = |it: &Option<watch::Receiver<u64>>| it.as_ref().map(|_| watch::Sender::new(0));
        let nowhere =
            wide.refused(&started_in).map(|_| "and the client did not say where it works".to_owned());
        let following = Self {
            nowhere: RwLock::new(nowhere),
            tools: channel(&changes.tools),
            documents: channel(&changes.documents),
            prompts: channel(&changes.prompts),
            notices: hands.notices().map(|_| broadcast::Sender::new(NOTICES)),
            now: RwLock::new(Arc::new(hands)),
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

    /// The hands, once it is known where.
    async fn known(&self) -> Arc<H> {
        drop(self.asking.lock().await);
        self.now()
    }

    async fn go(&self, workspace: PathBuf, others: Vec<PathBuf>) {
        let shown = workspace.display().to_string();
        match (self.open)(workspace, others).await {
            Ok(hands) => {
                let hands = Arc::new(hands);
                self.pass_on(&hands);
                *self.now.write() = hands;
                *self.nowhere.write() = None;
                // What was listed before is no longer what there is.
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

    /// Why nothing is called, while there is nowhere to work.
    fn refusal(&self) -> Option<Fault> {
        let nowhere = self.nowhere.read();
        Some(no_workspace(&self.started_in, nowhere.as_deref()?))
    }

    /// What changes there is told here.
    fn pass_on(&self, hands: &H) {
        let changes = hands.changes();
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
        let (Some(mut from), Some(to)) = (hands.notices(), self.notices.clone()) else { return };
        tokio::spawn(async move {
            loop {
                match from.recv().await {
                    // Whether somebody listens is no matter here.
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
        let hands = self.known().await;
        match self.refusal() {
            None => hands.call(call, client).await,
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

    fn patience(&self, tool: &str) -> Duration {
        self.now().patience(tool)
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

/// What a client is told whose calls have nowhere to work, and why that is.
pub(crate) fn no_workspace(started_in: &Path, why: &str) -> Fault {
    let shown = started_in.display();
    Fault::new(Kind::Unavailable, format!("there is no workspace: haft was started in `{shown}`, {why}"))
        .next("A person starts it with `--dir FOLDER`, or confirms that folder once at a terminal: `haft chat`, started there.")
}

/// The workspace and further roots of a client that works in these folders, where that is elsewhere than `here`. Folders
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

/// The folder at such an address, if there is one.
fn folder_at(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let decoded = PathBuf::from(std::ffi::OsString::from_vec(decoded(path)?));
    let real = decoded.is_absolute().then(|| decoded.canonicalize().ok())??;
    // What the kernel makes up is nobody's folder: a process's own has the machine's root in it.
    let made_up = ["/proc", "/sys"].iter().any(|it| real.starts_with(it));
    (real.is_dir() && !made_up).then_some(real)
}

/// `%20` is a space; none where what follows a `%` is not a byte.
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
