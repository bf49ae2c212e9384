//! `haft man`: man pages, one for each command.

use std::{fs, io, path::PathBuf, process::ExitCode};

use clap::{Args, Command};
use kit::{Fault, Kind};

use crate::{help, print};

#[derive(Args)]
pub struct Man {
    /// Write haft.1, haft-run.1 and so on to this folder, which is created if it doesn't exist
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

/// The sections of `haft.1` that the command line itself doesn't say, each with its entries.
const SECTIONS: [(&str, &[(&str, &str)]); 3] = [
    (
        "FILES",
        &[
            ("~/.config/haft/haft.toml", "Your configuration; haft config --example lists every key."),
            (
                "haft.toml",
                "Configuration of a workspace. It may restrict yours; more than that needs haft trust.",
            ),
            ("~/.config/haft/AGENTS.md", "Your instructions for every agent."),
            ("~/.config/haft/tools, .haft/tools", "Your own tools, and those of a workspace."),
            ("~/.local/state/haft", "State: the journal, undo data, long outputs."),
        ],
    ),
    (
        "ENVIRONMENT",
        &[
            ("HAFT_CONFIG_DIR, HAFT_STATE_DIR", "Folders of the configuration and of the state."),
            ("HAFT_MODEL", "Model to use where neither --model nor haft.toml names one."),
            ("HAFT_MCP_TOKEN", "Bearer token that haft mcp --http accepts."),
            ("HAFT_LOG", "Log level on standard error, such as info or debug."),
            ("NO_COLOR", "Turns colors off."),
            (
                "ANTHROPIC_API_KEY, OPENAI_API_KEY …",
                "API keys of model providers; haft login keeps one in a file.",
            ),
        ],
    ),
    (
        "EXIT STATUS",
        &[
            ("0", "Success."),
            ("1", "The call, the task or the check failed."),
            ("2", "The command line or a configuration is wrong."),
            ("130", "Stopped by Ctrl-C."),
        ],
    ),
];

/// A page and the name of its file.
struct Page {
    file: String,
    text: Vec<u8>,
}

impl Man {
    /// Prints the page of `haft`, or writes all pages to the folder.
    ///
    /// # Errors
    /// When the folder can't be made, or a page can't be written.
    pub fn run(&self, command: Command) -> Result<ExitCode, Fault> {
        let made =
            pages(command).map_err(|error| Fault::bug(format!("a man page can't be made: {error}")))?;
        let Some(folder) = &self.dir else {
            let page = made.into_iter().next().map(|it| it.text).unwrap_or_default();
            print::out(&String::from_utf8_lossy(&page));
            return Ok(ExitCode::SUCCESS);
        };
        let failed = |path: &PathBuf, error: io::Error| {
            Fault::new(Kind::Unavailable, format!("can't write `{}`: {error}", path.display()))
        };
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        for page in &made {
            let path = folder.join(&page.file);
            fs::write(&path, &page.text).map_err(|error| failed(&path, error))?;
        }
        print::out(&format!("wrote {} man pages to {}", made.len(), folder.display()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the page of the command itself, then the pages of its commands.
fn pages(command: Command) -> io::Result<Vec<Page>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, &mut Vec::new(), &mut pages)?;
    Ok(pages)
}

fn add(command: &Command, path: &mut Vec<String>, pages: &mut Vec<Page>) -> io::Result<()> {
    let mut command = command.clone();
    if path.is_empty() {
        // The page begins with the name already.
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        command = command.about(about.trim_start_matches("haft ").to_owned());
    }
    let source = format!("haft {}", env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command.clone()).source(source).manual("haft manual");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    text.extend(examples(&path.join(" ")).bytes());
    if path.is_empty() {
        text.extend(SECTIONS.iter().flat_map(|(title, entries)| section(title, entries).into_bytes()));
    }
    pages.push(Page { file: page.get_filename(), text });
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        path.push(below.get_name().to_owned());
        add(below, path, pages)?;
        path.pop();
    }
    Ok(())
}

/// Returns the examples of a command, as a person types them.
fn examples(path: &str) -> String {
    let lines = help::examples_of(path);
    // A leading dot would be a roff request.
    let line = |it: &&str| format!("\\&{}\n", escaped(it));
    match lines.is_empty() {
        true => String::new(),
        false => format!(".SH EXAMPLES\n.nf\n{}.fi\n", lines.iter().map(line).collect::<String>()),
    }
}

/// Returns a section with an indented text for each entry.
fn section(title: &str, entries: &[(&str, &str)]) -> String {
    let entry =
        |(name, about): &(&str, &str)| format!(".TP\n\\fB{}\\fR\n\\&{}\n", escaped(name), escaped(about));
    format!(".SH \"{title}\"\n{}", entries.iter().map(entry).collect::<String>())
}

/// Escapes a text for roff: backslashes and quotes have a meaning there, and a hyphen is not a minus.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq")
}
