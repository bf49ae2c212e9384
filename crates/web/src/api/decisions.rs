//! Approvals and questions, over all sessions.

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
#[derive(Deserialize, JsonSchema)]
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
    let Decide { decision: verdict, hash, words } = call.json().await?;
    let decision = match verdict {
        Verdict::Once => Decision::Once,
        Verdict::Session => Decision::Session,
        Verdict::Project => Decision::Project,
        Verdict::No => Decision::No,
    };
    if words.is_some() && decision != Decision::No {
        return Err(Problem::bad("`words` go with the decision `no`"));
    }
    let made = McpDecision {
        session: call.name(0),
        approval: call.name(1),
        hash: &hash,
        decision,
        words: words.clone(),
        by: &call.who.name,
        principal: &call.who.principal(),
    };
    let decided = Answer::ok(&json!({"decision": verdict, "by": call.who.name}));
    if let Some(done) = call.server.protocols.decide(made) {
        return done.map(|()| decided).map_err(|fault| Problem::of_decision(&fault));
    }
    let operation = Operation::Approve { id: call.name(1).to_owned(), hash, decision, words };
    act(&call, operation).await?;
    Ok(decided)
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
