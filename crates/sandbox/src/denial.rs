//! Sandbox denials: detects from a failed command's output whether the sandbox refused something, and by which rule.
//!
//! It reads the end of the output. A line is reported only if the words match and the facts about the sandbox
//! agree; if another cause is as likely, it says "may be".

mod hosts;
mod loopback;
mod paths;

use std::path::{Path, PathBuf};

use kit::{procs::Exit, quote::quote, references::inert};

use self::{
    hosts::{NO_NETWORK, grant, refused},
    paths::{is_control, is_in_closed_folder, is_seen, paths, private_place, root_of},
};
use super::{
    layout::{CLOSED_ONE_BY_ONE, Mount},
    limits::{Ended, Limits},
    places::holds_passwords,
    proxy::Refused,
};

/// Bytes at the end that are examined: a command prints the reason of its failure last.
const TAIL: usize = 8 * 1024;

/// The facts about the sandbox that a command ran in.
#[derive(Debug, Default)]
pub struct Known<'a> {
    /// Its mounts.
    pub mounts: &'a [Mount],
    /// The roots, and whether each may be written.
    pub roots: &'a [(PathBuf, bool)],
    /// Whether the session is read-only for now, whatever the roots allow.
    pub held: bool,
    /// Its limits.
    pub limits: Limits,
    /// Hosts that the proxy refused while the command ran.
    pub refused_hosts: &'a [Refused],
    /// Ports of this machine's loopback that are granted to commands.
    pub granted_ports: &'a [u16],
    /// The tool file whose sandbox it is, if any.
    pub tool: Option<&'a str>,
    /// The folder of that tool file.
    pub own_folder: Option<&'a Path>,
    /// Whether it is the sandbox of an MCP server, which has an `[mcp.NAME]` section.
    pub is_server: bool,
    /// The variables of haft's own environment that commands don't get.
    pub kept_variables: &'a [&'a str],
    /// The processes that the resource watch killed while the command ran.
    pub ended: &'a [Ended],
    /// Control files that the command was allowed to make.
    pub appeared: &'a [PathBuf],
    /// Control files that the command made or changed, each with the name under which it was set aside.
    pub aside: &'a [(PathBuf, PathBuf)],
    /// Control files that could not be set aside, each with the reason.
    pub stuck: &'a [(PathBuf, String)],
    /// Files that would redirect git's configuration, which were removed.
    pub taken: &'a [PathBuf],
}

/// Returns one line for each rule that may have caused the failure.
pub fn denials(exit: Exit, output: &str, known: &Known<'_>) -> Vec<String> {
    let mut said: Vec<(&'static str, String)> = Vec::new();
    for path in known.taken {
        let path = path.display();
        said.push((
            "control_files",
            format!("{path} would lead git's configuration elsewhere, so it was deleted; tell the person"),
        ));
    }
    said.extend(set_aside(known).map(|says| ("control_files", says)));
    for path in known.appeared {
        let path = path.display();
        said.push((
            "control_files",
            format!(
                "{path} is new or leads elsewhere now, and decides what other programs run; tell the person"
            ),
        ));
    }
    for ended in known.ended {
        said.push(match ended {
            Ended::Memory { name, used } => {
                let name = inert(name);
                let (used, limit) = (mib(*used), mib(known.limits.memory));
                let says =
                    format!("`{name}` was ended when it used {used} MiB; all commands together have {limit} MiB");
                ("memory", says)
            }
            Ended::Processes { processes, threads } => {
                let most = known.limits.tree;
                let says = format!(
                    "a command was ended with all that it had started: {processes} processes with {threads} threads; one command \
                     may have {most} processes. Run fewer at once; a person can raise `processes` of `[limits]` in their own \
                     haft.toml"
                );
                ("processes", says)
            }
        });
    }
    if !exit.is_success() {
        for line in tail(output).lines() {
            if let Some(one) = read_line(line, known)
                && !said.iter().any(|(rule, _)| *rule == one.0)
            {
                said.push(one);
            }
        }
    }
    // A successful command, such as the last of a pipeline, may have lacked a host too.
    if !known.refused_hosts.is_empty() {
        said.retain(|(rule, _)| *rule != "net");
        said.extend(refused(known).map(|says| ("net", says)));
    }
    said.dedup();
    said.into_iter().map(|(rule, says)| format!("sandbox: rule `{rule}`: {says}")).collect()
}

/// Maximum number of control files that are named one by one.
const NAMED: usize = 6;

/// Reports the control files that were set aside, and how to keep one.
fn set_aside(known: &Known<'_>) -> impl Iterator<Item = String> {
    let workspace = known.roots.first().map_or(Path::new("/"), |it| it.0.as_path());
    let relative =
        |path: &Path| inert(&path.strip_prefix(workspace).unwrap_or(path).display().to_string()).into_owned();
    let named = known.aside.iter().take(NAMED).map(move |(path, new)| {
        let (path, new) = (relative(path), relative(new));
        // A file that a tool file made can't be written by its caller.
        let write = if known.tool.is_none() { "[?`tool:write` it (the person is asked), or ?]" } else { "" };
        format!(
            "{path} decides what other programs run, so the version that a command wrote was moved to {new}; to keep it, \
             {write}the person runs {} first; tell the person",
            quote_grant(&path)
        )
    });
    let rest = known.aside.len().saturating_sub(NAMED);
    let more =
        (rest > 0).then(|| format!("{rest} more files or folders were set aside as NAME.haft-set-aside"));
    let stuck = known.stuck.iter().map(move |(path, why)| {
        let path = relative(path);
        format!("{path} was changed by a command, decides what other programs run, and could not be set aside: {why}; tell the person before they use it")
    });
    named.chain(more).chain(stuck).collect::<Vec<_>>().into_iter()
}

fn quote_grant(path: &str) -> String {
    format!("`haft grants add {}`", quote(&format!("write {path}")))
}

fn read_line(line: &str, known: &Known<'_>) -> Option<(&'static str, String)> {
    let has = |words: &[&str]| words.iter().any(|it| line.contains(it));
    if has(&["Read-only file system", "EROFS"]) {
        return Some(unwritable(line, known));
    }
    if has(&["Device or resource busy", "EBUSY"]) {
        let control = paths(line, known).into_iter().find(|path| is_control(path, known))?;
        return Some(("control_files", fixed(&control, known)));
    }
    if let Some(says) = known.tool.and_then(|tool| missing_variable(line, tool, known)) {
        return Some(("env", says));
    }
    if has(NO_NETWORK) {
        if known.tool.is_some() {
            let how = grant(&["example.org"], known);
            return Some(("net", format!("tools have no network but a proxy for granted hosts: {how}")));
        }
        let how = grant(&["example.org"], known);
        return Some((
            "net",
            format!(
                "commands have no network but a proxy for granted hosts: {how}\
                 [?; a program that asks no proxy needs `arg:shell.unconfined`: true?]"
            ),
        ));
    }
    if let Some(says) = loopback::refused(line, known).or_else(|| loopback::taken(line, known)) {
        return Some(("net", says));
    }
    if has(&["Operation not permitted", "EPERM"]) {
        return not_permitted(line, known);
    }
    if has(&["No such file or directory", "ENOENT", "Permission denied", "EACCES"]) {
        let path = paths(line, known).into_iter().find(|path| path.exists() && !is_seen(path, known))?;
        return Some(hidden(&path, known));
    }
    if has(&[
        "Cannot allocate memory",
        "MemoryError",
        "std::bad_alloc",
        "heap out of memory",
        "memory allocation of",
        "ENOMEM",
    ]) {
        let limit = mib(known.limits.memory);
        return Some(("memory", format!("this may be the limit of {limit} MiB")));
    }
    if has(&["Resource temporarily unavailable", "EAGAIN"]) && has(&["fork", "thread", "clone", "spawn"]) {
        let limit = known.limits.processes;
        return Some(("processes", format!("this may be the limit of {limit} processes and threads")));
    }
    if has(&["File too large", "File size limit exceeded", "EFBIG"]) {
        let limit = mib(known.limits.file);
        return Some(("file_size", format!("this may be the limit of {limit} MiB for one file")));
    }
    if has(&["Too many open files", "EMFILE"]) {
        let limit = known.limits.open_files;
        return Some((
            "open_files",
            format!("this may be the limit of {limit} open files; `ulimit -n 4096` raises it"),
        ));
    }
    if has(&["No space left on device", "ENOSPC"]) {
        let (place, bytes) = private_place(line, known)?;
        return Some((
            "scratch",
            format!("{place} is private and holds {} MiB; write below a root", mib(bytes)),
        ));
    }
    None
}

/// Reports a variable that a program misses because the sandbox does not pass it on.
fn missing_variable(line: &str, tool: &str, known: &Known<'_>) -> Option<String> {
    let named = match line.trim().strip_prefix("KeyError: ") {
        Some(key) => key.trim_matches(['\'', '"']),
        None => {
            let (rest, _) =
                line.split_once(": unbound variable").or_else(|| line.split_once(": parameter not set"))?;
            rest.rsplit(' ').next()?
        }
    };
    let name = known.kept_variables.iter().find(|it| **it == named)?;
    if known.is_server {
        return Some(format!(
            "`{name}` is in haft's environment, but not in the server's; a person grants it with `env = [\"{name}\"]` of `[mcp.{tool}]` in haft.toml"
        ));
    }
    Some(format!(
        "`{name}` is in haft's environment, but not in the tool's; a person grants it with `env = [\"{name}\"]` of `[tool.{tool}]` in haft.toml, which counts for a tool that a model wrote after `haft trust` only"
    ))
}

fn unwritable(line: &str, known: &Known<'_>) -> (&'static str, String) {
    let found = paths(line, known);
    if let Some(control) = found.iter().find(|path| is_control(path, known)) {
        return ("control_files", fixed(control, known));
    }
    if known.held {
        return ("read_only", "this session is read-only (plan mode or a read-only profile)".to_owned());
    }
    if let Some(path) = found.iter().find(|path| is_in_closed_folder(path, known)) {
        let path = path.display();
        let says = format!(
            "{path} lies in a folder with more than {CLOSED_ONE_BY_ONE} code files, where a tool changes only data files and \
             folders that were there when it started; make a subfolder for its data, or write to the workspace"
        );
        return ("write", says);
    }
    if let Some((path, root)) = found.iter().find_map(|path| Some((path, root_of(path, known)?))) {
        let (path, at) = (path.display(), root.0.display());
        return match root.1 {
            true => ("write", format!("{path} may be in a part of {at} that is read-only for commands")),
            false => (
                "read_only",
                format!(
                    "{path} lies in {at}, which is read-only; a person can change that with `--root` or `--sandbox`"
                ),
            ),
        };
    }
    match found.first() {
        Some(path) => {
            let path = path.display();
            let or = or_of_tool("write", known);
            (
                "write",
                format!("{path} lies outside the roots; a person can add its folder with `--root PATH`{or}"),
            )
        }
        None if known.roots.iter().all(|(_, writable)| !writable) => {
            ("read_only", "with `--sandbox read-only` commands change nothing".to_owned())
        }
        None => (
            "write",
            "this may be a write outside the roots; a person can add the folder with `--root PATH`"
                .to_owned(),
        ),
    }
}

fn fixed(path: &Path, known: &Known<'_>) -> String {
    let who = match known.tool {
        Some(_) => "a person can change it",
        None => {
            "after approval [?`tool:edit` can|`tool:write` can|a person can?][?, and `tool:shell` with \
             `arg:shell.unconfined`: true?]"
        }
    };
    format!("{} decides what other programs run, so commands can't change it; {who}", path.display())
}

fn or_of_tool(key: &str, known: &Known<'_>) -> String {
    let section = section(known);
    known
        .tool
        .map(|tool| format!(", or with `{key}` of `[{section}.{tool}]` in haft.toml"))
        .unwrap_or_default()
}

/// Returns the configuration section that grants something to the sandboxed program.
fn section(known: &Known<'_>) -> &'static str {
    if known.is_server { "mcp" } else { "tool" }
}

fn hidden(path: &Path, known: &Known<'_>) -> (&'static str, String) {
    let keeps_keys =
        holds_passwords(path) || path.components().any(|it| KEYS.iter().any(|one| it.as_os_str() == *one));
    if keeps_keys {
        return ("read", format!("{} is kept from commands: it holds keys", path.display()));
    }
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    (
        "read",
        format!(
            "{} exists, but commands don't see it; a person can add its folder with `--root {}:ro`{}",
            path.display(),
            folder.display(),
            or_of_tool("read", known),
        ),
    )
}

/// Paths for which no advice is given how to show them to a command.
const KEYS: &[&str] =
    &[".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", "shadow"];

fn not_permitted(line: &str, known: &Known<'_>) -> Option<(&'static str, String)> {
    let outside = match known.tool {
        Some(_) => "",
        None => "[?; `tool:shell` with `arg:shell.unconfined`: true asks a person to let it out?]",
    };
    let lower = line.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|it| lower.contains(it));
    if has(&["socket", "listen", "bind"]) && !has(&["raw"]) {
        return Some((
            "unix_sockets",
            "this may be because commands make no sockets that are named by a path; use 127.0.0.1".to_owned(),
        ));
    }
    if has(&["raw socket", "raw", "ping", "icmp"]) {
        return Some(("net", "commands have no raw sockets".to_owned()));
    }
    if has(&["ptrace", "traceme", "attach"]) {
        return Some(("system_calls", format!("a command can't trace another{outside}")));
    }
    let call = [
        "unshare",
        "mount",
        "chroot",
        "io_uring",
        "perf_event",
        "bpf",
        "keyctl",
        "mknod",
        "setns",
        "userfaultfd",
    ];
    let call = call.into_iter().find(|call| lower.contains(call))?;
    Some(("system_calls", format!("`{call}` is refused to commands{outside}")))
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

fn tail(output: &str) -> &str {
    let mut from = output.len().saturating_sub(TAIL);
    while !output.is_char_boundary(from) {
        from += 1;
    }
    output.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests;
