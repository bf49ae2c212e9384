//! Modes of several edits: strict, best effort, and how each reports failures.

use kit::prelude::*;

/// KohakuTerrarium's ways to make several edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Modes {
    /// All or none.
    Strict,
    /// Those before the first failure.
    Partial,
    /// All that succeed.
    BestEffort,
}

impl Modes {
    /// Returns the mode; the default is strict.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] for two modes that exclude each other.
    pub(super) fn of(strict: Option<bool>, best_effort: bool) -> Result<Self, Fault> {
        match (strict, best_effort) {
            // KohakuTerrarium refuses best effort even without an explicit strict; here best effort then applies.
            (Some(true), true) => {
                Err(Fault::bad_args("best_effort=true cannot be used together with strict=true"))
            }
            (_, true) => Ok(Self::BestEffort),
            (Some(false), false) => Ok(Self::Partial),
            (None | Some(true), false) => Ok(Self::Strict),
        }
    }

    /// Returns whether edits are made after a failure.
    pub(super) fn goes_on(self) -> bool {
        self == Self::BestEffort
    }

    fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Partial => "partial",
            Self::BestEffort => "best_effort",
        }
    }

    /// Reports each of `count` edits, of which these were tried.
    pub(super) fn report(
        self,
        path: &str,
        statuses: &[Result<String, String>],
        count: usize,
        changed: bool,
    ) -> String {
        let failed = statuses.iter().filter(|it| it.is_err()).count();
        let undone = failed > 0 && self == Self::Strict;
        let applied = if undone { 0 } else { statuses.len() - failed };
        let header = if changed && !undone { "Edited" } else { "No changes made to" };
        let mut lines = vec![
            format!("{header} {path}"),
            format!("mode: {}", self.name()),
            format!("applied: {applied}"),
            format!("failed: {failed}"),
            format!("skipped: {}", count - statuses.len()),
        ];
        for at in 0..count {
            lines.push(match statuses.get(at) {
                Some(Ok(done)) => format!("edit[{at}]: ok: {done}"),
                Some(Err(why)) => format!("edit[{at}]: error: {why}"),
                None => format!("edit[{at}]: skipped"),
            });
        }
        lines.join("\n")
    }
}
