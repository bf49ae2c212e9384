//! A sender with a workspace and a session, and a worker's folder.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kit::{effect::Scope, redact::Secrets, services::Which};
use policy::{Approve, Policy};
use runtime::{Approver, Request, Runtime, Session, Settings, Unattended, Verdict};
use snapshots::{Cache, Fate, Landing, Manifest, Patch, Source, land, materialize, take};
use store::undo::Scope as UndoScope;
use tokio_util::sync::CancellationToken;

pub(crate) const SECRET: &str = "s3cret-Value-91c4";

pub(crate) struct Sender {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) session: Session,
    /// Stands for the engine.
    pub(crate) blobs: Cache,
}

/// A person who answers each question alike.
pub(crate) struct Person(pub(crate) bool, pub(crate) parking_lot::Mutex<Vec<Request>>);

impl Approver for Person {
    fn approve(&self, request: Request) -> std::pin::Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        self.1.lock().push(request);
        Box::pin(async { if self.0 { Verdict::Yes(Scope::Once) } else { Verdict::No } })
    }
}

impl Sender {
    pub(crate) fn new() -> Self {
        Self::with(tempfile::tempdir().unwrap(), Policy::default(), Arc::new(Unattended))
    }

    pub(crate) fn asking(approve: Approve, person: Arc<Person>) -> Self {
        Self::with(tempfile::tempdir().unwrap(), Policy { approve, ..Policy::default() }, person)
    }

    pub(crate) fn with(dir: tempfile::TempDir, policy: Policy, approver: Arc<dyn Approver>) -> Self {
        let session = session(dir.path(), policy, approver);
        let blobs = Cache::new(dir.path().join("engine"));
        Self { dir, session, blobs }
    }

    pub(crate) fn ws(&self) -> PathBuf {
        self.dir.path().join("ws")
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        write(&self.ws().join(path), content);
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.ws().join(path)).unwrap()
    }

    pub(crate) fn take(&self) -> Manifest {
        take(&Source::workspace(self.session.runtime()), &self.blobs).unwrap()
    }

    /// Makes the snapshot in a new folder, as a worker does.
    pub(crate) fn worker(&self, manifest: &Manifest) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let manifest = Manifest::from_bytes(&manifest.to_bytes()).unwrap();
        let cache = Cache::new(self.dir.path().join("cache"));
        materialize(&manifest, &self.blobs, &cache, folder.path()).unwrap();
        folder
    }

    pub(crate) fn patch(&self, manifest: &Manifest, worker: &Path) -> Patch {
        let source = Source::folder(worker, |text| text.contains(SECRET)).unwrap();
        let patch = Patch::between(manifest, &source, &self.blobs).unwrap();
        Patch::from_bytes(&patch.to_bytes()).unwrap()
    }

    pub(crate) async fn land(&self, patch: &Patch) -> Landing {
        land(&self.session, patch, Arc::new(self.blobs.clone()), &CancellationToken::new()).await.unwrap()
    }

    /// Undoes the newest call, as `haft undo` does.
    pub(crate) async fn undo(&self) -> String {
        self.undo_which(Which::Last).await
    }

    /// Undoes this call.
    pub(crate) async fn undo_call(&self, call: &str) -> String {
        self.undo_which(Which::Call(call.to_owned())).await
    }

    async fn undo_which(&self, which: Which) -> String {
        let runtime = self.session.runtime().clone();
        let work = move || {
            let call = runtime.store().call_id();
            let undo = runtime.undo("cli", &call, UndoScope::Workspace);
            undo.undo(which).map_or_else(|fault| panic!("{}", fault.as_text()), |it| it.as_text())
        };
        tokio::task::spawn_blocking(work).await.unwrap()
    }
}

pub(crate) fn session(dir: &Path, policy: Policy, approver: Arc<dyn Approver>) -> Session {
    fs::create_dir_all(dir.join("ws")).unwrap();
    let settings = Settings {
        network: Default::default(),
        tool_files: Default::default(),
        workspace: dir.join("ws"),
        roots: Vec::new(),
        state: dir.join("state"),
        config: dir.join("config"),
        policy,
        other_names: kit::files::OtherNames::Refuse,
        allowed: None,
        deadline: Duration::from_secs(60),
        secrets: Secrets::collect([("SOME_TOKEN", SECRET)], []),
        commands: runtime::Commands::default(),
    };
    Runtime::open(settings, Vec::new()).unwrap().session(None, "test", approver)
}

pub(crate) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn link(target: &str, at: &Path) {
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    symlink(target, at).unwrap();
}

/// The fates as one line per file: `landed a`.
pub(crate) fn fates(landing: &Landing) -> Vec<String> {
    let line = |it: &snapshots::Landed| {
        let fate = match &it.fate {
            Fate::Landed => "landed",
            Fate::Already => "already",
            Fate::Refused(_) => "refused",
        };
        format!("{fate} {}", it.path)
    };
    landing.files.iter().map(line).collect()
}

/// All files below a folder, but `.git`: content with the executable bit, or a symlink's target.
pub(crate) fn tree(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let about = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
            if about.is_dir() {
                if entry.file_name() != ".git" {
                    open.push(path);
                }
            } else if about.is_symlink() {
                found.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
            } else {
                let bit = if about.permissions().mode() & 0o100 == 0 { "" } else { "x:" };
                found.insert(name, format!("{bit}{}", String::from_utf8_lossy(&fs::read(&path).unwrap())));
            }
        }
    }
    found
}
