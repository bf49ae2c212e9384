//! `notebook_read`: shows a Jupyter notebook.

use kit::prelude::*;

use super::notebook::{
    self, Notebook, cell_reference,
    cell_reference::{Name, Need},
    show,
};

/// Maximum bytes of one answer; the rest is reached by `offset`.
const PAGE: usize = 48 << 10;

/// Read a Jupyter notebook, cell by cell, each after a line `[INDEX:HASH] TYPE ID`, with its outputs in short.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotebookRead {
    /// Notebook (.ipynb), relative to the workspace or absolute.
    path: String,
    /// Only these cells, by index or id; their outputs are shown at more length.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    cells: Vec<Name>,
    /// First cell, from 0.
    #[serde(default)]
    offset: usize,
    /// Most cells.
    limit: Option<usize>,
    /// false: without outputs.
    #[serde(default = "yes")]
    outputs: bool,
}

fn yes() -> bool {
    true
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
        // A path outside is refused first, whatever its name.
        cx.files().locate(path)?;
        notebook::check_name(path)?;
        let opened = notebook::load(cx, path)?;
        let text = opened.text.decoded();
        let notebook = Notebook::parse(path, &text)?;
        let count = notebook.cells.len();
        let mut shown = headline(path, &notebook);
        let wanted = self.wanted(&notebook, &opened, cx)?;
        let outputs = match (self.outputs, self.cells.is_empty()) {
            (false, _) => show::Outputs::Hidden,
            (true, true) => show::Outputs::Short,
            (true, false) => show::Outputs::Long,
        };
        let mut seen = Vec::new();
        let mut next = None;
        for (at, index) in wanted.iter().copied().enumerate() {
            cx.check()?;
            let Some(cell) = notebook.cells.get(index) else { continue };
            let cell = show::cell(cell, index, outputs);
            if at > 0 && shown.len() + cell.text.len() > PAGE {
                next = Some(index);
                break;
            }
            shown.push('\n');
            shown.push_str(&cell.text);
            if cell.whole {
                seen.push(index);
            }
        }
        cell_reference::remember(cx, opened.location(), &notebook, seen);
        let end = wanted.last().map_or(0, |it| it + 1);
        if let Some(next) = next.or((self.cells.is_empty() && end < count).then_some(end)) {
            shown.push_str(&format!("\n[{} more cells; next: offset {next}]", count - next));
        }
        Ok(Output::page(shown))
    }

    /// Returns the indexes of the cells to show.
    fn wanted(
        &self,
        notebook: &Notebook<'_>,
        opened: &super::open::Opened,
        cx: &Cx,
    ) -> Result<Vec<usize>, Fault> {
        let count = notebook.cells.len();
        if !self.cells.is_empty() {
            let find = |it: &Name| match it {
                Name::Index(index) if *index < count => Ok(*index),
                it => it.find(Need::Place, &self.path, notebook, opened.location(), cx).map(|it| it.index),
            };
            return self.cells.iter().map(find).collect();
        }
        if self.offset > 0 && self.offset >= count {
            let what = format!("`offset` is {}, and `{}` has {count} cells", self.offset, self.path);
            return Err(Fault::bad_args(what));
        }
        if self.limit == Some(0) {
            return Err(Fault::bad_args("`limit` is 0, so there is nothing to show"));
        }
        let end = self.limit.map_or(count, |it| self.offset.saturating_add(it).min(count));
        Ok((self.offset..end).collect())
    }
}

fn headline(path: &str, notebook: &Notebook<'_>) -> String {
    let kernel = notebook.kernel.as_ref().map(|it| format!(", {it}")).unwrap_or_default();
    format!("{path}: nbformat 4.{}{kernel}, {}", notebook.minor, counted(notebook.cells.len(), "cell"))
}
