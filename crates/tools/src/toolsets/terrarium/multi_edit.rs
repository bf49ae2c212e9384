//! `multi_edit` as KohakuTerrarium has it: several replacements in one file, one after the other.

use kit::prelude::*;
use serde_json::Value;

use super::{
    difference::difference,
    guard::{self, Need},
    modes::Modes,
};
use crate::files::rewrite::rewrite;

/// Several replacements in one file, each in what the ones before made of it. Strict (default): all or none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that a missing one gets that toolset's own message.
#[schemars(extend("required" = ["path", "edits"]))]
pub(crate) struct MultiEdit {
    /// File to edit.
    #[serde(default)]
    path: String,
    /// Objects with `old`, `new` and, if every occurrence is meant, `replace_all`.
    #[serde(default)]
    #[schemars(with = "Vec<One>")]
    edits: Value,
    /// false: stop at the first that fails, and keep those before it.
    strict: Option<bool>,
    /// Go on after one that fails.
    #[serde(default)]
    best_effort: bool,
}

/// One replacement.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used: what is wrong is said in their words")]
struct One {
    /// Exact text to find.
    old: String,
    /// The replacement.
    new: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

impl Tool for MultiEdit {
    const NAME: &str = "multi_edit";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::write(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.edit(cx)).await
    }
}

/// A replacement as it was given.
struct Replace {
    old: String,
    new: String,
    all: bool,
}

impl MultiEdit {
    fn edit(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, edits, strict, best_effort } = self;
        if path.is_empty() {
            return Err(Fault::bad_args("No path provided"));
        }
        let edits = parse(&edits)?;
        let modes = Modes::of(strict, best_effort)?;
        let opened = guard::open(cx, &path)?;
        guard::read_before(cx, &path, &opened, Need::Some)?;
        let before = opened.text.decoded().into_owned();
        let mut after = before.clone();
        let mut statuses: Vec<Result<String, String>> = Vec::new();
        for edit in &edits {
            let failed = statuses.iter().any(Result::is_err);
            if failed && !modes.goes_on() {
                break;
            }
            statuses.push(edit.make(&mut after));
        }
        let lines = modes.report(&path, &statuses, edits.len(), before != after);
        if statuses.iter().any(Result::is_err) && modes == Modes::Strict {
            let at = statuses.len() - 1;
            let what = format!("multi_edit failed in strict mode at edit[{at}] (file unchanged)");
            return Err(Fault::new(Kind::NotFound, what).seen(Output::text(lines)));
        }
        let mut said = lines;
        if before != after {
            cx.keep_secrets_whole_in(&before, &after)?;
            rewrite(cx, &path, &opened, &before, &after)?;
            said.push_str(&difference(&path, &before, &after));
        }
        match statuses.iter().filter(|it| it.is_err()).count() {
            0 => Ok(Output::text(said)),
            failed => {
                let what = format!("multi_edit completed with {failed} failed edit(s)");
                Err(Fault::new(Kind::NotFound, what).seen(Output::text(said)))
            }
        }
    }
}

impl Replace {
    fn make(&self, text: &mut String) -> Result<String, String> {
        if self.old == self.new {
            return Ok("no change (old equals new)".to_owned());
        }
        let (mut old, mut new) = (self.old.clone(), self.new.clone());
        if !text.contains(&old) && text.contains("\r\n") && !old.contains('\r') {
            old = old.replace('\n', "\r\n");
            new = new.replace('\n', "\r\n");
        }
        match text.matches(&old).count() {
            0 => Err("old not found in file after prior edits".to_owned()),
            times if times > 1 && !self.all => {
                Err(format!("found {times} occurrences of old; set replace_all=true or provide more context"))
            }
            times => {
                *text = text.replace(&old, &new);
                Ok(counted(times, "replacement"))
            }
        }
    }
}

fn parse(edits: &Value) -> Result<Vec<Replace>, Fault> {
    let no = |what: String| Fault::bad_args(what);
    let Some(edits) = edits.as_array().filter(|it| !it.is_empty()) else {
        return Err(no("`edits`: edits must be a non-empty array".to_owned()));
    };
    let parse = |(at, edit): (usize, &Value)| {
        let Some(edit) = edit.as_object() else { return Err(no(format!("edit[{at}] must be an object"))) };
        let string = |name: &str| match edit.get(name) {
            None => Err(no(format!("edit[{at}] is missing required field: {name}"))),
            Some(Value::String(it)) => Ok(it.clone()),
            Some(_) => Err(no(format!("edit[{at}].{name} must be a string"))),
        };
        let (old, new) = (string("old")?, string("new")?);
        if old.is_empty() {
            return Err(no(format!("edit[{at}].old must not be empty")));
        }
        let all = match edit.get("replace_all") {
            None => false,
            Some(Value::Bool(it)) => *it,
            Some(_) => return Err(no(format!("edit[{at}].replace_all must be a boolean"))),
        };
        Ok(Replace { old, new, all })
    };
    edits.iter().enumerate().map(parse).collect()
}
