//! `test_tool`: tries a tool.

use std::time::Duration;

use kit::{Part, prelude::*, services::Called};
use serde_json::{Map, Value};

use super::{find, time, unknown};

/// The call that is tried has a deadline of its own, which ends it before this.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);

/// What is tried may do anything. It runs alone, where it has to, by itself: the options of a call are for the call that
/// is tried.
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

    // What is tried is a call of its own, with its own rules and locks. Held here, they would keep it waiting for ever.
    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn patience(&self) -> Option<Duration> {
        Some(LONGEST)
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        Try { name: self.name, arguments: self.arguments }.run(cx, Self::NAME).await
    }
}

/// A tool that is to be tried.
pub(crate) struct Try {
    pub(crate) name: String,
    pub(crate) arguments: Map<String, Value>,
}

impl Try {
    /// Tries it on behalf of the tool `by`. That it fails is what was to be found out, and no fault.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when there is no such tool, [`Kind::BadArgs`] when it is `by` itself, and
    /// [`Kind::Cancelled`].
    pub(crate) async fn run(self, cx: &Cx, by: &str) -> Result<Output, Fault> {
        cx.check()?;
        let Self { name, arguments } = self;
        if name == by {
            return Err(Fault::bad_args(format!("`{by}` can't try itself")).next("Name another tool."));
        }
        // A file that came to be just now is found by the call.
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

/// `ok` or `failed` with the time, and then all that it said.
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
    // What the call said was cut to size already.
    output.paged = true;
    output
}

fn with_headline(headline: String, mut output: Output) -> Output {
    output.parts.retain(|it| !matches!(it, Part::Text { text } if text.is_empty()));
    output.parts.insert(0, Part::Text { text: headline });
    output
}
