//! Time limits of calls.

use std::time::Duration;

/// The default time limit of a call.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The longest time limit of a call.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);
