//! Deliberate faults: switches by which a test breaks one guarantee, to prove that `haft doctor` notices.
//!
//! They exist in debug builds alone: a release has none of them.

/// The variable that names the faults, separated by commas.
const VARIABLE: &str = "HAFT_BREAK";

/// The variable as a process that haft starts for itself is given it, with an environment that has nothing else.
pub fn passed_on() -> Option<(&'static str, std::ffi::OsString)> {
    let value = cfg!(debug_assertions).then(|| std::env::var_os(VARIABLE)).flatten()?;
    Some((VARIABLE, value))
}

/// Is this guarantee to be broken?
pub fn is_broken(what: &str) -> bool {
    cfg!(debug_assertions) && std::env::var(VARIABLE).is_ok_and(|it| it.split(',').any(|one| one == what))
}
