//! `edit`: changes lines where they were meant, or not at all.

use kit::{
    anchor::Anchor,
    edit::{At, Edit as Change, Plan, Which, plan_large},
    files::unsaved,
    prelude::*,
    seen::Identity,
};

use super::open;

/// Number of times to plan again when another program changes the file in between.
const TRIES: usize = 5;

/// Change a file. All edits of a call are applied, or none. Each names its place by anchors from `read`
/// (`anchor`, `end_anchor`) or by the text there (`old`). If the file changed since you saw it, an edit is
/// applied where its lines are now, or refused with fresh anchors.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// Its path.
    path: String,
    /// Anchors mean the file as it is before this call.
    #[serde(default)]
    edits: Vec<One>,
    /// Instead: a unified diff.
    #[serde(default)]
    diff: Option<String>,
    // A single edit without the list: models that know other tools write this.
    #[serde(default)]
    #[schemars(skip)]
    anchor: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    end_anchor: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    insert: Option<Insert>,
    #[serde(default, alias = "old_text", alias = "old_string", alias = "old_str")]
    #[schemars(skip)]
    old: Option<String>,
    #[serde(default, alias = "new_text", alias = "new_string", alias = "new_str")]
    #[schemars(skip)]
    new: Option<String>,
    #[serde(default, alias = "replace_all")]
    #[schemars(skip)]
    all: bool,
}

/// One edit.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct One {
    /// First line to replace, as `LINE:HASH`.
    #[serde(default)]
    anchor: Option<String>,
    /// Last line to replace. Default: `anchor`.
    #[serde(default)]
    end_anchor: Option<String>,
    /// Insert `new` instead: before or after `anchor`, or at the start or end of the file.
    #[serde(default)]
    insert: Option<Insert>,
    /// Instead of an anchor: the exact text to replace, occurring once.
    #[serde(default, alias = "old_text", alias = "old_string", alias = "old_str")]
    old: Option<String>,
    /// The new text; empty deletes.
    #[serde(alias = "new_text", alias = "new_string", alias = "new_str")]
    new: String,
    /// Replace every occurrence of `old`.
    #[serde(default, alias = "replace_all")]
    all: bool,
}

/// Where to insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Insert {
    Before,
    After,
    Start,
    End,
}

impl Tool for Edit {
    const NAME: &str = "edit";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::write(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| {
            let path = self.path.clone();
            let changes = self.changes()?;
            apply(cx, &path, &changes)
        })
        .await
    }
}

impl Edit {
    fn changes(self) -> Result<Vec<Change>, Fault> {
        let Self { mut edits, diff, anchor, end_anchor, insert, old, new, all, .. } = self;
        let single =
            anchor.is_some() || end_anchor.is_some() || insert.is_some() || old.is_some() || new.is_some();
        let forms = usize::from(!edits.is_empty()) + usize::from(diff.is_some()) + usize::from(single);
        if forms != 1 {
            let what = if forms == 0 {
                "there is nothing to do"
            } else {
                "`edits`, `diff` and a single edit can't be mixed"
            };
            return Err(Fault::bad_args(what.to_owned())
                .next("Give `edits`: [{\"anchor\": \"12:a3\", \"new\": \"…\"}] or [{\"old\": \"…\", \"new\": \"…\"}], or `diff`.".to_owned()));
        }
        if let Some(diff) = diff {
            return Ok(vec![Change::Diff(diff)]);
        }
        if single {
            let Some(new) = new else {
                return Err(Fault::bad_args("missing field `new`").next("An empty `new` deletes.".to_owned()));
            };
            edits.push(One { anchor, end_anchor, insert, old, new, all });
        }
        let count = edits.len();
        edits
            .into_iter()
            .enumerate()
            .map(|(index, one)| {
                one.change().map_err(|fault| {
                    let at = if count > 1 { format!("edits[{index}]: ") } else { String::new() };
                    Fault { what: format!("{at}{}", fault.what), ..fault }
                })
            })
            .collect()
    }
}

impl One {
    fn change(self) -> Result<Change, Fault> {
        let Self { anchor, end_anchor, insert, old, new, all } = self;
        let anchor_of = |given: Option<String>| given.as_deref().map(Anchor::parse).transpose();
        let (from, to) = (anchor_of(anchor)?, anchor_of(end_anchor)?);
        match (old, insert, from) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
                Err(Fault::bad_args("an edit has either `old`, or an anchor, or `insert`, not two of them"))
            }
            (Some(_), None, None) if to.is_some() => {
                Err(Fault::bad_args("`end_anchor` goes with `anchor`, not with `old`"))
            }
            (Some(old), None, None) => {
                let which = if all { Which::All } else { Which::Only };
                Ok(Change::Text { old, new, which })
            }
            (None, _, _) if all => Err(Fault::bad_args("`all` goes with `old`")),
            (None, Some(_), _) if to.is_some() => {
                Err(Fault::bad_args("`insert` goes with `anchor` alone; `end_anchor` has no meaning for it"))
            }
            (None, Some(insert), from) => Ok(Change::Insert { at: place(insert, from)?, new }),
            (None, None, Some(from)) => Ok(Change::Replace { from, to, new }),
            (None, None, None) => Err(Fault::bad_args("an edit needs a place: `anchor`, `old` or `insert`")),
        }
    }
}

fn place(insert: Insert, anchor: Option<Anchor>) -> Result<At, Fault> {
    match (insert, anchor) {
        (Insert::Start, None) => Ok(At::Start),
        (Insert::End, None) => Ok(At::End),
        (Insert::Before, Some(anchor)) => Ok(At::Before(anchor)),
        (Insert::After, Some(anchor)) => Ok(At::After(anchor)),
        (Insert::Before | Insert::After, None) => {
            Err(Fault::bad_args("`insert` before or after a line needs its `anchor`"))
        }
        (Insert::Start | Insert::End, Some(_)) => {
            Err(Fault::bad_args("`insert` at the start or end of the file takes no `anchor`"))
        }
    }
}

/// Applies the changes and saves the file; returns the text for the model.
///
/// # Errors
/// Those of planning and saving. The file is then unchanged.
pub(crate) fn apply(cx: &Cx, path: &str, changes: &[Change]) -> Result<Output, Fault> {
    let (plan, _) = land(cx, path, changes)?;
    let notes: String = plan.notes.iter().map(|note| format!("\n{note}")).collect();
    Ok(Output::page(format!("Updated {path} (+{} -{}){notes}\n{}", plan.plus, plan.minus, plan.fresh.text)))
}

/// Plans, saves, and records what was shown. If another program changes the file between the two, the plan is
/// made again on its new content.
pub(crate) fn land(cx: &Cx, path: &str, changes: &[Change]) -> Result<(Plan, kit::files::Saved), Fault> {
    let mut tries = TRIES;
    loop {
        cx.check()?;
        let opened = open::text(cx, path)?;
        let file = opened.location().absolute();
        let identity = Identity::from(&opened.loaded.identity);
        let plan = plan_large(&opened.text, Some(&identity), cx.views(), &file, changes, || cx.check())?;
        if opened.loaded.is_unsaved() {
            return Err(plan.refused(cx.views(), &file, Some(&identity), unsaved(path)));
        }
        cx.keep_secrets_whole(&plan)?;
        match cx.files().save(path, opened.before(), plan.text.whole()) {
            Ok(saved) => {
                plan.landed(cx.views(), &file, Some(&Identity::from(&saved.identity)));
                return Ok((plan, saved));
            }
            Err(fault) if fault.kind == Kind::Stale && tries > 0 => tries -= 1,
            Err(fault) => return Err(fault),
        }
    }
}
