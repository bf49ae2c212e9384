//! Deliberate faults: switches by which a test breaks one guarantee, to prove that `haft doctor` notices.
//!
//! They exist in debug builds alone: a release has none of them.

/// The variable that names the faults, separated by commas.
const VARIABLE: &str = "HAFT_BREAK";

/// Is this guarantee to be broken?
pub fn is_broken(what: &str) -> bool {
    cfg!(debug_assertions) && std::env::var(VARIABLE).is_ok_and(|it| it.split(',').any(|one| one == what))
}
