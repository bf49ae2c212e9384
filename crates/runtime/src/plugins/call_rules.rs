//! Call rules: the data that every call of a tool file shares, however the file runs.

use std::{borrow::Cow, future::pending, sync::Arc, time::Duration};

use kit::{Cx, Fault, Kinds, Mode, Origin, Spec, Touches, escape::visible};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Described, Lasting, Section, Version,
    attestation::{Attested, Grant, Guard},
    declared,
};
use crate::arguments::Check;

/// A version of a file, with the grants of a tool in it.
pub(super) struct Served {
    pub(super) version: Arc<Version>,
    pub(super) section: Section,
    /// The modules that it may import from its folder; none: it may import any.
    pub(super) beside: Option<Arc<Attested>>,
    /// The key of the process or the sandbox that runs it.
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

/// The rules of one tool.
pub(super) struct CallRules {
    pub(super) spec: Spec,
    pub(super) described: Arc<Described>,
    pub(super) served: Arc<Served>,
    /// Checked before a program starts.
    pub(super) guard: Option<Arc<Guard>>,
    /// The reason why the section of its name does not apply.
    pub(super) lapsed: Option<String>,
    check: Check,
}

impl CallRules {
    pub(super) fn new(version: Arc<Version>, described: Arc<Described>, grant: Grant) -> Self {
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

    /// Checks the arguments and returns what a call touches. `command` is its command line.
    pub(super) fn touches(&self, command: &str, arguments: &Value) -> Result<Touches, Fault> {
        self.check.check(&self.described.schema, arguments)?;
        declared::touches(&self.described, &self.served.section, command, arguments)
    }

    /// Returns the time limit of a call, if there is one: the person's, or else the file's.
    pub(super) fn time_limit(&self) -> Option<Duration> {
        let declared = || self.described.timeout_seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
        let granted = self.served.section.timeout_seconds.map(Duration::from_secs);
        granted.or_else(declared).filter(|it| !it.is_zero())
    }

    /// Resolves when a call that begins now has exceeded its time limit.
    pub(super) async fn too_long(&self, cx: &Cx) {
        // A deadline beyond the clock's range never comes.
        match self.time_limit().filter(|it| Instant::now().checked_add(*it).is_some()) {
            Some(limit) => cx.caller().passed(limit).await,
            None => pending().await,
        }
    }
}

/// Escapes invisible characters in the texts of a schema. Names of arguments stay as a call has to write
/// them.
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
