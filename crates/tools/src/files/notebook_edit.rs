//! `notebook_edit`: changes cells of a Jupyter notebook, and nothing around them.

use kit::prelude::*;

use super::{
    notebook::{
        self, Notebook,
        cell_reference::{self, Name},
        change::{Draft, Edit, Kindred, Made, Side, Writing},
        show,
    },
    open::Opened,
};

/// Number of times to plan again when another program changes the file in between.
const TRIES: usize = 5;

/// Maximum number of headers of changed cells that are shown.
const HEADERS: usize = 50;

/// Change cells of a Jupyter notebook. All edits of a call are applied, or none. A cell that changed since it was shown
/// is not touched: the answer has it as it is. All else in the file stays byte for byte.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotebookEdit {
    /// Notebook (.ipynb), relative to the workspace or absolute.
    path: String,
    /// The edits. Indexes mean the cells before this call.
    edits: Vec<One>,
    /// Changed cells lose their outputs. Default: they keep them, as in Jupyter until they are run.
    #[serde(default)]
    clear_outputs: bool,
    /// Make the edits that can be made, and say which could not.
    #[serde(default)]
    best_effort: bool,
}

/// One edit.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct One {
    /// Index as 3, or as `3:7f2a`, or the cell's id. An insert without it is at the start (before) or the end (after).
    #[serde(default)]
    #[schemars(with = "String")]
    cell: Option<Name>,
    /// Default: replace; with `old`: edit.
    action: Option<Action>,
    /// The whole source, for replace and insert.
    source: Option<String>,
    /// code (default of an insert), markdown or raw; a replace may change it.
    r#type: Option<Kindred>,
    /// For edit: text of the cell that occurs once.
    old: Option<String>,
    /// For edit: the replacement.
    new: Option<String>,
    /// For edit: every occurrence.
    #[serde(default)]
    all: bool,
    /// For move: the cell to stand before. Default: the end.
    #[serde(default)]
    #[schemars(with = "String")]
    before: Option<Name>,
}

/// The action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Replace,
    Edit,
    InsertBefore,
    InsertAfter,
    Delete,
    Move,
    Clear,
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
        let Self { path, edits, clear_outputs, best_effort } = self;
        if edits.is_empty() {
            return Err(Fault::bad_args("`edits` is empty, so there is nothing to do"));
        }
        let edits: Vec<Result<Edit, Fault>> = edits.into_iter().map(One::edit).collect();
        let mode = if best_effort { Mode::BestEffort } else { Mode::Strict };
        let writing = Writing { clear: clear_outputs, one_string: false };
        let done = apply(cx, &path, &edits, mode, writing)?;
        if !done.landed() {
            return Err(done.first_fault());
        }
        Ok(Output::page(done.summary(&path)))
    }
}

impl One {
    fn edit(self) -> Result<Edit, Fault> {
        let Self { cell, action, source, r#type, old, new, all, before } = self;
        let action = action.unwrap_or(if old.is_some() { Action::Edit } else { Action::Replace });
        let need = |name: &str| Fault::bad_args(format!("missing field `{name}`"));
        let the_cell =
            |cell: Option<Name>| cell.ok_or_else(|| need("cell").next("It is the cell's index, such as 3."));
        match action {
            Action::Replace if source.is_none() && r#type.is_none() => Err(need("source")),
            Action::Replace => {
                Ok(Edit::Replace { cell: the_cell(cell)?, source, kind: r#type, clear: false })
            }
            Action::Edit => {
                let old = old.ok_or_else(|| need("old"))?;
                let new = new.ok_or_else(|| need("new").next("An empty `new` deletes."))?;
                Ok(Edit::Text { cell: the_cell(cell)?, old, new, all })
            }
            Action::InsertBefore | Action::InsertAfter => {
                let at = if action == Action::InsertBefore { Side::Before } else { Side::After };
                let source = source.ok_or_else(|| need("source"))?;
                Ok(Edit::Insert { at, cell, source, kind: r#type.unwrap_or(Kindred::Code) })
            }
            Action::Delete => Ok(Edit::Delete { cell: the_cell(cell)? }),
            Action::Move => Ok(Edit::Move { cell: the_cell(cell)?, before }),
            Action::Clear => Ok(Edit::Clear { cell: the_cell(cell)? }),
        }
    }
}

/// The effect of a failed edit on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// None is made.
    Strict,
    /// Those before it are made.
    UntilFailure,
    /// All others are made.
    BestEffort,
}

/// The results of all edits.
pub(crate) struct Done {
    /// The result of each edit, or its fault; `None` for one that was not tried.
    pub(crate) edits: Vec<Option<Result<Made, Fault>>>,
    /// The headers of the cells that changed.
    pub(crate) changed: Vec<String>,
    /// A note on other cells with new indexes.
    pub(crate) shifted: Option<String>,
    /// Whether changed cells show outputs from before the change.
    outdated: bool,
    pub(crate) written: bool,
    /// The text before and after.
    pub(crate) texts: Option<(String, String)>,
    /// Whether none was made because one failed.
    pub(crate) refused: bool,
}

impl Done {
    fn landed(&self) -> bool {
        !self.refused && self.edits.iter().flatten().any(Result::is_ok)
    }

    fn first_fault(self) -> Fault {
        let count = self.edits.len();
        let fault = self.edits.into_iter().enumerate().find_map(|(at, it)| match it {
            Some(Err(fault)) => Some((at, fault)),
            _ => None,
        });
        match fault {
            Some((at, fault)) if count > 1 => {
                let none = if fault.kind == Kind::Stale { "" } else { "; nothing was written" };
                Fault { what: format!("edits[{at}]: {}{none}", fault.what), ..fault }
            }
            Some((_, fault)) => fault,
            None => Fault::bug("no edit was made, and none failed"),
        }
    }

    fn summary(&self, path: &str) -> String {
        let mut lines = Vec::new();
        let did: Vec<String> = self.edits.iter().flatten().flatten().map(Made::to_string).collect();
        let verb = if self.written { "Updated" } else { "Nothing changed in" };
        lines.push(format!("{verb} {path}: {}", did.join(", ")));
        for (at, edit) in self.edits.iter().enumerate() {
            if let Some(Err(fault)) = edit {
                lines.push(format!("edits[{at}] failed: {}", fault.as_text()));
            }
        }
        lines.extend(self.changed.iter().take(HEADERS).cloned());
        if self.changed.len() > HEADERS {
            lines.push(format!("[{} more]", self.changed.len() - HEADERS));
        }
        lines.extend(self.shifted.clone());
        if self.outdated {
            lines.push(
                "Outputs are kept from before the change; `clear_outputs`: true drops them.".to_owned(),
            );
        }
        lines.join("\n")
    }
}

/// Makes the edits and saves the notebook. If another program changes it between the two, everything is done again.
///
/// # Errors
/// Those of loading and saving; in [`Mode::Strict`] the faults of edits are in the result.
pub(crate) fn apply(
    cx: &Cx,
    path: &str,
    edits: &[Result<Edit, Fault>],
    mode: Mode,
    writing: Writing,
) -> Result<Done, Fault> {
    // A path outside is refused first, whatever its name.
    cx.files().locate(path)?;
    notebook::check_name(path)?;
    let mut tries = TRIES;
    loop {
        cx.check()?;
        let opened = notebook::load(cx, path)?;
        match once(cx, path, &opened, edits, mode, writing) {
            Err(fault) if fault.kind == Kind::Stale && tries > 0 => tries -= 1,
            done => return done,
        }
    }
}

fn once(
    cx: &Cx,
    path: &str,
    opened: &Opened,
    edits: &[Result<Edit, Fault>],
    mode: Mode,
    writing: Writing,
) -> Result<Done, Fault> {
    let location = opened.location();
    let text = opened.text.decoded();
    let notebook = Notebook::parse(path, &text)?;
    let mut draft = Draft::new(&notebook, writing);
    let mut done = Done {
        edits: Vec::new(),
        changed: Vec::new(),
        shifted: None,
        outdated: false,
        written: false,
        texts: None,
        refused: false,
    };
    for edit in edits {
        let failed = done.edits.iter().any(|it| !matches!(it, Some(Ok(_))));
        if failed && mode != Mode::BestEffort {
            done.edits.push(None);
            continue;
        }
        let made = match edit {
            Ok(edit) => draft.make(edit, path, location, cx),
            // The caller may plan on the notebook again.
            Err(fault) => Err(Fault { seen: None, ..fault.copied() }),
        };
        done.edits.push(Some(made));
    }
    let failed = done.edits.iter().any(|it| !matches!(it, Some(Ok(_))));
    if failed && mode == Mode::Strict {
        done.refused = true;
        return Ok(done);
    }
    let (old, new) = draft.sources();
    cx.keep_secrets_whole_in(&old, &new)?;
    let drafted = draft.finish();
    let after = Notebook::parse(path, &drafted.text)
        .map_err(|fault| Fault::bug(format!("the edit would break the notebook: {}", fault.what)))?;
    for (index, ((origin, touched), cell)) in drafted.cells.iter().zip(&after.cells).enumerate() {
        let has_moved = origin.is_some_and(|it| it != index);
        if *touched || (has_moved && edits.iter().flatten().any(|it| matches!(it, Edit::Move { .. }))) {
            done.changed.push(show::header(cell, index));
        }
        let was = origin.and_then(|it| notebook.cells.get(it));
        done.outdated |= !cell.outputs.is_empty() && was.is_some_and(|it| it.source != cell.source);
    }
    if drafted.text == *text {
        return Ok(done);
    }
    done.shifted = shifted(&drafted.cells);
    save(cx, path, opened, &drafted.text)?;
    cell_reference::changed(cx, location, &after, &drafted.cells);
    done.written = true;
    drop(after);
    drop(notebook);
    done.texts = Some((text.into_owned(), drafted.text));
    Ok(done)
}

/// Describes the new indexes of other cells: a run that moved by the same distance, as one.
fn shifted(cells: &[(Option<usize>, bool)]) -> Option<String> {
    const SHOWN: usize = 5;
    // The first and the last old index, and the first new one.
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for (is, (was, touched)) in cells.iter().enumerate() {
        let Some(was) = was.filter(|it| *it != is && !touched) else { continue };
        match runs.last_mut() {
            Some((first, last, to)) if *last + 1 == was && *to + (was - *first) == is => *last = was,
            _ => runs.push((was, was, is)),
        }
    }
    if runs.is_empty() {
        return None;
    }
    let said = runs.iter().take(SHOWN).map(|(first, last, to)| match last - first {
        0 => format!("{first} is now {to}"),
        more => format!("{first}-{last} are now {to}-{}", to + more),
    });
    let said = said.collect::<Vec<_>>().join(", ");
    let more = if runs.len() > SHOWN { ", and more" } else { "" };
    Some(format!("Other cells have new indexes: {said}{more}."))
}

/// Saves in the encoding of the file, with its byte order mark.
fn save(cx: &Cx, path: &str, opened: &Opened, text: &str) -> Result<(), Fault> {
    let encoding = opened.text.encoding();
    let mut bytes = Vec::with_capacity(text.len() + 3);
    if opened.text.has_bom() {
        bytes.extend_from_slice(&encoding.encode("\u{feff}").unwrap_or_default());
    }
    bytes.extend_from_slice(&encoding.encode(text).or_fault(Kind::BadArgs, "nothing was written")?);
    cx.files().save(path, opened.before(), bytes).map(drop)
}
