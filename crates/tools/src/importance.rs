//! Which tools does an agent need at hand, and which only now and then?

/// Those that are used daily, the most important first: a list of tools that has to be short begins with them.
pub const DAILY: &[&str] = &[
    "read",
    "edit",
    "shell",
    "grep",
    "write",
    "glob",
    "bash",
    "read_job",
    "wait",
    "stop_task",
    "ask_user",
    "subagent",
];

/// All others, the most important first: where there is no room for them, they are found by a search.
pub const SELDOM: &[&str] = &[
    "python",
    "undo",
    "tree",
    "todo",
    "jobs",
    "interact",
    "continue_job",
    "json_read",
    "json_write",
    "write_tool",
    "test_tool",
    "info",
    "memory",
    "search_memory",
    "scratchpad",
    "list_tools",
    "reload_tools",
    "delete_tool",
    "filegrep",
    "skim",
    "shell_status",
    "editor",
    "switch_profile",
    "list_profiles",
    "reflect",
];
