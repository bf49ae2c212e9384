//! Call options: what may be said of any call beside its tool's arguments.

use kit::{Fault, Kinds, Mode, Origin, Spec};
use serde_json::{Map, Value, json};

const BACKGROUND: &str = "run_in_background";
const CONCURRENT: &str = "allow_concurrent";

/// How a call is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// It answers at once and goes on as a job.
    pub(crate) run_in_background: bool,
    /// It waits for no exclusive call, and keeps none waiting.
    pub(crate) allow_concurrent: bool,
}

/// The spec as a model is shown it: tools that start something, and run alone unless they are told not to, say
/// what may be asked for. Others take the options as well and are spared the words. None where nothing is added.
pub(crate) fn with_options(spec: &Spec) -> Option<Spec> {
    // A schema of a file's or a server's is shown as it is declared.
    let is_file = matches!(spec.origin, Origin::File(_) | Origin::Server(_));
    if is_file || !spec.at_most.covers(Kinds::RUN.with(Kinds::EXCLUSIVE)) || spec.mode == Mode::Stateful {
        return None;
    }
    let mut spec = spec.clone();
    let properties =
        spec.schema.as_object_mut()?.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    let properties = properties.as_object_mut()?;
    let mut add = |name: &str, description: &str| {
        let option = json!({"type": "boolean", "description": description});
        properties.entry(name).or_insert(option);
    };
    if spec.mode != Mode::Background {
        add(BACKGROUND, "Answer at once with a job id.");
    }
    add(CONCURRENT, "Run beside other commands and writes.");
    Some(spec)
}

/// The fault for an argument that there is not, with these options among those that there are.
pub(crate) fn among_known(fault: Fault, spec: &Spec) -> Fault {
    let lists = fault.what.starts_with("there is no argument ") && fault.what.contains(", expected ");
    if !lists || with_options(spec).is_none() {
        return fault;
    }
    Fault { what: format!("{}, `{BACKGROUND}`, `{CONCURRENT}`", fault.what), ..fault }
}

impl Options {
    /// What goes without saying for this tool.
    pub(crate) fn of(spec: &Spec) -> Self {
        Self { run_in_background: spec.mode == Mode::Background, allow_concurrent: false }
    }

    /// Takes the options out of the arguments, but for those that the tool has arguments of its own for.
    ///
    /// # Errors
    /// [`kit::Kind::BadArgs`] when one is neither true nor false.
    pub(crate) fn take(&mut self, spec: &Spec, arguments: &mut Value) -> Result<(), Fault> {
        let Some(arguments) = arguments.as_object_mut() else { return Ok(()) };
        for (name, option) in
            [(BACKGROUND, &mut self.run_in_background), (CONCURRENT, &mut self.allow_concurrent)]
        {
            let is_own = spec.schema.pointer("/properties").is_some_and(|it| it.get(name).is_some());
            if is_own {
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
        Ok(())
    }
}
