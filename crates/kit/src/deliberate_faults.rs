//! Deliberate faults: switches by which a test breaks one guarantee, to prove that `haft doctor` notices.
//!
//! They exist in debug builds alone: a release has none of them.

/// The variable that names the faults, separated by commas.
const VARIABLE: &str = "HAFT_BREAK";

/// Returns the variable and its value, for processes that haft starts with an otherwise empty environment.
pub fn passed_on() -> Option<(&'static str, std::ffi::OsString)> {
    let value = cfg!(debug_assertions).then(|| std::env::var_os(VARIABLE)).flatten()?;
    Some((VARIABLE, value))
}

/// Kills this process (SIGKILL) if a test has asked for that at this point.
pub fn killed_at(point: &str) {
    if is_broken(point) {
        // Nothing is left to do if that fails: the test finds the process alive.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Returns whether a test has asked to break this guarantee.
pub fn is_broken(what: &str) -> bool {
    cfg!(debug_assertions) && std::env::var(VARIABLE).is_ok_and(|it| it.split(',').any(|one| one == what))
}
