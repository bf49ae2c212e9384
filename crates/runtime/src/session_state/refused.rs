//! Refused arguments of a session: a repeated mistake is answered with the schema of the tool.

use std::hash::{DefaultHasher, Hash, Hasher};

use kit::{Fault, Spec};
use parking_lot::Mutex;

/// The last call of a session that was refused for its arguments.
#[derive(Default)]
pub(super) struct LastRefused(Mutex<Option<u64>>);

impl LastRefused {
    /// Returns the fault, with the schema if the same arguments were refused before: a model that repeats a
    /// mistake has not understood.
    pub(super) fn refuse(&self, fault: Fault, spec: &Spec, arguments: &str) -> Fault {
        let mut hasher = DefaultHasher::new();
        (&spec.name, arguments).hash(&mut hasher);
        let this = hasher.finish();
        let last = self.0.lock().replace(this);
        if last != Some(this) {
            return fault;
        }
        let next = fault.next.as_deref().map(|next| format!("{next}\n")).unwrap_or_default();
        let schema = format!(
            "{next}The same arguments were refused before. The schema of `{}`: {}",
            spec.name, spec.schema
        );
        fault.next(schema)
    }
}
