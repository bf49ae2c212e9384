//! The edit promise on random cases; planners that break it are caught by the same harness.

use std::path::Path;

use bench::promise::{Landed, kit_planner, run};
use kit::{
    Fault,
    edit::Edit,
    seen::Views,
    text::{Splice, Text},
};

#[test]
fn the_promise_is_kept() {
    let report = run(6_000, 20_261_122, kit_planner);
    assert!(report.is_kept(), "{report}");
    let all = report.all();
    assert!(all.unambiguous * 5 > all.cases && all.refused * 10 > all.cases, "{report}");
}

#[test]
fn a_planner_that_trusts_line_numbers_is_caught() {
    let report = run(600, 1, by_line_number);
    assert!(report.all().wrong > 50, "{report}");
}

#[test]
fn a_planner_that_finds_anchors_by_hash_is_caught() {
    let report = run(600, 1, by_nearest_hash);
    assert!(report.all().wrong > 10, "{report}");
}

#[test]
fn a_planner_that_refuses_everything_is_caught() {
    let report = run(600, 1, |_, _, _, _| Err(Fault::new(kit::Kind::Stale, "no")));
    assert!(!report.is_kept() && report.all().wrong == 0, "{report}");
}

fn by_line_number(now: &Text, views: &Views, file: &Path, edit: &Edit) -> Result<Landed, Fault> {
    let Edit::Replace { from, to, new } = edit else { return kit_planner(now, views, file, edit) };
    replaced(now, from.line - 1, to.unwrap_or(*from).line - from.line + 1, new)
}

/// Takes the line with this hash that is nearest to the number, as a lenient editor might.
fn by_nearest_hash(now: &Text, views: &Views, file: &Path, edit: &Edit) -> Result<Landed, Fault> {
    let Edit::Replace { from, to: None, new } = edit else { return kit_planner(now, views, file, edit) };
    let fits = |row: &usize| now.line(*row).is_some_and(|line| kit::anchor::hash(&line) == from.hash);
    let row = (0..now.line_count()).filter(fits).min_by_key(|row| row.abs_diff(from.line - 1));
    row.map_or_else(|| kit_planner(now, views, file, edit), |row| replaced(now, row, 1, new))
}

fn replaced(now: &Text, row: usize, length: usize, new: &str) -> Result<Landed, Fault> {
    let lines = new.lines().map(str::to_owned).collect();
    let bytes = now
        .splice(&[Splice { rows: row..row + length, lines }])
        .map_err(|error| Fault::new(kit::Kind::Stale, error.to_string()))?;
    Ok(Landed { bytes, fresh: String::new() })
}
