//! The intended edit of a case, and the form in which the model gives it.

use std::ops::Range;

use kit::{
    anchor::Anchor,
    edit::{At, Edit, Which},
};

use super::world::{Sheet, World};

/// The form an edit is given in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Replace,
    Range,
    Insert,
    Delete,
    Text,
    Diff,
}

impl Form {
    /// All forms.
    pub(super) const ALL: [Self; 6] =
        [Self::Replace, Self::Range, Self::Insert, Self::Delete, Self::Text, Self::Diff];

    /// Returns its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Range => "range",
            Self::Insert => "insert",
            Self::Delete => "delete",
            Self::Text => "text",
            Self::Diff => "diff",
        }
    }
}

/// An edit and what it means: the lines `rows` of the file as shown become `result`.
#[derive(Debug, Clone)]
pub(super) struct Meant {
    pub(super) form: Form,
    pub(super) rows: Range<usize>,
    pub(super) result: Vec<String>,
    pub(super) edit: Edit,
    pub(super) said: NamedBy,
}

/// The way in which an edit names its lines.
#[derive(Debug, Clone)]
pub(super) enum NamedBy {
    Anchors,
    Text(String),
    /// The old lines, and the row that the header has, if any.
    Diff(Vec<String>, Option<usize>),
}

/// Returns an edit of some rows among `shown`.
pub(super) fn meant(world: &mut World<'_>, form: Form, sheet: &Sheet, shown: Range<usize>) -> Meant {
    match form {
        Form::Text => {
            text(world, sheet, shown.clone()).unwrap_or_else(|| anchors(world, Form::Replace, sheet, shown))
        }
        Form::Diff => diff(world, sheet, shown),
        Form::Replace | Form::Range | Form::Insert | Form::Delete => anchors(world, form, sheet, shown),
    }
}

/// Returns the same change, by fresh anchors for the rows at `place` of the current file.
pub(super) fn again(meant: &Meant, now: &Sheet, place: usize) -> Edit {
    let rows = place..place + meant.rows.len();
    let (from, to) = ends(now, &rows);
    Edit::Replace { from, to, new: meant.result.join("\n") + if meant.result.is_empty() { "" } else { "\n" } }
}

fn anchors(world: &mut World<'_>, form: Form, sheet: &Sheet, shown: Range<usize>) -> Meant {
    let most = if matches!(form, Form::Range | Form::Delete) { 5 } else { 1 };
    let rows = world.dice.rows(shown, most);
    let (from, to) = ends(sheet, &rows);
    let new = if form == Form::Delete { Vec::new() } else { fresh(world) };
    let old = texts(sheet, &rows);
    let (result, edit) = match form {
        Form::Insert if world.dice.chance(50) => {
            ([new.clone(), old].concat(), Edit::Insert { at: At::Before(from), new: new.join("\n") })
        }
        Form::Insert => {
            ([old, new.clone()].concat(), Edit::Insert { at: At::After(from), new: new.join("\n") + "\n" })
        }
        Form::Replace | Form::Range | Form::Delete | Form::Text | Form::Diff => {
            (new.clone(), Edit::Replace { from, to, new: new.join("\n") })
        }
    };
    Meant { form, rows, result, edit, said: NamedBy::Anchors }
}

fn text(world: &mut World<'_>, sheet: &Sheet, shown: Range<usize>) -> Option<Meant> {
    let rows = world.dice.rows(shown, 3);
    let lines = texts(sheet, &rows);
    if lines.first()?.is_empty() || lines.last()?.is_empty() {
        return None;
    }
    let whole = lines.join("\n");
    let mut new = fresh(world).join("\n");
    let ended = rows.end < sheet.lines.len() || sheet.ended;
    let (old, result) = if rows.len() == 1 && world.dice.chance(50) {
        let letters: Vec<char> = whole.chars().collect();
        let part = world.dice.rows(0..letters.len(), 12);
        let piece =
            |range: Range<usize>| -> String { letters.get(range).unwrap_or_default().iter().collect() };
        let result = format!("{}{new}{}", piece(0..part.start), piece(part.end..letters.len()));
        (piece(part), result)
    } else if ended && world.dice.chance(40) {
        let result = new.clone();
        new.push('\n');
        (whole + "\n", result)
    } else {
        (whole, new.clone())
    };
    let result = result.split('\n').map(str::to_owned).collect();
    let edit = Edit::Text { old: old.clone(), new, which: Which::Only };
    Some(Meant { form: Form::Text, rows, result, edit, said: NamedBy::Text(old) })
}

fn diff(world: &mut World<'_>, sheet: &Sheet, shown: Range<usize>) -> Meant {
    let rows = world.dice.rows(shown, 6);
    let old = texts(sheet, &rows);
    let changed = world.dice.rows(0..old.len(), 3);
    let keep = world.dice.chance(30);
    let new = if keep || world.dice.chance(80) { fresh(world) } else { Vec::new() };
    let gone = if keep { changed.start..changed.start } else { changed };
    let mut result = old.clone();
    result.splice(gone.clone(), new.clone());

    let mut body = String::new();
    for (at, line) in old.iter().enumerate() {
        if at == gone.start {
            body.extend(new.iter().map(|line| format!("+{line}\n")));
        }
        let mark = if gone.contains(&at) { '-' } else { ' ' };
        body.push_str(&format!("{mark}{line}\n"));
    }
    let (picked, header) = match world.dice.below(10) {
        0..=5 => (
            Some(rows.start),
            format!("@@ -{},{} +{},{} @@", rows.start + 1, old.len(), rows.start + 1, result.len()),
        ),
        6 | 7 => {
            // A wrong number, but not that of another match: that one would be meant.
            let row = world.dice.below(sheet.lines.len());
            let fits = texts(sheet, &(row..row + old.len())) == old;
            let row = if fits { rows.start } else { row };
            (Some(row), format!("@@ -{},99 +{},1 @@ fn", row + 1, row + 1))
        }
        _ => (None, "@@ @@".to_owned()),
    };
    let edit = Edit::Diff(format!("{header}\n{body}"));
    Meant { form: Form::Diff, rows, result, edit, said: NamedBy::Diff(old, picked) }
}

fn fresh(world: &mut World<'_>) -> Vec<String> {
    (0..1 + world.dice.below(3)).map(|_| world.fresh()).collect()
}

fn texts(sheet: &Sheet, rows: &Range<usize>) -> Vec<String> {
    sheet.lines.get(rows.clone()).unwrap_or_default().iter().map(|line| line.text.clone()).collect()
}

fn ends(sheet: &Sheet, rows: &Range<usize>) -> (Anchor, Option<Anchor>) {
    let anchor = |row: usize| {
        let hash = sheet.lines.get(row).map_or(0, |line| kit::anchor::hash(&line.text));
        Anchor { line: row + 1, hash }
    };
    (anchor(rows.start), (rows.len() > 1).then(|| anchor(rows.end - 1)))
}
