//! The comparison of a run's files.

use std::collections::{BTreeMap, BTreeSet};

use super::{Files, Trouble, is_idempotent, lines};

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Pieces of work that were offered.
    pub works: usize,
    /// Faults, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Answers with a result.
    pub done: usize,
    /// Answers "interrupted; it may have happened".
    pub interrupted: usize,
    /// Of these, how many did happen.
    pub interrupted_after_effect: usize,
    /// Work that is not idempotent and happened more than once.
    pub double_effects: usize,
    /// Results that were accepted and are not the answer, and answers with a result that never was.
    pub lost_results: usize,
    /// Work without an answer.
    pub unanswered: usize,
    /// Work with two different answers.
    pub contradictions: usize,
    /// Answers of other kinds.
    pub others: Vec<String>,
    /// The kinds of faults that this machine does not allow.
    pub missing: Vec<&'static str>,
}

impl Counts {
    /// Returns whether anything was wrong.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.double_effects + self.lost_results + self.unanswered + self.contradictions + self.others.len()
            > 0
    }
}

fn by_key(all: Vec<(String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut map: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, rest) in all {
        map.entry(key).or_default().push(rest);
    }
    map
}

pub(super) fn check(files: &Files, faults: BTreeMap<&'static str, u64>) -> Result<Counts, Trouble> {
    let (effects, accepted) = (by_key(lines(&files.effects())?), by_key(lines(&files.accepted())?));
    let answers = by_key(lines(&files.answers())?);
    let offers: BTreeSet<String> = lines(&files.offers())?.into_iter().map(|it| it.0).collect();
    let mut counts = Counts { works: offers.len(), faults, ..Counts::default() };
    for key in &offers {
        let step: u64 = key.split('-').nth(1).ok_or("a key has no step")?.parse()?;
        let none = Vec::new();
        let effects = effects.get(key).unwrap_or(&none);
        if effects.len() > 1 && !is_idempotent(step) {
            counts.double_effects += 1;
        }
        let different: BTreeSet<_> = answers.get(key).into_iter().flatten().collect();
        if different.len() > 1 {
            counts.contradictions += 1;
        }
        let Some(answer) = different.first() else {
            counts.unanswered += 1;
            continue;
        };
        let result = answer.strip_prefix("done ");
        match (result, answer.as_str()) {
            (Some(_), _) => counts.done += 1,
            (None, "interrupted") => {
                counts.interrupted += 1;
                counts.interrupted_after_effect += usize::from(!effects.is_empty());
            }
            (None, other) => counts.others.push(format!("{key}: {other}")),
        }
        let accepted = accepted.get(key).unwrap_or(&none);
        let lost = accepted.iter().any(|it| Some(it.as_str()) != result);
        let invented = result.is_some_and(|it| !effects.iter().any(|effect| effect == it));
        if lost || invented {
            counts.lost_results += 1;
        }
    }
    Ok(counts)
}
