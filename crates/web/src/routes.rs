//! The one table of routes: what is served, by which role, and how it is described. A request that is in no row is not served.

use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::{api, role::Role, route::Route};

/// Returns the schema of a type.
fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A row of the table: method, path, role, description, query, type of the body, function.
macro_rules! routes {
    ($($method:ident $path:literal $role:expr, $about:literal, $query:expr, $body:tt, $run:path;)*) => {
        vec![$(Route {
            method: Method::$method,
            path: $path,
            needs: $role,
            about: $about,
            query: $query,
            body: routes!(@body $body),
            run: |call| Box::pin($run(call)),
        }),*]
    };
    (@body -) => { None };
    (@body [$body:ty]) => { Some(schema::<$body>) };
}

const WORKSPACE: (&str, &str) =
    ("workspace", "The id of the workspace, where several have a session of this name.");

const PROGRAM: (&str, &str) =
    ("workspace", "The name or the id of the workspace; needed where there are several.");

/// Returns the table.
pub(crate) fn table() -> Vec<Route> {
    use Role::{Approve, Own, Say, View};
    use api::{
        acp, changes, decisions, files, groups, jobs, mcp, openai, outputs, people, responses, sessions,
        shared_files, shares, triggers, workspaces,
    };
    routes! {
        GET "/healthz" None, "The server answers.", &[], -, people::health;
        GET "/readyz" None, "The server can do its work. Beyond loopback it needs a token.", &[], -, people::ready;
        GET "/metrics" None, "Counts, as Prometheus reads them. Beyond loopback it needs a token.", &[], -, people::metrics;
        GET "/api/v1/openapi.json" Some(View), "This description.", &[], -, people::openapi;
        POST "/api/v1/sign-in" None, "Trades a one-use code or a token for a cookie.", &[], [people::SignIn], people::sign_in;
        POST "/api/v1/sign-out" Some(View), "Ends the sign-in.", &[], -, people::sign_out;
        POST "/api/v1/codes" Some(Own), "Makes a one-use code, for another device.", &[], [people::NewCode], people::new_code;
        GET "/api/v1/info" Some(View), "Who asks, and the workspaces.", &[], -, people::info;
        GET "/api/v1/folders" Some(Own), "Folders in which the owner has used haft, and that are not served yet.", &[], -, workspaces::folders;
        GET "/api/v1/workspaces" Some(View), "The workspaces: whether each was `opened` after the server began, and the sessions that are `running` there: with a turn, an open approval or question, a job or a trigger.", &[], -, workspaces::list;
        DELETE "/api/v1/workspaces/{workspace}" Some(Own), "Closes a folder that was opened after the server began, and its idle sessions; 409 while a session or an MCP client works in it.", &[], -, workspaces::close;
        POST "/api/v1/workspaces" Some(Own), "Serves one of those folders, or one that the owner trusts, too, until the server ends.", &[], [workspaces::Folder], workspaces::open;
        GET "/api/v1/tokens" Some(Own), "The tokens, without what is secret.", &[], -, people::tokens;
        POST "/api/v1/tokens" Some(Own), "Makes a token, which is shown once.", &[], [people::NewToken], people::new_token;
        DELETE "/api/v1/tokens/{token}" Some(Own), "Revokes a token, and the sign-ins by it.", &[], -, people::revoke_token;
        GET "/api/v1/sign-ins" Some(Own), "The sign-ins that stand.", &[], -, people::sign_ins;
        DELETE "/api/v1/sign-ins/{sign_in}" Some(Own), "Ends a sign-in, and its streams.", &[], -, people::end_sign_in;
        GET "/api/v1/grants" Some(View), "Standing permissions.", &[], -, people::grants;
        DELETE "/api/v1/grants/{grant}" Some(Own), "Revokes a standing permission.", &[WORKSPACE], -, people::revoke_grant;
        GET "/api/v1/sessions" Some(View), "Lists or searches sessions of all workspaces.",
            &[("q", "Words that its messages have."), ("archived", "`true`: only archived ones."), ("limit", "At most so many."), WORKSPACE],
            -, sessions::list;
        POST "/api/v1/sessions" Some(Say), "Begins a session.", &[], [sessions::NewSession], sessions::create;
        GET "/api/v1/sessions/{session}" Some(View), "One session, with what waits for somebody.", &[WORKSPACE], -, sessions::get;
        PATCH "/api/v1/sessions/{session}" Some(Say), "Gives a title, a model or a profile; archives; for `own`, switches the sandbox.", &[WORKSPACE], [sessions::Patch], sessions::patch;
        DELETE "/api/v1/sessions/{session}" Some(Own), "Deletes a session.", &[WORKSPACE], -, sessions::delete;
        POST "/api/v1/sessions/{session}/prompt" Some(Say), "Begins a turn.", &[WORKSPACE], [sessions::Prompted], sessions::prompt;
        POST "/api/v1/sessions/{session}/cancel" Some(Say), "Stops a turn.", &[WORKSPACE], [sessions::Cancel], sessions::cancel;
        POST "/api/v1/sessions/{session}/fork" Some(Say), "Makes a session that goes on from here.", &[WORKSPACE], [sessions::Fork], sessions::fork;
        POST "/api/v1/sessions/{session}/rewind" Some(Say), "Takes the newest turns back.", &[WORKSPACE], [sessions::Rewind], sessions::rewind;
        POST "/api/v1/sessions/{session}/compact" Some(Say), "Puts a summary in the place of the conversation.", &[WORKSPACE], [sessions::Compact], sessions::compact;
        POST "/api/v1/sessions/{session}/command" Some(Approve), "Runs a command of the person.", &[WORKSPACE], [sessions::Command], sessions::command;
        GET "/api/v1/sessions/{session}/report" Some(View), "A report of the process that runs it.", &[("kind", "`context` or `tools`."), WORKSPACE], -, sessions::report;
        GET "/api/v1/sessions/{session}/events" Some(View), "Its rows as server-sent events, and those that come.",
            &[("after", "The number of the last row that is known; the header Last-Event-ID counts more."), WORKSPACE], -, sessions::events;
        GET "/api/v1/sessions/{session}/rows" Some(View), "Its rows.", &[("after", "The number of the last row that is known."), ("limit", "At most so many."), ("masked", "`true` or `false`: with secrets masked, as in a share."), WORKSPACE], -, sessions::rows;
        GET "/api/v1/events" Some(View), "What changes in the list of sessions, and what waits for somebody, as server-sent events.", &[], -, sessions::all_events;
        GET "/api/v1/approvals" Some(View), "The open approvals of all sessions, and of MCP clients.", &[], -, decisions::approvals;
        POST "/api/v1/sessions/{session}/approvals/{approval}" Some(Approve), "Decides an approval. The first decision wins.", &[WORKSPACE], [decisions::Decide], decisions::decide;
        GET "/api/v1/questions" Some(View), "The open questions of all sessions.", &[], -, decisions::questions;
        POST "/api/v1/sessions/{session}/questions/{question}" Some(Say), "Answers a question. The first answer wins.", &[WORKSPACE], [decisions::Reply], decisions::reply;
        GET "/api/v1/sessions/{session}/changes" Some(View), "The changes of files by its calls, newest first.", &[WORKSPACE], -, changes::list;
        GET "/api/v1/sessions/{session}/diff" Some(View), "The files that it changed: against their content before its first change, or against the newest git commit. Answers `files`, each with `path`, `kind`, `added`, `removed`, `hunks` and maybe `note`; against `head` also `commit`, `branch`, and `others`, the names of files that differ and that it did not change (for `say`).",
            &[("against", "`start` (default): before its first change. `head`: the newest commit of the workspace's git repository; 404 without one."), WORKSPACE], -, changes::diff;
        POST "/api/v1/sessions/{session}/commit" Some(Approve), "Commits files with git, in the session's sandbox, hooks included. Answers `commit`, `branch`, and `text`, the output of git; 404 without a repository or for a file that does not differ, 409 with the words of git or of a hook that refuses.",
            &[WORKSPACE], [changes::Commit], changes::commit;
        POST "/api/v1/sessions/{session}/undo" Some(Approve), "Puts back the changes of a call, a turn, a file, or the newest ones.", &[WORKSPACE], [changes::Undo], changes::undo;
        GET "/api/v1/sessions/{session}/jobs" Some(View), "Its background jobs, where it runs here.", &[WORKSPACE], -, jobs::list;
        GET "/api/v1/sessions/{session}/jobs/{job}" Some(View), "A job with the end of its output.", &[WORKSPACE], -, jobs::get;
        POST "/api/v1/sessions/{session}/jobs/{job}/input" Some(Approve), "Gives a job that waits its input.", &[WORKSPACE], [jobs::Input], jobs::input;
        POST "/api/v1/sessions/{session}/jobs/{job}/stop" Some(Say), "Stops a job.", &[WORKSPACE], -, jobs::stop;
        GET "/api/v1/sessions/{session}/outputs/{handle}" Some(View), "The bytes of a picture or a long output.", &[WORKSPACE], -, outputs::get;
        POST "/api/v1/sessions/{session}/uploads" Some(Say), "Keeps a file for a prompt: its bytes, or a form.", &[("name", "The name of the file."), WORKSPACE], -, outputs::upload;
        GET "/api/v1/files" Some(Say), "A folder of the workspace.", &[("path", "The folder; none is the workspace."), WORKSPACE], -, files::list;
        GET "/api/v1/files/raw" Some(Say), "The bytes of a file.", &[("path", "The file."), ("download", "`1`: as an attachment."), WORKSPACE], -, files::raw;
        GET "/files/{session}/{file}" Some(View), "A file that a session gave to the person, for a day.", &[("download", "`1`: as an attachment."), WORKSPACE], -, shared_files::get;
        GET "/api/v1/shares" Some(Say), "The shares that have not expired.", &[], -, shares::list;
        POST "/api/v1/shares" Some(Own), "Shares a part of a session, to read.", &[WORKSPACE], [shares::NewShare], shares::create;
        DELETE "/api/v1/shares/{share}" Some(Own), "Revokes a share.", &[], -, shares::delete;
        GET "/api/v1/shared/{share}" None, "The rows of a share, masked.", &[], -, shares::read;
        GET "/api/v1/shared/{share}/outputs/{handle}" None, "A picture of a share.", &[], -, shares::output;
        GET "/api/v1/shared/{share}/files/{file}" None, "A file that a call in a share gave to the person, for a day.", &[("download", "`1`: as an attachment.")], -, shares::file;
        GET "/api/v1/triggers" Some(View), "The triggers of all sessions.", &[], -, triggers::list;
        GET "/api/v1/sessions/{session}/triggers/{trigger}" Some(View), "A trigger with its history.", &[WORKSPACE], -, triggers::get;
        POST "/api/v1/sessions/{session}/triggers/{trigger}/{action}" Some(Approve), "Pauses, resumes or fires a trigger: `pause`, `resume`, `fire`.", &[WORKSPACE], -, triggers::act;
        DELETE "/api/v1/sessions/{session}/triggers/{trigger}" Some(Approve), "Removes a trigger with its history.", &[WORKSPACE], -, triggers::remove;
        GET "/api/v1/groups" Some(View), "The groups of agents.", &[], -, groups::list;
        GET "/api/v1/groups/{group}" Some(View), "A group: its agents, who is connected with whom, and its events.", &[("after", "The number of the last event that is known."), WORKSPACE], -, groups::get;
        POST "/api/v1/groups/{group}/{action}" Some(Approve), "Pauses, resumes or stops a group or one of its agents: `pause`, `resume`, `stop`.", &[WORKSPACE], [groups::Act], groups::act;
        GET "/mcp" Some(Approve), "MCP over streamable HTTP: the stream of a session.", &[PROGRAM], -, mcp::mcp;
        POST "/mcp" Some(Approve), "MCP over streamable HTTP: a message. Tools run for whoever may approve calls.", &[PROGRAM], -, mcp::mcp;
        DELETE "/mcp" Some(Approve), "MCP over streamable HTTP: ends a session.", &[PROGRAM], -, mcp::mcp;
        GET "/acp" Some(Say), "The Agent Client Protocol, by WebSocket: a JSON-RPC message in each text message.", &[], -, acp::connect;
        GET "/v1/models" Some(View), "OpenAI's API: each profile is a model.", &[], -, openai::models;
        POST "/v1/chat/completions" Some(Say), "OpenAI's API: a turn, in the session that this conversation is.", &[], [openai::Chat], openai::chat;
        POST "/v1/responses" Some(Say), "OpenAI's API: a turn, in the session of `previous_response_id` or a new one.", &[], [responses::Asked], responses::respond;
        GET "/" None, "The page.", &[], -, people::page;
        GET "/s/{share}" None, "The page, for a share.", &[], -, people::page;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn each_route_is_there_once_and_only_what_needs_no_role_is_open() {
        let table = table();
        let all: BTreeSet<String> = table.iter().map(|it| format!("{} {}", it.method, it.path)).collect();
        assert_eq!(all.len(), table.len(), "a route is there twice");
        let open: Vec<&str> = table.iter().filter(|it| it.needs.is_none()).map(|it| it.path).collect();
        let may_be_open = [
            "/healthz",
            "/readyz",
            "/metrics",
            "/api/v1/sign-in",
            "/api/v1/shared/{share}",
            "/api/v1/shared/{share}/outputs/{handle}",
            "/api/v1/shared/{share}/files/{file}",
            "/",
            "/s/{share}",
        ];
        assert_eq!(open, may_be_open);
        for route in &table {
            assert!(
                route.method == Method::GET
                    || route.needs != Some(Role::View)
                    || route.path.ends_with("/sign-out")
            );
        }
    }

    #[test]
    fn every_route_is_described_with_its_role_and_its_body() {
        let table = table();
        let described = crate::openapi::describe(&table, "1");
        for route in &table {
            let path = described.get("paths").unwrap().get(route.path).unwrap();
            let operation = path.get(route.method.as_str().to_ascii_lowercase()).unwrap();
            assert_eq!(operation.get("x-role").and_then(Value::as_str), route.needs.map(Role::name));
            assert_eq!(operation.get("requestBody").is_some(), route.body.is_some());
        }
        // Each reference leads to a schema.
        let text = described.to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(described.pointer(&format!("/components/schemas/{name}")).is_some(), "{name}");
        }
    }
}
