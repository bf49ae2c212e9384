//! `edit` as KohakuTerrarium has it: one text for another, or a unified diff.

use kit::{
    edit::{Edit as Change, Which},
    prelude::*,
};

use super::guard::{self, Need};
use crate::files::edit::land;

/// Edit a file: `old` for `new`, or a unified diff. It must have been read before.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that a missing one gets that toolset's own message.
#[schemars(extend("required" = ["path"]))]
pub(crate) struct Edit {
    /// File to edit.
    #[serde(default)]
    path: String,
    /// Exact text to find, once.
    old: Option<String>,
    /// The replacement.
    new: Option<String>,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
    /// Instead: a unified diff of the file.
    diff: Option<String>,
}

impl Tool for Edit {
    const NAME: &str = "edit";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::write(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.edit(cx)).await
    }
}

const MODES: &str = "1. Search and replace: path, old, new, and replace_all for every occurrence.\n\
    2. Unified diff: path, diff.";

impl Edit {
    fn edit(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, old, new, replace_all, diff } = self;
        if path.is_empty() {
            let what = "No path provided. The edit tool supports two modes:";
            return Err(Fault::bad_args(what).next(MODES));
        }
        let change = match (old, new, diff) {
            (Some(_), None, _) | (None, _, None) => {
                return Err(Fault::bad_args("Missing edit content. Provide either:").next(MODES));
            }
            (Some(_), _, Some(_)) => {
                return Err(Fault::bad_args("Give `old` and `new`, or `diff`, not both"));
            }
            (Some(old), Some(_), None) if old.is_empty() => {
                return Err(Fault::bad_args("old is empty. Provide the exact text to find."));
            }
            (Some(old), Some(new), None) => {
                Change::Text { old, new, which: if replace_all { Which::All } else { Which::Only } }
            }
            (None, _, Some(diff)) => Change::Diff(diff),
        };
        let opened = guard::open(cx, &path)?;
        guard::read_before(cx, &path, &opened, Need::Some)?;
        let times = match &change {
            Change::Text { old, .. } => opened.text.decoded().matches(old.as_str()).count(),
            _ => 1,
        };
        let (plan, _) =
            land(cx, &path, std::slice::from_ref(&change)).map_err(|it| in_words(it, &change, times))?;
        Ok(Output::text(match change {
            Change::Text { .. } => format!("Edited {path}\n  {} replacement(s) made", times.max(1)),
            _ => format!("Edited {path}\n  {} line(s) added, {} removed", plan.plus, plan.minus),
        }))
    }
}

fn in_words(fault: Fault, change: &Change, times: usize) -> Fault {
    let what = match (change, fault.kind) {
        (Change::Text { .. }, Kind::NotFound) => "old not found in file.".to_owned(),
        (Change::Text { .. }, Kind::Ambiguous) => {
            format!("Found {times} occurrences of old. Provide more context, or set replace_all=true.")
        }
        (Change::Diff(_), Kind::BadArgs) => format!("Invalid diff format: {}", fault.what),
        (Change::Diff(_), Kind::NotFound | Kind::Ambiguous | Kind::Stale) => {
            format!("Failed to apply diff: Context mismatch: {}", fault.what)
        }
        _ => return fault,
    };
    Fault { what, ..fault }
}
