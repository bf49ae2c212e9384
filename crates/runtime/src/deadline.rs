//! Time limits of calls.

use std::time::Duration;

/// After how long a call is stopped, where nothing else is said.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The longest that a call may take: a clock can't be moved on by any time whatever.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);
