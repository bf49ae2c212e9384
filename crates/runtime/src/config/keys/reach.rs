//! Keys of what tools may contact and start: `[net]`, `[secret.NAME]`, `[search]`, `[ssh]`, `[programs]`.

use serde_json::json;

use super::{Fallback::*, Key, Section, Workspace::*, merging::*};
pub(super) static NET: Section = Section {
    header: "[net]",
    doc: "Network access of tools and commands.",
    merge: None,
    keys: &[
        Key {
            name: "allow",
            doc: "Hosts that may be contacted without approval: host, host:port, *.example.org, *. A \
                 host with an address that is not public (loopback, intranet, VPN) counts only with \
                 its port, here as in every other list of hosts: \"mirror.corp:443\". A tool with PEP \
                 723 dependencies needs \"pypi.org\" and \"files.pythonhosted.org\".",
            example: r#"["crates.io"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: Some(|mine, theirs, gate| {
                append_trusted(&mut mine.net.allow, &mut theirs.net.allow, gate);
            }),
        },
        Key {
            name: "web",
            doc: "Read access to the web for web_search, web_fetch and http_request with a method that \
                 only reads: \"public\" (every public address, without approval), \"known\" (addresses \
                 that you, a search result or a page named; a host that the model composed an address \
                 for needs approval once), \"ask\" (each host needs approval), \"none\". By default \
                 \"known\" where a person can be asked, otherwise \"public\". A workspace may lower it; \
                 raising it needs trust.",
            example: r#""known""#,
            default: Words("known if a person can be asked, else public"),
            workspace: Narrows,
            merge: Some(|mine, theirs, gate| {
                let usual = mine.net.web.unwrap_or_default();
                narrow(&mut mine.net.web, &mut theirs.net.web, gate, |theirs| *theirs <= usual);
            }),
        },
        Key {
            name: "proxy",
            doc: "HTTP proxy for the network tools (not ssh_exec). These tools ignore HTTPS_PROXY and \
                 its kind. haft still resolves each name itself and refuses addresses that are not \
                 public; a name that this machine can't resolve is left to the proxy. Private \
                 addresses granted as host:port are contacted directly.",
            example: r#""http://proxy.example.org:3128""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: Some(|mine, theirs, gate| {
                replace_trusted(&mut mine.net.proxy, &mut theirs.net.proxy, gate);
            }),
        },
    ],
};

pub(super) static SECRET: Section = Section {
    header: "[secret.github]",
    doc: "A named secret. http_request puts it where a model writes {{secret:github}}, ssh_exec uses \
         it as `password` or `passphrase`; no model ever sees the value. It has at least 4 \
         characters.",
    merge: Some(|mine, theirs, gate| extend_trusted(&mut mine.secrets, &mut theirs.secrets, gate)),
    keys: &[
        Key {
            name: "env",
            doc: "The environment variable that holds the value. Set this or `file`.",
            example: r#""GITHUB_TOKEN""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "file",
            doc: "The file that holds the value and nothing else.",
            example: r#""~/.config/github-token""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "hosts",
            doc: "Hosts that the secret may be sent to, over https only, unless the host is given with \
                 its port.",
            example: r#"["api.github.com"]"#,
            default: Required,
            workspace: NeedsTrust,
            merge: None,
        },
    ],
};

pub(super) static SEARCH: Section = Section {
    header: "[search]",
    doc: "How web_search searches. In a workspace's file this section replaces yours.",
    merge: Some(|mine, theirs, gate| replace_section(&mut mine.search, &mut theirs.search, gate)),
    keys: &[
        Key {
            name: "engine",
            doc: "Search engine: \"duckduckgo\" (no key), \"searxng\", \"brave\", \"tavily\". Naming one also \
                 allows its host.",
            example: r#""duckduckgo""#,
            default: Value(|| json!("duckduckgo")),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "url",
            doc: "Address of the engine: required for searxng, for others only if it isn't the usual \
                 one.",
            example: r#""https://searx.example.org""#,
            default: Words("the engine's own"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "key",
            doc: "Name of the secret (`[secret.NAME]`) that holds the engine's API key.",
            example: r#""brave""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
    ],
};

pub(super) static SSH: Section = Section {
    header: "[ssh]",
    doc: "How ssh_exec reaches other machines. In a workspace's file this section replaces yours. A \
         host whose key isn't known needs approval.",
    merge: Some(|mine, theirs, gate| replace_section(&mut mine.ssh, &mut theirs.ssh, gate)),
    keys: &[
        Key {
            name: "config",
            doc: "OpenSSH configuration files.",
            example: r#"["~/.ssh/config"]"#,
            default: Value(|| json!(["~/.ssh/config"])),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "hosts_file",
            doc: "A file with host names as JSON.",
            example: r#""~/hosts.json""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "known_hosts",
            doc: "File with known host keys; haft adds accepted ones to it.",
            example: r#""~/.ssh/known_hosts""#,
            default: Value(|| json!("~/.ssh/known_hosts")),
            workspace: NeedsTrust,
            merge: None,
        },
    ],
};

pub(super) static PROGRAMS: Section = Section {
    header: "[programs]",
    doc: "Paths of optional programs that tools start. In a workspace's file this section replaces \
         yours.",
    merge: Some(|mine, theirs, gate| replace_section(&mut mine.programs, &mut theirs.programs, gate)),
    keys: &[
        Key {
            name: "chromium",
            doc: "Chromium or Chrome, for web_fetch with `render`.",
            example: r#""/usr/bin/chromium""#,
            default: Words("found on PATH"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "openscad",
            doc: "OpenSCAD, for model_3d.",
            example: r#""/usr/bin/openscad""#,
            default: Words("found on PATH"),
            workspace: NeedsTrust,
            merge: None,
        },
    ],
};
