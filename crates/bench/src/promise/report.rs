//! Results of all cases.

use std::fmt;

/// Maximum number of complaints that are kept.
const KEPT: usize = 10;

/// Counts of the results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub cases: u64,
    /// Cases with a certain place.
    pub unambiguous: u64,
    pub landed: u64,
    pub landed_unambiguous: u64,
    pub refused: u64,
    /// Applied in a place that was not meant, or broke something else.
    pub wrong: u64,
    /// Refusals while the meant lines were still there.
    pub there: u64,
    /// Refusals that showed the meant lines, so that a retry was possible.
    pub retries: u64,
    pub retries_landed: u64,
    /// Edits by the anchors that a success showed.
    pub next: u64,
    pub next_landed: u64,
}

/// The table.
#[derive(Debug, Default)]
pub struct Report {
    forms: Vec<(&'static str, Tally)>,
    kinds: Vec<(&'static str, Tally)>,
    all: Tally,
    complaints: Vec<String>,
}

impl Report {
    pub(super) fn add(&mut self, form: &'static str, kind: &'static str, tally: &Tally) {
        add_to(&mut self.forms, form, tally);
        add_to(&mut self.kinds, kind, tally);
        self.all.add(tally);
    }

    pub(super) fn complain(&mut self, complaint: String) {
        if self.complaints.len() < KEPT {
            self.complaints.push(complaint);
        }
    }

    /// Returns the counts over all cases.
    pub fn all(&self) -> &Tally {
        &self.all
    }

    /// Returns whether no edit was applied wrong, and at least 95 % of the certain ones were applied.
    pub fn is_kept(&self) -> bool {
        self.all.wrong == 0 && self.all.landed_unambiguous * 100 >= self.all.unambiguous * 95
    }
}

fn add_to(rows: &mut Vec<(&'static str, Tally)>, name: &'static str, tally: &Tally) {
    if let Some((_, row)) = rows.iter_mut().find(|(row, _)| *row == name) {
        row.add(tally);
    } else {
        rows.push((name, tally.clone()));
    }
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.cases += other.cases;
        self.unambiguous += other.unambiguous;
        self.landed += other.landed;
        self.landed_unambiguous += other.landed_unambiguous;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.there += other.there;
        self.retries += other.retries;
        self.retries_landed += other.retries_landed;
        self.next += other.next;
        self.next_landed += other.next_landed;
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        writeln!(
            f,
            "{name:<10}{:>9}{:>13}{:>9}{:>9}{:>14}{:>20}{:>13}{:>9}{:>16}{:>13}",
            self.cases,
            self.unambiguous,
            self.landed,
            self.refused,
            self.wrong,
            share(self.landed_unambiguous, self.unambiguous),
            self.there,
            share(self.retries, self.there),
            share(self.retries_landed, self.retries),
            share(self.next_landed, self.next),
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10}{:>9}{:>13}{:>9}{:>9}{:>14}{:>20}{:>13}{:>9}{:>16}{:>13}",
            "",
            "cases",
            "unambiguous",
            "landed",
            "refused",
            "landed wrong",
            "unambiguous landed",
            "still there",
            "shown",
            "retries landed",
            "next landed"
        )?;
        for (name, tally) in self.forms.iter().chain(&self.kinds) {
            tally.line(f, name)?;
        }
        self.all.line(f, "all")?;
        for complaint in &self.complaints {
            writeln!(f, "{complaint}")?;
        }
        Ok(())
    }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let tenths = part * 1000 / whole;
    format!("{}.{} %", tenths / 10, tenths % 10)
}
