//! Approvals and questions, over all sessions.

use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use sessions::{Decision, Operation};

use crate::{
    answer::Answer,
    call::{Call, Done},
    overview::{self, Look},
    problem::Problem,
    protocols::McpDecision,
};

/// A decision on one call.
#[derive(Deserialize, JsonSchema, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decide {
    /// `once`, `session`, `project` or `no`.
    decision: Verdict,
    /// The hash of the call, as it was shown: another call is not decided by it.
    hash: String,
    /// With `no`: words for the model, which does that instead.
    words: Option<String>,
}

/// A person's decision.
#[derive(Clone, Copy, Deserialize, JsonSchema, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// This call may run.
    Once,
    /// For the rest of the session.
    Session,
    /// For this workspace.
    Project,
    /// It may not.
    No,
}

/// An answer to a question.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reply {
    /// The answer; null, if the person does not want to answer.
    text: Option<String>,
}

pub(crate) async fn approvals(call: Call) -> Done {
    let seen = overview::all(&call.server, &Look::default()).await?;
    Ok(Answer::ok(&json!({"approvals": overview::approvals(&call.server, &seen)})))
}

pub(crate) async fn questions(call: Call) -> Done {
    let seen = overview::all(&call.server, &Look::default()).await?;
    Ok(Answer::ok(&json!({"questions": overview::questions(&seen)})))
}

pub(crate) async fn decide(mut call: Call) -> Done {
    let asked: Decide = call.json().await?;
    let given = call.once(&asked)?;
    let Decide { decision: verdict, hash, words } = asked;
    let decision = match verdict {
        Verdict::Once => Decision::Once,
        Verdict::Session => Decision::Session,
        Verdict::Project => Decision::Project,
        Verdict::No => Decision::No,
    };
    if words.is_some() && decision != Decision::No {
        return Err(Problem::bad("`words` go with the decision `no`")
            .next("Leave `words` out, or decide `no` with them."));
    }
    let access = &call.server.access;
    let origin = access.origin(&call.who.principal());
    let made = McpDecision {
        session: call.name(0),
        approval: call.name(1),
        hash: &hash,
        decision,
        words: words.clone(),
        by: &call.who.name,
        is_own: &|principal| access.origin(principal) == origin,
    };
    let decided = json!({"decision": verdict, "by": call.who.name});
    let mut is_of_client = true;
    // A repeated decision gets the first answer, also once the call or its MCP session has ended.
    let deciding = async {
        match call.server.protocols.decide(made) {
            Some(done) => done.map_err(|fault| Problem::of_decision(&fault)),
            None => {
                is_of_client = false;
                Err(Problem::missing(format!("there is no MCP session `{}`", call.name(0)))
                    .next("GET /api/v1/approvals lists what waits, and in which session."))
            }
        }
        .map(|()| (StatusCode::OK, decided.clone()))
    };
    let done = call.server.once.make(given, |_| true, deciding).await;
    if is_of_client {
        return done;
    }
    let operation = Operation::Approve { id: call.name(1).to_owned(), hash, decision, words };
    act(&call, operation).await?;
    Ok(Answer::ok(&decided))
}

pub(crate) async fn reply(mut call: Call) -> Done {
    let Reply { text } = call.json().await?;
    act(&call, Operation::Answer { id: call.name(1).to_owned(), text }).await?;
    Ok(Answer::ok(&json!({"by": call.who.name})))
}

async fn act(call: &Call, operation: Operation) -> Result<(), Problem> {
    let (_, handle) = call.handle().await?;
    let done = handle.act(&call.key()?, operation).await;
    done.map(drop).map_err(|fault| Problem::of_decision(&fault))
}
