//! Help of the command line: the commands in groups, and examples for each of them.
//!
//! The tests keep each command in one group, each with examples that parse, and a snapshot of every page in
//! `help/pages`.

use std::fmt::Write as _;

use clap::{Command, builder::StyledStr};

/// The commands as `haft --help` groups them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Agent", &["run", "chat", "sessions", "models", "prompt"]),
    ("Tools", &["tools", "call", "manual", "new-tool", "reload-tools"]),
    ("MCP", &["mcp"]),
    ("Safety", &["log", "undo", "grants", "trust"]),
    ("Setup", &["demo", "login", "logout", "doctor", "config", "completions", "man"]),
];

/// Examples of each command, by its names; of `haft` itself first. What follows two blanks and a `#` is a comment.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "haft mcp install claude-code      # give your agent haft's tools",
            "haft run \"fix the failing test\"   # do a task",
            "haft chat                         # work on one together",
        ],
    ),
    (
        "run",
        &[
            "haft run \"fix the failing test\"",
            "haft run --plan \"how would you add a cache?\"",
            "haft run --resume \"now write a test for it\"",
        ],
    ),
    ("chat", &["haft chat", "haft chat --resume", "haft --dir ../shop chat --profile reviewer"]),
    (
        "call",
        &[
            "haft call read '{\"path\": \"README.md\"}'",
            "haft call shell '{\"command\": \"cargo test\"}' --json",
            "haft call --batch calls.jsonl",
        ],
    ),
    ("tools", &["haft tools", "haft tools --cost", "haft tools --toolset navi --json"]),
    ("prompt", &["haft prompt", "haft prompt --profile reviewer", "haft prompt --json"]),
    ("manual", &["haft manual edit", "haft manual"]),
    ("new-tool", &["haft new-tool word_count", "haft new-tool deploy --lang sh"]),
    (
        "mcp",
        &[
            "haft mcp install claude-code",
            "haft mcp                          # what the client then starts",
            "haft mcp --http 127.0.0.1:8765",
        ],
    ),
    (
        "mcp install",
        &[
            "haft mcp install claude-code",
            "haft mcp install codex --dry-run   # show the change only",
            "haft mcp install cursor --remove",
        ],
    ),
    ("mcp login", &["haft mcp login tracker", "haft mcp login tracker --no-browser"]),
    ("mcp logout", &["haft mcp logout tracker", "haft --dir ../shop mcp logout tracker"]),
    ("mcp list", &["haft mcp list", "haft --dir ../shop mcp list"]),
    ("mcp trust", &["haft mcp trust files", "haft mcp trust files --yes"]),
    ("log", &["haft log", "haft log -n 5 --tool edit", "haft log --faults --json"]),
    ("undo", &["haft undo", "haft undo --list", "haft undo --path src/main.rs"]),
    ("grants", &["haft grants", "haft grants add net crates.io", "haft grants revoke 3"]),
    (
        "grants add",
        &[
            "haft grants add net crates.io",
            "haft grants add run cargo test",
            "haft grants --session review add write docs",
        ],
    ),
    ("grants revoke", &["haft grants revoke 3", "haft grants revoke 3 4"]),
    ("trust", &["haft trust", "haft trust weather", "haft trust --end"]),
    ("reload-tools", &["haft reload-tools", "haft reload-tools --strict --trust   # in CI"]),
    ("config", &["haft config", "haft config approve", "haft config --example > haft.toml"]),
    ("doctor", &["haft doctor", "haft doctor --json"]),
    (
        "completions",
        &[
            "haft completions bash > ~/.local/share/bash-completion/completions/haft",
            "haft completions zsh > ~/.zfunc/_haft",
            "haft completions fish > ~/.config/fish/completions/haft.fish",
        ],
    ),
    ("man", &["haft man | man -l -", "haft man --dir ~/.local/share/man/man1"]),
];

/// The examples of the command of this name, such as `mcp install`.
pub(crate) fn examples_of(path: &str) -> &'static [&'static str] {
    EXAMPLES.iter().find(|(name, _)| *name == path).map_or(&[], |(_, lines)| lines)
}

/// The command with its examples after the help of each of its commands.
pub(crate) fn with_examples(command: Command) -> Command {
    below(command, "")
}

fn below(command: Command, path: &str) -> Command {
    let styles = command.get_styles().clone();
    let names: Vec<String> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |it| below(it, path.trim()))
    });
    let lines = examples_of(path);
    if lines.is_empty() {
        return command;
    }
    let header = styles.get_header();
    let mut text = StyledStr::new();
    // Writing to a text can't fail.
    let _ = write!(text, "{header}Examples:{header:#}");
    lines.iter().for_each(|line| drop(write!(text, "\n  {line}")));
    command.after_help(text)
}

/// The command as its help is shown: its commands in groups.
///
/// clap has one list of commands only, so they are hidden from it and written as part of the template.
pub(crate) fn shown(command: Command) -> Command {
    let styles = command.get_styles().clone();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let width = command.get_subcommands().map(|it| it.get_name().len()).max().unwrap_or(0);
    let mut text = StyledStr::new();
    let _ = write!(text, "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n");
    for (group, names) in GROUPS {
        let _ = write!(text, "\n{header}{group}:{header:#}\n");
        for command in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let (name, about) = (command.get_name(), command.get_about().map(ToString::to_string));
            let about = about.unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name}{literal:#}{:1$}  {about}", "", width - name.len());
        }
    }
    let _ = write!(text, "\n{{all-args}}{{after-help}}");
    command.help_template(text).override_usage("haft [OPTIONS] <COMMAND>").mut_subcommands(|it| it.hide(true))
}
