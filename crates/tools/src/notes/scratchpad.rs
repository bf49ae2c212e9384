//! `scratchpad`: notes of this session.

use kit::{Pad, prelude::*};

/// Your working notes in this session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scratchpad {
    /// `write` replaces a section.
    #[serde(alias = "op")]
    action: Action,
    /// Such as goal, findings, artifacts, errors. Default: main.
    #[serde(default = "main")]
    section: String,
    /// For `write` and `append`.
    #[serde(default)]
    content: Option<String>,
}

fn main() -> String {
    "main".to_owned()
}

/// The action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Write,
    Append,
    Read,
    Clear,
    List,
}

impl Tool for Scratchpad {
    const NAME: &str = "scratchpad";
    const AT_MOST: Kinds = Kinds::SESSION;

    fn touches(&self) -> Touches {
        if matches!(self.action, Action::Read | Action::List) { Touches::none() } else { Pad::touches() }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { action, section, content } = self;
        cx.blocking(move |cx| {
            let pad = Pad(cx);
            let text = match (action, content) {
                (Action::Write | Action::Append, None) => {
                    let word = if action == Action::Write { "write" } else { "append" };
                    return Err(Fault::bad_args(format!("`{word}` needs `content`")));
                }
                (Action::Write, Some(text)) => {
                    format!("wrote {} bytes to `{section}`", pad.put(&section, text, false)?)
                }
                (Action::Append, Some(text)) => {
                    format!("`{section}` has {} bytes now", pad.put(&section, text, true)?)
                }
                (Action::Read, _) => match pad.get(&section)? {
                    Some(text) => text,
                    None => format!("`{section}` is empty\n{}", listed(&pad)?),
                },
                (Action::Clear, _) if pad.clear(&section)? => format!("cleared `{section}`"),
                (Action::Clear, _) => format!("`{section}` was empty"),
                (Action::List, _) => listed(&pad)?,
            };
            Ok(Output::text(text))
        })
        .await
    }
}

/// Returns one line for each section.
fn listed(pad: &Pad<'_>) -> Result<String, Fault> {
    let sections = pad.sections()?;
    if sections.is_empty() {
        return Ok("no sections".to_owned());
    }
    let line = |name: &String| {
        let bytes = pad.get(name)?.map_or(0, |it| it.len());
        Ok(format!("{name}: {bytes} bytes"))
    };
    let lines: Result<Vec<String>, Fault> = sections.iter().map(line).collect();
    Ok(lines?.join("\n"))
}
