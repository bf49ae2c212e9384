//! Command line of `haft`: its commands with their one-line summaries, and the options that all of them take.

use std::{env, ffi::OsString, process::ExitCode};

use clap::{Args as _, CommandFactory, FromArgMatches, Parser, Subcommand};
use kit::Fault;

use crate::{Options, Place, environment::program, help, print, state_folder, verbs};

/// haft runs tools for LLM agents: exact edits, sandboxed commands, guarded web access, undo
#[derive(Parser)]
#[command(name = "haft", version, max_term_width = 100)]
pub struct Haft {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Do a task with an agent
    Run(verbs::run::Run),
    /// Chat with an agent
    Chat(verbs::chat::Chat),
    /// Serve an agent to editors over the Agent Client Protocol
    ///
    /// Without a command, haft speaks the protocol on standard input and output, which is how an editor starts it. `install`
    /// adds haft to an editor's configuration.
    Acp(verbs::acp::Acp),
    /// Serve sessions over HTTP: an API, and a page for the browser
    ///
    /// The printed address signs in once. Sessions run in this process, or wherever they run already; a browser that reconnects
    /// misses nothing. Everybody else needs a token, whose role says what it may do: `view`, `say`, `approve` or `own`.
    #[cfg(feature = "web")]
    Serve(verbs::serve::Serve),
    /// List, search, show, fork and delete earlier conversations
    Sessions(verbs::sessions::Sessions),
    /// List, show, pause, fire and remove triggers, which begin turns
    Triggers(verbs::triggers::Triggers),
    /// Run sessions with triggers or messages, without a terminal
    Agents(verbs::agents::Agents),
    /// Send a message to the agent of a session
    ///
    /// The agent gets it before its next step, also while it works; an agent that waits begins a turn. The message is on the
    /// disk when this command ends, and is shown once. Only a text that is typed at a terminal counts as your word; what a
    /// program sends is data.
    Send(verbs::send::Send),
    /// Run several agents that work together, and steer them
    Group(verbs::group::Group),
    /// Take sessions that other machines send, and run them here
    ///
    /// Each session runs as `haft run` in a folder of its own, made from what its sender has, under this machine's own
    /// configuration and keys; the sender's limits can only narrow them. What it changed goes back to the sender. A worker is
    /// not given work that needs a tool file, MCP server, secret or profile that it lacks.
    ///
    /// Ctrl-C or SIGTERM ends it once its sessions are done; a second one ends it at once.
    Worker(verbs::worker::Worker),
    /// List, drain and stop workers; start a server for them
    Workers(verbs::workers::Workers),
    /// List the models that you can use
    Models(verbs::models::Models),
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
    /// Undo file changes made by tool calls, edits and commands
    Undo(verbs::undo::Undo),
    /// Remove before-images and long outputs that are old or too many
    Prune(verbs::prune::Prune),
    /// List, add and revoke permissions that need no approval
    Grants(verbs::grants::Grants),
    /// List the hooks in effect, and try them
    Hooks(verbs::hooks::Hooks),
    /// Trust this workspace: use its haft.toml, run its tools and hooks
    ///
    /// haft ignores a workspace's own tools and the parts of its haft.toml that allow more, until you trust them. The trust
    /// in haft.toml, .mcp.json and hooks ends when they change. Tools stay trusted when they change; new ones in .haft/tools
    /// are trusted too.
    ///
    /// Permissions of `[tool.NAME]` apply only to the content that a tool's file has now; trust it again after a change.
    /// `haft trust NAME` does that for one tool, wherever its file is, and prints what it is granted.
    Trust(verbs::trust::Trust),
    /// Reload your own tools and show errors
    ReloadTools(verbs::reload_tools::ReloadTools),
    /// Watch a scripted model fix a failing test, without a key
    Demo(verbs::demo::Demo),
    /// Enter the API key of a model provider
    Login(verbs::login::Login),
    /// Remove the API key of a model provider
    Logout(verbs::login::Logout),
    /// Show the configuration, and where each value comes from
    Config(verbs::config::Config),
    /// Check this machine: sandbox, models, programs, MCP clients
    ///
    /// haft tries each of its guarantees in a workspace of its own and reports whether it holds. Nothing is installed,
    /// and nothing outside the state folder is changed.
    ///
    /// The exit code is 1 if a guarantee is broken or the workspace can't be used. A missing key or program is not a failure.
    Doctor(verbs::doctor::Doctor),
    /// Print a shell's completion script
    Completions(verbs::completions::Completions),
    /// Print haft's man page, or write all of them to a folder
    Man(verbs::man::Man),
}

/// Adds the arguments of a command.
type WithArguments = fn(clap::Command) -> clap::Command;

/// The commands that need the tools of a workspace before they answer, and their arguments.
const WITH_TOOLS: [(&str, WithArguments); 6] = [
    ("run", verbs::run::Run::augment_args),
    ("chat", verbs::chat::Chat::augment_args),
    ("acp", verbs::acp::Acp::augment_args),
    ("call", verbs::call::Call::augment_args),
    ("tools", verbs::tools::Tools::augment_args),
    ("mcp", verbs::mcp::Mcp::augment_args),
];

/// The commands that list the tools before they answer.
const LISTING: [&str; 4] = ["run", "chat", "acp", "mcp"];

impl Haft {
    /// Parses the command line of this process.
    ///
    /// # Errors
    /// The exit code, after help, the version or an error was printed.
    pub fn of_process() -> Result<Self, ExitCode> {
        let words: Vec<OsString> = env::args_os().collect();
        if words.iter().skip(1).any(|it| LISTING.iter().any(|verb| it == verb)) {
            tools::define_ahead();
        }
        let parsed = Self::with_tools(&words).and_then(|it| it.try_get_matches_from(&words).ok());
        let parsed = parsed.map_or_else(|| Self::shown().try_get_matches_from(&words), Ok);
        parsed.and_then(|it| Self::from_arg_matches(&it)).map_err(|error| misused(&error))
    }

    /// Returns the command line with only those commands of [`WITH_TOOLS`] that are among the words, if there are any:
    /// describing the arguments of all commands takes longer than the rest of parsing. Errors and help are those of the
    /// whole command line.
    pub(crate) fn with_tools(words: &[OsString]) -> Option<clap::Command> {
        let mut named =
            WITH_TOOLS.iter().filter(|(name, _)| words.iter().skip(1).any(|it| it == name)).peekable();
        named.peek()?;
        let command = Options::augment_args(clap::Command::new("haft"));
        Some(named.fold(command, |command, (name, arguments)| {
            command.subcommand(arguments(clap::Command::new(*name)))
        }))
    }

    /// The command line as its help shows it.
    fn shown() -> clap::Command {
        help::shown(Self::described())
    }

    /// The command line with all that its help says, for completions and man pages.
    pub(crate) fn described() -> clap::Command {
        help::with_examples(Self::command())
    }

    /// Runs the command.
    ///
    /// # Errors
    /// Those of the verb.
    pub async fn run(self, place: &Place) -> Result<ExitCode, Fault> {
        let Self { options, verb } = self;
        if !matches!(verb, Some(Verb::Completions(_) | Verb::Man(_))) {
            state_folder::check(place)?;
        }
        let Some(verb) = verb else {
            let help = Self::shown().render_help().to_string();
            return verbs::start::without_command(&options, place, &help).await;
        };
        match verb {
            Verb::Run(verb) => verb.run(&options, place).await,
            Verb::Chat(verb) => verb.run(&options, place).await,
            Verb::Acp(verb) => verb.run(&options, place).await,
            #[cfg(feature = "web")]
            Verb::Serve(verb) => verb.run(&options, place).await,
            Verb::Sessions(verb) => verb.run(&options, place).await,
            Verb::Triggers(verb) => verb.run(&options, place).await,
            Verb::Agents(verb) => verb.run(&options, place).await,
            Verb::Send(verb) => verb.run(&options, place).await,
            Verb::Group(verb) => verb.run(&options, place).await,
            Verb::Worker(verb) => verb.run(&options, place).await,
            Verb::Workers(verb) => verb.run(place).await,
            Verb::Models(verb) => verb.run(&options, place).await,
            Verb::Call(verb) => verb.run(&options, place).await,
            Verb::Tools(verb) => verb.run(&options, place).await,
            Verb::Prompt(verb) => verb.run(&options, place).await,
            Verb::Manual(verb) => verb.run(&options, place).await,
            Verb::NewTool(verb) => verb.run(&options, place),
            Verb::Mcp(verb) => verb.run(&options, place).await,
            Verb::Log(verb) => verb.run(&options, place),
            Verb::Undo(verb) => verb.run(&options, place).await,
            Verb::Prune(verb) => verb.run(&options, place),
            Verb::Grants(verb) => verb.run(&options, place),
            Verb::Hooks(verb) => verb.run(&options, place).await,
            Verb::Trust(verb) => verb.run(&options, place).await,
            Verb::ReloadTools(verb) => verb.run(&options, place).await,
            Verb::Demo(verb) => verb.run(&options, place).await,
            Verb::Login(verb) => verb.run(&options, place).await,
            Verb::Logout(verb) => verb.run(&options, place),
            Verb::Config(verb) => verb.run(&options, place),
            Verb::Doctor(verb) => verb.run(&options, place).await,
            Verb::Completions(verb) => verb.run(Self::described()),
            Verb::Man(verb) => verb.run(Self::described()),
        }
    }
}

/// Prints the error of the command line, or the requested help or version.
fn misused(error: &clap::Error) -> ExitCode {
    let command = Haft::described();
    let commands: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let words: Vec<String> = env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned()).collect();
    match verbs::start::unknown_command(error, &words, &commands, &program()) {
        Some(text) => print::err(&format!("haft: {text}")),
        // It quotes what was typed, which a script may have made of anything.
        None if error.use_stderr() => print::err(error.render().to_string().trim_end()),
        // Help has haft's own words only. Standard output may be closed.
        None => drop(error.print()),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(verbs::USAGE))
}
