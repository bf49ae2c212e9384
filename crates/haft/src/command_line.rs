//! Command line of `haft`: its commands with their one-line summaries, and the options that all of them take.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use kit::Fault;

use crate::{Options, Place, help, verbs};

/// haft runs tools for LLM agents: exact edits, sandboxed commands, guarded web access, undo
#[derive(Parser)]
#[command(name = "haft", version, arg_required_else_help = true, max_term_width = 100)]
pub struct Haft {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Do a task with an agent
    Run(verbs::run::Run),
    /// Chat with an agent
    Chat(verbs::chat::Chat),
    /// Call a tool and print what a model would read
    Call(verbs::call::Call),
    /// List the tools as a model sees them
    Tools(verbs::tools::Tools),
    /// Print an agent's system prompt, and what it costs
    Prompt(verbs::prompt::Prompt),
    /// Print the manual of a tool
    Manual(verbs::manual::Manual),
    /// Create a starter tool with a test in this workspace
    NewTool(verbs::new_tool::NewTool),
    /// Serve tools over MCP; manage MCP clients and servers
    ///
    /// Without a command, haft serves its tools on standard input and output, which is how an MCP client starts it; with
    /// `--http` it serves them over HTTP.
    ///
    /// `install` adds haft to an MCP client. The other commands are about MCP servers that haft itself uses: those of
    /// `[mcp.NAME]` in haft.toml, and of a trusted workspace's .mcp.json.
    Mcp(verbs::mcp::Mcp),
    /// Show the log of tool calls and their outcomes
    Log(verbs::log::Log),
    /// Undo file changes made by tool calls
    Undo(verbs::undo::Undo),
    /// List, add and revoke permissions that need no approval
    Grants(verbs::grants::Grants),
    /// Trust this workspace: use its haft.toml and run its tools
    ///
    /// haft ignores a workspace's own tools and the parts of its haft.toml that allow more, until you trust them. The trust
    /// ends when haft.toml changes.
    ///
    /// Permissions of `[tool.NAME]` apply only to the content that a tool's file has now; trust it again after a change.
    /// `haft trust NAME` does that for one tool, wherever its file is, and prints what it is granted.
    Trust(verbs::trust::Trust),
    /// Reload your own tools and show errors
    ReloadTools(verbs::reload_tools::ReloadTools),
    /// Show the configuration, and where each value comes from
    Config(verbs::config::Config),
    /// Check this machine: sandbox, models, programs, MCP clients
    ///
    /// haft tries each of its guarantees in a workspace of its own and reports whether it holds. Nothing is installed,
    /// and nothing outside the state folder is changed.
    ///
    /// The exit code is 1 if a guarantee is broken; a missing key or program is reported and is no failure.
    Doctor(verbs::doctor::Doctor),
    /// Print a shell's completion script
    Completions(verbs::completions::Completions),
    /// Print haft's man page, or write all of them to a folder
    Man(verbs::man::Man),
}

impl Haft {
    /// Parses the command line of this process; prints help, the version or an error and exits, where that is asked for or
    /// due.
    pub fn of_process() -> Self {
        let matches = help::shown(help::with_examples(Self::command())).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// The command line with all that its help says, for completions and man pages.
    pub(crate) fn described() -> clap::Command {
        help::with_examples(Self::command())
    }

    /// Does what was asked for.
    ///
    /// # Errors
    /// Those of the verb.
    pub async fn run(self, place: &Place) -> Result<ExitCode, Fault> {
        let Self { options, verb } = self;
        match verb {
            Verb::Run(verb) => verb.run(&options, place).await,
            Verb::Chat(verb) => verb.run(&options, place).await,
            Verb::Call(verb) => verb.run(&options, place).await,
            Verb::Tools(verb) => verb.run(&options, place).await,
            Verb::Prompt(verb) => verb.run(&options, place).await,
            Verb::Manual(verb) => verb.run(&options, place).await,
            Verb::NewTool(verb) => verb.run(&options, place),
            Verb::Mcp(verb) => verb.run(&options, place).await,
            Verb::Log(verb) => verb.run(&options, place),
            Verb::Undo(verb) => verb.run(&options, place).await,
            Verb::Grants(verb) => verb.run(&options, place),
            Verb::Trust(verb) => verb.run(&options, place).await,
            Verb::ReloadTools(verb) => verb.run(&options, place).await,
            Verb::Config(verb) => verb.run(&options, place),
            Verb::Doctor(verb) => verb.run(&options, place).await,
            Verb::Completions(verb) => verb.run(Self::described()),
            Verb::Man(verb) => verb.run(Self::described()),
        }
    }
}
