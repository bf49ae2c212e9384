//! `scad_lint`: checks OpenSCAD source.

mod builtins;
mod libraries;
mod names;
mod parse;
mod report;
#[cfg(test)]
mod tests;
mod tokens;
mod tree;

use std::collections::BTreeSet;

use kit::prelude::*;

use self::{
    libraries::{Base, Sources},
    report::Report,
    tree::Statement,
};
use super::source::Source;

/// Maximum number of findings that are shown, the first ones.
const SHOWN: usize = 50;

/// Check OpenSCAD source without compiling it: brackets, semicolons, unknown names and arguments, unused variables.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScadLint {
    /// The .scad file.
    #[serde(default)]
    path: String,
    /// Source instead of a file; it stands in the workspace.
    #[serde(default)]
    code: String,
}

impl Tool for ScadLint {
    const NAME: &str = "scad_lint";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Source::touches(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| {
            let source = Source::of(cx, &self.path, &self.code)?;
            let lines = findings(cx, &source);
            let count = lines.len();
            let mut text = match count {
                0 => format!("{}: no problems", source.name()),
                _ => lines.into_iter().take(SHOWN).collect::<Vec<_>>().join("\n"),
            };
            if count > SHOWN {
                let least = if count >= report::MOST { "at least " } else { "" };
                text.push_str(&format!("\n{least}{} more", count - SHOWN));
            }
            Ok(Output::text(text))
        })
        .await
    }
}

/// Returns the findings, as lines `file:line:column severity message`.
pub(super) fn findings(cx: &Cx, source: &Source<'_>) -> Vec<String> {
    let mut report = Report::new(source.name(), &source.text);
    let tokens = tokens::tokens(&source.text, &mut report);
    // With unbalanced brackets, everything after them would be misread.
    if !tokens::balanced(&tokens, &mut report) {
        return report.lines();
    }
    let statements = parse::parse(&tokens, &mut report);
    let is_whole = report.len() == 0;
    let outside = Sources::new(cx).outside(&statements, &Base::Roots(source.dir().to_owned()), &mut report);
    if is_whole {
        names::check(&statements, &outside, &mut report);
    }
    report.lines()
}

/// Returns the longest name or number of a source, and its offset.
pub(super) fn longest_word(text: &str) -> Option<(usize, &str)> {
    let tokens = tokens::tokens(text, &mut Report::new("", text));
    let words = tokens.into_iter().filter(|it| matches!(it.kind, tokens::Kind::Word | tokens::Kind::Number));
    words.max_by_key(|it| it.text.len()).map(|it| (it.at, it.text))
}

/// Returns the variables that are set at the top of a source; `None` if included files may set others.
pub(super) fn variables(text: &str) -> Option<BTreeSet<String>> {
    let mut report = Report::new("", text);
    let statements = parse::parse(&tokens::tokens(text, &mut report), &mut report);
    let mut names = BTreeSet::new();
    for statement in &statements {
        match statement {
            Statement::Assign { name, .. } => {
                names.insert(name.text.to_owned());
            }
            Statement::Include(_) | Statement::Block(_) => return None,
            _ => {}
        }
    }
    (report.len() == 0).then_some(names)
}
