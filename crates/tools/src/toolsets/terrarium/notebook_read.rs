//! `notebook_read` as KohakuTerrarium has it.

use kit::prelude::*;

use crate::files::{notebook::place::Name, notebook_read};

/// Read the cells of a Jupyter notebook with their outputs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that what is missing is said in their words.
#[schemars(extend("required" = ["path"]))]
pub(crate) struct NotebookRead {
    /// Notebook (.ipynb) to read.
    #[serde(default)]
    path: String,
    /// Only this cell, from 0.
    cell_index: Option<usize>,
    /// Cells to skip.
    #[serde(default)]
    offset: usize,
    /// Most cells.
    limit: Option<usize>,
}

impl Tool for NotebookRead {
    const NAME: &str = "notebook_read";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, cell_index, offset, limit } = self;
        if path.is_empty() {
            return Err(Fault::bad_args("No path provided"));
        }
        let cells = cell_index.into_iter().map(Name::Index).collect();
        let inner = notebook_read::NotebookRead::of(path.clone(), cells, offset, limit);
        inner.run(cx).await.map_err(|fault| match fault.kind {
            Kind::NotFound if fault.what.ends_with("does not exist") => {
                Fault { what: format!("File not found: {path}"), ..fault }
            }
            _ => fault,
        })
    }
}
