//! Errors as answers.

use std::fmt;

use http::StatusCode;
use kit::{Fault, Kind};
use serde_json::json;

use crate::answer::Answer;

/// The source of a fault that is answered with 429.
#[derive(Debug)]
struct AllWork;

impl fmt::Display for AllWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many sessions are open, and none is idle")
    }
}

impl std::error::Error for AllWork {}

/// The error of opening a session where too many are open, and none is idle. It is answered with 429.
pub fn all_agents_work(what: &str) -> Fault {
    let fault = Fault::new(Kind::Unavailable, format!("{what}: no more can be opened now"))
        .next("Wait until one of them has ended its turn, or stop one.");
    Fault { source: Some(Box::new(AllWork)), ..fault }
}

fn is_all_work(fault: &Fault) -> bool {
    fault.source.as_ref().is_some_and(|it| it.is::<AllWork>())
}

/// A request that was not done.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    kind: &'static str,
    what: String,
    next: Option<String>,
    /// The winner, where somebody else decided first.
    winner: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &'static str, what: impl Into<String>) -> Self {
        Self { status, kind, what: what.into(), next: None, winner: None }
    }

    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    pub(crate) fn bad(what: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_args", what)
    }

    pub(crate) fn missing(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", what)
    }

    pub(crate) fn not_signed_in() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "denied", "you are not signed in").next(
            "Open the address that `haft serve` printed, or send a token: `Authorization: Bearer TOKEN`.",
        )
    }

    pub(crate) fn unknown_token() -> Self {
        let what = "the `Authorization` header has no token that this server knows";
        Self::new(StatusCode::UNAUTHORIZED, "denied", what).next(
            "Send `Authorization: Bearer TOKEN` with a token of the file of `--tokens`, or one that the owner made; it may have been revoked.",
        )
    }

    /// A decision or an answer that came second: says who was first.
    pub(crate) fn of_decision(fault: &Fault) -> Self {
        let mut problem = Self::from(fault);
        problem.winner = fault.what.split_once(" was settled before: ").map(|it| it.1.to_owned());
        problem
    }

    pub(crate) fn answer(self) -> Answer {
        let Self { status, kind, what, next, winner } = self;
        let mut error = json!({"kind": kind, "what": what});
        if let Some(fields) = error.as_object_mut() {
            for (name, value) in [("next", next), ("winner", winner)] {
                if let Some(value) = value {
                    fields.insert(name.to_owned(), value.into());
                }
            }
        }
        Answer::json(status, &json!({"error": error}))
    }
}

impl Problem {
    /// The same in the shape of OpenAI's API.
    pub(crate) fn answer_of_openai(self) -> Answer {
        let Self { status, kind, what, next, .. } = self;
        let message = next.map_or_else(|| what.clone(), |next| format!("{what}. {next}"));
        let is_clients = status.is_client_error();
        let of = if is_clients { "invalid_request_error" } else { "server_error" };
        Answer::json(status, &json!({"error": {"message": message, "type": of, "param": null, "code": kind}}))
    }
}

impl From<&Fault> for Problem {
    fn from(fault: &Fault) -> Self {
        let status = match fault.kind {
            Kind::BadArgs | Kind::Ambiguous => StatusCode::BAD_REQUEST,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Stale | Kind::Cancelled => StatusCode::CONFLICT,
            Kind::Denied => StatusCode::FORBIDDEN,
            Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Kind::TooBig => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::Unavailable if is_all_work(fault) => StatusCode::TOO_MANY_REQUESTS,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Failed => StatusCode::BAD_GATEWAY,
            Kind::Bug => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let next = fault.next.clone().or_else(|| Some(usual_next(fault.kind).to_owned()));
        Self { status, kind: fault.kind.name(), what: fault.what.clone(), next, winner: None }
    }
}

/// Returns the next step after a fault that names none.
fn usual_next(kind: Kind) -> &'static str {
    match kind {
        Kind::BadArgs | Kind::Ambiguous => "GET /api/v1/openapi.json describes the fields of each request.",
        Kind::NotFound => "Name one that is in the list which the API gives of them.",
        Kind::Stale | Kind::Cancelled => {
            "Read how it stands now, and send the request again if it still holds."
        }
        Kind::Denied => "Ask the owner of the server.",
        Kind::TooBig => "Ask for less at once.",
        Kind::Timeout | Kind::Unavailable | Kind::Failed => {
            "Send it again in a moment; standard error of `haft serve` may say more."
        }
        Kind::Bug => "It is a defect of haft: report it with what standard error of `haft serve` says.",
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self::from(&fault)
    }
}
