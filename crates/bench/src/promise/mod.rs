//! The edit promise: an edit is applied where it was meant, or not at all.
//!
//! Each case is a random file, a random read of it, a random change by another program, and a random edit
//! that was planned without that change. Two oracles that share nothing with the code under test judge the
//! result (`oracle.rs`).

#![expect(missing_docs, reason = "a harness, not an interface")]

use std::{collections::BTreeMap, ops::Range, path::Path};

use kit::{
    Fault, Kind as FaultKind,
    anchor::{self, Anchor},
    edit::Edit,
    seen::{Rows, Views},
    text::Text,
};

mod meant;
mod oracle;
mod report;
mod world;

use meant::{Form, Meant, NamedBy};
pub use report::{Report, Tally};
use world::{Dice, Kind, Line, Sheet, World};

/// The result of an edit: the bytes to write, and the fresh anchors that it shows.
pub struct Landed {
    pub bytes: Vec<u8>,
    pub fresh: String,
}

/// A planner under test: that of the kit, or one that is wrong on purpose.
pub type Planner = fn(&Text, &Views, &Path, &Edit) -> Result<Landed, Fault>;

/// Plans an edit with the kit.
///
/// # Errors
/// Its refusals.
pub fn kit_planner(now: &Text, views: &Views, file: &Path, edit: &Edit) -> Result<Landed, Fault> {
    let plan = kit::edit::plan(now, views, file, std::slice::from_ref(edit))?;
    plan.landed(views, file, None);
    Ok(Landed { bytes: plan.bytes().to_vec(), fresh: plan.fresh.text.clone() })
}

/// Runs `cases` random cases.
pub fn run(cases: u64, seed: u64, planner: Planner) -> Report {
    let mut report = Report::default();
    for at in 0..cases {
        let kind = Kind::ALL.get(usize::try_from(at % 5).unwrap_or(0)).copied().unwrap_or(Kind::Code);
        let form = Form::ALL.get(usize::try_from(at / 5 % 6).unwrap_or(0)).copied().unwrap_or(Form::Replace);
        let mut dice = Dice::new(seed, at);
        let case = Case::new(&mut World::new(&mut dice, kind), form);
        let mut tally = Tally { cases: 1, ..Tally::default() };
        if let Err(why) = case.judge(planner, &mut dice, &mut tally) {
            tally.wrong += 1;
            report.complain(format!("case {at} of seed {seed} ({}, {}): {why}", form.name(), kind.name()));
        }
        report.add(case.meant.form.name(), kind.name(), &tally);
    }
    report
}

const FILE: &str = "/w/file.txt";

/// A state of the file, and the rows shown of it.
struct Showing {
    sheet: Sheet,
    shown: Vec<Range<usize>>,
}

struct Case {
    showings: Vec<Showing>,
    /// The index of the showing that the edit refers to.
    by: usize,
    meant: Meant,
    now: Sheet,
}

impl Case {
    fn new(world: &mut World<'_>, form: Form) -> Self {
        let mut now = world.sheet();
        while now.lines.is_empty() {
            now = world.sheet();
        }
        let mut showings = vec![Showing::of(world, &now)];
        if world.dice.chance(25) {
            world.change(&mut now, &[]);
            if !now.lines.is_empty() {
                let second = Showing::of(world, &now);
                match showings.first_mut().filter(|first| first.sheet.bytes() == now.bytes()) {
                    // The same state shown twice is one state of which more was shown.
                    Some(first) => first.shown.extend(second.shown),
                    None => showings.push(second),
                }
            }
        }
        let by = world.dice.below(showings.len());
        let (sheet, range) = showings.get(by).map_or_else(
            || (now.clone(), 0..0),
            |it| (it.sheet.clone(), it.shown.get(world.dice.below(it.shown.len())).cloned().unwrap_or(0..0)),
        );
        let meant = meant::meant(world, form, &sheet, range);
        if !world.dice.chance(8) {
            let focus: Vec<usize> =
                sheet.lines.get(meant.rows.clone()).unwrap_or_default().iter().map(|line| line.id).collect();
            world.change(&mut now, &focus);
        }
        Self { showings, by, meant, now }
    }

    /// Tries the edit, and then another one by the anchors that the refusal or the success showed.
    fn judge(&self, planner: Planner, dice: &mut Dice, tally: &mut Tally) -> Result<(), String> {
        let views = Views::default();
        let file = Path::new(FILE);
        for showing in &self.showings {
            let rows: Rows = showing.shown.iter().cloned().collect();
            views.showed(file, &parsed(&showing.sheet.bytes())?, &rows);
        }
        let bytes = self.now.bytes();
        let now = parsed(&bytes)?;
        let truth = self.truth();
        tally.unambiguous += u64::from(truth.is_some());

        match planner(&now, &views, file, &self.meant.edit) {
            Ok(landed) => {
                tally.landed += 1;
                let Some(place) = truth else { return Err("landed, but its place was not sure".to_owned()) };
                tally.landed_unambiguous += 1;
                if !self.means_another(place) {
                    self.check(&landed.bytes, place)?;
                    self.check_identity(&landed.bytes)?;
                }
                self.go_on(planner, dice, &views, &landed, tally)
            }
            Err(fault) => {
                tally.refused += 1;
                if !matches!(fault.kind, FaultKind::Stale | FaultKind::Ambiguous | FaultKind::NotFound) {
                    return Err(format!("refused for a wrong reason: {}", fault.as_text()));
                }
                self.retry(planner, &views, &now, &fault.as_text(), tally)
            }
        }
    }

    fn by(&self) -> Option<&Showing> {
        self.showings.get(self.by)
    }

    /// Returns the row where the meant lines certainly start now.
    fn truth(&self) -> Option<usize> {
        match &self.meant.said {
            NamedBy::Anchors => {
                let sheet = &self.by()?.sheet;
                let named = |sheet: &Sheet| {
                    let hash = |row: usize| sheet.lines.get(row).map(|line| anchor::hash(&line.text));
                    (hash(self.meant.rows.start), hash(self.meant.rows.end - 1))
                };
                let meant = named(sheet);
                if self.newest_read(&self.meant.rows).is_some_and(|it| named(&it.sheet) == meant) {
                    return Some(self.meant.rows.start);
                }
                let claims =
                    self.showings.iter().filter(|it| it.shows(&self.meant.rows) && named(&it.sheet) == meant);
                agreed(claims.map(|it| oracle::by_definition(&it.sheet, &self.now, &self.meant.rows)))
            }
            NamedBy::Text(old) => {
                let found = |sheet: &Sheet| oracle::occurrences(sheet, old);
                let places = found(&self.now);
                let [place] = places.as_slice() else { return None };
                self.settled(place, None, found)
            }
            NamedBy::Diff(old, picked) => {
                let found = |sheet: &Sheet| oracle::blocks(sheet, old);
                let places = found(&self.now);
                let place = match places.as_slice() {
                    [] => return None,
                    [only] => only,
                    several => several.iter().find(|rows| {
                        Some(rows.start) == *picked
                            && self.showings.iter().any(|it| self.is_now(it) && it.shows(rows))
                    })?,
                };
                self.settled(place, *picked, found)
            }
        }
    }

    /// Returns whether every showing that has the text found at `place` leads there.
    fn settled(
        &self,
        place: &Range<usize>,
        picked: Option<usize>,
        found: impl Fn(&Sheet) -> Vec<Range<usize>>,
    ) -> Option<usize> {
        if self.newest_read(place).is_some() {
            return Some(place.start);
        }
        for showing in self.showings.iter().filter(|it| !self.is_now(it)) {
            let then: Vec<_> = found(&showing.sheet).into_iter().filter(|rows| showing.shows(rows)).collect();
            let meant = match then.as_slice() {
                [] => continue,
                [only] => only,
                several => several.iter().find(|rows| Some(rows.start) == picked)?,
            };
            if oracle::by_definition(&showing.sheet, &self.now, meant)? != place.start {
                return None;
            }
        }
        Some(place.start)
    }

    /// Returns the newest showing, if it is of the current file and has these rows: then it decides.
    fn newest_read(&self, rows: &Range<usize>) -> Option<&Showing> {
        self.showings.last().filter(|it| self.is_now(it) && it.shows(rows))
    }

    /// Returns whether the edit refers to an older showing, and names a line in the same way as the newest
    /// read names another one. Such an edit looks like one of that other line, and a model that has just read
    /// the file means that line.
    fn means_another(&self, place: usize) -> bool {
        let rows = place..place + self.meant.rows.len();
        self.by + 1 < self.showings.len()
            && self.newest_read(&rows).is_some()
            && self.by().is_some_and(|it| {
                oracle::by_definition(&it.sheet, &self.now, &self.meant.rows) != Some(place)
            })
    }

    fn is_now(&self, showing: &Showing) -> bool {
        showing.sheet.bytes() == self.now.bytes()
    }

    /// Checks that the bytes are those of the edit applied at `place`, with everything else unchanged.
    fn check(&self, bytes: &[u8], place: usize) -> Result<(), String> {
        changed_as_meant(&self.now, bytes, place, self.meant.rows.len(), &self.meant.result)
    }

    /// Checks that exactly the shown lines were edited, if the change is visible in the text.
    fn check_identity(&self, bytes: &[u8]) -> Result<(), String> {
        let Some(then) = self.by().map(|it| &it.sheet) else { return Ok(()) };
        if !oracle::is_visible(then, &self.now) {
            return Ok(());
        }
        let place = oracle::by_identity(then, &self.now, &self.meant.rows)
            .ok_or("landed, but the lines that were meant are gone")?;
        self.check(bytes, place).map_err(|why| format!("other lines than those meant were edited: {why}"))
    }

    /// Checks, after a refusal, the same change by the anchors that it showed.
    fn retry(
        &self,
        planner: Planner,
        views: &Views,
        now: &Text,
        said: &str,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let fresh = anchors_in(said);
        for (line, (hash, text)) in &fresh {
            let shown = now.line(line - 1).map(|it| (anchor::hash(&it), it.into_owned()));
            if shown != Some((*hash, text.clone())) {
                return Err(format!("the refusal shows a line {line} that is not in the file"));
            }
        }
        let Some(showing) = self.by() else { return Ok(()) };
        let Some(place) = oracle::by_identity(&showing.sheet, &self.now, &self.meant.rows) else {
            return Ok(());
        };
        tally.there += 1;
        if !(place..place + self.meant.rows.len()).all(|row| fresh.contains_key(&(row + 1))) {
            return Ok(());
        }
        tally.retries += 1;
        if let Ok(landed) = planner(now, views, Path::new(FILE), &meant::again(&self.meant, &self.now, place))
        {
            self.check(&landed.bytes, place).map_err(|why| format!("a retry landed wrong: {why}"))?;
            tally.retries_landed += 1;
        }
        Ok(())
    }

    /// Checks, after a success, another edit by one of the anchors that it showed.
    fn go_on(
        &self,
        planner: Planner,
        dice: &mut Dice,
        views: &Views,
        landed: &Landed,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let fresh = anchors_in(&landed.fresh);
        let Some((line, (hash, _))) = fresh.iter().nth(dice.below(fresh.len())) else { return Ok(()) };
        let sheet = sheet_of(&self.now, &landed.bytes);
        let edit =
            Edit::Replace { from: Anchor { line: *line, hash: *hash }, to: None, new: "gone on".to_owned() };
        tally.next += 1;
        if let Ok(landed) = planner(&parsed(&landed.bytes)?, views, Path::new(FILE), &edit) {
            changed_as_meant(&sheet, &landed.bytes, line - 1, 1, &["gone on".to_owned()])
                .map_err(|why| format!("the next edit landed wrong: {why}"))?;
            tally.next_landed += 1;
        }
        Ok(())
    }
}

impl Showing {
    fn of(world: &mut World<'_>, sheet: &Sheet) -> Self {
        let count = sheet.lines.len();
        let shown = if world.dice.chance(60) {
            std::iter::once(0..count).collect()
        } else {
            (0..1 + world.dice.below(2)).map(|_| world.dice.rows(0..count, 20)).collect()
        };
        Self { sheet: sheet.clone(), shown }
    }

    fn shows(&self, rows: &Range<usize>) -> bool {
        rows.end <= self.sheet.lines.len()
            && rows.clone().all(|row| self.shown.iter().any(|range| range.contains(&row)))
    }
}

/// Returns the place that all name, if they agree.
fn agreed(mut places: impl Iterator<Item = Option<usize>>) -> Option<usize> {
    let first = places.next()??;
    places.all(|place| place == Some(first)).then_some(first)
}

/// Checks that `bytes` are those of `sheet` with `result` in place of `length` lines.
fn changed_as_meant(
    sheet: &Sheet,
    bytes: &[u8],
    place: usize,
    length: usize,
    result: &[String],
) -> Result<(), String> {
    let read = sheet.read(bytes);
    if sheet.written(&read) != bytes {
        return Err("the encoding or its mark changed".to_owned());
    }
    let mut expected: Vec<&str> = sheet.texts();
    expected.splice(place..place + length, result.iter().map(String::as_str));
    let texts: Vec<&str> = read.iter().map(|(text, ..)| text.as_str()).collect();
    if texts != expected {
        return Err(format!("the lines are {texts:?}, not {expected:?}"));
    }
    let all_alike = |crlf: bool| {
        let ended = if sheet.ended { sheet.lines.len() } else { sheet.lines.len().saturating_sub(1) };
        ended > 0 && sheet.lines.iter().take(ended).all(|line| line.crlf == crlf)
    };
    for (row, (text, crlf, ended)) in read.iter().enumerate() {
        let last = row + 1 == read.len();
        // A blank last line consists only of its ending.
        if *ended != (!last || sheet.ended || text.is_empty()) {
            return Err(format!("line {} has lost or got its ending", row + 1));
        }
        let before = if row < place {
            Some(row)
        } else {
            row.checked_sub(place + result.len()).map(|after| place + length + after)
        };
        let was_ended = |row: usize| sheet.ended || row + 1 < sheet.lines.len();
        let kept = before.filter(|row| was_ended(*row)).and_then(|row| sheet.lines.get(row));
        let changed = kept.is_some_and(|line| line.crlf != *crlf) || all_alike(!crlf);
        if *ended && changed {
            return Err(format!("line {} ends otherwise than before", row + 1));
        }
    }
    Ok(())
}

fn sheet_of(before: &Sheet, bytes: &[u8]) -> Sheet {
    let read = before.read(bytes);
    let ended = read.last().is_none_or(|(_, _, ended)| *ended);
    let lines = read.into_iter().enumerate().map(|(id, (text, crlf, _))| Line { id, text, crlf }).collect();
    Sheet { lines, ended, ..before.clone() }
}

/// Returns the anchors in a text for the model, and the lines after them.
fn anchors_in(said: &str) -> BTreeMap<usize, (u8, String)> {
    let anchored = said.lines().filter_map(|line| {
        let (name, text) = line.split_once('|')?;
        let (number, hash) = name.split_once(':')?;
        let number: usize = number.parse().ok()?;
        Some((number, (u8::from_str_radix(hash, 16).ok()?, text.to_owned())))
    });
    anchored.collect()
}

fn parsed(bytes: &[u8]) -> Result<Text, String> {
    Text::parse(bytes).map_err(|error| format!("a file made here can't be read: {error}"))
}
