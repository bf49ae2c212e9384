//! What does a call of a tool that is a file touch, by what the file declares?

use kit::{Fault, Touch, Touches};
use serde_json::Value;

use super::{Described, Section};

/// What a call of these arguments touches: it starts `command`, reaches the hosts that were granted, and touches what
/// the file declares; a file that declares nothing runs alone.
pub(crate) fn touches(
    _described: &Described,
    section: &Section,
    command: &str,
    _arguments: &Value,
) -> Result<Touches, Fault> {
    let run = Touches::run(command);
    Ok(section.net.iter().cloned().map(Touch::Net).fold(run, Touches::and).and(Touch::Exclusive))
}
