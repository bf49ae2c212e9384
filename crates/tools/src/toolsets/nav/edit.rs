//! `edit` as nav has it: the same edits with other argument names.

use kit::{
    Part,
    anchor::Anchor,
    edit::{At, Edit as Change, Which},
    prelude::*,
    references::StandsFor,
};

use super::{
    in_order::{self, Replace},
    older::{InsertAfter, ReplaceLines, SetLine, Type},
};
use crate::files::{edit::apply, open};

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
    #[schemars(with = "bool")]
    insert_after: InsertAfter,
    /// Exact text to replace, instead of an anchor.
    #[serde(default)]
    old_string: Option<String>,
    /// Replacement of `old_string`. Default: nothing, which deletes.
    #[serde(default)]
    new_string: Option<String>,
    /// Replace every occurrence of `old_string`.
    #[serde(default)]
    replace_all: bool,
    /// Several edits at once.
    #[serde(default)]
    edits: Vec<One>,
    #[serde(default)]
    #[schemars(skip)]
    set_line: Option<SetLine>,
    #[serde(default)]
    #[schemars(skip)]
    replace_lines: Option<ReplaceLines>,
}

/// One of several edits.
#[derive(Default, Deserialize, JsonSchema)]
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
    #[schemars(with = "bool")]
    insert_after: InsertAfter,
    /// Exact text to replace, instead of an anchor.
    #[serde(default)]
    old_string: Option<String>,
    /// The replacement. Default: nothing.
    #[serde(default)]
    new_string: Option<String>,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
    // Forms that earlier versions of nav had.
    #[serde(default)]
    #[schemars(skip)]
    set_line: Option<SetLine>,
    #[serde(default)]
    #[schemars(skip)]
    replace_lines: Option<ReplaceLines>,
    #[serde(default, rename = "type")]
    #[schemars(skip)]
    form: Option<Type>,
    #[serde(default)]
    #[schemars(skip)]
    start_anchor: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    text: Option<String>,
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
            let (path, edits) = self.edits()?;
            if edits.len() > 1
                && let Some(replaces) = edits.iter().map(One::replace).collect::<Option<Vec<_>>>()
            {
                return in_order::apply(cx, &path, &replaces);
            }
            let mut changes = edits.into_iter().map(One::change).collect::<Result<Vec<_>, _>>()?;
            in_lines_of_nav(cx, &path, &mut changes)?;
            apply(cx, &path, &changes).map_err(in_words)
        })
        .await
    }
}

impl Edit {
    /// Returns the path, and the edits in the present form.
    fn edits(self) -> Result<(String, Vec<One>), Fault> {
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
            set_line,
            replace_lines,
        } = self;
        let one = One {
            anchor,
            end_anchor,
            new_text,
            insert_after,
            old_string,
            new_string,
            replace_all,
            set_line,
            replace_lines,
            ..One::default()
        };
        let one = one.of_today();
        if edits.is_empty() {
            edits.push(one);
            return Ok((path, edits));
        }
        if one.anchor.is_some() || one.old_string.is_some_and(|it| !it.is_empty()) {
            return Err(Fault::bad_args("give one edit, or several as `edits`, not both"));
        }
        Ok((path, edits.into_iter().map(One::of_today).collect()))
    }
}

/// Converts new text to nav's lines, which are separated by line feeds: one at the end of new text begins an
/// empty line. After a last line without a newline, this empty line is the end of the file.
fn in_lines_of_nav(cx: &Cx, path: &str, changes: &mut Vec<Change>) -> Result<(), Fault> {
    if !changes.iter_mut().any(|it| new_lines(it).is_some_and(|(_, new)| new.ends_with('\n'))) {
        return Ok(());
    }
    let text = open::text(cx, path)?.text;
    let last = (!text.has_final_newline()).then(|| text.line_count());
    let of_last = changes.iter_mut().filter_map(new_lines).filter(|(line, _)| Some(*line) == last).count();
    let mut ends = false;
    for (line, new) in changes.iter_mut().filter_map(new_lines).filter(|(_, new)| new.ends_with('\n')) {
        if Some(line) == last && of_last == 1 {
            ends = true;
        } else {
            new.push('\n');
        }
    }
    changes.extend(ends.then_some(Change::FinalNewline));
    Ok(())
}

/// Returns the number of the last line that a change names, and its new lines.
fn new_lines(change: &mut Change) -> Option<(usize, &mut String)> {
    match change {
        Change::Replace { from, to, new } => Some((to.unwrap_or(*from).line, new)),
        Change::Insert { at: At::After(anchor), new } => Some((anchor.line, new)),
        _ => None,
    }
}

/// Rewrites a fault of an edit with nav's words and arguments. Text of the file is only in lines that begin
/// with `old`, which stay as they are.
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
    /// Returns the same edit in the present form, without empty arguments: a model may fill in all of them,
    /// and nav takes an empty anchor as none.
    fn of_today(mut self) -> Self {
        let given = |it: Option<String>| it.filter(|it| !it.is_empty());
        if let Some(SetLine { anchor, new_text }) = self.set_line.take() {
            return Self { anchor: Some(anchor), new_text: Some(new_text), ..Self::default() };
        }
        if let Some(ReplaceLines { start_anchor, end_anchor, new_text }) = self.replace_lines.take() {
            let (anchor, end_anchor) = (Some(start_anchor), given(end_anchor));
            return Self { anchor, end_anchor, new_text: Some(new_text), ..Self::default() };
        }
        if let InsertAfter::This(it) = self.insert_after {
            let (anchor, new_text) = (Some(it.anchor), Some(it.text));
            return Self { anchor, new_text, insert_after: InsertAfter::Is(true), ..Self::default() };
        }
        if self.form == Some(Type::InsertAfter) {
            self.insert_after = InsertAfter::Is(true);
        }
        self.anchor = given(self.start_anchor.take()).or(given(self.anchor));
        self.end_anchor = given(self.end_anchor);
        self.new_text = given(self.text.take()).or(self.new_text);
        if self.anchor.is_some() {
            self.old_string = given(self.old_string);
        }
        self
    }

    /// Returns the text replacement, if it names no anchor.
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
        let Some(new) = self.new_text.or(self.new_string) else {
            return Err(Fault::bad_args("missing field `new_text`").next("An empty `new_text` deletes."));
        };
        if matches!(self.insert_after, InsertAfter::Is(true)) {
            if new.is_empty() {
                return Err(Fault::bad_args("insert_after requires non-empty new_text"));
            }
            return Ok(Change::Insert { at: At::After(from), new });
        }
        let to = self.end_anchor.as_deref().map(Anchor::parse).transpose()?;
        Ok(Change::Replace { from, to, new })
    }
}
