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

/// The page of the command itself, then those of its commands.
fn pages(command: Command) -> io::Result<Vec<Page>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, &mut Vec::new(), &mut pages)?;
    Ok(pages)
}

fn add(command: &Command, path: &mut Vec<String>, pages: &mut Vec<Page>) -> io::Result<()> {
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
    pages.push(Page { file: page.get_filename(), text });
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        path.push(below.get_name().to_owned());
        add(below, path, pages)?;
        path.pop();
    }
    Ok(())
}

/// The examples of a command, as they are typed.
fn examples(path: &str) -> String {
    let lines = help::examples_of(path);
    // A backslash, a leading dot and a leading quote mean something to roff, and a hyphen is not a minus.
    let line =
        |it: &&str| format!("\\&{}\n", it.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq"));
    match lines.is_empty() {
        true => String::new(),
        false => format!(".SH EXAMPLES\n.nf\n{}.fi\n", lines.iter().map(line).collect::<String>()),
    }
}
