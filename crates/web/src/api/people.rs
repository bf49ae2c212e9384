//! Sign-in, tokens, standing permissions, and the server's description of itself.

use http::{StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    answer::Answer,
    assets,
    call::{Call, Done},
    overview,
    problem::Problem,
    role::Role,
    workspaces::{Workspace, blocking},
};

/// A one-use code or a token.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignIn {
    /// The code of the address that `haft serve` printed.
    code: Option<String>,
    /// A token.
    token: Option<String>,
}

/// A new one-use code.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewCode {
    /// The role of whoever uses it.
    role: Role,
    /// The name under which they are shown.
    name: Option<String>,
}

/// A new token.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Its name, which others see.
    name: String,
    /// Its role.
    role: Role,
}

/// The next step of whoever names a grant that there is not.
const GRANTS: &str = "GET /api/v1/grants lists them, each with its `id` and its workspace.";

/// The longest name of a person or device, in characters.
const LONGEST_NAME: usize = 64;

pub(crate) async fn sign_in(mut call: Call) -> Done {
    let asked: SignIn = call.json().await?;
    let (who, cookie) = match (asked.code, asked.token) {
        (Some(code), None) => call.server.access.trade(&code),
        (None, Some(token)) => call.server.access.sign_in_by_token(token.trim()),
        _ => {
            return Err(Problem::bad("a sign-in has either `code` or `token`").next(
                "Send `{\"code\": \"…\"}` with the code of the printed address, or `{\"token\": \"…\"}`.",
            ));
        }
    }
    .map_err(|fault| {
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "denied", fault.what.clone());
        match fault.next {
            Some(next) => problem.next(next),
            None => problem,
        }
    })?;
    let answer = Answer::ok(&json!({"name": who.name, "role": who.role}));
    Ok(answer.header(header::SET_COOKIE, &call.server.set_cookie(Some(&cookie), &call.address)))
}

pub(crate) async fn sign_out(call: Call) -> Done {
    if let Some(cookie) = call.server.cookie_of(&call.head) {
        call.server.access.sign_out(&cookie)?;
    }
    Ok(Answer::nothing().header(header::SET_COOKIE, &call.server.set_cookie(None, &call.address)))
}

pub(crate) async fn new_code(mut call: Call) -> Done {
    let asked: NewCode = call.json().await?;
    let given = call.once(&asked)?;
    call.server.once.make(given, |_| true, async { made_code(&call, asked) }).await
}

fn made_code(call: &Call, asked: NewCode) -> Result<(StatusCode, Value), Problem> {
    let NewCode { role, name } = asked;
    let name = name.filter(|it| !it.trim().is_empty()).unwrap_or_else(|| role.name().to_owned());
    let name: String = name.chars().filter(|it| !it.is_control()).take(LONGEST_NAME).collect();
    let code = call.server.access.new_code(&name, role)?;
    let address = format!("{}/#code={code}", call.address);
    let until = crate::access::now_ms() + 600_000;
    let answer = json!({"code": code, "address": address, "role": role, "expires_ms": until});
    Ok((StatusCode::OK, answer))
}

/// Returns what a client shows of a workspace, which was opened after the server began or not. Blocks.
pub(super) fn about_workspace(workspace: &Workspace, is_opened: bool) -> Value {
    let models = workspace.agents.models().into_iter();
    let models: Vec<Value> = models.map(|(name, about)| json!({"name": name, "about": about})).collect();
    let policy = workspace.runtime.policy();
    json!({
        "id": workspace.id,
        "name": workspace.name(),
        "path": workspace.path.display().to_string(),
        "opened": is_opened,
        "models": models,
        "model": workspace.agents.model(),
        "profiles": workspace.agents.profiles(),
        "sandbox": policy.sandbox.name(),
        "approve": policy.approve.name(),
    })
}

pub(crate) async fn info(call: Call) -> Done {
    let mut workspaces = Vec::new();
    for workspace in call.server.workspaces.all() {
        let is_opened = call.server.workspaces.was_opened(&workspace.id);
        workspaces.push(blocking(move || Ok(about_workspace(&workspace, is_opened))).await?);
    }
    Ok(Answer::ok(&json!({
        "version": call.server.version,
        "name": call.who.name,
        "role": call.who.role,
        "by_cookie": call.who.by_cookie,
        "workspaces": workspaces,
        "features": ["sessions", "files", "changes", "uploads", "shares", "jobs", "grants", "tokens", "triggers", "groups"],
    })))
}

pub(crate) async fn tokens(call: Call) -> Done {
    let all = call.server.access.tokens().into_iter();
    let all: Vec<Value> = all
        .map(|(name, role, made_ms)| {
            let from = if made_ms.is_some() { "made" } else { "file" };
            json!({"name": name, "role": role, "made_ms": made_ms, "from": from})
        })
        .collect();
    Ok(Answer::ok(&json!({"tokens": all})))
}

pub(crate) async fn new_token(mut call: Call) -> Done {
    let asked: NewToken = call.json().await?;
    let given = call.once(&asked)?;
    let making = async {
        let NewToken { name, role } = asked;
        let token = call.server.access.new_token(&name, role)?;
        Ok((StatusCode::CREATED, json!({"name": name, "role": role, "token": token})))
    };
    let stands = |answer: &Value| {
        let token = answer.get("token").and_then(Value::as_str).unwrap_or_default();
        call.server.access.of_token(token.as_bytes()).is_some()
    };
    call.server.once.make(given, stands, making).await
}

pub(crate) async fn revoke_token(call: Call) -> Done {
    call.server.access.revoke(call.name(0))?;
    Ok(Answer::nothing())
}

pub(crate) async fn sign_ins(call: Call) -> Done {
    let own = call.who.by_cookie.then_some(&call.who.hash);
    let all: Vec<Value> = call
        .server
        .access
        .sign_ins()
        .into_iter()
        .map(|it| {
            let by = if it.by_token { "token" } else { "code" };
            let is_own = own.is_some_and(|hash| hash.starts_with(&it.id));
            json!({"id": it.id, "name": it.name, "role": it.role, "by": by, "made_ms": it.made_ms,
                "expires_ms": it.until_ms, "is_own": is_own})
        })
        .collect();
    Ok(Answer::ok(&json!({"sign_ins": all})))
}

pub(crate) async fn end_sign_in(call: Call) -> Done {
    call.server.access.end_sign_in(call.name(0))?;
    Ok(Answer::nothing())
}

pub(crate) async fn grants(call: Call) -> Done {
    let mut all: Vec<Value> = Vec::new();
    for workspace in call.server.workspaces.all() {
        let id = workspace.id.clone();
        let grants = blocking(move || workspace.runtime.store().grants().list(None)).await?;
        all.extend(grants.into_iter().map(|it| {
            json!({"id": it.id, "workspace": id, "effect": it.effect, "session": it.session, "by": it.front_end,
                "made_ms": it.since_ms, "uses": it.uses})
        }));
    }
    Ok(Answer::ok(&json!({"grants": all})))
}

pub(crate) async fn revoke_grant(call: Call) -> Done {
    let id: i64 = call
        .name(0)
        .parse()
        .map_err(|_| Problem::bad(format!("`{}` is not the number of a grant", call.name(0))).next(GRANTS))?;
    let workspace = call.server.workspaces.of_id(call.query.get("workspace"))?;
    if blocking(move || workspace.runtime.store().grants().revoke(id)).await? {
        Ok(Answer::nothing())
    } else {
        Err(Problem::missing(format!("there is no grant {id}")).next(GRANTS))
    }
}

pub(crate) async fn health(_: Call) -> Done {
    Ok(Answer::bytes(StatusCode::OK, "text/plain; charset=utf-8", "ok\n"))
}

pub(crate) async fn ready(call: Call) -> Done {
    for workspace in call.server.workspaces.all() {
        blocking(move || workspace.runtime.store().conversations().list(agent::Archived::Hidden, 1)).await?;
    }
    Ok(Answer::bytes(StatusCode::OK, "text/plain; charset=utf-8", "ready\n"))
}

pub(crate) async fn metrics(call: Call) -> Done {
    let seen = overview::all(&call.server, &overview::Look::default()).await?;
    let states = ["idle", "running", "waiting", "asleep"].map(|state| {
        let is = |it: &&overview::Seen| it.session.get("state").is_some_and(|it| it == state);
        (state, seen.iter().filter(is).count())
    });
    let waiting = overview::approvals(&call.server, &seen).len() + overview::questions(&seen).len();
    let text = call.server.counts.text(&states, waiting);
    Ok(Answer::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
}

pub(crate) async fn openapi(call: Call) -> Done {
    Ok(Answer::ok(call.server.described.get().unwrap_or(&Value::Null)))
}

pub(crate) async fn page(call: Call) -> Done {
    assets::page(&call)
}
