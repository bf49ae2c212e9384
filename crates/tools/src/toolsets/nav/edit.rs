//! `edit` as nav has it: the same edits in other words.

use kit::{
    Part,
    anchor::Anchor,
    edit::{At, Edit as Change, Which},
    prelude::*,
    references::StandsFor,
};

use super::in_order::{self, Replace};
use crate::files::edit::apply;

/// Edit a file by LINE:HASH, as lines are shown, or by exact text.
/// Give one edit, or several as `edits`: all are applied, or none. Anchors mean the file before the call; replacements of text
/// are made in order, each in what the ones before made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// File to edit.
    path: String,
    /// First line to replace, as LINE:HASH.
    #[serde(default)]
    anchor: Option<String>,
    /// Last line to replace. Default: `anchor`.
    #[serde(default)]
    end_anchor: Option<String>,
    /// New text; empty deletes.
    #[serde(default)]
    new_text: Option<String>,
    /// Insert `new_text` after the line of `anchor` instead of replacing it.
    #[serde(default)]
    insert_after: bool,
    /// Exact text to replace, instead of an anchor.
    #[serde(default)]
    old_string: Option<String>,
    /// What takes the place of `old_string`. Default: nothing, which deletes.
    #[serde(default)]
    new_string: Option<String>,
    /// Replace every occurrence of `old_string`.
    #[serde(default)]
    replace_all: bool,
    /// Several edits at once.
    #[serde(default)]
    edits: Vec<One>,
}

/// One of several edits.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    /// First line to replace, as LINE:HASH.
    #[serde(default)]
    anchor: Option<String>,
    /// Last line to replace.
    #[serde(default)]
    end_anchor: Option<String>,
    /// New text; empty deletes.
    #[serde(default)]
    new_text: Option<String>,
    /// Insert after the anchor's line.
    #[serde(default)]
    insert_after: bool,
    /// Exact text to replace, instead of an anchor.
    #[serde(default)]
    old_string: Option<String>,
    /// What takes its place. Default: nothing.
    #[serde(default)]
    new_string: Option<String>,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

impl Tool for Edit {
    const NAME: &str = "edit";
    const AT_MOST: Kinds = Kinds::WRITE;
    const STANDS_FOR: &'static [StandsFor] = &[StandsFor::tool("edit").naming(&[
        ("old", "old_string"),
        ("new", "new_string"),
        ("all", "replace_all"),
        ("insert", ""),
    ])];

    fn touches(&self) -> Touches {
        Touches::write(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| {
            let Self {
                path,
                anchor,
                end_anchor,
                new_text,
                insert_after,
                old_string,
                new_string,
                replace_all,
                mut edits,
            } = self;
            let single =
                One { anchor, end_anchor, new_text, insert_after, old_string, new_string, replace_all };
            if edits.is_empty() {
                edits.push(single);
            } else if single.anchor.is_some() || single.old_string.is_some() {
                return Err(Fault::bad_args("give one edit, or several as `edits`, not both"));
            }
            if edits.len() > 1
                && let Some(replaces) = edits.iter().map(One::replace).collect::<Option<Vec<_>>>()
            {
                return in_order::apply(cx, &path, &replaces);
            }
            let changes = edits.into_iter().map(One::change).collect::<Result<Vec<_>, _>>()?;
            apply(cx, &path, &changes).map_err(in_words)
        })
        .await
    }
}

/// The fault of an edit with the words and arguments of nav. It has no text of the file but in what it shows, on lines that
/// begin with `old`.
fn in_words(mut fault: Fault) -> Fault {
    const WORDS: [(&str, &str); 4] = [
        ("`old` is not in the file", "old_string not found in file"),
        ("`old` occurs", "old_string matched"),
        ("`old`", "`old_string`"),
        ("`all`", "`replace_all`"),
    ];
    fault.what = WORDS.iter().fold(fault.what, |what, (own, here)| what.replace(own, here));
    for part in fault.seen.iter_mut().flat_map(|it| &mut it.parts) {
        if let Part::Text { text } = part {
            *text = text.replace("\n`old` has ", "\n`old_string` has ");
        }
    }
    fault
}

impl One {
    /// The replacement of text that it is, if it names no anchor.
    fn replace(&self) -> Option<Replace> {
        let old = self.old_string.clone().filter(|_| self.anchor.is_none())?;
        let new = self.new_string.clone().or_else(|| self.new_text.clone()).unwrap_or_default();
        Some(Replace { old, new, all: self.replace_all })
    }

    fn change(self) -> Result<Change, Fault> {
        if let Some(old) = self.old_string {
            if self.anchor.is_some() {
                return Err(Fault::bad_args("an edit has an `anchor` or an `old_string`, not both"));
            }
            in_order::some(&old)?;
            let which = if self.replace_all { Which::All } else { Which::Only };
            let new = self.new_string.or(self.new_text).unwrap_or_default();
            return Ok(Change::Text { old, new, which });
        }
        let from = Anchor::parse(self.anchor.as_deref().unwrap_or_default())?;
        let Some(mut new) = self.new_text.or(self.new_string) else {
            return Err(Fault::bad_args("missing field `new_text`").next("An empty `new_text` deletes."));
        };
        // In nav, lines are what line feeds part: one at the end begins an empty line.
        if new.ends_with('\n') {
            new.push('\n');
        }
        if self.insert_after {
            if new.is_empty() {
                return Err(Fault::bad_args("insert_after requires non-empty new_text"));
            }
            return Ok(Change::Insert { at: At::After(from), new });
        }
        let to = self.end_anchor.as_deref().map(Anchor::parse).transpose()?;
        Ok(Change::Replace { from, to, new })
    }
}
