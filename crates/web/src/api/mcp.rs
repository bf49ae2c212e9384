//! MCP over streamable HTTP: each workspace has an endpoint, whose sessions are those of one token or sign-in.

use http::StatusCode;
use serve::gate::Admitted;

use crate::{
    answer::Answer,
    call::{Call, Done},
    problem::Problem,
};

pub(crate) async fn mcp(mut call: Call) -> Done {
    let workspace = call.server.workspaces.named(call.query.get("workspace"))?;
    let endpoint = call.server.protocols.mcp(&workspace.id).await?;
    let Some(body) = call.body.take() else {
        return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", "the request has no body")
            .next("Send it again."));
    };
    let principal = call.who.principal();
    let permits = &call.server.body_permits;
    // The server has noted already that the connection shows a token.
    let person = &call.who.name;
    let admitted =
        Admitted { head: call.head, body, principal: &principal, person, permits, on_read: &|| {} };
    Ok(Answer(endpoint.answer(admitted).await))
}
