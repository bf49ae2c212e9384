//! Sandbox denials: detects from a failed command's output whether the sandbox refused something, and by which rule.
//!
//! It reads the end of the output. A line is reported only if the words match and the facts about the sandbox
//! agree; if another cause is as likely, it says "may be".

mod loopback;

use std::path::{Path, PathBuf};

use kit::{net::why_closed, procs::Exit, quote::quote, references::inert};

use super::{
    layout::{Access, Mount, What},
    limits::{Ended, Limits},
    places::holds_passwords,
    proxy::Refused,
};
use crate::control_files::is_control_file;

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

/// Reports the hosts that were refused, the reason, and the grant that they need.
fn refused(known: &Known<'_>) -> impl Iterator<Item = String> {
    let (granted, others): (Vec<&Refused>, Vec<&Refused>) =
        known.refused_hosts.iter().partition(|it| it.private.is_some());
    // A host that was not granted the first time may have been the second time, or the other way round.
    let others: Vec<String> = others
        .into_iter()
        .map(|it| inert(&it.to_string()).into_owned())
        .filter(|it| !granted.iter().any(|one| one.to_string() == *it))
        .collect();
    let hosts: Vec<&str> = others.iter().map(|it| without_port(it)).collect();
    let not_granted =
        (!others.is_empty()).then(|| format!("{} was refused; {}", others.join(", "), grant(&hosts, known)));
    let of_private = granted.into_iter().filter_map(|it| {
        let (with_port, at) = (inert(&it.to_string()).into_owned(), it.private?);
        Some(format!(
            "{with_port} was refused: {} is granted, but is at {at}, which {}; only a grant with the port reaches it: {}",
            it.host,
            why_closed(at),
            grant(&[&with_port], known)
        ))
    });
    not_granted.into_iter().chain(of_private.collect::<Vec<_>>())
}

/// Explains how to grant these hosts.
fn grant(hosts: &[&str], known: &Known<'_>) -> String {
    let names: Vec<String> = hosts.iter().map(|it| format!("\"{it}\"")).collect();
    let names = names.join(", ");
    let workspace = known.roots.first().map(|it| it.0.display().to_string()).unwrap_or_default();
    let workspace = quote(&workspace);
    let each: Vec<String> = hosts
        .iter()
        .map(|it| format!("`haft --dir {workspace} grants add {}`", quote(&format!("net {it}"))))
        .collect();
    let each = each.join(" and ");
    match known.tool {
        Some(tool) => {
            let section = section(known);
            format!(
                "a person grants it with {each}, or `net = [{names}]` of `[{section}.{tool}]` in haft.toml"
            )
        }
        None => format!("[?`tool:shell` takes `arg:shell.net`: [{names}]|a person grants it with {each}?]"),
    }
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

/// Messages of programs without network, or whose proxy refuses.
const NO_NETWORK: &[&str] = &[
    "Network is unreachable",
    "ENETUNREACH",
    "Temporary failure in name resolution",
    "Temporary failure resolving",
    "Could not resolve host",
    "Could not resolve proxy",
    "failed to lookup address information",
    "Name or service not known",
    "getaddrinfo ENOTFOUND",
    "getaddrinfo EAI_AGAIN",
    "CONNECT tunnel failed, response 403",
    "Tunnel connection failed: 403",
    super::proxy::REFUSAL,
];

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

/// Returns the paths that a line names. A relative one is resolved in the first root, where commands mostly start.
fn paths(line: &str, known: &Known<'_>) -> Vec<PathBuf> {
    let words = line.split(|it: char| it.is_whitespace() || "'\"`‘’“”(),;=".contains(it));
    let words = words
        .map(|word| word.trim_end_matches([':', '.', ']']))
        .filter(|word| word.contains('/') || word.starts_with('.'));
    let base = known.roots.first().map(|(root, _)| root.as_path());
    let absolute = words.filter_map(|word| match word.strip_prefix("./").unwrap_or(word) {
        word if word.starts_with('/') => Some(PathBuf::from(word)),
        word if word.contains("://") || word.len() < 2 => None,
        word => {
            let path = base?.join(word);
            (path.exists() || is_control_file(Path::new(word))).then_some(path)
        }
    });
    absolute.collect()
}

fn root_of<'a>(path: &Path, known: &'a Known<'_>) -> Option<&'a (PathBuf, bool)> {
    known
        .roots
        .iter()
        .filter(|(root, _)| path.starts_with(root))
        .max_by_key(|(root, _)| root.components().count())
}

fn is_control(path: &Path, known: &Known<'_>) -> bool {
    root_of(path, known)
        .is_some_and(|(root, writable)| *writable && path.strip_prefix(root).is_ok_and(is_control_file))
}

fn nearest<'a>(path: &Path, known: &'a Known<'_>) -> Option<&'a Mount> {
    known.mounts.iter().filter(|it| path.starts_with(&it.at)).max_by_key(|it| it.at.components().count())
}

/// Returns whether this path of the machine is visible in the sandbox.
fn is_seen(path: &Path, known: &Known<'_>) -> bool {
    match nearest(path, known).map(|it| &it.what) {
        Some(What::Bind { access, .. }) => *access != Access::Device,
        Some(What::Link(_) | What::Text(_) | What::Processes | What::Terminals) => true,
        Some(What::Private { .. } | What::Hidden { .. } | What::Overlay { .. } | What::Pinned) | None => {
            false
        }
    }
}

fn private_place(line: &str, known: &Known<'_>) -> Option<(String, u64)> {
    paths(line, known).iter().find_map(|path| {
        let mount = nearest(path, known)?;
        let What::Private { bytes, .. } = mount.what else { return None };
        Some((mount.at.display().to_string(), bytes))
    })
}

fn without_port(host: &str) -> &str {
    host.strip_suffix(":443").or_else(|| host.strip_suffix(":80")).unwrap_or(host)
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
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::references::in_own_names;

    use super::*;

    fn rules(output: &str) -> Vec<String> {
        let bind = |at: &str, access| Mount { at: at.into(), what: What::Bind { from: at.into(), access } };
        let private = What::Private { bytes: 64 << 20, mode: 0o700, sealed: false, shared: true };
        let mounts = [
            bind("/usr", Access::Read),
            bind("/etc", Access::Read),
            bind("/ws", Access::Write),
            Mount { at: "/root".into(), what: private.clone() },
            Mount { at: "/tmp".into(), what: private },
        ];
        let roots = [(PathBuf::from("/ws"), true), (PathBuf::from("/lib/ro"), false)];
        let known = Known { mounts: &mounts, roots: &roots, ..Known::default() };
        let lines = denials(Exit::Code(1), output, &known);
        lines.iter().map(|line| line.split('`').nth(1).unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn denials_are_recognized_in_a_program_s_output() {
        for (said, rule) in [
            ("touch: cannot touch '/etc/x': Read-only file system", "write"),
            ("OSError: [Errno 30] Read-only file system: '/ws/.git/hooks/pre-commit'", "control_files"),
            ("error: could not write config file .git/config: Device or resource busy", "control_files"),
            ("sh: 1: cannot create /lib/ro/x: Read-only file system", "read_only"),
            ("curl: (6) Could not resolve host: example.org", "net"),
            ("curl: (56) CONNECT tunnel failed, response 403", "net"),
            ("strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted", "system_calls"),
            ("unshare: unshare failed: Operation not permitted", "system_calls"),
            ("PermissionError: [Errno 1] Operation not permitted: socket(AF_UNIX)", "unix_sockets"),
            ("bash: fork: retry: Resource temporarily unavailable", "processes"),
            ("MemoryError", "memory"),
            ("dd: error writing '/tmp/x': No space left on device", "scratch"),
            ("cat: /sys/kernel: No such file or directory", "read"),
        ] {
            assert_eq!(rules(said), [rule], "{said}");
        }
    }

    #[test]
    fn other_failures_are_not_blamed_on_the_sandbox() {
        for said in [
            "cat: /ws/missing: No such file or directory",
            "cat: /no/such/place/at/all: No such file or directory",
            "rm: cannot remove '/ws/a': Permission denied",
            "chown: changing ownership of 'a': Operation not permitted",
            "mount point /x: Device or resource busy",
            "error[E0425]: cannot find value `x` in this scope",
            "read: Resource temporarily unavailable",
        ] {
            assert_eq!(rules(said), Vec::<String>::new(), "{said}");
        }
    }

    #[test]
    fn a_read_only_session_gets_no_hint_to_add_a_root() {
        let roots = [(PathBuf::from("/ws"), true)];
        let known = Known { roots: &roots, held: true, ..Known::default() };
        for said in
            ["sh: 1: cannot create a.txt: Read-only file system", "touch: '/etc/x': Read-only file system"]
        {
            let said = denials(Exit::Code(2), said, &known);
            assert!(
                matches!(said.as_slice(), [one] if one.contains("`read_only`") && !one.contains("--root"))
            );
        }
    }

    #[test]
    fn a_successful_command_gets_no_hint() {
        let said =
            denials(Exit::Code(0), "touch: cannot touch '/etc/x': Read-only file system", &Known::default());
        assert!(said.is_empty());
    }

    fn host(host: &str, port: u16, private: Option<&str>) -> Refused {
        Refused { host: host.to_owned(), port, private: private.map(|it| it.parse().unwrap()) }
    }

    #[test]
    fn the_host_that_was_refused_is_named() {
        let hosts = [host("index.crates.io", 443, None)];
        let known = Known { refused_hosts: &hosts, ..Known::default() };
        let said = denials(Exit::Code(101), "[56] CONNECT tunnel failed, response 403", &known);
        let line = "sandbox: rule `net`: index.crates.io:443 was refused; `shell` takes `net`: [\"index.crates.io\"]";
        assert_eq!(in_own_names(&said.join("\n")), line);
    }

    #[test]
    fn a_refusal_of_a_private_address_names_the_grant_that_reaches_it() {
        let hosts = [host("pypi.org", 443, None), host("pypi.org", 443, Some("10.1.2.3"))];
        let known = Known { refused_hosts: &hosts, ..Known::default() };
        let said = denials(Exit::Code(0), "", &known);
        let line = "sandbox: rule `net`: pypi.org:443 was refused: pypi.org is granted, but is at 10.1.2.3, which is not a public address; only a grant with the port reaches it: `shell` takes `net`: [\"pypi.org:443\"]";
        assert_eq!(in_own_names(&said.join("\n")), line);
    }

    #[test]
    fn a_tool_gets_a_hint_with_the_grants_for_it() {
        let roots = [(PathBuf::from("/my ws"), true)];
        let hosts = [host("a.example", 443, None)];
        let known = Known {
            roots: &roots,
            refused_hosts: &hosts,
            tool: Some("weather"),
            kept_variables: &["WEATHER_KEY"],
            ..Known::default()
        };
        let net = "sandbox: rule `net`: a.example:443 was refused; a person grants it with `haft --dir '/my ws' grants add 'net a.example'`, or `net = [\"a.example\"]` of `[tool.weather]` in haft.toml";
        assert_eq!(denials(Exit::Code(1), "403", &known), [net]);
        let known = Known { refused_hosts: &[], ..known };
        let env = "`env = [\"WEATHER_KEY\"]` of `[tool.weather]`";
        for said in ["KeyError: 'WEATHER_KEY'", "x.sh: line 2: WEATHER_KEY: unbound variable"] {
            let said = denials(Exit::Code(1), said, &known);
            assert!(said.len() == 1 && said.iter().all(|it| it.contains(env)), "{said:?}");
        }
        assert!(denials(Exit::Code(1), "KeyError: 'other'", &known).is_empty());
        let server = denials(Exit::Code(1), "KeyError: 'WEATHER_KEY'", &Known { is_server: true, ..known });
        assert!(
            server.iter().any(|it| it.contains("`env = [\"WEATHER_KEY\"]` of `[mcp.weather]`")),
            "{server:?}"
        );
        let known = Known { tool: None, ..known };
        assert!(denials(Exit::Code(1), "KeyError: 'WEATHER_KEY'", &known).is_empty());
    }
}
