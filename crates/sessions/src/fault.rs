//! Faults as rows and sockets carry them.

use kit::{Fault, Kind};
use serde::{Deserialize, Serialize};

/// A fault that can be kept and sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind.
    pub kind: Kind,
    /// A description of the failure.
    pub what: String,
    /// The next step for the reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Where a model failed, the name of its [`Breach`](agent::model::Breach).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breach: Option<String>,
}

impl From<&Fault> for Failure {
    fn from(fault: &Fault) -> Self {
        Self { kind: fault.kind, what: fault.what.clone(), next: fault.next.clone(), breach: None }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        let fault = Self::new(failure.kind, failure.what);
        match failure.next {
            Some(next) => fault.next(next),
            None => fault,
        }
    }
}

impl From<&agent::AgentError> for Failure {
    fn from(error: &agent::AgentError) -> Self {
        match error {
            agent::AgentError::Transcript(fault) => fault.into(),
            agent::AgentError::Model(error) => Self {
                kind: Kind::Unavailable,
                what: error.what.clone(),
                next: error.next.clone(),
                breach: Some(error.breach.name().to_owned()),
            },
        }
    }
}

/// A result as rows and sockets carry it: `{"ok": …}` or `{"fault": …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// It worked.
    Ok(serde_json::Value),
    /// It did not.
    Fault(Failure),
}

impl Outcome {
    pub(crate) fn of(result: &Result<serde_json::Value, Fault>) -> Self {
        match result {
            Ok(value) => Self::Ok(value.clone()),
            Err(fault) => Self::Fault(fault.into()),
        }
    }

    pub(crate) fn into_result(self) -> Result<serde_json::Value, Fault> {
        match self {
            Self::Ok(value) => Ok(value),
            Self::Fault(failure) => Err(failure.into()),
        }
    }
}
