//! Merges of one key: what becomes of the value of a lower layer and that of the layer above it.
//!
//! Each takes the upper layer's value by value, so that none is left behind unseen.

use std::collections::BTreeMap;

use policy::{Approve, commands::Then};
use sandbox::SandboxMode;

use crate::config::{CommandRule, HardLinks, Tables};

/// Whose layer is merged into those below it, and what was ignored of it.
#[derive(Debug)]
pub(in crate::config) struct Gate {
    from: Upper,
    /// The key or the value that is merged, as a person reads it.
    pub(in crate::config) label: String,
    /// A line for each value that is ignored.
    pub(super) ignored: Vec<String>,
}

/// Whose a layer is.
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

    /// Whether a value counts that allows more than the user does; notes that it is ignored, if not.
    fn trusts(&mut self) -> bool {
        let trusts = self.from != Upper::Workspace { trusted: false };
        if !trusts {
            let line =
                format!("{} in the workspace's haft.toml is ignored until you run `haft trust`", self.label);
            self.ignored.push(line);
        }
        trusts
    }

    /// Notes that a value counts in the user's own file alone.
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

/// The upper layer's value, where it has one.
pub(in crate::config) fn replace<T>(mine: &mut Option<T>, theirs: Option<T>, _: &mut Gate) {
    if theirs.is_some() {
        *mine = theirs;
    }
}

/// The same, where the layer is trusted.
pub(in crate::config) fn replace_trusted<T>(mine: &mut Option<T>, theirs: Option<T>, gate: &mut Gate) {
    if theirs.is_some() && gate.trusts() {
        *mine = theirs;
    }
}

/// The upper layer's value, where it allows no more than the lower one's or the layer is trusted.
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

/// The workspace's number, where it is lower than the user's own or, where the user sets none, than the default. The
/// command line's number as it is.
pub(in crate::config) fn lower<N: Ord>(default: N) -> impl FnOnce(&mut Option<N>, Option<N>, &mut Gate) {
    move |mine, theirs, gate| {
        if let Some(theirs) = theirs {
            *mine = Some(if gate.is_own() { theirs } else { theirs.min(mine.take().unwrap_or(default)) });
        }
    }
}

/// Both lists.
pub(in crate::config) fn append<T>(mine: &mut Vec<T>, theirs: Vec<T>, _: &mut Gate) {
    mine.extend(theirs);
}

/// Both lists, where the layer is trusted.
pub(in crate::config) fn append_trusted<T>(mine: &mut Vec<T>, theirs: Vec<T>, gate: &mut Gate) {
    if !theirs.is_empty() && gate.trusts() {
        mine.extend(theirs);
    }
}

/// Both tables, the upper layer's entry for a name that both have, where the layer is trusted.
pub(in crate::config) fn extend_trusted<T>(
    mine: &mut BTreeMap<String, T>,
    theirs: BTreeMap<String, T>,
    gate: &mut Gate,
) {
    if !theirs.is_empty() && gate.trusts() {
        mine.extend(theirs);
    }
}

/// Both tables beside each other: the workspace's are for what came with the workspace, where that is trusted.
pub(in crate::config) fn beside<T>(mine: &mut Tables<T>, theirs: Tables<T>, gate: &mut Gate) {
    if !theirs.user.is_empty() && gate.trusts() {
        let mine = if gate.is_own() { &mut mine.user } else { &mut mine.workspace };
        mine.extend(theirs.user);
    }
}

/// The upper layer's section in place of the one below it, where the layer is trusted.
pub(in crate::config) fn replace_section<T: Default + PartialEq>(mine: &mut T, theirs: T, gate: &mut Gate) {
    if theirs != T::default() && gate.trusts() {
        *mine = theirs;
    }
}

/// The user's section; never the workspace's.
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

/// The names on both allowlists; a missing one allows all.
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

/// The commands on both allowlists: of two lines where one begins with the other, the longer.
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

/// Both lists of rules; those that allow, where the layer is trusted.
pub(in crate::config) fn rules(mine: &mut Vec<CommandRule>, theirs: Vec<CommandRule>, gate: &mut Gate) {
    let (widening, narrowing) = theirs.into_iter().partition(|it| it.then == Then::Allow);
    gate.label = "a `[[command]]` that allows".to_owned();
    append_trusted(mine, widening, gate);
    append(mine, narrowing, gate);
}

/// The upper layer's answer to questions, where it asks no less.
pub(in crate::config) fn approve(mine: &mut Option<Approve>, theirs: Option<Approve>, gate: &mut Gate) {
    if let Some(theirs) = theirs {
        gate.label = format!("`approve = \"{}\"`", theirs.name());
    }
    narrow(|theirs, mine| asks_no_less(*theirs, mine.copied().unwrap_or_default()))(mine, theirs, gate);
}

/// The upper layer's word on hard links, where it refuses them.
pub(in crate::config) fn hard_links(
    mine: &mut Option<HardLinks>,
    theirs: Option<HardLinks>,
    gate: &mut Gate,
) {
    gate.label = "`hard_links = \"allow\"`".to_owned();
    narrow(|theirs, _| *theirs == HardLinks::Refuse)(mine, theirs, gate);
}

/// A number as [`lower`] merges it, in which 0 is no limit.
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

/// Returns whether a workspace that says `theirs` allows nothing that the user's own `mine` does not. Denying is narrower
/// than asking, and a question about each edit is given up for nothing else.
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
