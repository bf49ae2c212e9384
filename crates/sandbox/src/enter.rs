//! Entering the sandbox: namespaces, mounts, Landlock and seccomp, in this order.
//!
//! In two steps. The first leaves the machine's namespaces and starts a child, the first process of its own
//! PID namespace. The second, in that child, builds the new root from the layout, moves into it, and drops
//! every right with which it could undo that. Each failure is reported: nothing is left out silently.

mod overlay;

use std::{
    ffi::{CString, OsStr},
    fs, io,
    net::{Ipv4Addr, TcpListener},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Component, Path, PathBuf},
    process::ExitCode,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat},
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
        UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_change,
        move_mount, open_tree, unmount,
    },
    process::{WaitOptions, pivot_root},
    thread::UnshareFlags,
};

use super::{
    filter::{self, Sockets},
    layout::{Access, Mount, What, writable},
    limits,
    plan::{Part, Plan, Trouble},
    ruleset::{self, Enforced},
};

/// The result of the first step.
pub(super) enum Side {
    /// This is the child, the first process of the namespace.
    Inside,
    /// This is the process that haft started; its child has ended like this.
    Outside(ExitCode),
}

/// Leaves the machine's namespaces. Returns twice: in the child at once, in this process when the child has ended.
pub(super) fn leave(give_up: impl FnOnce()) -> Result<Side, Trouble> {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    // Root drops its supplementary groups; other users can't.
    if user == 0 {
        let _ = rustix::thread::set_thread_groups(&[]);
    }
    let all = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    unshare(all).at(Part::Namespaces, "unshare")?;
    fs::write("/proc/self/setgroups", "deny").at(Part::Namespaces, "setgroups")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1")).at(Part::Namespaces, "uid_map")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1")).at(Part::Namespaces, "gid_map")?;
    match fork().at(Part::Namespaces, "fork")? {
        None => {
            // The process outside has one thread, which forked, so this signal covers all of it.
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
                .at(Part::Namespaces, "the parent's death")?;
            Ok(Side::Inside)
        }
        Some(child) => {
            // The end of haft ends the child; this process cleans up afterwards.
            outlive_signals();
            // The other end of the socket has to notice when the child ends.
            give_up();
            let ended =
                rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(child), WaitOptions::empty()));
            let code = ended
                .ok()
                .flatten()
                .and_then(|(_, status)| status.exit_status())
                .and_then(|it| u8::try_from(it).ok());
            Ok(Side::Outside(ExitCode::from(code.unwrap_or(u8::MAX))))
        }
    }
}

/// Builds the new root, moves into it, and closes every way back. Returns the socket on which the commands'
/// proxy listens, and the folder with the changes to overlays, if there are any.
pub(super) fn settle(plan: &Plan) -> Result<(TcpListener, Option<OwnedFd>), Trouble> {
    let uppers = build(&plan.mounts)?;
    loopback_up().at(Part::Namespaces, "the loopback device")?;
    let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).at(Part::Namespaces, "the proxy's socket")?;
    limits::keep_counts_of_user().at(Part::Namespaces, "the limits of /proc/sys/user")?;
    plan.limits.set_processes_of_namespace().at(Part::Namespaces, "pid_max")?;
    set_attributes(&open_path("/proc")?, MountAttrFlags::MOUNT_ATTR_RDONLY)
        .at(Part::Namespaces, "/proc read-only")?;
    confine(plan, None)?;
    Ok((proxy, uppers))
}

/// Does the remaining steps in namespaces that bubblewrap made.
pub(super) fn settle_wrapped(plan: &Plan) -> Result<TcpListener, Trouble> {
    // A program that started this by mistake has made no namespaces.
    if !rustix::process::getpid().is_init() {
        let error = "this is not the first process of a namespace".to_owned();
        return Err(Trouble { part: Part::Namespaces, step: "bubblewrap".to_owned(), error });
    }
    let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).at(Part::Namespaces, "the proxy's socket")?;
    confine(plan, None)?;
    Ok(proxy)
}

/// Confines without namespaces: by Landlock rules, which then cover reading too, and without any sockets.
pub(super) fn settle_outside(plan: &Plan) -> Result<(), Trouble> {
    let hidden = plan.mounts.iter().filter(|mount| matches!(mount.what, What::Hidden { .. }));
    let hidden: Vec<&Path> = hidden.map(|mount| mount.at.as_path()).collect();
    let mut readable = Vec::new();
    for mount in &plan.mounts {
        match mount.what {
            What::Bind { access: Access::Read, .. } => all_but(&mount.at, &hidden, &mut readable),
            What::Bind { .. } | What::Processes => readable.push(mount.at.clone()),
            What::Private { .. }
            | What::Hidden { .. }
            | What::Link(_)
            | What::Text(_)
            | What::Terminals
            | What::Overlay { .. }
            | What::Pinned => {}
        }
    }
    confine(plan, Some(&readable))
}

/// Adds everything but the hidden paths. Rules can only add: a folder with a hidden file is given entry by entry.
fn all_but(path: &Path, hidden: &[&Path], given: &mut Vec<PathBuf>) {
    if hidden.contains(&path) {
        return;
    }
    if !hidden.iter().any(|it| it.starts_with(path)) {
        given.push(path.to_owned());
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        all_but(&entry.path(), hidden, given);
    }
}

fn confine(plan: &Plan, readable: Option<&[PathBuf]>) -> Result<(), Trouble> {
    join_new_keyring();
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .at(Part::Namespaces, "dumpable")?;
    rustix::thread::set_no_new_privs(true).at(Part::Seccomp, "no_new_privs")?;
    drop_capabilities().at(Part::Namespaces, "capabilities")?;
    let mut places = writable(&plan.mounts);
    let apart = readable.is_none();
    if !apart {
        places.retain(|it| it.starts_with("/dev") || plan.is_root(it));
        places.extend(plan.scratch.clone());
    }
    let enforced = ruleset::apply(&places, readable).map_err(|error| Trouble {
        part: Part::Landlock,
        step: "the rules of Landlock".to_owned(),
        error: error.to_string(),
    })?;
    let missing = match enforced {
        Enforced::Nothing => Some(Part::Landlock),
        // Processes of one PID namespace may signal each other anyway.
        Enforced::Files if !apart => Some(Part::Signals),
        Enforced::Files | Enforced::All => None,
    };
    if let Some(part) = missing
        && !plan.accepts(part)
    {
        let error = format!("this kernel has version {} of Landlock", ruleset::landlock_version());
        return Err(Trouble { part, step: "the rules of Landlock".to_owned(), error });
    }
    let sockets = match (apart, plan.unix_sockets) {
        (false, _) => Sockets::Pairs,
        (true, false) => Sockets::Internet,
        (true, true) => Sockets::InternetAndUnix,
    };
    match filter::apply(sockets) {
        Err(_) if plan.accepts(Part::Seccomp) => Ok(()),
        applied => applied.at(Part::Seccomp, "the filter of system calls"),
    }
}

/// Adds the step to an error.
trait At<T> {
    fn at(self, part: Part, step: &str) -> Result<T, Trouble>;
}

impl<T, E: std::fmt::Display> At<T> for Result<T, E> {
    fn at(self, part: Part, step: &str) -> Result<T, Trouble> {
        self.map_err(|error| Trouble { part, step: step.to_owned(), error: error.to_string() })
    }
}

/// A mount that exists but is not attached yet.
struct DetachedMount<'a> {
    mount: &'a Mount,
    tree: Option<OwnedFd>,
}

/// Builds the new root. Every source is opened before the first step inside, so no path is looked up in a
/// tree that is half old and half new. Returns the folder with the changes to overlays, if there are any.
fn build(mounts: &[Mount]) -> Result<Option<OwnedFd>, Trouble> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .at(Part::Namespaces, "private mounts")?;
    let mut held = Vec::new();
    for mount in mounts {
        let tree = hold(mount).at(Part::Namespaces, &format!("the mount of {}", mount.at.display()))?;
        if let Some(tree) = tree {
            held.push(DetachedMount { mount, tree });
        }
    }
    let root = private(16 << 20, 0o755).at(Part::Namespaces, "the new root")?;
    let spot = ["/tmp", "/usr", "/proc"].into_iter().find(|it| Path::new(it).is_dir()).unwrap_or("/");
    let uppers = overlay::mount(&mut held, spot)?;
    move_mount(root.as_fd(), "", CWD, spot, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .at(Part::Namespaces, "the new root")?;
    rustix::process::fchdir(&root).at(Part::Namespaces, "the new root")?;
    pivot_root(".", ".").at(Part::Namespaces, "pivot_root")?;
    // The old root is mounted over the new one now.
    unmount(".", UnmountFlags::DETACH).at(Part::Namespaces, "leaving the old root")?;
    rustix::process::chdir("/").at(Part::Namespaces, "the new root")?;
    let scratch = Scratch::attach(&root, mounts).at(Part::Namespaces, "the private folders")?;
    for one in &held {
        place(&root, one, scratch.as_ref())
            .at(Part::Namespaces, &format!("the mount of {}", one.mount.at.display()))?;
    }
    if let Some(scratch) = scratch {
        scratch.detach(&root).at(Part::Namespaces, "the private folders")?;
    }
    for one in &held {
        if let (What::Private { sealed: true, .. } | What::Hidden { folder: true, .. }, Some(tree)) =
            (&one.mount.what, &one.tree)
        {
            set_attributes(tree, MountAttrFlags::MOUNT_ATTR_RDONLY)
                .at(Part::Namespaces, &format!("sealing {}", one.mount.at.display()))?;
        }
    }
    set_attributes(&root, MountAttrFlags::MOUNT_ATTR_RDONLY).at(Part::Namespaces, "sealing the new root")?;
    Ok(uppers)
}

/// The file system of all private folders that share a limit, while they are placed: each is a folder of it.
/// It is attached meanwhile, as older kernels can't bind-mount a detached one.
struct Scratch {
    files: OwnedFd,
}

impl Scratch {
    /// Its temporary mount point.
    const NAME: &str = ".scratch";

    /// Attaches it; `None`, if no folder shares a limit.
    fn attach(root: &OwnedFd, mounts: &[Mount]) -> io::Result<Option<Self>> {
        let bytes = mounts.iter().find_map(|mount| match mount.what {
            What::Private { bytes, shared: true, .. } => Some(bytes),
            _ => None,
        });
        let Some(bytes) = bytes else { return Ok(None) };
        let files = private(bytes, 0o700)?;
        mkdirat(root, Self::NAME, Mode::from(0o700))?;
        let target = below(root, Path::new(Self::NAME))?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&files, "", &target, "", flags)?;
        Ok(Some(Self { files }))
    }

    /// Returns one of its folders as a detached mount.
    fn folder(&self, at: &Path, mode: u32) -> io::Result<OwnedFd> {
        let name = at.as_os_str().as_encoded_bytes().escape_ascii().to_string().replace('/', "=");
        mkdirat(&self.files, &name, Mode::from(mode))?;
        // The umask must not apply here.
        rustix::fs::chmodat(&self.files, &name, Mode::from(mode), AtFlags::empty())?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        Ok(open_tree(&self.files, &name, flags)?)
    }

    /// Detaches it: only the folders stay reachable.
    fn detach(self, root: &OwnedFd) -> io::Result<()> {
        unmount(format!("/{}", Self::NAME), UnmountFlags::DETACH)?;
        Ok(rustix::fs::unlinkat(root, Self::NAME, AtFlags::REMOVEDIR)?)
    }
}

/// Creates a detached mount; `None` if its source has been deleted since the layout was planned.
fn hold(mount: &Mount) -> io::Result<Option<Option<OwnedFd>>> {
    let tree = match &mount.what {
        What::Bind { from, access } => {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE
                | OpenTreeFlags::AT_NO_AUTOMOUNT
                | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
            let tree = match open_tree(CWD, from, flags) {
                Ok(tree) => tree,
                Err(Errno::NOENT) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let set = MountAttrFlags::MOUNT_ATTR_NOSUID;
            let set = match access {
                Access::Read => set | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_RDONLY,
                Access::Write => set | MountAttrFlags::MOUNT_ATTR_NODEV,
                Access::Device => set | MountAttrFlags::MOUNT_ATTR_NOEXEC,
            };
            set_attributes_below(&tree, set)?;
            Some(tree)
        }
        What::Private { shared: true, .. } => None,
        What::Private { bytes, mode, .. } => Some(private(*bytes, *mode)?),
        What::Hidden { folder: true, .. } => Some(private(1 << 20, 0o555)?),
        What::Hidden { folder: false, shut } => Some(empty_file(if *shut { 0o000 } else { 0o444 })?),
        What::Processes => Some(filesystem(
            "proc",
            &[],
            MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        )?),
        What::Terminals => Some(terminals()?),
        // Of an overlay the folder below it is held, until all others are.
        What::Overlay { from } => match rustix::fs::open(
            from,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Ok(folder) => Some(folder),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        },
        What::Link(_) | What::Text(_) | What::Pinned => None,
    };
    Ok(Some(tree))
}

fn place(root: &OwnedFd, one: &DetachedMount<'_>, scratch: Option<&Scratch>) -> io::Result<()> {
    let rest = one.mount.at.strip_prefix("/").map_err(io::Error::other)?;
    let (Some(folder), Some(name)) = (rest.parent(), rest.file_name()) else {
        return Err(io::Error::other("it has no name"));
    };
    let folder = make_folders(root, folder)?;
    match &one.mount.what {
        What::Link(to) => return Ok(symlinkat(to, &folder, name)?),
        What::Text(text) => {
            let file = openat(
                &folder,
                name,
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC,
                Mode::from(0o600),
            )?;
            return io::Write::write_all(&mut fs::File::from(file), text.as_bytes());
        }
        What::Pinned => return pin(&folder, Path::new(name)),
        What::Bind { .. }
        | What::Overlay { .. }
        | What::Private { .. }
        | What::Hidden { .. }
        | What::Processes
        | What::Terminals => {}
    }
    let of_scratch = match (&one.mount.what, scratch) {
        (What::Private { mode, shared: true, .. }, Some(scratch)) => {
            Some(scratch.folder(&one.mount.at, *mode)?)
        }
        _ => None,
    };
    let Some(tree) = of_scratch.as_ref().or(one.tree.as_ref()) else { return Ok(()) };
    let is_folder = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode).is_dir();
    let target = if is_folder { folder_at(&folder, name)? } else { file_at(&folder, name)? };
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, "", &target, "", flags)?)
}

/// Binds what is mounted so far at this name on itself.
fn pin(folder: &OwnedFd, name: &Path) -> io::Result<()> {
    let target = match below(folder, name) {
        Err(Errno::NOENT) => return Ok(()),
        target => target?,
    };
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&target, "", flags)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(&tree, "", &target, "", flags)?)
}

/// Opens the folder at `path` below `root`, and creates missing ones.
fn make_folders(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut folder = below(root, Path::new("."))?;
    for part in path.components() {
        let Component::Normal(name) = part else { return Err(io::Error::other("it is not a plain path")) };
        folder = folder_at(&folder, name)?;
    }
    Ok(folder)
}

/// Opens the folder of this name, and creates a missing one.
fn folder_at(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    opened_or_made(folder, name, || mkdirat(folder, name, Mode::from(0o755)))
}

/// Opens the file of this name, and creates a missing one, empty.
fn file_at(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    opened_or_made(folder, name, || openat(folder, name, flags, Mode::from(0o600)).map(drop))
}

fn opened_or_made(
    folder: &OwnedFd,
    name: &OsStr,
    make: impl FnOnce() -> Result<(), Errno>,
) -> Result<OwnedFd, Errno> {
    match below(folder, Path::new(name)) {
        Err(Errno::NOENT) => {
            match make() {
                // In a root of the person, another sandbox that begins now may have made it.
                Err(Errno::EXIST) | Ok(()) => below(folder, Path::new(name)),
                Err(error) => Err(error),
            }
        }
        found => found,
    }
}

/// Opens `path` below a folder. A symlink on the way is an error: it was created meanwhile.
fn below(folder: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(folder, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH)
}

fn open_path(path: &str) -> Result<OwnedFd, Trouble> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).at(Part::Namespaces, path)
}

fn private(bytes: u64, mode: u32) -> io::Result<OwnedFd> {
    let options = [
        ("size", bytes.to_string()),
        ("mode", format!("{mode:o}")),
        ("nr_inodes", (bytes / 4096).max(256).to_string()),
    ];
    let options: Vec<_> = options.iter().map(|(key, value)| (*key, value.as_str())).collect();
    filesystem("tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NODEV)
}

/// Creates a `devpts` of the sandbox's own.
fn terminals() -> io::Result<OwnedFd> {
    let options = [("mode", "0620"), ("ptmxmode", "0666")];
    let context = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_flag(context.as_fd(), "newinstance")?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), key, value)?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn filesystem(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes | MountAttrFlags::MOUNT_ATTR_NOSUID,
    )?)
}

/// Creates an empty file, as a mount of its own.
fn empty_file(mode: u32) -> io::Result<OwnedFd> {
    let folder = private(4096, 0o755)?;
    openat(&folder, "empty", OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC, Mode::from(mode))?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let file = open_tree(&folder, "empty", flags)?;
    set_attributes(&file, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    Ok(file)
}

fn set_attributes(mount: &OwnedFd, set: MountAttrFlags) -> io::Result<()> {
    mount_setattr(mount, AtFlags::EMPTY_PATH.bits(), set)
}

fn set_attributes_below(mount: &OwnedFd, set: MountAttrFlags) -> io::Result<()> {
    const AT_RECURSIVE: u32 = 0x8000;
    mount_setattr(mount, AtFlags::EMPTY_PATH.bits() | AT_RECURSIVE, set)
}

#[expect(unsafe_code, reason = "rustix has no call for it")]
fn mount_setattr(mount: &OwnedFd, flags: u32, set: MountAttrFlags) -> io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: set.bits().into(), attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: both pointers are to values that live until the call is over, and the size is that of the second.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(unsafe_code, reason = "threads could end up with different namespaces; here there is one thread")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: no file descriptor table is taken apart.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Forks: returns `None` in the child, the child's id in the parent.
#[expect(unsafe_code, reason = "there is no other way to become the first process of a namespace")]
fn fork() -> io::Result<Option<rustix::process::Pid>> {
    // SAFETY: this process has one thread, so no lock is held by another one.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(rustix::process::Pid::from_raw(child)),
    }
}

/// Ignores the signals of a terminal: they end haft, whose end ends this process.
#[expect(unsafe_code, reason = "rustix has no call for it")]
fn outlive_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: to ignore a signal runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Brings up the loopback interface of the new network namespace.
#[expect(unsafe_code, reason = "rustix has no call for it")]
fn loopback_up() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let name = CString::new("lo")?;
    // SAFETY: a request of zeroes is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes_with_nul()) {
        *to = from.cast_signed() as libc::c_char;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the flags are the low bits")]
    let up = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    request.ifr_ifru.ifru_flags = up;
    // SAFETY: the request lives until the call is over, and is of the kind that this call takes.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Starts a new session keyring, so that the keys of the user who runs haft are out of reach.
#[expect(unsafe_code, reason = "rustix has no call for it")]
fn join_new_keyring() {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: without a name the call reads no memory. A kernel without keys has none to lend.
    unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>()) };
}

/// Drops every capability for ever: no process below can regain one.
fn drop_capabilities() -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities};
    clear_ambient_capability_set()?;
    // The kernel reports which number is its last.
    for number in 0..64 {
        if !drop_from_bounding_set(number)? {
            break;
        }
    }
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

#[expect(unsafe_code, reason = "rustix knows only the capabilities of its day")]
fn drop_from_bounding_set(number: libc::c_ulong) -> io::Result<bool> {
    // SAFETY: the call takes plain numbers.
    if unsafe { libc::prctl(libc::PR_CAPBSET_READ, number, 0, 0, 0) } < 0 {
        return Ok(false);
    }
    // SAFETY: as above.
    if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    // Without capabilities there is none to drop, and `no_new_privs` prevents gaining one.
    if error.raw_os_error() == Some(libc::EPERM) { Ok(true) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn folder_that_another_sandbox_makes_meanwhile_is_opened() {
        let base = tempfile::tempdir().unwrap();
        let folder = rustix::fs::open(base.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let name = OsStr::new("made");
        let made = opened_or_made(&folder, name, || {
            fs::create_dir(base.path().join(name)).unwrap();
            mkdirat(&folder, name, Mode::from(0o755))
        });
        assert!(made.is_ok(), "{made:?}");
        let refused = opened_or_made(&folder, OsStr::new("other"), || Err(Errno::ACCESS));
        assert_eq!(refused.unwrap_err(), Errno::ACCESS);
    }
}
