//! Tool calls as an editor shows them: kind, title, places, content, and diffs from the before-images.

use std::{collections::HashMap, path::PathBuf};

use agent::Shown;
use kit::{Fault, Kind, Kinds, Touch, Touches, base64, text::Text};
use runtime::{Runtime, Session};
use serde_json::{Value, json};
use serve::acp::v1::{
    Content, ContentBlock, Diff, ImageContent, Meta, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus,
    ResourceLink, SessionId, TextContent, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use store::{
    changes::{Version, Versions},
    journal::{CallRecord, Filter},
};

use super::session::blocking;
use crate::terminal::{checklist, view};

/// No diff is sent of a file that is larger, before or after, in bytes.
const LARGEST: usize = 1 << 20;

/// A larger picture is named but not sent, in bytes.
const PICTURE: usize = 8 << 20;

/// The changes of at most so many calls of a session are read.
const CALLS: usize = 100_000;

/// A finished call.
pub(super) struct Ended {
    pub(super) call: String,
    pub(super) tool: String,
    pub(super) ok: bool,
    pub(super) fault: Option<Kind>,
    pub(super) exit: Option<i32>,
    pub(super) text: String,
    pub(super) pictures: Vec<Shown>,
    pub(super) links: Vec<String>,
}

/// Returns the update of a call that the model is writing: its arguments are not known yet.
pub(super) fn written(session: &Session, call: &str, tool: &str, agent: Option<&str>) -> ToolCall {
    let at_most = session.catalog().get(tool).map_or(Kinds::NONE, |it| it.spec().at_most);
    ToolCall::new(call.to_owned(), titled(tool.to_owned(), agent))
        .name(tool.to_owned())
        .kind(kind(tool, at_most))
        .status(ToolCallStatus::Pending)
        .meta(agent.map(of_agent))
}

/// Returns the update of a call that begins.
pub(super) fn begun(
    session: &Session,
    call: &str,
    tool: &str,
    arguments: &Value,
    agent: Option<&str>,
) -> ToolCall {
    let seen = Seen::of(session, tool, arguments);
    ToolCall::new(call.to_owned(), titled(seen.title, agent))
        .name(tool.to_owned())
        .kind(seen.kind)
        .status(ToolCallStatus::InProgress)
        .locations(seen.locations)
        .raw_input(arguments.clone())
        .meta(agent.map(of_agent))
}

/// Returns the same for a call that was sent while the model wrote it.
pub(super) fn begins(
    session: &Session,
    call: &str,
    tool: &str,
    arguments: &Value,
    agent: Option<&str>,
) -> ToolCallUpdate {
    let seen = Seen::of(session, tool, arguments);
    let mut fields = ToolCallUpdateFields::new()
        .title(titled(seen.title, agent))
        .kind(seen.kind)
        .status(ToolCallStatus::InProgress)
        .raw_input(arguments.clone());
    if !seen.locations.is_empty() {
        fields = fields.locations(seen.locations);
    }
    ToolCallUpdate::new(call.to_owned(), fields)
}

/// Returns the update of a call that has no result, with the reason.
pub(super) fn unmade(call: &str, why: &str) -> ToolCallUpdate {
    let fields = ToolCallUpdateFields::new().status(ToolCallStatus::Failed).content(vec![text(why)]);
    ToolCallUpdate::new(call.to_owned(), fields)
}

/// Returns the call that stands for a sub-agent: its content is the text of that agent.
pub(super) fn sub_agent(id: &str, path: &str) -> ToolCall {
    ToolCall::new(id.to_owned(), path.to_owned())
        .kind(ToolKind::Think)
        .status(ToolCallStatus::InProgress)
        .meta(of_agent(path))
}

/// Returns the update of a sub-agent's text, and whether it is over.
pub(super) fn sub_agent_says(id: &str, path: &str, said: &str, is_over: bool) -> ToolCallUpdate {
    let status = if is_over { ToolCallStatus::Completed } else { ToolCallStatus::InProgress };
    let mut fields = ToolCallUpdateFields::new().status(status);
    if !said.is_empty() {
        fields = fields.content(vec![text(said)]);
    }
    ToolCallUpdate::new(id.to_owned(), fields).meta(of_agent(path))
}

fn titled(title: String, agent: Option<&str>) -> String {
    match agent {
        Some(agent) => format!("{agent}: {title}"),
        None => title,
    }
}

fn text(text: &str) -> ToolCallContent {
    ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(text))))
}

/// Returns the metadata of what a sub-agent does.
fn of_agent(path: &str) -> Meta {
    haft(&json!({"agent": path}))
}

/// Returns the update with the progress text of a call.
pub(super) fn progress(call: &str, text: &str) -> ToolCallUpdate {
    let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress).content(vec![fenced(text)]);
    ToolCallUpdate::new(call.to_owned(), fields)
}

/// Returns the update with the result of a call.
pub(super) async fn ended(
    runtime: &Runtime,
    session: &SessionId,
    ended: &Ended,
    diffs: Vec<ToolCallContent>,
) -> ToolCallUpdate {
    let status = if ended.ok { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
    let mut content = diffs;
    // The diff shows what the edit's answer would.
    if (content.is_empty() || !ended.ok) && !ended.text.trim().is_empty() {
        content.push(fenced(&ended.text));
    }
    for shown in &ended.pictures {
        if let Some(image) = picture(runtime, session, shown).await {
            content.push(ToolCallContent::Content(Content::new(image)));
        }
    }
    content.extend(ended.links.iter().filter_map(|it| {
        let (name, uri) = it.split_once(": ")?;
        Some(ToolCallContent::Content(Content::new(ContentBlock::ResourceLink(ResourceLink::new(name, uri)))))
    }));
    let mut output = json!({"text": ended.text});
    if let Some(all) = output.as_object_mut() {
        all.extend(ended.exit.map(|it| ("exit".to_owned(), json!(it))));
        all.extend(ended.fault.map(|it| ("fault".to_owned(), json!(it.name()))));
    }
    let fields = ToolCallUpdateFields::new().status(status).content(content).raw_output(output);
    ToolCallUpdate::new(ended.call.clone(), fields)
}

/// Returns the model's task list as a plan.
pub(super) fn plan(text: &str) -> Plan {
    let entries = checklist::read(text).into_iter().map(|task| {
        let status = if task.is_active() {
            PlanEntryStatus::InProgress
        } else if task.is_open() {
            PlanEntryStatus::Pending
        } else {
            PlanEntryStatus::Completed
        };
        PlanEntry::new(task.text(), PlanEntryPriority::Medium, status)
    });
    Plan::new(entries.collect())
}

/// Returns a picture that the session keeps.
pub(super) async fn picture(runtime: &Runtime, session: &SessionId, shown: &Shown) -> Option<ContentBlock> {
    let (runtime, session, handle) = (runtime.clone(), session.clone(), shown.handle.clone());
    let bytes = blocking(move || runtime.spills().read(&session.0, &handle)).await.ok()?;
    (bytes.len() <= PICTURE)
        .then(|| ContentBlock::Image(ImageContent::new(base64::encoded(&bytes), shown.mime.clone())))
}

/// Returns the diffs of a call's changes.
pub(super) async fn diffs(runtime: &Runtime, call: &str) -> Vec<ToolCallContent> {
    let (runtime, call) = (runtime.clone(), call.to_owned());
    let found = blocking(move || {
        let filter = Filter { call: Some(call), ..Filter::default() };
        let records = runtime.store().journal().log(filter)?;
        records.first().map_or_else(|| Ok(Vec::new()), |it| of_record(&runtime, it))
    });
    found.await.unwrap_or_else(|fault| {
        tracing::warn!("what a call changed can't be shown: {fault}");
        Vec::new()
    })
}

/// Returns the changes that the calls of a session made, by call id. Blocks.
pub(super) fn changes_of(
    runtime: &Runtime,
    session: &SessionId,
) -> Result<HashMap<String, Vec<ToolCallContent>>, Fault> {
    let filter = Filter { session: Some(session.0.to_string()), limit: CALLS, ..Filter::default() };
    let records = runtime.store().journal().log(filter)?;
    let changed = records.iter().filter(|it| !it.changes.is_empty());
    changed.map(|it| Ok((it.call.clone(), of_record(runtime, it)?))).collect()
}

fn of_record(runtime: &Runtime, record: &CallRecord) -> Result<Vec<ToolCallContent>, Fault> {
    let files = runtime.changed_by(record)?;
    Ok(files.iter().map(|it| of_versions(runtime, it)).collect())
}

fn of_versions(runtime: &Runtime, file: &Versions) -> ToolCallContent {
    let text = |version: &Version| match version {
        Version::Absent => Some(None),
        Version::Known(content) if content.len() <= LARGEST => {
            let text = Text::share(content.clone()).ok()?;
            Some(Some(runtime.masked(&text.decoded()).into_owned()))
        }
        Version::Known(_) | Version::Long(_) | Version::Unknown(_) => None,
    };
    match (text(&file.before), text(&file.after)) {
        (Some(old), Some(new)) => {
            ToolCallContent::Diff(Diff::new(&file.path, new.unwrap_or_default()).old_text(old))
        }
        // The file is binary, too long, or its contents are no longer kept.
        _ => fenced(&format!("{} was changed; its contents are not shown", file.path.display())),
    }
}

/// A call as shown before it runs.
pub(super) struct Seen {
    pub(super) title: String,
    pub(super) kind: ToolKind,
    pub(super) locations: Vec<ToolCallLocation>,
}

impl Seen {
    pub(super) fn of(session: &Session, tool: &str, arguments: &Value) -> Self {
        let catalog = session.catalog();
        let found = catalog.get(tool);
        let prepared = found.and_then(|it| it.prepare(arguments.clone()).ok());
        let touches = prepared.as_ref().map(|it| it.touches()).unwrap_or_default();
        let kinds = match (&prepared, found) {
            (Some(_), _) => touches.kinds(),
            (None, Some(tool)) => tool.spec().at_most,
            (None, None) => Kinds::NONE,
        };
        let runtime = session.runtime();
        let title = runtime.masked(&view::title(tool, arguments)).into_owned();
        Self { title, kind: kind(tool, kinds), locations: locations(runtime, &touches, arguments) }
    }
}

/// Returns the kind of a call: by the name of its tool, else by its touches.
fn kind(tool: &str, touches: Kinds) -> ToolKind {
    const NAMED: [(ToolKind, &[&str]); 6] = [
        (ToolKind::Delete, &["delete", "remove"]),
        (ToolKind::Move, &["move", "rename"]),
        (ToolKind::Search, &["grep", "glob", "find", "search", "skim", "tree", "filegrep"]),
        (
            ToolKind::Think,
            &["todo", "subagent", "spawn_agent", "explore", "critic", "think", "note", "ask_user"],
        ),
        (ToolKind::SwitchMode, &["switch_profile"]),
        (ToolKind::Fetch, &["web_search"]),
    ];
    let is_named = |names: &[&str]| {
        names.iter().any(|it| tool == *it || tool.strip_suffix("_file").is_some_and(|rest| rest == *it))
    };
    if let Some((kind, _)) = NAMED.iter().find(|(_, names)| is_named(names)) {
        return *kind;
    }
    if touches.covers(Kinds::RUN) {
        ToolKind::Execute
    } else if touches.covers(Kinds::WRITE) {
        ToolKind::Edit
    } else if touches.covers(Kinds::NET) || touches.covers(Kinds::WEB) {
        ToolKind::Fetch
    } else if touches.covers(Kinds::READ) {
        ToolKind::Read
    } else {
        ToolKind::Other
    }
}

/// Returns the files that a call reads or changes, each with the line where it begins.
fn locations(runtime: &Runtime, touches: &Touches, arguments: &Value) -> Vec<ToolCallLocation> {
    let roots = runtime.roots();
    let mut paths: Vec<PathBuf> = Vec::new();
    for touch in touches.iter() {
        let path = match touch {
            Touch::Read(path) | Touch::Write(path) | Touch::WriteTree { path, .. } if !path.is_empty() => {
                path
            }
            _ => continue,
        };
        if let Ok(location) = roots.locate(path) {
            let path = location.absolute();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    let line = line(arguments);
    paths.into_iter().map(|it| ToolCallLocation::new(it).line(line)).collect()
}

/// Returns the line that the arguments name: of an anchor, or where a read begins.
fn line(arguments: &Value) -> Option<u32> {
    let first = arguments.pointer("/edits/0").unwrap_or(arguments);
    let anchor = first.get("anchor").and_then(Value::as_str);
    if let Some((line, _)) = anchor.and_then(|it| it.split_once(':')) {
        return line.parse().ok();
    }
    let offset = arguments.get("offset").and_then(Value::as_u64)?;
    u32::try_from(offset).ok()
}

/// Returns a text as a code block: a client that renders Markdown shows it literally.
pub(super) fn fenced(text: &str) -> ToolCallContent {
    let longest = text.lines().map(|it| it.trim_start().bytes().take_while(|it| *it == b'`').count()).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    let text = format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'));
    ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(text))))
}

/// Returns metadata that only haft's own clients understand.
fn haft(of: &Value) -> Meta {
    Meta::from_iter([("haft".to_owned(), of.clone())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_follows_the_tool_and_then_what_it_touches() {
        for (tool, touches, expected) in [
            ("read", Kinds::READ, ToolKind::Read),
            ("edit", Kinds::WRITE, ToolKind::Edit),
            ("move_file", Kinds::WRITE, ToolKind::Move),
            ("delete", Kinds::WRITE, ToolKind::Delete),
            ("shell", Kinds::RUN.with(Kinds::READ), ToolKind::Execute),
            ("grep", Kinds::READ, ToolKind::Search),
            ("web_fetch", Kinds::WEB, ToolKind::Fetch),
            ("todo", Kinds::SESSION, ToolKind::Think),
            ("mcp__x", Kinds::NONE, ToolKind::Other),
        ] {
            assert_eq!(kind(tool, touches), expected, "{tool}");
        }
    }

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        let ToolCallContent::Content(content) = fenced("a\n````\nb\n") else { return };
        let ContentBlock::Text(text) = content.content else { return };
        assert_eq!(text.text, "`````\na\n````\nb\n`````");
    }

    #[test]
    fn line_is_that_of_the_first_anchor_or_of_the_offset() {
        assert_eq!(line(&json!({"edits": [{"anchor": "12:ab"}]})), Some(12));
        assert_eq!(line(&json!({"path": "a", "offset": 7})), Some(7));
        assert_eq!(line(&json!({"path": "a"})), None);
    }
}
