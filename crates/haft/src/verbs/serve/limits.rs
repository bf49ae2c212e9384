//! Limits of a server.

use std::time::Duration;

/// The limits.
pub(super) struct Limits {
    /// Agents that are open at once, in all.
    pub(super) agents: usize,
    /// Those that one person has opened, with all tokens and sign-ins of the name.
    pub(super) agents_of_one: usize,
    /// A WebSocket of which no byte comes for this long is dropped.
    pub(super) silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let [agents, of_one, silence] = for_tests().unwrap_or([256, 128, 60_000]);
        let small = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Self { agents: small(agents), agents_of_one: small(of_one), silence: Duration::from_millis(silence) }
    }
}

/// Returns the limits that a test sets: debug builds take them from a variable, so that a test needs no minute and no hundred agents.
fn for_tests() -> Option<[u64; 3]> {
    let given = cfg!(debug_assertions).then(|| std::env::var("HAFT_SERVE_LIMITS").ok()).flatten()?;
    let numbers: Vec<u64> = given.split(',').filter_map(|it| it.parse().ok()).collect();
    numbers.try_into().ok()
}
