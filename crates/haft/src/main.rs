//! `haft`: wires everything, and answers one verb.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use haft::{Options, Place, print, program, verbs};

/// The hands of an agent: one tool runtime for LLM agents.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Haft {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Have an agent do a task.
    Run(verbs::run::Run),
    /// Talk with an agent.
    Chat(verbs::chat::Chat),
    /// Call a tool and print what a model would read.
    Call(verbs::call::Call),
    /// Show the tools, as a model is shown them.
    Tools(verbs::tools::Tools),
    /// Print what an agent's model is told before everything else, and what it costs.
    Prompt(verbs::prompt::Prompt),
    /// Print the manual of a tool.
    Manual(verbs::manual::Manual),
    /// Write a tool to begin with, and its test, into this workspace.
    NewTool(verbs::new_tool::NewTool),
    /// Serve the tools to an MCP client, and see to clients and to servers that haft uses.
    ///
    /// Alone it serves on standard input and output, which is how a client starts it; with `--http` over HTTP, at an address.
    /// `install` tells a client of haft. The other commands are about MCP servers that haft itself is a client of: those of
    /// `[mcp.NAME]` in haft.toml, and of a trusted workspace's .mcp.json.
    Mcp(verbs::mcp::Mcp),
    /// Show what calls were made, and what came of them.
    Log(verbs::log::Log),
    /// Put back what calls changed.
    Undo(verbs::undo::Undo),
    /// Show, add and revoke what is allowed without asking.
    Grants(verbs::grants::Grants),
    /// Show which guarantees hold on this machine, by trying them.
    Doctor(verbs::doctor::Doctor),
    /// Ask all tools that are files again what they are, and show what failed.
    ReloadTools(verbs::reload_tools::ReloadTools),
    /// Believe this workspace's haft.toml as it is now, let its tools run, and vouch for them as they are now.
    ///
    /// What `[tool.NAME]` grants counts only for a tool's file that you vouched for, until it or the code beside it
    /// changes. `haft trust NAME` vouches for that tool alone, wherever it lies, and says what it is granted.
    Trust(verbs::trust::Trust),
    /// List earlier conversations, or find one
    Sessions(verbs::sessions::Sessions),
    /// List the models that can be used
    Models(verbs::models::Models),
    /// See haft work: a scripted model fixes a failing test, without a key
    Demo(verbs::demo::Demo),
    /// Enter the key of a model provider
    Login(verbs::login::Login),
    /// Remove the key of a model provider
    Logout(verbs::login::Logout),
}

fn main() -> ExitCode {
    // The process that starts commands in the sandbox is this program too, and so is what `haft doctor` runs there.
    let first = std::env::args_os().nth(1).unwrap_or_default();
    if first == haft::runtime::sandbox::KEEPER {
        return haft::runtime::sandbox::keep();
    }
    #[cfg(target_os = "linux")]
    if first == haft::runtime::sandbox::probe::PROBE {
        return haft::runtime::sandbox::probe::probe();
    }
    let Haft { options, verb } = match Haft::try_parse() {
        Ok(haft) => haft,
        Err(error) => return misused(&error),
    };
    start_log();
    let place = match Place::from_env() {
        Ok(place) => place,
        Err(fault) => {
            print::fault(&fault);
            return ExitCode::FAILURE;
        }
    };
    // One thread: calls are served in the order in which they come, and start-up costs
    // less. What may block has threads of its own.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print::err(&format!("haft: can't start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        let Some(verb) = verb else {
            let help = Haft::command().render_help().to_string();
            return verbs::start::without_command(&options, &place, &help).await;
        };
        match verb {
            Verb::Run(verb) => verb.run(&options, &place).await,
            Verb::Chat(verb) => verb.run(&options, &place).await,
            Verb::Call(verb) => verb.run(&options, &place).await,
            Verb::Tools(verb) => verb.run(&options, &place).await,
            Verb::Prompt(verb) => verb.run(&options, &place).await,
            Verb::Manual(verb) => verb.run(&options, &place).await,
            Verb::NewTool(verb) => verb.run(&options, &place),
            Verb::Mcp(verb) => verb.run(&options, &place).await,
            Verb::Log(verb) => verb.run(&options, &place),
            Verb::Undo(verb) => verb.run(&options, &place).await,
            Verb::Grants(verb) => verb.run(&options, &place),
            Verb::Doctor(verb) => verb.run(&options, &place).await,
            Verb::ReloadTools(verb) => verb.run(&options, &place).await,
            Verb::Trust(verb) => verb.run(&options, &place).await,
            Verb::Sessions(verb) => verb.run(&options, &place),
            Verb::Models(verb) => verb.run(&options, &place).await,
            Verb::Demo(verb) => verb.run(&options, &place).await,
            Verb::Login(verb) => verb.run(&options, &place).await,
            Verb::Logout(verb) => verb.run(&options, &place),
        }
    });
    // A thread that a stopped call left behind is not waited for.
    runtime.shutdown_background();
    match done {
        Ok(code) => code,
        Err(fault) => {
            print::fault(&fault);
            ExitCode::from(if fault.kind == haft::kit::Kind::BadArgs { verbs::USAGE } else { verbs::FAULT })
        }
    }
}

/// Prints what is wrong with the command line, or the help or version that was asked for.
fn misused(error: &clap::Error) -> ExitCode {
    let command = Haft::command();
    let commands: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned()).collect();
    match verbs::start::unknown_command(error, &words, &commands, &program()) {
        Some(text) => print::err(&format!("haft: {text}")),
        // Who reads it may be gone.
        None => drop(error.print()),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(verbs::USAGE))
}

/// Logs go to standard error, and there are none unless they are asked for: `HAFT_LOG=info`.
fn start_log() {
    use tracing_subscriber::EnvFilter;
    let asked = std::env::var_os("HAFT_LOG").is_some_and(|it| !it.is_empty());
    let filter = if asked { EnvFilter::try_from_env("HAFT_LOG").ok() } else { None };
    // What rmcp traces are the messages themselves, with whatever secret is in them.
    let filter = match (filter, "rmcp=error".parse()) {
        (Some(filter), Ok(directive)) => filter.add_directive(directive),
        // What goes wrong with a server is told by whoever asked for it; rmcp would say it once more.
        _ => EnvFilter::new("error,rmcp=off"),
    };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
}
