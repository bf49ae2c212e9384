//! Texts of the demo: its introduction, its result, and the next commands.

use agent::model::models;

use super::{Confined, PARTS, project::Project};
use crate::{
    environment::program,
    terminal::row::{Row, Style},
};

/// Returns the introduction: the task, the project and the sandbox.
pub(super) fn beginning(project: &Project, confined: &Confined) -> String {
    let mut text = format!(
        "A scripted model fixes a failing test with haft's real tools: no key, no network.\n\
         The project is {}: price.sh has a bug, test.sh finds it.\n",
        project.shown()
    );
    match confined {
        Confined::Fully => text.push_str("Commands run in the OS sandbox.\n"),
        Confined::Weaker(why) => text.push_str(&format!(
            "This machine lacks a part of the OS sandbox: {why}.\n\
             The demo's commands run without it, in the demo's folder only. In your projects haft refuses commands here \
             until you allow that with `--accept-weaker {}`.\n",
            part(why)
        )),
        Confined::Not(why) => text.push_str(&format!(
            "This machine can't sandbox commands: {why}.\n\
             The demo's commands run without a sandbox, in the demo's folder only. In your projects haft refuses commands \
             here until you choose `--sandbox full`.\n"
        )),
    }
    text.push('\n');
    text
}

/// Returns the part of the sandbox that a fault is about.
fn part(why: &str) -> &'static str {
    PARTS.into_iter().find(|it| why.contains(&format!("{it} failed"))).unwrap_or("namespaces")
}

/// Returns the fault of a sandbox that can't be built, in one line.
pub(super) fn short(why: &str) -> String {
    let why = why.rsplit_once("nothing was started: ").map_or(why, |(_, why)| why);
    why.split(['\n', ';']).next().unwrap_or_default().trim_end_matches('.').to_owned()
}

/// Returns the text with its sentences wrapped to `columns`. Commands stay on one line, to be copied.
pub(super) fn wrapped(text: &str, columns: usize) -> String {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        if line.starts_with(' ') || line.is_empty() {
            lines.push(line.to_owned());
        } else {
            lines.extend(Row::new(line, Style::PLAIN).wrapped(columns, 0).iter().map(|it| it.painted(false)));
        }
    }
    lines.join("\n")
}

/// The end of the demo.
pub(super) struct Ending<'a> {
    pub(super) project: &'a Project,
    pub(super) confined: &'a Confined,
    /// The test passed when haft ran it itself.
    pub(super) works: bool,
    /// A provider has a key already.
    pub(super) has_key: bool,
    pub(super) removed: bool,
}

impl Ending<'_> {
    /// Returns the result of the demo, and the next commands.
    pub(super) fn text(&self) -> String {
        let haft = program();
        let Self { project, works, removed, .. } = self;
        let happened = match works {
            true => {
                "What happened: the test failed, the model read price.sh and changed one line, and now the test passes. haft \
                 ran it once more itself to make sure. Every call is in the log."
            }
            false => {
                "The test still fails, although the script says otherwise. `haft doctor` shows what doesn't work here."
            }
        };
        let mut text = format!("\n{happened}\n\n");
        if *removed {
            text.push_str("The project and its log are removed, as you asked.\n");
        } else {
            let rows = [
                (project.command(&haft, "log"), "what each call did"),
                (project.command(&haft, "undo"), "takes the edit back"),
                (project.removal(), "removes the project"),
            ];
            text.push_str("The project stays. Try:\n");
            text.push_str(&columns(&rows));
        }
        text.push_str("\nNext, in your own project:\n");
        text.push_str(&columns(&self.next(&haft)));
        text
    }

    /// Returns the commands to type in a person's own project, depending on the keys that they have.
    fn next(&self, haft: &str) -> Vec<(String, &'static str)> {
        let provider = models().next().map_or("PROVIDER", |it| it.provider);
        let mut rows = Vec::new();
        if !self.has_key {
            rows.push((format!("{haft} login {provider}"), "a key, then:"));
        }
        rows.push((format!("{haft} run \"fix the failing test\""), "a task"));
        rows.push((haft.to_owned(), "a chat"));
        rows.push((format!("{haft} chat --model ollama:qwen3"), "a local model, no key"));
        rows.push((format!("{haft} mcp install claude-code"), "the tools for the agent you have"));
        if *self.confined != Confined::Fully {
            rows.push((format!("{haft} doctor"), "what the sandbox lacks here"));
        }
        rows
    }
}

/// Formats commands and their descriptions in two columns; on separate lines if that is too wide for a terminal.
fn columns(rows: &[(String, &'static str)]) -> String {
    const WIDE: usize = 80;
    let width = rows.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let fits = rows.iter().all(|(_, what)| 2 + width + 3 + what.chars().count() <= WIDE);
    let row = |(command, what): &(String, &str)| match fits {
        true => format!("  {command:width$}   {what}\n"),
        false => format!("  {command}\n      {what}\n"),
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stand_beside_what_they_do_or_above_it() {
        let narrow = [("haft undo".to_owned(), "takes it back"), ("haft".to_owned(), "a chat")];
        assert_eq!(columns(&narrow), "  haft undo   takes it back\n  haft        a chat\n");
        let long = "x".repeat(70);
        let wide = [(long.clone(), "takes it back")];
        assert_eq!(columns(&wide), format!("  {long}\n      takes it back\n"));
    }

    #[test]
    fn sentences_are_wrapped_and_commands_stay_whole() {
        let text = "One two three four.\n\n  haft run \"a long command\"\n";
        assert_eq!(wrapped(text, 12), "One two\nthree four.\n\n  haft run \"a long command\"\n");
    }

    #[test]
    fn a_sandbox_that_can_t_be_built_is_told_in_short_with_its_part() {
        let what = "the sandbox can't be built, so nothing was started: landlock failed at create: no such call; with x: y";
        assert_eq!(short(what), "landlock failed at create: no such call");
        assert_eq!(part(&short(what)), "landlock");
    }
}
