//! Rules on command lines, from the lists of the configuration.
//!
//! Deny takes precedence over ask, and ask over allow, over all parts. To deny or ask, a rule matches
//! generously: options between its words don't prevent a match, and invisible text may be one. To allow, it
//! matches narrowly: every word is there, literal, and in its place.

use std::path::{Component, Path, PathBuf};

use kit::{Fault, effect::Effect};
use sandbox::control_files::is_control_file;

use super::{
    Part, Unparsed, Word, parse,
    programs::{self, Moves, base, is_neutral, known_as, runs_others},
};
use crate::commands::section::{CommandRule, Commands, Then};

/// The first words of a command.
type Prefix = Vec<String>;

/// The lists of one runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    allow: Vec<Prefix>,
    ask: Vec<Prefix>,
    deny: Vec<Prefix>,
    /// The only commands that are allowed; any, if `None`.
    only: Option<Vec<Prefix>>,
    workspace: PathBuf,
}

/// The environment in which a command would run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Whether the sandbox confines it, so that it needs no approval of its own.
    pub(crate) contained: bool,
    /// Whether the call wants to leave the sandbox.
    pub(crate) leaves: bool,
}

/// The decision on a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judged {
    /// Allowed; with the indexes of the grants that it needed.
    Runs(Vec<usize>),
    /// Needs approval.
    Ask(Case),
    /// Denied.
    Deny(Case),
}

/// A rule that applies, and the part that it applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    /// The rule's name.
    pub(crate) name: &'static str,
    /// The part of the command line.
    pub(crate) about: String,
    /// The rule's message.
    pub(crate) says: String,
    /// Grants that would allow it the next time.
    pub(crate) offers: Vec<Effect>,
    /// Whether a denying rule may apply, so that only a person can decide.
    pub(crate) firm: bool,
}

/// Whether a rule applies to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sure {
    No,
    Maybe,
    Yes,
}

impl Rules {
    /// Creates the rules of a configuration for this workspace.
    ///
    /// # Errors
    /// When a rule is invalid, or one of its examples contradicts it.
    pub fn new(commands: &Commands, workspace: &Path) -> Result<Self, Fault> {
        let list = |lines: &[String]| lines.iter().map(|line| prefix(line)).collect::<Result<Vec<_>, _>>();
        let mut rules = Self {
            allow: list(&commands.allow)?,
            ask: list(&commands.ask)?,
            deny: list(&commands.deny)?,
            only: commands.only.as_deref().map(list).transpose()?,
            workspace: workspace.to_owned(),
        };
        for rule in &commands.rules {
            if rule.prefix.is_empty() {
                return Err(Fault::bad_args("a `[[command]]` has an empty `prefix`"));
            }
            check_examples(rule)?;
            match rule.then {
                Then::Allow => rules.allow.push(rule.prefix.clone()),
                Then::Ask => rules.ask.push(rule.prefix.clone()),
                Then::Deny => rules.deny.push(rule.prefix.clone()),
            }
        }
        if rules.allow.iter().any(is_all) {
            return Err(Fault::bad_args("`allow = [\"*\"]` would allow every command")
                .next("Use `approve = \"auto\"` for that, or name the commands.".to_owned()));
        }
        Ok(rules)
    }

    /// Decides on a command line in this placement, with these grants.
    pub(crate) fn judge(&self, text: &str, placement: Placement, grants: &[&Effect]) -> Judged {
        let only = self.only.as_deref().filter(|only| !only.iter().any(is_all));
        if placement.contained && self.ask.is_empty() && self.deny.is_empty() && only.is_none() {
            return Judged::Runs(Vec::new());
        }
        let exactly = grants.iter().position(|it| it.is_exactly(text, placement.leaves));
        let parts = match parse(text) {
            Ok(parts) => parts,
            Err(Unparsed(why)) => return self.unparsed(text, &why, placement, only, exactly),
        };
        for part in &parts {
            if let Some(rule) = self.deny.iter().find(|rule| about(rule, part) == Sure::Yes) {
                return Judged::Deny(Case::of(
                    "command_deny",
                    part,
                    format!("`{}` is on the list of what is denied", rule.join(" ")),
                ));
            }
        }
        if let Some(only) = only
            && let Some(part) = parts.iter().find(|part| !self.is_listed(part, only))
        {
            return Judged::Deny(not_allowed(part.text(), only));
        }
        if let Some(grant) = exactly {
            return Judged::Runs(vec![grant]);
        }
        if let Some(only) = only
            && let Some(part) =
                parts.iter().find(|part| (part.opaque || part.unclear) && !lists_code(part, only))
        {
            return Judged::Ask(Case {
                offers: vec![Effect::exactly(text, placement.leaves)],
                firm: true,
                ..Case::of(
                    "command_unclear",
                    part,
                    "it can't be seen whether it stays on the list of commands".to_owned(),
                )
            });
        }
        self.ask(text, &parts, placement, grants)
    }

    /// Returns the questions that remain once nothing denies.
    fn ask(&self, text: &str, parts: &[Part], placement: Placement, grants: &[&Effect]) -> Judged {
        let moved = parts.iter().any(|part| matches!(part.program(), Some("cd" | "pushd" | "popd")));
        let mut used = Vec::new();
        let mut open: Vec<&Part> = Vec::new();
        let mut first: Option<Case> = None;
        let mut said = false;
        let mut firm = false;
        for part in parts {
            let denied = self.deny.iter().find(|rule| about(rule, part) == Sure::Maybe);
            let asked = self.ask.iter().find(|rule| about(rule, part) != Sure::No);
            let case = if let Some(rule) = denied {
                Case::of(
                    "command_unclear",
                    part,
                    format!("it can't be seen whether this is `{}`, which is denied", rule.join(" ")),
                )
            } else if let Some(rule) = asked.filter(|rule| about(rule, part) == Sure::Maybe) {
                Case::of(
                    "command_unclear",
                    part,
                    format!(
                        "it can't be seen whether this is `{}`, which is run only after approval",
                        rule.join(" ")
                    ),
                )
            } else if let Some(rule) = asked {
                Case::of("command_ask", part, format!("`{}` is run only after approval", rule.join(" ")))
            } else if placement.contained || self.runs_freely(part, moved) {
                continue;
            } else if placement.leaves {
                Case::of("unconfined", part, "a command leaves the sandbox only after approval".to_owned())
            } else {
                Case::of("run", part, "a command is run without a sandbox only after approval".to_owned())
            };
            let unclear = case.name == "command_unclear";
            let granted = grants.iter().position(|grant| {
                grant.prefix(placement.leaves).is_some_and(|prefix| {
                    denied.is_none() && speaks_for(prefix, part, moved, placement.contained)
                })
            });
            if let Some(grant) = granted {
                used.push(grant);
                continue;
            }
            open.push(part);
            // A rule that may deny is reported before one that asks.
            if first.is_none() || (denied.is_some() && !said) {
                first = Some(case);
            }
            said |= denied.is_some();
            firm |= unclear;
        }
        match first {
            None => Judged::Runs(used),
            Some(case) => Judged::Ask(Case { offers: offers(text, &open, placement), firm, ..case }),
        }
    }

    fn unparsed(
        &self,
        text: &str,
        why: &str,
        placement: Placement,
        only: Option<&[Prefix]>,
        exactly: Option<usize>,
    ) -> Judged {
        if let Some(only) = only {
            let mut case = not_allowed(text.to_owned(), only);
            case.says = format!("it can't be understood for sure ({why}), and {}", case.says);
            return Judged::Deny(case);
        }
        if let Some(grant) = exactly {
            return Judged::Runs(vec![grant]);
        }
        Judged::Ask(Case {
            name: "unparsed",
            about: text.to_owned(),
            says: format!("what can't be understood for sure is run only after approval: {why}"),
            offers: vec![Effect::exactly(text, placement.leaves)],
            firm: !self.deny.is_empty(),
        })
    }

    fn runs_freely(&self, part: &Part, moved: bool) -> bool {
        is_neutral(part, Moves::Inside, &|path| self.is_below(path))
            || (part.wraps && part.odd.is_none() && part.writes.is_empty())
            || self.allow.iter().any(|prefix| speaks_for(prefix, part, moved, false))
    }

    fn is_listed(&self, part: &Part, only: &[Prefix]) -> bool {
        let bare = Part { writes: Vec::new(), ..part.clone() };
        let named = |prefix: &Prefix| {
            part.words.len() >= prefix.len()
                && part.words.iter().zip(prefix).enumerate().all(|(at, (word, wanted))| match word {
                    Word::Plain(word) if at == 0 => known_as(word) == wanted || word == wanted,
                    Word::Plain(word) => word == wanted,
                    Word::Open(_) => false,
                })
        };
        is_neutral(&bare, Moves::Anywhere, &|_| true) || (part.odd.is_none() && only.iter().any(named))
    }

    /// Returns whether this is a folder in the workspace, and none that decides what other programs run.
    fn is_below(&self, path: &str) -> bool {
        let path = Path::new(path);
        let relative = match path.strip_prefix(&self.workspace) {
            Ok(rest) if path.is_absolute() && !self.workspace.as_os_str().is_empty() => rest,
            _ => path,
        };
        let plain = relative.components().all(|it| matches!(it, Component::Normal(_) | Component::CurDir));
        plain && !relative.to_string_lossy().starts_with(['-', '~']) && !is_control_file(relative)
    }
}

impl Case {
    fn of(name: &'static str, part: &Part, says: String) -> Self {
        let about = match (part.odd, part.words.is_empty()) {
            (Some(odd), true) => odd.to_owned(),
            (Some(odd), false) => format!("{} ({odd})", part.text()),
            (None, _) => part.text(),
        };
        Self { name, about, says, offers: Vec::new(), firm: false }
    }
}

fn not_allowed(about: String, only: &[Prefix]) -> Case {
    let list: Vec<String> = only.iter().map(|it| it.join(" ")).collect();
    Case {
        name: "not_allowed",
        about,
        says: format!("it is not on the list of commands: {}", list.join(", ")),
        offers: Vec::new(),
        firm: true,
    }
}

/// Returns whether the list itself contains the option that takes code, as in `python3 -c`.
fn lists_code(part: &Part, only: &[Prefix]) -> bool {
    let option = |prefix: &Prefix| {
        prefix.last().is_some_and(|it| matches!(it.as_str(), "-c" | "-e" | "-E" | "-r" | "-p" | "--eval"))
    };
    let same = |prefix: &Prefix| {
        part.words.len() > prefix.len()
            && part.words.iter().zip(prefix).enumerate().all(|(at, (word, wanted))| {
                word.plain().is_some_and(|it| it == wanted || (at == 0 && known_as(it) == wanted))
            })
    };
    only.iter().any(|prefix| option(prefix) && same(prefix))
}

fn is_all(prefix: &Prefix) -> bool {
    prefix.len() == 1 && prefix.first().is_some_and(|it| it == "*")
}

/// Splits a line of a list into its words.
fn prefix(line: &str) -> Result<Prefix, Fault> {
    let words: Prefix = line.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Err(Fault::bad_args("a list of `[commands]` has an empty line"));
    }
    if line != "*" && line.contains(['\'', '"', '\\', '$', '`', '*', ';', '|', '&', '<', '>', '(', ')']) {
        return Err(Fault::bad_args(format!("`{line}` in `[commands]` is not the first words of a command"))
            .next(
                "A list has plain words, such as \"git status\"; `[[command]]` takes any words as `prefix`."
                    .to_owned(),
            ));
    }
    Ok(words)
}

fn check_examples(rule: &CommandRule) -> Result<(), Fault> {
    let matches = |line: &String| {
        let parts = parse(line).map_err(|Unparsed(why)| {
            Fault::bad_args(format!(
                "the example `{line}` of the rule for `{}` is not a command: {why}",
                rule.prefix.join(" ")
            ))
        })?;
        Ok::<_, Fault>(parts.iter().any(|part| match rule.then {
            Then::Allow => speaks_for(&rule.prefix, part, false, false),
            Then::Ask | Then::Deny => about(&rule.prefix, part) == Sure::Yes,
        }))
    };
    let wrong = |line: &str, does: &str| {
        Fault::bad_args(format!("the rule for `{}` {does} its example `{line}`", rule.prefix.join(" ")))
            .next("Change the rule or the example in haft.toml.".to_owned())
    };
    for line in &rule.matches {
        if !matches(line)? {
            return Err(wrong(line, "does not match"));
        }
    }
    for line in &rule.not_matches {
        if matches(line)? {
            return Err(wrong(line, "matches"));
        }
    }
    Ok(())
}

/// Returns whether a prefix can allow this part.
fn speaks_for(prefix: &[String], part: &Part, moved: bool, contained: bool) -> bool {
    if part.odd.is_some() || part.opaque || (!contained && !part.writes.is_empty()) {
        return false;
    }
    let words = bare(part);
    let Some(program) = words.first().and_then(|it| it.plain()) else { return false };
    // After `cd`, a relative path is another program.
    if moved && program.contains('/') && !program.starts_with('/') {
        return false;
    }
    let same = words.len() >= prefix.len()
        && words.iter().zip(prefix).enumerate().all(|(at, (word, wanted))| match word {
            Word::Plain(word) if at == 0 => word == wanted || known_as(word) == wanted,
            Word::Plain(word) => word == wanted,
            Word::Open(_) => false,
        });
    // If the program runs others, only an exact match allows it.
    same && (!runs_others(&part.words) || (words.len() == prefix.len() && !part.fed))
}

/// Returns the words without options that have no effect.
fn bare(part: &Part) -> Vec<&Word> {
    let git = part.program().map(base) == Some("git");
    let mut words = part.words.iter();
    let program = words.next();
    let words = words.as_slice();
    let quiet = if git { words.iter().take_while(|it| programs::is_quiet_git_option(it)).count() } else { 0 };
    program.into_iter().chain(words.get(quiet..).unwrap_or_default()).collect()
}

/// Returns whether an asking or denying rule applies to this part.
fn about(rule: &[String], part: &Part) -> Sure {
    let hidden = if part.opaque || part.unclear { Sure::Maybe } else { Sure::No };
    let hidden = hidden.max(brings(rule, part));
    let (Some(wanted), Some(first)) = (rule.first(), part.words.first()) else { return hidden };
    if rule.len() == 1 && wanted == "*" {
        return Sure::Yes;
    }
    let Some(program) = first.plain() else { return Sure::Maybe };
    let same = program == wanted || base(program).eq_ignore_ascii_case(base(wanted));
    if !same {
        return hidden;
    }
    follow(rule.get(1..).unwrap_or_default(), part.words.get(1..).unwrap_or_default()).max(hidden)
}

/// Returns whether the part contains the rule's program in code or as a file.
fn brings(rule: &[String], part: &Part) -> Sure {
    let Some(wanted) = rule.first().map(|it| base(it)) else { return Sure::No };
    let rest = rule.get(1..).unwrap_or_default();
    let said = part.code.iter().any(|text| {
        let within = |it: char| it.is_alphanumeric() || "_-./".contains(it);
        let words: Vec<Word> = text
            .split(|it| !within(it))
            .filter(|it| !it.is_empty())
            .map(|it| Word::Plain(it.to_owned()))
            .collect();
        let starts = |at: usize| words.get(at).is_some_and(|it| base(it.text()).eq_ignore_ascii_case(wanted));
        (0..words.len())
            .any(|at| starts(at) && follow(rest, words.get(at + 1..).unwrap_or_default()) == Sure::Yes)
    });
    if said {
        return Sure::Yes;
    }
    let named = |word: &Word| match word {
        Word::Plain(path) => base(path).eq_ignore_ascii_case(wanted),
        Word::Open(raw) => raw.contains("$(") || raw.contains('`') || programs::is_in_system_folder(raw),
    };
    let sure = |word: &Word| {
        let all = if word.plain().is_some() && rest.is_empty() { Sure::Yes } else { Sure::Maybe };
        if named(word) { all } else { Sure::No }
    };
    let taken = part.takes.iter().map(sure).max().unwrap_or(Sure::No);
    let near = |word: &Word| programs::is_in_system_folder(word.text()) && named(word);
    if part.near.iter().any(near) { taken.max(Sure::Maybe) } else { taken }
}

/// Returns whether these words occur in this order, with nothing between them but options and their possible values.
fn follow(rule: &[String], words: &[Word]) -> Sure {
    let mut here = vec![false; words.len() + 1];
    if let Some(start) = here.first_mut() {
        *start = true;
    }
    let mut maybe = false;
    let mut options = Sure::Yes;
    for wanted in rule {
        if wanted.starts_with('-') {
            // Options may be in any order, and short ones combined.
            if !words.iter().any(|it| it.plain().is_some_and(|it| it == wanted))
                && !in_clusters(wanted, words)
            {
                let open = words.iter().any(|it| it.plain().is_none());
                options = options.min(if open { Sure::Maybe } else { Sure::No });
            }
            continue;
        }
        let mut next = vec![false; words.len() + 1];
        for (at, word) in words.iter().enumerate() {
            if here.get(at) != Some(&true) {
                continue;
            }
            let reach = |list: &mut Vec<bool>, at: usize| {
                if let Some(it) = list.get_mut(at) {
                    *it = true;
                }
            };
            match word {
                Word::Open(_) => maybe = true,
                Word::Plain(word) if word == wanted => reach(&mut next, at + 1),
                Word::Plain(word) if word.starts_with(['-', '+']) => {
                    reach(&mut here, at + 1);
                    reach(&mut here, at + 2);
                }
                Word::Plain(_) => {}
            }
        }
        here = next;
    }
    let words = match (here.contains(&true), maybe) {
        (true, _) => Sure::Yes,
        (false, true) => Sure::Maybe,
        (false, false) => Sure::No,
    };
    words.min(options)
}

/// Returns whether all letters of `-rf` are among the short options.
fn in_clusters(wanted: &str, words: &[Word]) -> bool {
    let letters = wanted.trim_start_matches('-');
    !wanted.starts_with("--")
        && letters.chars().all(|letter| {
            words.iter().filter_map(Word::plain).any(|word| {
                word.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.contains(letter))
            })
        })
}

/// Returns grants that would cover these parts the next time; the whole text if no prefix can.
fn offers(text: &str, parts: &[&Part], placement: Placement) -> Vec<Effect> {
    let mut offers = Vec::new();
    for part in parts {
        let Some(prefix) = offer(part, placement.contained) else {
            return vec![Effect::exactly(text, placement.leaves)];
        };
        let effect = if placement.leaves { Effect::Unconfined(prefix) } else { Effect::Run(prefix) };
        if !offers.contains(&effect) {
            offers.push(effect);
        }
    }
    offers
}

fn offer(part: &Part, contained: bool) -> Option<Prefix> {
    let program = part.program()?;
    let one = vec![program.to_owned()];
    if programs::destroys(program)
        || runs_others(&part.words)
        || program.contains('/') && !program.starts_with('/')
    {
        return None;
    }
    let words = bare(part);
    let second = words.get(1).and_then(|it| it.plain());
    let prefix = match second {
        Some(second) if programs::has_commands(program) => {
            let mut prefix = vec![program.to_owned(), second.to_owned()];
            // `npm run` alone is not a command.
            if second == "run" && matches!(base(program), "npm" | "pnpm" | "yarn") {
                prefix.extend(words.get(2).and_then(|it| it.plain()).map(str::to_owned));
            }
            prefix
        }
        _ if programs::has_commands(program) && words.len() > 1 => return None,
        _ => one,
    };
    speaks_for(&prefix, part, false, contained).then_some(prefix)
}

/// Returns the words for a prefix grant, if the text is one literal command whose first words say what it does.
pub(crate) fn as_prefix(text: &str) -> Option<Prefix> {
    let parts = parse(text).ok()?;
    let [part] = parts.as_slice() else { return None };
    let words = part.words.iter().map(|it| it.plain().map(str::to_owned)).collect::<Option<Prefix>>()?;
    (!words.is_empty() && !runs_others(&part.words) && speaks_for(&words, part, false, false))
        .then_some(words)
}
