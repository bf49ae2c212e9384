//! `notebook_edit` as KohakuTerrarium has it: edits of cells by id, with the modes and statuses of `multi_edit`.

use kit::prelude::*;

use super::{
    difference::difference,
    guard::{self, Need},
    modes::Modes,
    notebook_read::{cell_named, check_name},
};
use crate::files::{
    notebook::{
        Notebook,
        cell_reference::{self, Known},
        change::{Did, Edit, Kindred, Made, Side, Writing},
        load,
    },
    notebook_edit::{Done, Mode, apply},
    open::Opened,
};

/// Edit cells of a Jupyter notebook, which must have been read before: one cell, or several by `edits`. Strict
/// (default): all edits or none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that a missing one gets that toolset's own message.
#[schemars(extend("required" = ["path"]))]
pub(crate) struct NotebookEdit {
    /// Notebook (.ipynb) to edit.
    #[serde(default)]
    path: String,
    /// Cell to replace or delete, or beside which to insert: its id, or cell-N.
    cell_id: Option<String>,
    /// The source, for replace and insert.
    new_source: Option<String>,
    /// Required for insert; another type for replace.
    cell_type: Option<Kindred>,
    /// Default: replace.
    #[serde(default)]
    edit_mode: EditMode,
    /// Default: after the cell; without a cell at the end.
    #[serde(default)]
    insert_location: Location,
    /// Changed code cells lose their outputs. Default: true.
    clear_outputs: Option<bool>,
    /// Several edits, in order. The fields above don't count then.
    edits: Option<Vec<One>>,
    /// false: stop at the first edit that fails, and keep those before it.
    strict: Option<bool>,
    /// Go on after an edit that fails.
    #[serde(default)]
    best_effort: bool,
}

/// One edit.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    /// Cell, by its id or cell-N.
    cell_id: Option<String>,
    /// The source.
    new_source: Option<String>,
    /// Type of the cell.
    cell_type: Option<Kindred>,
    /// Default: replace.
    #[serde(default)]
    edit_mode: EditMode,
    /// Default: after.
    #[serde(default)]
    insert_location: Location,
    /// Default: true.
    clear_outputs: Option<bool>,
}

/// The action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum EditMode {
    #[default]
    Replace,
    Insert,
    Delete,
}

/// Where a new cell goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Location {
    #[default]
    After,
    Before,
    Beginning,
    End,
}

impl Tool for NotebookEdit {
    const NAME: &str = "notebook_edit";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::write(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.edit(cx)).await
    }
}

impl NotebookEdit {
    fn edit(self, cx: &Cx) -> Result<Output, Fault> {
        let modes = Modes::of(self.strict, self.best_effort)?;
        let Self { path, cell_id, new_source, cell_type, edit_mode, insert_location, .. } = self;
        let one = One {
            cell_id,
            new_source,
            cell_type,
            edit_mode,
            insert_location,
            clear_outputs: self.clear_outputs,
        };
        if path.is_empty() {
            return Err(Fault::bad_args("path is required"));
        }
        let edits = self.edits.unwrap_or_else(|| vec![one]);
        if edits.is_empty() {
            return Err(Fault::bad_args("edits must be a non-empty array"));
        }
        edits.iter().enumerate().try_for_each(|(at, it)| it.check(at))?;
        cx.files().locate(&path)?;
        check_name(&path)?;
        let opened = load(cx, &path).map_err(|fault| guard::in_words(&path, fault))?;
        read_before(cx, &path, &opened)?;
        let edits = in_cells(&path, &opened, edits)?;
        let mode = match modes {
            Modes::Strict => Mode::Strict,
            Modes::Partial => Mode::UntilFailure,
            Modes::BestEffort => Mode::BestEffort,
        };
        let writing = Writing { clear: false, one_string: true };
        let done = apply(cx, &path, &edits, mode, writing)?;
        answer(&path, modes, &done)
    }
}

/// Refuses to change a notebook that the session has not read, or that has changed since.
fn read_before(cx: &Cx, path: &str, opened: &Opened) -> Result<(), Fault> {
    let no = |why: &str| Err(Fault::new(Kind::Stale, format!("Cannot write to '{path}': {why}")));
    match cell_reference::known(cx, opened.location(), &opened.text.decoded()) {
        Known::AsItIs => Ok(()),
        // Reading it with `read` counts as well.
        _ if guard::read_before(cx, path, opened, Need::Some).is_ok() => Ok(()),
        Known::Changed => {
            no("file was modified since last read. Read it again with notebook_read before making changes.")
        }
        Known::Never => {
            no("file has not been read yet. Use the notebook_read tool first to see the current contents.")
        }
    }
}

/// Returns the edits, with the cells of their ids.
fn in_cells(path: &str, opened: &Opened, edits: Vec<One>) -> Result<Vec<Result<Edit, Fault>>, Fault> {
    let text = opened.text.decoded();
    let notebook = Notebook::parse(path, &text)?;
    Ok(edits.into_iter().map(|it| it.edit(&notebook)).collect())
}

impl One {
    /// Refuses an edit that is invalid for any notebook.
    fn check(&self, at: usize) -> Result<(), Fault> {
        let is_missing = |name: &str| {
            let mode = format!("{:?}", self.edit_mode).to_lowercase();
            Err(Fault::bad_args(format!("edit[{at}].{name} is required for {mode}")))
        };
        let names_no_cell = self.cell_id.as_ref().is_none_or(String::is_empty);
        match self.edit_mode {
            EditMode::Insert if self.cell_type.is_none() => is_missing("cell_type"),
            EditMode::Replace | EditMode::Delete if names_no_cell => is_missing("cell_id"),
            EditMode::Replace | EditMode::Insert if self.new_source.is_none() => is_missing("new_source"),
            _ => Ok(()),
        }
    }

    fn edit(self, notebook: &Notebook<'_>) -> Result<Edit, Fault> {
        let named = match (self.edit_mode, self.insert_location) {
            (EditMode::Insert, Location::Beginning | Location::End) => None,
            _ => self.cell_id.filter(|it| !it.is_empty()),
        };
        let cell = named.map(|it| cell_named(&it, notebook)).transpose()?;
        match (self.edit_mode, cell) {
            (EditMode::Insert, cell) => {
                // Without a reference cell, a new one is at the end, unless it is to be the first.
                let at = match self.insert_location {
                    Location::Beginning => Side::Before,
                    Location::Before if cell.is_some() => Side::Before,
                    _ => Side::After,
                };
                let kind = self.cell_type.unwrap_or(Kindred::Code);
                Ok(Edit::Insert { at, cell, source: self.new_source.unwrap_or_default(), kind })
            }
            (EditMode::Delete, Some(cell)) => Ok(Edit::Delete { cell }),
            (EditMode::Replace, Some(cell)) => {
                let clear = self.clear_outputs.unwrap_or(true);
                Ok(Edit::Replace { cell, source: self.new_source, kind: self.cell_type, clear })
            }
            (_, None) => Err(Fault::bad_args("cell_id is required")),
        }
    }
}

fn answer(path: &str, modes: Modes, done: &Done) -> Result<Output, Fault> {
    let tried = done.edits.iter().flatten();
    let statuses: Vec<Result<String, String>> = tried
        .map(|it| {
            it.as_ref().map(in_words).map_err(|fault| match &fault.next {
                Some(next) => format!("{}. {next}", fault.what),
                None => fault.what.clone(),
            })
        })
        .collect();
    let mut said = modes.report(path, &statuses, done.edits.len(), done.written);
    if let Some((before, after)) = &done.texts {
        said.push_str(&difference(path, before, after));
    }
    let failed = statuses.iter().filter(|it| it.is_err()).count();
    let Some(first) = done.edits.iter().flatten().find_map(|it| it.as_ref().err()) else {
        return Ok(Output::text(said));
    };
    let what = match done.refused {
        true => {
            let at = statuses.len() - 1;
            format!("notebook_edit failed in strict mode at edit[{at}] (file unchanged)")
        }
        false => format!("notebook_edit completed with {failed} failed edit(s)"),
    };
    // The answer includes the present content of a changed cell.
    if let Some(seen) = first.seen.as_ref() {
        said.push_str("\n\n");
        said.push_str(&seen.as_text());
    }
    Err(Fault::new(first.kind, what).seen(Output::text(said)))
}

/// Describes an edit in KohakuTerrarium's words.
fn in_words(made: &Made) -> String {
    let (at, id) = (made.at, made.id.clone().unwrap_or_else(|| format!("cell-{}", made.at)));
    match made.did {
        Did::Inserted(kind) => format!("inserted {} cell {id} at index {at}", kind.name()),
        Did::Deleted => format!("deleted cell {id} at index {at}"),
        Did::Nothing => format!("no change to cell {id}"),
        Did::Refreshed => format!("refreshed cell {id} at index {at}"),
        _ => format!("replaced cell {id} at index {at}"),
    }
}
