//! Help of the command line: the commands in groups, and examples for each of them.
//!
//! The tests keep each command in one group, each with examples that parse, and a snapshot of every page in
//! `help/pages`.

use std::fmt::Write as _;

use clap::{Command, builder::StyledStr};

/// The commands as `haft --help` groups them.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Agent",
        &[
            "run", "chat", "serve", "acp", "sessions", "send", "group", "triggers", "agents", "models",
            "prompt",
        ],
    ),
    ("Other machines", &["worker", "workers"]),
    ("Tools", &["tools", "call", "manual", "new-tool", "reload-tools"]),
    ("MCP", &["mcp"]),
    ("Safety", &["log", "undo", "prune", "grants", "hooks", "trust"]),
    ("Setup", &["demo", "login", "logout", "doctor", "config", "completions", "man"]),
];

/// Examples of each command, by its names; of `haft` itself first. Text after two blanks and a `#` is a comment.
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
            "cat error.log | haft run \"explain this\"",
            "haft run --plan \"how would you add a cache?\"",
            "haft run --on gpu \"find out why training is slow\"",
        ],
    ),
    (
        "chat",
        &[
            "haft chat",
            "haft chat \"why does the build fail?\"",
            "haft chat --resume --model ollama:qwen3",
            "haft chat --attach                # choose one, also one that runs elsewhere",
        ],
    ),
    (
        "serve",
        &[
            "haft serve",
            "haft serve --addr 127.0.0.1:9000 --workspace ../other",
            "haft serve --public https://haft.example.com --tokens ~/haft-tokens   # behind a proxy",
        ],
    ),
    (
        "sessions",
        &[
            "haft sessions",
            "haft sessions \"rate limit\"",
            "haft sessions show latest",
            "haft sessions fork latest --at 2",
        ],
    ),
    ("sessions list", &["haft sessions list", "haft sessions list --archived --json"]),
    ("sessions search", &["haft sessions search rate limit", "haft sessions search timeout -n 5 --json"]),
    ("sessions show", &["haft sessions show latest", "haft sessions show s_0tv7 | less"]),
    (
        "sessions rename",
        &[
            "haft sessions rename latest \"Cache for the parser\"",
            "haft sessions rename s_0tv7 Release notes",
        ],
    ),
    (
        "sessions fork",
        &[
            "haft sessions fork latest",
            "haft sessions fork s_0tv7 --at 3   # with your third message",
            "haft sessions fork latest --as without-cache",
        ],
    ),
    ("sessions archive", &["haft sessions archive s_0tv7", "haft sessions archive --undo s_0tv7"]),
    ("sessions delete", &["haft sessions delete s_0tv7", "haft sessions delete s_0tv7 --yes"]),
    (
        "sessions export",
        &["haft sessions export latest", "haft sessions export s_0tv7 --format json -o talk.json"],
    ),
    ("group", &["haft group run terrarium.yaml \"review the last commit\"", "haft group status review-a1b2"]),
    (
        "group run",
        &["haft group run terrarium.yaml \"review the last commit\"", "haft group run --resume review-a1b2"],
    ),
    ("group check", &["haft group check terrarium.yaml", "haft group check group.toml --json"]),
    ("group list", &["haft group list", "haft group list --json"]),
    ("group status", &["haft group status review-a1b2", "haft group status review-a1b2 --json"]),
    ("group watch", &["haft group watch latest", "haft group watch review-a1b2"]),
    ("group graph", &["haft group graph review-a1b2", "haft group graph review-a1b2 --json"]),
    (
        "group send",
        &[
            "haft group send review-a1b2 critic \"look at the tests too\"",
            "haft group send review-a1b2 root stop now",
        ],
    ),
    ("group pause", &["haft group pause review-a1b2", "haft group pause review-a1b2 critic"]),
    ("group resume", &["haft group resume review-a1b2", "haft group resume review-a1b2 critic"]),
    ("group stop", &["haft group stop review-a1b2", "haft group stop review-a1b2 critic"]),
    ("triggers", &["haft triggers", "haft triggers history nightly"]),
    ("triggers list", &["haft triggers list", "haft triggers list --json"]),
    ("triggers show", &["haft triggers show nightly", "haft triggers show nightly --json"]),
    ("triggers history", &["haft triggers history nightly", "haft triggers history nightly --json"]),
    ("triggers pause", &["haft triggers pause nightly", "haft triggers pause nightly hourly"]),
    ("triggers resume", &["haft triggers resume nightly", "haft triggers resume nightly hourly"]),
    ("triggers fire", &["haft triggers fire nightly", "haft triggers fire release-notes"]),
    ("triggers remove", &["haft triggers remove nightly", "haft triggers remove nightly hourly"]),
    ("agents", &["haft agents up", "haft agents status"]),
    ("agents up", &["haft agents up", "haft agents up --model ollama:qwen3"]),
    ("agents status", &["haft agents status", "haft agents status --json"]),
    ("send", &["haft send latest \"also run the tests\"", "make 2>&1 | tail -20 | haft send s_0tv7"]),
    (
        "acp",
        &[
            "haft acp install zed",
            "haft acp                          # what the editor then starts",
            "haft acp --model ollama:qwen3",
        ],
    ),
    (
        "acp install",
        &[
            "haft acp install zed",
            "haft acp install jetbrains --dry-run   # show the change only",
            "haft acp install neovim                # print the lines to add",
        ],
    ),
    (
        "worker",
        &[
            "haft worker",
            "haft worker --engine nats://10.0.0.5:4222 --labels gpu --slots 4",
            "haft worker --approve auto --max-steps 50",
        ],
    ),
    ("workers", &["haft workers", "haft workers --json", "haft workers drain all"]),
    ("workers list", &["haft workers list", "haft workers list --engine nats://10.0.0.5:4222"]),
    ("workers drain", &["haft workers drain box-1a2b3c", "haft workers drain all"]),
    ("workers stop", &["haft workers stop box-1a2b3c", "haft workers stop all"]),
    (
        "workers cancel",
        &[
            "haft workers cancel s_0v9myjq3dbkt-0-0-0",
            "haft workers cancel s_0v9myjq3dbkt-0-0-0 --engine nats://10.0.0.5:4222",
        ],
    ),
    ("workers up", &["haft workers up", "haft workers up --stop"]),
    ("models", &["haft models", "haft models anthropic", "haft models --known"]),
    (
        "call",
        &[
            "haft call read '{\"path\": \"README.md\"}'",
            "haft call shell '{\"command\": \"cargo test\"}' --json",
            "haft call --batch calls.jsonl",
            "haft call --on gpu shell '{\"command\": \"nvidia-smi\"}'",
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
            "haft mcp --http 127.0.0.1:8722",
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
    ("log", &["haft log", "haft log --diff -n 5", "haft log --tool shell --faults"]),
    ("undo", &["haft undo", "haft undo --list", "haft undo --path src/main.rs"]),
    ("prune", &["haft prune", "haft prune --days 7", "haft prune --size 500"]),
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
    ("hooks", &["haft hooks", "haft hooks --json", "haft hooks test before_tool --tool edit"]),
    ("hooks test", &["haft hooks test PreToolUse --tool shell", "haft hooks test stop"]),
    ("trust", &["haft trust", "haft trust weather", "haft trust --end"]),
    ("reload-tools", &["haft reload-tools", "haft reload-tools --strict --trust   # in CI"]),
    ("config", &["haft config", "haft config approve", "haft config --example > haft.toml"]),
    ("demo", &["haft demo", "haft demo --remove"]),
    ("login", &["haft login anthropic", "haft login", "pass show openai | haft login openai"]),
    ("logout", &["haft logout anthropic", "haft logout models.local"]),
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

/// Returns the examples of the command of this name, such as `mcp install`.
pub(crate) fn examples_of(path: &str) -> &'static [&'static str] {
    EXAMPLES.iter().find(|(name, _)| *name == path).map_or(&[], |(_, lines)| lines)
}

/// Adds the examples after the help of each command.
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
    // Writing to a string can't fail.
    let _ = write!(text, "{header}Examples:{header:#}");
    for line in lines {
        let _ = write!(text, "\n  {line}");
    }
    command.after_help(text)
}

/// Returns the command as its help shows it: its commands in groups.
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
    command.help_template(text).override_usage("haft [OPTIONS] [COMMAND]").mut_subcommands(|it| it.hide(true))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use std::{collections::BTreeMap, ffi::OsString};

    use clap::FromArgMatches;

    use super::*;
    use crate::Haft;

    /// Returns the command as people see it, in a terminal of this width.
    fn seen(width: usize) -> Command {
        shown(Haft::described()).term_width(width)
    }

    /// Returns every command with its path: `mcp install`.
    fn all() -> BTreeMap<String, Command> {
        fn add(command: &Command, path: &str, found: &mut BTreeMap<String, Command>) {
            found.insert(path.to_owned(), command.clone());
            for below in command.get_subcommands().filter(|it| it.get_name() != "help") {
                add(below, format!("{path} {}", below.get_name()).trim(), found);
            }
        }
        let mut command = seen(80);
        command.build();
        let mut found = BTreeMap::new();
        add(&command, "", &mut found);
        found
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = Haft::described();
        for name in command.get_subcommands().map(Command::get_name) {
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert_eq!(groups, 1, "`{name}` is in {groups} groups");
        }
        for name in GROUPS.iter().flat_map(|(_, names)| *names) {
            assert!(command.find_subcommand(name).is_some(), "there is no `{name}`");
        }
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        let all = all();
        for path in all.keys() {
            let examples = examples_of(path);
            assert!((2..=4).contains(&examples.len()), "`haft {path}` has {} examples", examples.len());
            for example in examples {
                let own = format!("haft {path}");
                let calls = calls(example);
                let is_own = |words: &Vec<String>| {
                    path.split(' ').all(|it| it.is_empty() || words.contains(&it.to_owned()))
                };
                assert!(calls.iter().any(is_own), "`{example}` is not an example of `{own}`");
                for words in calls {
                    let parsed = Haft::described().try_get_matches_from(&words);
                    let parsed = parsed.unwrap_or_else(|error| panic!("{example}: {error}"));
                    Haft::from_arg_matches(&parsed).unwrap_or_else(|error| panic!("{example}: {error}"));
                    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
                    // Of `grants add run cargo test`, the word that is a command's name is an argument.
                    let verb = parsed.subcommand_name().unwrap_or_default().to_owned();
                    let quick = Haft::with_tools(&words).filter(|it| it.find_subcommand(verb).is_some());
                    if let Some(quick) = quick {
                        let quick = quick.try_get_matches_from(&words);
                        let quick = quick.unwrap_or_else(|error| panic!("{example}: {error}"));
                        // Global options are in the matches of the command, too.
                        let [quick, parsed] =
                            [quick, parsed].map(|it| format!("{:?}", it.subcommand().unwrap()));
                        assert_eq!(quick, parsed, "{example}");
                    }
                }
            }
        }
        for (path, _) in EXAMPLES {
            assert!(all.contains_key(*path), "there are examples of `{path}`, which is not a command");
        }
    }

    /// Returns the calls of haft in a line of a shell.
    fn calls(line: &str) -> Vec<Vec<String>> {
        let (mut calls, mut words, mut word, mut quote) = (Vec::new(), Vec::new(), String::new(), None);
        let line = line.split_once("  #").map_or(line, |(line, _)| line);
        for letter in line.chars().chain([' ', '|']) {
            match (letter, quote) {
                ('"' | '\'', None) => quote = Some(letter),
                (letter, Some(open)) if letter == open => quote = None,
                (' ', None) if word.is_empty() => {}
                (' ', None) => words.push(std::mem::take(&mut word)),
                ('|', None) => calls.push(std::mem::take(&mut words)),
                (letter, _) => word.push(letter),
            }
        }
        for words in &mut calls {
            // A redirection target may have any name.
            let end = words.iter().position(|it| it == ">").unwrap_or(words.len());
            words.truncate(end);
        }
        calls.retain(|words| words.first().is_some_and(|it| it == "haft"));
        calls
    }

    #[test]
    fn every_page_of_help_is_as_it_was_reviewed() {
        for (path, mut command) in all() {
            let name = format!("haft {path}").trim().replace(' ', "-");
            let (long, short) = (command.render_long_help().to_string(), command.render_help().to_string());
            for (page, text) in [("--help", &long), ("-h", &short)] {
                let wide: Vec<&str> = text.lines().filter(|it| it.chars().count() > 80).collect();
                assert!(wide.is_empty(), "{name} {page} is wider than 80 columns: {wide:#?}");
            }
            let text: String = long.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
            expect_test::expect_file![format!("help/pages/{name}.txt")].assert_eq(&text);
        }
    }

    #[test]
    fn a_command_s_own_options_come_before_the_global_ones() {
        for (path, mut command) in all().into_iter().filter(|(path, _)| !path.is_empty()) {
            let help = command.render_help().to_string();
            let headings: Vec<&str> =
                help.lines().filter(|it| it.ends_with(':') && !it.starts_with(' ')).collect();
            let at = |heading: &str| headings.iter().position(|it| *it == heading).unwrap();
            assert_eq!(headings[at("Global options:") + 1..], ["Examples:"], "{path}: {headings:?}");
            assert!(at("Options:") < at("Global options:"), "{path}: {headings:?}");
        }
    }

    #[test]
    fn global_options_are_taken_before_and_after_the_command() {
        for line in ["haft --approve never tools --json", "haft tools --json --approve never"] {
            let matches = Haft::described().try_get_matches_from(line.split(' ')).unwrap();
            let (_, tools) = matches.subcommand().unwrap();
            assert!(tools.get_flag("json") && tools.contains_id("approve"), "{line}");
        }
    }

    #[test]
    fn what_is_said_of_an_option_begins_with_a_capital_and_has_no_full_stop() {
        for (path, command) in all() {
            let summary = command.get_about().map(ToString::to_string).unwrap_or_default();
            let of_arguments = command.get_arguments().map(|it| {
                let help = it.get_help().map(ToString::to_string).unwrap_or_default();
                (format!("haft {path}: {}", it.get_id()), help)
            });
            for (what, text) in of_arguments.chain([(format!("haft {path}"), summary)]) {
                let first = text.chars().next().unwrap_or(' ');
                let is_haft = text.starts_with("haft runs tools");
                assert!(first.is_uppercase() || is_haft, "{what}: {text:?}");
                assert!(!text.ends_with('.'), "{what}: {text:?}");
            }
        }
    }
}
