//! The speed of `grep`, compared with ripgrep, in three of the cases of `grep_speed`.

use super::{Aim, Amount, Comparison, Row, Scratch, Trouble};
use crate::haystack::{self, FILES};

const RUNS: usize = 11;

/// The most telling cases: few matches, very many, and none.
const NAMED: [&str; 3] = ["rare literal", "common word", "no match"];

pub(super) fn rows(_: &Scratch) -> Result<Vec<Row>, Trouble> {
    let dir = haystack::tree()?;
    let mut rows = Vec::new();
    for case in haystack::cases().iter().filter(|case| NAMED.contains(&case.0)) {
        let compared = haystack::compare(&dir, case, RUNS)?;
        let comparison = match compared.rg {
            Some(rg) => Comparison::Measured("rg, a process".to_owned(), Amount::Time(rg)),
            None => Comparison::Missing("there is no rg".to_owned()),
        };
        let what = format!("`grep` over {FILES} files: {}", case.0);
        let ours = Amount::Time(compared.grep);
        rows.push(Row { what, ours, p95: None, comparison, aim: Some(Aim::Times(1.2)) });
    }
    Ok(rows)
}
