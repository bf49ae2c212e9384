//! Call options: arguments that any call may have beside its tool's own.

use kit::{Fault, Kinds, Mode, Origin, Spec};
use serde_json::{Map, Value, json};

const BACKGROUND: &str = "run_in_background";
const CONCURRENT: &str = "allow_concurrent";
const PREVIEW: &str = "preview";

/// The way to run a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// The call answers at once and continues as a job.
    pub(crate) run_in_background: bool,
    /// The call waits for no exclusive call and no command, and none waits for it.
    pub(crate) allow_concurrent: bool,
    /// Its command changes nothing: it runs in a sandbox of its own.
    pub(crate) preview: bool,
}

/// Returns whether tools of this source are shown with options: schemas of files and servers are shown as declared.
pub(crate) fn takes_options(origin: &Origin) -> bool {
    !matches!(origin, Origin::File(_) | Origin::Server(_))
}

/// Returns the spec with the option to run in the background, for tools that start something. Other tools take
/// the options too, without declaring them; `allow_concurrent` is declared by none, as commands run together by
/// default. None, if nothing is added.
pub(crate) fn with_options(spec: &Spec) -> Option<Spec> {
    if !takes_options(&spec.origin)
        || !spec.at_most.covers(Kinds::RUN.with(Kinds::EXCLUSIVE))
        || spec.mode == Mode::Stateful
    {
        return None;
    }
    let mut spec = spec.clone();
    let properties =
        spec.schema.as_object_mut()?.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    let properties = properties.as_object_mut()?;
    if spec.mode == Mode::Background {
        return None;
    }
    let option = json!({"type": "boolean", "description": "Answer at once with a job id."});
    properties.entry(BACKGROUND).or_insert(option);
    Some(spec)
}

/// Adds these options to the list of arguments in a fault for an unknown argument.
pub(crate) fn among_known(fault: Fault, spec: &Spec) -> Fault {
    let lists = fault.what.starts_with("there is no argument ") && fault.what.contains(", expected ");
    if !lists || with_options(spec).is_none() {
        return fault;
    }
    Fault { what: format!("{}, `{BACKGROUND}`", fault.what), ..fault }
}

impl Options {
    /// Returns the defaults for this tool.
    pub(crate) fn of(spec: &Spec) -> Self {
        Self { run_in_background: spec.mode == Mode::Background, allow_concurrent: false, preview: false }
    }

    /// Takes the options out of the arguments, except those that the tool declares as its own.
    ///
    /// # Errors
    /// [`kit::Kind::BadArgs`] when one is neither true nor false.
    pub(crate) fn take(&mut self, spec: &Spec, arguments: &mut Value) -> Result<(), Fault> {
        let Some(arguments) = arguments.as_object_mut() else { return Ok(()) };
        let properties = spec.schema.get("properties");
        for (name, option) in
            [(BACKGROUND, &mut self.run_in_background), (CONCURRENT, &mut self.allow_concurrent)]
        {
            if properties.is_some_and(|it| it.get(name).is_some()) {
                continue;
            }
            let Some(said) = arguments.shift_remove(name) else { continue };
            *option = match &said {
                Value::Null => continue,
                Value::Bool(said) => *said,
                Value::String(text) if text.eq_ignore_ascii_case("true") => true,
                Value::String(text) if text.eq_ignore_ascii_case("false") => false,
                other => {
                    return Err(Fault::bad_args(format!("`{name}` is {other}; it must be true or false")));
                }
            };
        }
        self.can_preview(spec, arguments)
    }

    /// Refuses a preview of what goes on after its answer.
    fn can_preview(&mut self, spec: &Spec, arguments: &Map<String, Value>) -> Result<(), Fault> {
        let is_wanted = match arguments.get(PREVIEW) {
            Some(Value::Bool(wanted)) => *wanted,
            Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
            _ => false,
        };
        let runs = spec.at_most.covers(Kinds::RUN) && spec.origin == Origin::Program;
        if !is_wanted || !runs {
            return Ok(());
        }
        self.preview = true;
        if spec.schema.pointer("/properties/preview").is_none() {
            return Err(Fault::bad_args(format!(
                "`{}` can't be previewed: what it starts, or its changes, stay after its answer; nothing was run",
                spec.name
            ))
            .hint("[?Use `tool:shell` with `preview`.?]"));
        }
        if self.run_in_background {
            return Err(Fault::bad_args("a preview does not go on in the background; nothing was run")
                .next("Leave out `run_in_background`."));
        }
        Ok(())
    }
}
