//! Merges of one key: combine the value of a lower layer with that of the layer above it.
//!
//! Each takes the upper layer's value by value, so that none is ignored silently.

use std::collections::BTreeMap;

use policy::{Approve, commands::Then};
use sandbox::SandboxMode;

use crate::config::{CommandRule, HardLinks, Tables};

/// The origin of the layer that is merged into those below it, and its ignored values.
#[derive(Debug)]
pub(in crate::config) struct Gate {
    from: Upper,
    /// The name of the key or value, for a person.
    pub(in crate::config) label: String,
    /// A line for each value that is ignored.
    pub(super) ignored: Vec<String>,
}

/// The origin of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum Upper {
    /// The workspace's file, which the person trusts or not.
    Workspace { trusted: bool },
    /// The command line: the person's own word, above both files.
    CommandLine,
}

impl Gate {
    pub(super) fn new(from: Upper) -> Self {
        Self { from, label: String::new(), ignored: Vec::new() }
    }

    /// Whether the person typed this layer.
    fn is_own(&self) -> bool {
        self.from == Upper::CommandLine
    }

    /// Returns whether a value counts that grants more than the user does; if not, notes that it is ignored.
    fn trusts(&mut self) -> bool {
        let trusts = self.from != Upper::Workspace { trusted: false };
        if !trusts {
            let line =
                format!("{} in the workspace's haft.toml is ignored until you run `haft trust`", self.label);
            self.ignored.push(line);
        }
        trusts
    }

    /// Notes that a value counts only in the user's own file.
    fn own_file(&mut self) {
        let line = format!("{} in the workspace's haft.toml is ignored: it counts in your own", self.label);
        self.ignored.push(line);
    }
}

/// Merges one value.
pub(in crate::config) fn apply<T>(
    merge: impl FnOnce(&mut T, T, &mut Gate),
    mine: &mut T,
    theirs: T,
    gate: &mut Gate,
) {
    merge(mine, theirs, gate);
}

/// Takes the upper layer's value, if it has one.
pub(in crate::config) fn replace<T>(mine: &mut Option<T>, theirs: Option<T>, _: &mut Gate) {
    if theirs.is_some() {
        *mine = theirs;
    }
}

/// Takes the upper layer's value, if the layer is trusted.
pub(in crate::config) fn replace_trusted<T>(mine: &mut Option<T>, theirs: Option<T>, gate: &mut Gate) {
    if theirs.is_some() && gate.trusts() {
        *mine = theirs;
    }
}

/// Takes the upper layer's value, if it grants no more than the lower one's or the layer is trusted.
pub(in crate::config) fn narrow<T>(
    allows_no_more: impl Fn(&T, Option<&T>) -> bool,
) -> impl FnOnce(&mut Option<T>, Option<T>, &mut Gate) {
    move |mine, theirs, gate| {
        if let Some(theirs) = theirs
            && (allows_no_more(&theirs, mine.as_ref()) || gate.trusts())
        {
            *mine = Some(theirs);
        }
    }
}

/// Takes the workspace's number, if it is lower than the user's own or, without one, than the default. Takes
/// the command line's number in any case.
pub(in crate::config) fn lower<N: Ord>(default: N) -> impl FnOnce(&mut Option<N>, Option<N>, &mut Gate) {
    move |mine, theirs, gate| {
        if let Some(theirs) = theirs {
            *mine = Some(if gate.is_own() { theirs } else { theirs.min(mine.take().unwrap_or(default)) });
        }
    }
}

/// Joins both lists.
pub(in crate::config) fn append<T>(mine: &mut Vec<T>, theirs: Vec<T>, _: &mut Gate) {
    mine.extend(theirs);
}

/// Joins both lists, if the layer is trusted.
pub(in crate::config) fn append_trusted<T>(mine: &mut Vec<T>, theirs: Vec<T>, gate: &mut Gate) {
    if !theirs.is_empty() && gate.trusts() {
        mine.extend(theirs);
    }
}

/// Joins both tables, if the layer is trusted; the upper layer's entry wins for a name in both.
pub(in crate::config) fn extend_trusted<T>(
    mine: &mut BTreeMap<String, T>,
    theirs: BTreeMap<String, T>,
    gate: &mut Gate,
) {
    if !theirs.is_empty() && gate.trusts() {
        mine.extend(theirs);
    }
}

/// Keeps both tables, one beside the other: the workspace's is for what came with the workspace, if that is
/// trusted.
pub(in crate::config) fn beside<T>(mine: &mut Tables<T>, theirs: Tables<T>, gate: &mut Gate) {
    if !theirs.user.is_empty() && gate.trusts() {
        let mine = if gate.is_own() { &mut mine.user } else { &mut mine.workspace };
        mine.extend(theirs.user);
    }
}

/// Takes the upper layer's section, if the layer is trusted.
pub(in crate::config) fn replace_section<T: Default + PartialEq>(mine: &mut T, theirs: T, gate: &mut Gate) {
    if theirs != T::default() && gate.trusts() {
        *mine = theirs;
    }
}

/// Keeps the user's section; ignores the workspace's.
pub(in crate::config) fn own_file<T: Default + PartialEq>(mine: &mut T, theirs: T, gate: &mut Gate) {
    if theirs == T::default() {
        return;
    }
    if gate.is_own() {
        *mine = theirs;
    } else {
        gate.own_file();
    }
}

/// Keeps the names on both allowlists; a missing list allows all.
pub(in crate::config) fn intersect(
    mine: &mut Option<Vec<String>>,
    theirs: Option<Vec<String>>,
    _: &mut Gate,
) {
    if let Some(theirs) = theirs {
        *mine = Some(match mine.take() {
            None => theirs,
            Some(mine) => theirs.into_iter().filter(|name| mine.contains(name)).collect(),
        });
    }
}

/// Keeps the commands on both allowlists: of two lines where one begins with the other, the longer.
pub(in crate::config) fn intersect_commands(
    mine: &mut Option<Vec<String>>,
    theirs: Option<Vec<String>>,
    _: &mut Gate,
) {
    *mine = match (mine.take(), theirs) {
        (Some(mine), Some(theirs)) => Some(on_both(&mine, &theirs)),
        (mine, theirs) => mine.or(theirs),
    };
}

/// Joins both lists of rules; those that allow only if the layer is trusted.
pub(in crate::config) fn rules(mine: &mut Vec<CommandRule>, theirs: Vec<CommandRule>, gate: &mut Gate) {
    let (widening, narrowing) = theirs.into_iter().partition(|it| it.then == Then::Allow);
    gate.label = "a `[[command]]` that allows".to_owned();
    append_trusted(mine, widening, gate);
    append(mine, narrowing, gate);
}

/// Takes the upper layer's `approve`, if it asks no less.
pub(in crate::config) fn approve(mine: &mut Option<Approve>, theirs: Option<Approve>, gate: &mut Gate) {
    if let Some(theirs) = theirs {
        gate.label = format!("`approve = \"{}\"`", theirs.name());
    }
    narrow(|theirs, mine| asks_no_less(*theirs, mine.copied().unwrap_or_default()))(mine, theirs, gate);
}

/// Takes the upper layer's `hard_links`, if it refuses them.
pub(in crate::config) fn hard_links(
    mine: &mut Option<HardLinks>,
    theirs: Option<HardLinks>,
    gate: &mut Gate,
) {
    gate.label = "`hard_links = \"allow\"`".to_owned();
    narrow(|theirs, _| *theirs == HardLinks::Refuse)(mine, theirs, gate);
}

/// Merges a number like [`lower`], with 0 for no limit.
pub(in crate::config) fn lower_or_unlimited(
    default: usize,
) -> impl FnOnce(&mut Option<usize>, Option<usize>, &mut Gate) {
    let swapped = |it: usize, from, to| if it == from { to } else { it };
    move |mine, theirs, gate| {
        *mine = mine.map(|it| swapped(it, 0, usize::MAX));
        lower(default)(mine, theirs.map(|it| swapped(it, 0, usize::MAX)), gate);
        *mine = mine.map(|it| swapped(it, usize::MAX, 0));
    }
}

/// Returns whether a workspace's `theirs` allows nothing that the user's own `mine` does not. Denying is
/// narrower than asking, and only `ask-edits` itself satisfies a user's `ask-edits`.
pub(super) fn asks_no_less(theirs: Approve, mine: Approve) -> bool {
    match mine {
        Approve::Auto => true,
        Approve::Ask => theirs != Approve::Auto,
        Approve::AskEdits => theirs == Approve::AskEdits,
        Approve::Never => theirs == Approve::Never,
    }
}

/// Returns how much a mode allows.
pub(in crate::config) fn rank(sandbox: SandboxMode) -> u8 {
    match sandbox {
        SandboxMode::ReadOnly => 0,
        SandboxMode::Workspace => 1,
        SandboxMode::Full => 2,
    }
}

fn on_both(mine: &[String], theirs: &[String]) -> Vec<String> {
    let words = |line: &String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let begins = |long: &String, short: &String| short == "*" || words(long).starts_with(&words(short));
    let mut lines = Vec::new();
    for (mine, theirs) in mine.iter().flat_map(|mine| theirs.iter().map(move |theirs| (mine, theirs))) {
        let longer = if begins(mine, theirs) {
            mine
        } else if begins(theirs, mine) {
            theirs
        } else {
            continue;
        };
        if !lines.contains(longer) {
            lines.push(longer.clone());
        }
    }
    lines
}
