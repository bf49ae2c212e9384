//! `test_tool`: tries a tool.

use std::time::Duration;

use kit::{Part, prelude::*, services::Called};
use serde_json::{Map, Value};

use super::{find, time, unknown};

/// The tested call has a deadline of its own, which is earlier.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);

/// The kinds of a tested tool, which may do anything. It runs alone by itself if it has to: the options of
/// the call are for the tested one.
pub(crate) const TRIED: Kinds = Kinds::WRITE.with(Kinds::RUN).with(Kinds::NET).with(Kinds::SESSION);

/// Run any tool by its name; shows its output or its error, and how long it took.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestTool {
    /// The tool.
    name: String,
    /// Its arguments.
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Tool for TestTool {
    const NAME: &str = "test_tool";
    const AT_MOST: Kinds = TRIED;

    // The test is a call of its own, with its own rules and locks. Locks held here would block it for ever.
    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(LONGEST)
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        Try { name: self.name, arguments: self.arguments }.run(cx, Self::NAME).await
    }
}

/// A test of a tool.
pub(crate) struct Try {
    pub(crate) name: String,
    pub(crate) arguments: Map<String, Value>,
}

impl Try {
    /// Tests it on behalf of the tool `by`. A failure is a result, and no fault.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when the tool does not exist, [`Kind::BadArgs`] when it is `by` itself, and
    /// [`Kind::Cancelled`].
    pub(crate) async fn run(self, cx: &Cx, by: &str) -> Result<Output, Fault> {
        cx.check()?;
        let Self { name, arguments } = self;
        if name == by {
            return Err(Fault::bad_args(format!("`{by}` can't try itself")).next("Name another tool."));
        }
        // The call finds a file that was created just now.
        let was_known = find(&cx.tools().list(), &name).is_some();
        let called = cx.tools().call(&name, Value::Object(arguments)).await;
        cx.check()?;
        match &called.result {
            Err(fault) if fault.kind == Kind::NotFound && !was_known => {
                let listed = cx.tools().list();
                match find(&listed, &name) {
                    None => Err(unknown(cx, &listed, &name)),
                    Some(_) => Ok(shown(&name, called)),
                }
            }
            _ => Ok(shown(&name, called)),
        }
    }
}

/// Formats `ok` or `failed` with the time, and then the output.
fn shown(name: &str, called: Called) -> Output {
    let took = time(called.took);
    let mut output = match called.result {
        Ok(output) => {
            let empty = output.parts.iter().all(|it| matches!(it, Part::Text { text } if text.is_empty()));
            let no_output = if empty && output.structured.is_none() { ", no output" } else { "" };
            with_headline(format!("ok: {name}, {took}{no_output}"), output)
        }
        Err(mut fault) => {
            let seen = fault.seen.take().map(|it| *it).unwrap_or_default();
            let said = fault.as_text();
            with_headline(format!("failed: {name}, {took}, {}\n{said}", fault.kind), seen)
        }
    };
    let printed = called.printed.map(|it| format!("it printed: {it}"));
    let notes = called.notes.into_iter().chain(printed);
    output.parts.extend(notes.map(|note| Part::Text { text: format!("note: {note}") }));
    // The call's output was truncated already.
    output.paged = true;
    output
}

fn with_headline(headline: String, mut output: Output) -> Output {
    output.parts.retain(|it| !matches!(it, Part::Text { text } if text.is_empty()));
    output.parts.insert(0, Part::Text { text: headline });
    output
}
