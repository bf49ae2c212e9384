//! Faults of a tool's code.

use kit::{
    Fault, Kind, Output, Part,
    procs::{Exit, Procs, signal_name},
};

use super::host::{HostMessage, Lost, Why};
use crate::result_parts;

/// Returns the fault for a file that raised an exception during import.
pub(super) fn broken(file: &str, said: &HostMessage, printed: &str, procs: &Procs) -> Fault {
    let fault = Fault::new(Kind::Failed, format!("{file} can't be imported: {}", said.error));
    advised(with_texts(fault, &said.traceback, printed), &said.error, Exit::Code(1), procs)
}

/// Returns the fault for a process that ended while it imported or described the file.
pub(super) fn not_imported(file: &str, lost: &Lost, printed: &str, procs: &Procs) -> Fault {
    // The message of an interpreter that is too old.
    if let Some(line) = printed.lines().find(|it| it.starts_with("Python 3.") && it.contains(" is needed")) {
        return Fault::new(Kind::Unavailable, format!("{file} can't be run: {}", line.trim()))
            .next("A person can install a newer python3, or make a `.venv` in the workspace with one.");
    }
    let fault = Fault::new(Kind::Failed, format!("{file} can't be imported: {}", how(lost)));
    advised(with_printed(fault, printed), "", exit(lost), procs)
}

/// Returns the fault for a tool that raised an exception.
pub(super) fn raised(said: HostMessage, printed: &str, procs: &Procs) -> Fault {
    let fault = Fault::new(Kind::Failed, said.error.clone());
    let fault = with_texts(fault, &said.traceback, printed);
    let mut fault = advised(fault, &said.error, Exit::Code(1), procs);
    if !said.parts.is_empty() {
        let mut seen: Vec<Part> = said.parts.into_iter().map(result_parts::part).collect();
        seen.extend(fault.seen.take().into_iter().flat_map(|it| it.parts));
        fault.seen = Some(Box::new(Output { parts: seen, ..Output::default() }));
    }
    fault
}

/// Returns the fault for a tool whose process ended during the call.
pub(super) fn lost(tool: &str, lost: &Lost, printed: &str, procs: &Procs) -> Fault {
    let what = match (&lost.why, lost.others) {
        (Why::For(_), _) => format!(
            "the process of `{tool}` was ended because of another call of the same tool, which was stopped or took too \
             long; what this call did until then is done"
        ),
        (_, 0) => format!("`{tool}` ended its process: {}", how(lost)),
        (_, 1) => format!(
            "the process of `{tool}` ended: {}; another call of it was in there, so either may have ended it",
            how(lost)
        ),
        (_, others) => format!(
            "the process of `{tool}` ended: {}; {others} other calls of it were in there, and any may have ended it",
            how(lost)
        ),
    };
    let fault = with_printed(Fault::new(Kind::Failed, what), printed);
    let fault = match lost.why {
        Why::For(_) => fault.next("Look at what it changed, then call it again."),
        _ => fault,
    };
    advised(fault, "", exit(lost), procs)
}

/// Adds the printed output to a fault.
pub(super) fn with_printed(fault: Fault, printed: &str) -> Fault {
    with_texts(fault, "", printed)
}

/// Adds the reason why the tool's section does not apply, which may have caused the failure.
pub(super) fn lapsed(fault: Fault, lapsed: Option<&str>) -> Fault {
    let Some(lapsed) = lapsed.filter(|_| fault.kind == Kind::Failed) else { return fault };
    let next = match &fault.next {
        Some(next) => format!("{next}\n{lapsed}"),
        None => lapsed.to_owned(),
    };
    Fault { next: Some(next), ..fault }
}

/// Describes how a process ended.
pub(super) fn how(lost: &Lost) -> String {
    match &lost.why {
        Why::Exited(Exit::Code(code)) => format!("it exited with code {code}"),
        Why::Exited(Exit::Signal(signal)) => format!("it was ended by {}", signal_name(*signal)),
        Why::Exited(Exit::Lost) => "its sandbox has ended".to_owned(),
        Why::Closed => "it closed its connection with haft".to_owned(),
        Why::Garbled(why) => format!("it wrote to its connection with haft what is not an answer: {why}"),
        Why::For(_) | Why::Unneeded => "haft ended it".to_owned(),
    }
}

fn exit(lost: &Lost) -> Exit {
    match lost.why {
        Why::Exited(exit) => exit,
        _ => Exit::Code(1),
    }
}

fn with_texts(fault: Fault, traceback: &str, printed: &str) -> Fault {
    let mut text = traceback.trim_end().to_owned();
    if !printed.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str("printed:\n");
        text.push_str(printed);
    }
    if text.is_empty() { fault } else { fault.seen(Output::text(text)) }
}

/// Adds next steps.
fn advised(fault: Fault, error: &str, exit: Exit, procs: &Procs) -> Fault {
    let mut next: Vec<String> = fault.next.iter().cloned().collect();
    if let Some(module) = missing_module(error) {
        next.push(format!(
            "Declare what it needs at the top of the file, which `uv` then provides:\n# /// script\n# dependencies = [\"{module}\"]\n# ///"
        ));
    }
    let seen = fault.seen.as_deref().map(Output::as_text).unwrap_or_default();
    next.extend(procs.denials(exit, &seen));
    if next.is_empty() { fault } else { fault.next(next.join("\n")) }
}

/// Returns the name of the package that probably contains the missing module.
fn missing_module(error: &str) -> Option<&str> {
    let rest = error.strip_prefix("ModuleNotFoundError: No module named ")?;
    let module = rest.trim_start_matches(['\'', '"']);
    let end = module.find(|it: char| !(it.is_alphanumeric() || it == '_'))?;
    module.get(..end).filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_is_missing_is_named_by_its_top() {
        let error = "ModuleNotFoundError: No module named 'google.cloud'; 'google' is not a package";
        assert_eq!(missing_module(error), Some("google"));
        assert_eq!(missing_module("ValueError: No module named 'x'"), None);
    }
}
