//! Keys of tool files and MCP servers: `[tool.NAME]`, `[mcp.NAME]`.

use super::{Fallback::*, Key, Section, Workspace::*, merging::*};
pub(super) static TOOL: Section = Section {
    header: "[tool.weather]",
    doc: "Permissions of one of your tool files, by the tool's name. In your own file this is a tool \
         in your own folders; in a workspace's file, one of the workspace's tools. They apply to a \
         tool after `haft trust NAME` (or `haft trust` for a whole workspace), until its file or the \
         code beside it changes.",
    merge: Some(|mine, theirs, gate| {
        extend_trusted(&mut mine.workspace_sections, &mut theirs.sections, gate);
    }),
    keys: &[
        Key {
            name: "net",
            doc: "Hosts that the tool may contact.",
            example: r#"["api.example.org"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "read",
            doc: "Paths outside the workspace that it may read.",
            example: r#"["~/maps"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "write",
            doc: "Paths outside the workspace that it may change.",
            example: r#"["~/.cache/weather"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "env",
            doc: "Environment variables that it gets, by name.",
            example: r#"["WEATHER_KEY"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "manual_first",
            doc: "Whether a model has to read its manual first.",
            example: "true",
            default: Words("what the tool says"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "timeout_seconds",
            doc: "Time limit of a call, in seconds, 1 to 3600.",
            example: "30",
            default: Words("what the tool says, else deadline_seconds"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "replaces_built_in",
            doc: "Whether it replaces the built-in tool of its name. haft then never uses its own tool \
                 of that name, also while the file is not trusted.",
            example: "true",
            default: Words("false"),
            workspace: NeedsTrust,
            merge: None,
        },
    ],
};

pub(super) static MCP: Section = Section {
    header: "[mcp.files]",
    doc: "An MCP server that haft starts; its tools are named `files__NAME`. It starts with the first \
         call of one of its tools, in the sandbox, with only the permissions given here. haft pins \
         its tool definitions on first use: a changed definition is used only after `haft mcp trust \
         files`. The first start of a workspace's server needs approval; so do servers of the \
         workspace's .mcp.json. A section in your own file with neither `command` nor `url` adds \
         permissions to the workspace's server of that name.",
    merge: Some(|mine, theirs, gate| extend_trusted(&mut mine.workspace_servers, &mut theirs.servers, gate)),
    keys: &[
        Key {
            name: "command",
            doc: "Program that is the server.",
            example: r#""npx""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "args",
            doc: "Its arguments.",
            example: r#"["-y", "@modelcontextprotocol/server-filesystem", "."]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "env",
            doc: "Environment variables that it gets: a table of values, in which ${NAME} and \
                 ${NAME:-otherwise} stand for variables of yours, or a list of such names.",
            example: r#"{ MODE = "fast", KEY = "${FILES_KEY:-none}" }"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "cwd",
            doc: "Working directory.",
            example: r#""tools""#,
            default: Words("the workspace"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "tools",
            doc: "Allowlist of its tools, by the server's names, or \"all\".",
            example: r#"["read_file"]"#,
            default: Words("all"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "disabled",
            doc: "Whether haft ignores this server.",
            example: "true",
            default: Words("false"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "start_seconds",
            doc: "Time limit of its start, in seconds, 1 to 3600.",
            example: "60",
            default: Words("60"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "timeout_seconds",
            doc: "Time limit of a call, in seconds, 1 to 3600.",
            example: "30",
            default: Words("deadline_seconds"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "net",
            doc: "Hosts that it may contact.",
            example: r#"["registry.npmjs.org"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "read",
            doc: "Paths outside the workspace that it may read.",
            example: r#"["~/notes"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "write",
            doc: "Paths outside the workspace that it may change.",
            example: r#"["~/.npm"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "read_only",
            doc: "Tools that change nothing, by the server's names; [\"*\"] or \"all\" for all. What the \
                 server itself says about that is not trusted.",
            example: r#"["read_file"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "idempotent",
            doc: "Tools that haft may call again after the server died in the middle of a call, by the \
                 server's names; [\"*\"] or \"all\" for all.",
            example: r#"["list_files"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
    ],
};

pub(super) static MCP_REMOTE: Section = Section {
    header: "[mcp.tracker]",
    doc: "A remote MCP server.",
    merge: None,
    keys: &[
        Key {
            name: "url",
            doc: "Its address.",
            example: r#""https://tracker.example.org/mcp""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "headers",
            doc: "HTTP headers of each request; ${NAME} stands for a variable of yours.",
            example: r#"{ "x-team" = "${TEAM}" }"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "bearer_env",
            doc: "Environment variable that holds its bearer token.",
            example: r#""TRACKER_TOKEN""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "sampling",
            doc: "Whether it may use haft's model (MCP sampling).",
            example: "true",
            default: Words("false"),
            workspace: NeedsTrust,
            merge: None,
        },
    ],
};

pub(super) static MCP_OAUTH: Section = Section {
    header: "[mcp.tracker.oauth]",
    doc: "How `haft mcp login tracker` signs in (OAuth). All of it is optional.",
    merge: None,
    keys: &[
        Key {
            name: "client_id",
            doc: "Client id; without one, haft registers itself.",
            example: r#""haft""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "client_secret_env",
            doc: "Environment variable that holds the client secret.",
            example: r#""TRACKER_SECRET""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "client_metadata_url",
            doc: "Address of a client metadata document.",
            example: r#""https://example.org/haft.json""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "scopes",
            doc: "Scopes to request.",
            example: r#"["read"]"#,
            default: Words("those that the server names"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "redirect_port",
            doc: "Local port for the redirect.",
            example: "8123",
            default: Words("any free port"),
            workspace: NeedsTrust,
            merge: None,
        },
    ],
};
