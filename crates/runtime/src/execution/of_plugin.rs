//! The execution environment of one tool file: the session's, and its own additions.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::{Execution, Inner, sandbox_lock::SandboxLock};
use sandbox::{
    SandboxMode,
    layout::{Access, Mount, What},
    proxy::Hosts,
};

/// The additions to the sandbox of a tool file, beside the session's. All paths are absolute; those that do
/// not exist when the sandbox is created are not visible.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// The tool's folder, in which it may write files of its own.
    pub folder: PathBuf,
    /// The code files in it, which are protected in addition to files that look like code.
    pub code: Vec<PathBuf>,
    /// Further readable paths.
    pub read: Vec<PathBuf>,
    /// Further writable paths.
    pub write: Vec<PathBuf>,
    /// Further variables.
    pub env: Vec<(String, String)>,
    /// Whether it is an MCP server, not a file.
    pub is_server: bool,
    /// Whether it may create Unix sockets that have a path: it runs alone there.
    pub unix_sockets: bool,
}

/// The user of another execution environment.
pub(super) enum Whose {
    /// A tool file, a server, or haft's own work.
    Tool(Own),
    /// The session's commands, in a preview.
    Preview,
}

impl Own {
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.folder].into_iter().chain(&self.read).chain(&self.write)
    }
}

impl Execution {
    /// Returns the execution environment of one tool file: with its own keeper and sandbox, which end when
    /// the result is dropped. The tool also has the session's hosts, but hosts that are granted to a call of
    /// the tool are granted to nothing else.
    pub(crate) fn of_tool(&self, own: Own) -> Self {
        let session = &*self.inner;
        let mut roots = session.roots.clone();
        let open = session.sandbox != SandboxMode::ReadOnly;
        for (path, writable) in
            own.write.iter().map(|it| (it, open)).chain(own.read.iter().map(|it| (it, false)))
        {
            add_root(&mut roots, path, writable);
        }
        self.another(Whose::Tool(own), roots, session.sandbox, session.hosts.below(), &session.held)
    }

    /// Returns an execution environment for haft's own work on untrusted data. It sees the machine but not
    /// the workspace, writes only `folder`, reads those paths of `read` that are in a root, and contacts only
    /// these hosts.
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
        // It changes nothing in the workspace, so it works in read-only mode too.
        self.another(
            Whose::Tool(own),
            read.chain([(folder, true)]).collect(),
            sandbox,
            granted,
            &Arc::default(),
        )
    }

    /// Returns the execution environment of one MCP server: like that of a tool file, but always in the
    /// sandbox, and without a folder of its own.
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
        self.another(Whose::Tool(own), roots, sandbox, session.hosts.below(), &session.held)
    }

    /// Returns the execution environment of hooks: always in the sandbox, and without `write` with nothing that
    /// they can change. `read` is what they read outside the workspace.
    pub(crate) fn of_hook(&self, read: Vec<PathBuf>, write: bool) -> Self {
        let session = &*self.inner;
        let mut roots = session.roots.clone();
        roots.iter_mut().for_each(|(_, writable)| *writable &= write);
        read.iter().for_each(|path| add_root(&mut roots, path, false));
        let sandbox = match session.sandbox {
            _ if !write => SandboxMode::ReadOnly,
            SandboxMode::Full => SandboxMode::Workspace,
            sandbox => sandbox,
        };
        let own = Own { read, ..Own::default() };
        self.another(Whose::Tool(own), roots, sandbox, session.hosts.below(), &session.held)
    }

    /// Returns the execution environment of a browser that shows untrusted pages. It is always in the
    /// sandbox. It sees the machine but not the workspace, stores nothing, and contacts only these hosts:
    /// `public` ones at public addresses only. With `session_ports` it also contacts servers that the session
    /// started.
    pub(crate) fn of_browser(&self, origins: &[String], public: &[String], session_ports: bool) -> Self {
        let mut granted = Hosts::default();
        if session_ports {
            granted = granted.and_session_ports(self.inner.ports.clone());
        }
        origins.iter().for_each(|host| granted.grant_lasting(host));
        public.iter().for_each(|host| granted.grant_lasting_public(host));
        let own = Own { unix_sockets: true, ..Own::default() };
        // It changes nothing that lasts, so it works in read-only mode too.
        self.another(Whose::Tool(own), Vec::new(), SandboxMode::Workspace, granted, &Arc::default())
    }

    /// Returns this execution environment for one more tool, which can also read `folder`.
    pub(crate) fn reading(&self, folder: PathBuf) -> Self {
        let mut own = self.inner.own.clone().unwrap_or_default();
        own.read.push(folder);
        self.of_tool(own)
    }

    pub(super) fn another(
        &self,
        whose: Whose,
        roots: Vec<(PathBuf, bool)>,
        sandbox: SandboxMode,
        hosts: Hosts,
        held: &Arc<SandboxLock>,
    ) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let session = &*self.inner;
        let (own, preview) = match whose {
            Whose::Tool(own) => (Some(own), false),
            Whose::Preview => (None, true),
        };
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
            tracks: session.tracks.clone(),
            opener: session.opener.clone(),
            is_untracked: std::sync::atomic::AtomicBool::new(false),
            own,
            preview,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            confined: tokio::sync::Mutex::default(),
            unconfined: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            appeared: session.appeared.clone(),
            index: session.index.clone(),
            configured: session.configured.clone(),
        };
        let execution = Self { inner: Arc::new(inner), call: None };
        held.holds(&execution);
        execution
    }

    /// Makes the mounts of the tool's own folder read-only: Landlock rules can't distinguish its code from
    /// its data.
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

/// Adds a path that a person named, unless it is available already. Ignores a symlink inside a root that
/// leads there: a command may have created it.
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
