//! `notebook_edit` as KohakuTerrarium has it: the statuses and modes of `multi_edit`, for cells.

use kit::prelude::*;

use super::modes::Modes;
use crate::files::{
    notebook::{
        change::{Edit, Kindred, Side},
        load,
        place::{self, Name},
    },
    notebook_edit::{Mode, apply},
};

/// Edit the cells of a Jupyter notebook, which must have been read before. Strict (default): all or none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that what is missing is said in their words.
#[schemars(extend("required" = ["path"]))]
pub(crate) struct NotebookEdit {
    /// Notebook (.ipynb) to edit.
    #[serde(default)]
    path: String,
    /// The edits. Indexes mean the cells before this call.
    edits: Vec<One>,
    /// false: stop at the first that fails, and keep those before it.
    strict: Option<bool>,
    /// Go on after one that fails.
    #[serde(default)]
    best_effort: bool,
}

/// One edit.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    /// Index of the cell, from 0; an insert puts the new one there.
    cell_index: usize,
    /// Default: replace.
    #[serde(default)]
    action: Action,
    /// The source, for replace and insert.
    #[serde(default)]
    source: Option<String>,
    /// code, markdown or raw.
    cell_type: Option<Kindred>,
}

/// What to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    #[default]
    Replace,
    Insert,
    Delete,
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
        let Self { path, edits, strict, best_effort } = self;
        if path.is_empty() {
            return Err(Fault::bad_args("No path provided"));
        }
        if edits.is_empty() {
            return Err(Fault::bad_args("edits must be a non-empty array"));
        }
        let modes = Modes::of(strict, best_effort)?;
        let location = cx.files().locate(&path)?;
        crate::files::notebook::check_name(&path)?;
        let opened = load(cx, &path).map_err(|fault| super::guard::in_words(&path, fault))?;
        if !place::is_known(cx, &location) {
            let why =
                "file has not been read yet. Use the notebook_read tool first to see the current contents.";
            return Err(Fault::new(Kind::Stale, format!("Cannot write to '{path}': {why}")));
        }
        let text = opened.text.decoded();
        let count = crate::files::notebook::Notebook::parse(&path, &text)?.cells.len();
        let edits: Vec<Result<Edit, Fault>> = edits.into_iter().map(|it| it.edit(count)).collect();
        let mode = match modes {
            Modes::Strict => Mode::Strict,
            Modes::Partial => Mode::UntilFailure,
            Modes::BestEffort => Mode::BestEffort,
        };
        let done = apply(cx, &path, &edits, mode, false)?;
        let statuses: Vec<Result<String, String>> =
            done.edits.iter().flatten().map(|it| it.as_ref().map_err(Fault::as_text).cloned()).collect();
        let mut said = modes.report(&path, &statuses, edits.len(), done.written);
        for header in done.changed.iter().chain(&done.shifted) {
            said.push('\n');
            said.push_str(header);
        }
        let failed = statuses.iter().filter(|it| it.is_err()).count();
        if failed == 0 {
            return Ok(Output::text(said));
        }
        let kind =
            done.edits.iter().flatten().find_map(|it| it.as_ref().err()).map_or(Kind::Bug, |it| it.kind);
        let what = match done.refused {
            true => {
                let at = statuses.len() - 1;
                format!("notebook_edit failed in strict mode at edit[{at}] (file unchanged)")
            }
            false => format!("notebook_edit completed with {failed} failed edit(s)"),
        };
        Err(Fault::new(kind, what).seen(Output::text(said)))
    }
}

impl One {
    fn edit(self, count: usize) -> Result<Edit, Fault> {
        let Self { cell_index, action, source, cell_type } = self;
        let cell = Name::Index(cell_index);
        let no_source = || Fault::bad_args("missing required field: source");
        match action {
            Action::Replace if source.is_none() && cell_type.is_none() => Err(no_source()),
            Action::Replace => Ok(Edit::Replace { cell, source, kind: cell_type }),
            Action::Delete => Ok(Edit::Delete { cell }),
            Action::Insert => {
                let source = source.ok_or_else(no_source)?;
                let kind = cell_type.unwrap_or(Kindred::Code);
                Ok(match cell_index == count {
                    true => Edit::Insert { at: Side::After, cell: None, source, kind },
                    false => Edit::Insert { at: Side::Before, cell: Some(cell), source, kind },
                })
            }
        }
    }
}
