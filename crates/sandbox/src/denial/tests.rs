//! Tests of denials: messages of real programs, and hints that name the right grant.
#![expect(clippy::unwrap_used, reason = "tests")]

use kit::references::in_own_names;

use super::*;
use crate::layout::{Access, What};

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
        assert!(matches!(said.as_slice(), [one] if one.contains("`read_only`") && !one.contains("--root")));
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
    let line =
        "sandbox: rule `net`: index.crates.io:443 was refused; `shell` takes `net`: [\"index.crates.io\"]";
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
