//! The execution of one tool file: what it has of its session's, and what of its own.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::{Execution, Inner, read_only_lock::ReadOnlyLock};
use sandbox::{
    SandboxMode,
    layout::{Access, Mount, What},
    proxy::Hosts,
};

/// What the sandbox of a tool that is a file has beyond that of its session. All paths are absolute; those that do not
/// exist when the sandbox is made are not there.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// The folder it lies in, where it may keep files of its own beside it.
    pub folder: PathBuf,
    /// What in there is code, and can't be changed, beside what looks like code.
    pub code: Vec<PathBuf>,
    /// What else it may read.
    pub read: Vec<PathBuf>,
    /// What else it may change.
    pub write: Vec<PathBuf>,
    /// Variables that it has on top.
    pub env: Vec<(String, String)>,
    /// It is an MCP server, and no file.
    pub is_server: bool,
    /// It may make sockets that are named by a path: there is nobody else where it runs.
    pub unix_sockets: bool,
}

impl Own {
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.folder].into_iter().chain(&self.read).chain(&self.write)
    }
}

impl Execution {
    /// The ground of one tool that is a file: a keeper and a sandbox of its own with what the session's has, and this.
    /// They end when this is dropped. A host that is granted to the session is granted to the tool, but what is granted
    /// to a call of the tool is granted to nobody else.
    pub(crate) fn of_tool(&self, own: Own) -> Self {
        let session = &*self.inner;
        let mut roots = session.roots.clone();
        let open = session.sandbox != SandboxMode::ReadOnly;
        for (path, writable) in
            own.write.iter().map(|it| (it, open)).chain(own.read.iter().map(|it| (it, false)))
        {
            add_root(&mut roots, path, writable);
        }
        self.another(own, roots, session.sandbox, session.hosts.below(), &session.held)
    }

    /// A ground for work of haft's own on what strangers wrote: it sees the machine but nothing of the workspace, changes
    /// `folder` alone, reads what of `read` lies in a root, and reaches these hosts and no other.
    pub(crate) fn apart(
        &self,
        folder: PathBuf,
        read: Vec<PathBuf>,
        hosts: &[String],
        env: Vec<(String, String)>,
    ) -> Self {
        let session = &*self.inner;
        let is_in_a_root = |path: &PathBuf| session.roots.iter().any(|(root, _)| path.starts_with(root));
        let read = read.into_iter().filter(is_in_a_root).map(|path| (path, false));
        let granted = Hosts::default();
        hosts.iter().for_each(|host| granted.grant_lasting(host));
        let sandbox =
            if session.sandbox == SandboxMode::Full { SandboxMode::Full } else { SandboxMode::Workspace };
        let own = Own { env, ..Own::default() };
        // It changes nothing of the workspace, so it goes on where nothing else may.
        self.another(own, read.chain([(folder, true)]).collect(), sandbox, granted, &Arc::default())
    }

    /// The ground of one MCP server: what a tool's has that is a file, but in the sandbox whatever the session's commands
    /// are, and with no folder of its own.
    pub(crate) fn of_server(&self, read: Vec<PathBuf>, write: Vec<PathBuf>) -> Self {
        let session = &*self.inner;
        let mut roots = session.roots.clone();
        let open = session.sandbox != SandboxMode::ReadOnly;
        for (path, writable) in write.iter().map(|it| (it, open)).chain(read.iter().map(|it| (it, false))) {
            add_root(&mut roots, path, writable);
        }
        let sandbox =
            if session.sandbox == SandboxMode::Full { SandboxMode::Workspace } else { session.sandbox };
        let own = Own { read, write, is_server: true, ..Own::default() };
        self.another(own, roots, sandbox, session.hosts.below(), &session.held)
    }

    /// The ground of a browser that shows what strangers wrote: in the sandbox whatever the session's commands are. It
    /// sees the machine but nothing of the workspace, keeps nothing, and reaches these hosts and no other: `public` ones at
    /// public addresses alone. `session_ports`: it also reaches what processes of the session serve.
    pub(crate) fn of_browser(&self, origins: &[String], public: &[String], session_ports: bool) -> Self {
        let mut granted = Hosts::default();
        if session_ports {
            granted = granted.and_session_ports(self.inner.ports.clone());
        }
        origins.iter().for_each(|host| granted.grant_lasting(host));
        public.iter().for_each(|host| granted.grant_lasting_public(host));
        let own = Own { unix_sockets: true, ..Own::default() };
        // It changes nothing that lasts, so it goes on where nothing may be changed.
        self.another(own, Vec::new(), SandboxMode::Workspace, granted, &Arc::default())
    }

    /// The same ground for one more tool, which reads this as well.
    pub(crate) fn reading(&self, folder: PathBuf) -> Self {
        let mut own = self.inner.own.clone().unwrap_or_default();
        own.read.push(folder);
        self.of_tool(own)
    }

    fn another(
        &self,
        own: Own,
        roots: Vec<(PathBuf, bool)>,
        sandbox: SandboxMode,
        hosts: Hosts,
        held: &Arc<ReadOnlyLock>,
    ) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let session = &*self.inner;
        let inner = Inner {
            commands: session.commands.clone(),
            sandbox,
            held: held.clone(),
            roots,
            hidden: session.hidden.clone(),
            session: session.session.clone(),
            spill: session.spill.clone(),
            spilling: session.spilling.clone(),
            hosts,
            ports: Arc::default(),
            approve: session.approve,
            asker: session.asker.clone(),
            allowed: session.allowed.clone(),
            grants: session.grants.clone(),
            own: Some(own),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            confined: tokio::sync::Mutex::default(),
            unconfined: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            appeared: session.appeared.clone(),
            index: session.index.clone(),
            configured: session.configured.clone(),
        };
        let execution = Self { inner: Arc::new(inner) };
        held.holds(&execution);
        execution
    }

    /// These without the right to change what lies beside the tool: rules can't tell its code from its data.
    pub(super) fn without_own_folder(&self, mut mounts: Vec<Mount>) -> Vec<Mount> {
        let folder = self.inner.own.as_ref().and_then(|it| it.folder.canonicalize().ok());
        for mount in
            mounts.iter_mut().filter(|it| folder.as_ref().is_some_and(|folder| it.at.starts_with(folder)))
        {
            if let What::Bind { access, .. } = &mut mount.what {
                *access = Access::Read;
            }
        }
        mounts
    }
}

/// Adds what a person named, unless it is to be had already. Where a link inside a root leads to it, it is not what was
/// named: anybody may have made that link.
fn add_root(roots: &mut Vec<(PathBuf, bool)>, path: &Path, writable: bool) {
    let Ok(real) = path.canonicalize() else { return };
    let of = |path: &Path| {
        roots
            .iter()
            .filter(|(root, _)| path.starts_with(root))
            .max_by_key(|(root, _)| root.components().count())
    };
    let led = real != path && of(path).is_some();
    if !led && of(&real).is_none_or(|it| writable && !it.1) {
        roots.push((real, writable));
    }
}
