//! Rules for every call of a tool file, however it is run.

use std::{borrow::Cow, future::pending, sync::Arc, time::Duration};

use kit::{Fault, Kinds, Mode, Origin, Spec, Touches, escape::visible};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::{
    Described, Lasting, Section, Version,
    attestation::{Attested, Grant, Guard},
    declared,
};
use crate::arguments::Check;

/// A version of a file, with what a person granted to a tool in it.
pub(super) struct Served {
    pub(super) version: Arc<Version>,
    pub(super) section: Section,
    /// What it imports from its folder; none: whatever is there.
    pub(super) beside: Option<Arc<Attested>>,
    /// By which what runs it is found again.
    pub(super) key: blake3::Hash,
}

impl Served {
    fn new(version: Arc<Version>, section: Section, beside: Option<Arc<Attested>>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(version.hash.as_bytes());
        hasher.update(format!("{:?} {section:?}", version.path).as_bytes());
        beside.iter().for_each(|it| {
            hasher.update(it.key().as_bytes());
        });
        let key = hasher.finalize();
        Self { version, section, beside, key }
    }
}

/// One tool of it.
pub(super) struct CallRules {
    pub(super) spec: Spec,
    pub(super) described: Described,
    pub(super) served: Arc<Served>,
    /// Asked before a program is started.
    pub(super) guard: Option<Arc<Guard>>,
    /// Why what is granted to its name does not count.
    pub(super) lapsed: Option<String>,
    check: Check,
}

impl CallRules {
    pub(super) fn new(version: Arc<Version>, described: Described, grant: Grant) -> Self {
        let mut schema = described.schema.clone();
        spell_out(&mut schema);
        let mode = match described.mode {
            Some(Lasting::Background) => Mode::Background,
            Some(Lasting::Stateful) => Mode::Stateful,
            None => Mode::Direct,
        };
        let spec = Spec {
            name: described.name.clone(),
            description: visible(&described.description).0.into_owned(),
            schema,
            mode,
            at_most: Kinds::ALL,
            output: None,
            origin: Origin::File(version.path.clone()),
        };
        let Grant { section, beside, guard, lapsed } = grant;
        let served = Arc::new(Served::new(version, section, beside));
        Self { spec, described, served, guard, lapsed, check: Check::default() }
    }

    /// What a call of these arguments touches, if they fit. `command` is what runs, in the words of a shell.
    pub(super) fn touches(&self, command: &str, arguments: &Value) -> Result<Touches, Fault> {
        self.check.check(&self.described.schema, arguments)?;
        declared::touches(&self.described, &self.served.section, command, arguments)
    }

    /// How long a call may take, where somebody says so: the person's word counts before the file's.
    pub(super) fn patience(&self) -> Option<Duration> {
        let declared = || self.described.timeout_seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
        let granted = self.served.section.timeout_seconds.map(Duration::from_secs);
        granted.or_else(declared).filter(|it| !it.is_zero())
    }

    /// Resolves when a call that begins now has taken longer than that.
    pub(super) async fn too_long(&self) {
        // A moment that the clock does not have never comes.
        match self.patience().and_then(|it| Instant::now().checked_add(it)) {
            Some(deadline) => sleep_until(deadline).await,
            None => pending().await,
        }
    }
}

/// Spells out what can't be seen in the words of a schema. The names in it stay as a call has to write them.
fn spell_out(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let (Cow::Owned(visible), _) = visible(text) {
                *text = visible;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(spell_out),
        Value::Object(fields) => fields.values_mut().for_each(spell_out),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
