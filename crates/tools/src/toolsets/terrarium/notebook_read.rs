//! `notebook_read` as KohakuTerrarium has it: cells by id, with their outputs in short.

use kit::prelude::*;

use super::guard;
use crate::files::notebook::{
    self, Cell, Notebook,
    cell_reference::{self, Name},
    show,
};

/// Maximum bytes of one answer; the rest is reached by `offset`.
const PAGE: usize = 48 << 10;

/// Maximum outputs of a cell in a summary.
const FEW: usize = 3;

/// Read a Jupyter notebook as cells (required before notebook_edit), each after a line `[ID] index=N type=T`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that a missing one gets that toolset's own message.
#[schemars(extend("required" = ["path"]))]
pub(crate) struct NotebookRead {
    /// Notebook (.ipynb) to read.
    #[serde(default)]
    path: String,
    /// Only this cell: its id, or cell-N.
    cell_id: Option<String>,
    /// Cells to skip.
    #[serde(default)]
    offset: usize,
    /// Most cells; 0: all.
    #[serde(default)]
    limit: usize,
    /// Default: summary, the first outputs of a cell.
    #[serde(default)]
    include_outputs: Outputs,
    /// Show each cell's metadata.
    #[serde(default)]
    include_metadata: bool,
    /// Most characters of a source. Default: 8000.
    max_source_chars: Option<usize>,
    /// Most characters of an output. Default: 4000.
    max_output_chars: Option<usize>,
}

/// How many outputs are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Outputs {
    None,
    #[default]
    Summary,
    All,
}

impl Tool for NotebookRead {
    const NAME: &str = "notebook_read";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.read(cx)).await
    }
}

impl NotebookRead {
    fn read(&self, cx: &Cx) -> Result<Output, Fault> {
        let path = &self.path;
        if path.is_empty() {
            return Err(Fault::bad_args("path is required"));
        }
        cx.files().locate(path)?;
        check_name(path)?;
        let opened = notebook::load(cx, path).map_err(|fault| guard::in_words(path, fault))?;
        let text = opened.text.decoded();
        let notebook = Notebook::parse(path, &text)?;
        let count = notebook.cells.len();
        let wanted = match self.cell_id.as_deref().filter(|it| !it.is_empty()) {
            Some(id) => {
                let at = index_of(id, &notebook)?;
                at..at + 1
            }
            None => {
                let most = if self.limit == 0 { count } else { self.limit };
                self.offset.min(count)..self.offset.saturating_add(most).min(count)
            }
        };
        let language = notebook.language.as_deref().unwrap_or("python");
        let minor = notebook.minor;
        let mut shown =
            format!("Notebook: {path}\nLanguage: {language}\nFormat: nbformat 4.{minor}\nCells: {count}\n");
        let (mut seen, mut end) = (Vec::new(), wanted.start);
        for index in wanted.clone() {
            cx.check()?;
            let Some(cell) = notebook.cells.get(index) else { continue };
            let (text, whole) = self.cell(cell, index, &notebook);
            if index > wanted.start && shown.len() + text.len() > PAGE {
                break;
            }
            shown.push_str(&format!("\n{text}\n"));
            end = index + 1;
            if whole {
                seen.push(index);
            }
        }
        cell_reference::remember(cx, opened.location(), &notebook, seen);
        let is_more = end < wanted.end || (self.cell_id.is_none() && self.limit > 0 && end < count);
        if is_more && end > wanted.start {
            let last = end - 1;
            shown.push_str(&format!(
                "\n... (showing cells {}-{last} of {count}; offset={end} shows more)",
                wanted.start
            ));
        }
        Ok(Output::page(shown.trim_end()))
    }

    /// Renders a cell; returns whether its source is complete.
    fn cell(&self, cell: &Cell<'_>, index: usize, notebook: &Notebook<'_>) -> (String, bool) {
        let mut text = match &cell.id {
            Some(id) => format!("[{id}] index={index} type={}", cell.kind),
            None => format!("[cell-{index}] index={index} type={} synthetic_id=true", cell.kind),
        };
        if let Some(run) = cell.run.as_ref().filter(|_| cell.kind == "code") {
            text.push_str(&format!(" execution_count={run}"));
        }
        if self.include_metadata
            && let Some(metadata) = cell.metadata(notebook)
        {
            text.push_str(&format!("\nmetadata: {metadata}"));
        }
        let (source, whole) = cut(&cell.source, self.max_source_chars.unwrap_or(8_000));
        text.push('\n');
        text.push_str(&source);
        if self.include_outputs != Outputs::None && cell.kind == "code" && !cell.outputs.is_empty() {
            let few = if self.include_outputs == Outputs::All { cell.outputs.len() } else { FEW };
            let most = self.max_output_chars.unwrap_or(4_000);
            text.push_str("\nOutputs:");
            for output in cell.outputs.iter().take(few) {
                let output = show::parts(output);
                text.push_str(&format!("\n[{}]", output.kind));
                if !output.text.is_empty() {
                    text.push('\n');
                    text.push_str(&cut(&output.text, most).0);
                }
                for other in output.others {
                    text.push_str(&format!("\n[{other} output omitted]"));
                }
            }
            if cell.outputs.len() > few {
                text.push_str(&format!("\n... ({} more output(s) omitted)", cell.outputs.len() - few));
            }
        }
        (text, whole)
    }
}

/// Refuses a file without the extension of notebooks.
///
/// # Errors
/// [`Kind::BadArgs`].
pub(super) fn check_name(path: &str) -> Result<(), Fault> {
    notebook::check_name(path)
        .map_err(|fault| Fault { what: "File must be a Jupyter notebook (.ipynb)".to_owned(), ..fault })
}

/// Resolves an id: one of the notebook, or `cell-N` for the cell at index N.
///
/// # Errors
/// [`Kind::NotFound`] if there is none.
pub(super) fn cell_named(id: &str, notebook: &Notebook<'_>) -> Result<Name, Fault> {
    if notebook.cells.iter().any(|it| it.id.as_deref() == Some(id)) {
        return Ok(Name::Id(id.to_owned()));
    }
    if let Some(index) = id.strip_prefix("cell-").and_then(|it| it.parse().ok()) {
        return Ok(Name::Now(index));
    }
    let ids: Vec<&str> = notebook.cells.iter().filter_map(|it| it.id.as_deref()).take(20).collect();
    let fault = Fault::not_found(format!("Cell with id '{id}' not found"));
    Err(match ids.is_empty() {
        true => fault.next("Its cells have no ids: cell-0 is the first."),
        false => fault.next(format!("Its ids are {}.", ids.join(", "))),
    })
}

fn index_of(id: &str, notebook: &Notebook<'_>) -> Result<usize, Fault> {
    let index = match cell_named(id, notebook)? {
        Name::Id(id) => notebook.cells.iter().position(|it| it.id.as_ref() == Some(&id)),
        Name::Now(index) => Some(index).filter(|it| *it < notebook.cells.len()),
        _ => None,
    };
    index.ok_or_else(|| {
        let index = id.strip_prefix("cell-").unwrap_or(id);
        Fault::not_found(format!("Cell index {index} does not exist"))
    })
}

/// Truncates a text; returns whether it is complete. 0: no limit.
fn cut(text: &str, most: usize) -> (String, bool) {
    match text.char_indices().nth(most) {
        Some((end, _)) if most > 0 => {
            let shown = text.get(..end).unwrap_or_default();
            (format!("{shown}\n... (truncated, {} chars total)", text.chars().count()), false)
        }
        _ => (text.to_owned(), true),
    }
}
