//! Files of a workspace: folders listed, files read. Nothing outside the workspace's roots is reached.

use std::{fs::File, os::unix::fs::FileExt as _, sync::Arc, time::Instant};

use bytes::Bytes;
use http::{StatusCode, header};
use kit::{
    Fault, Kind,
    files::{EntryKind, Files},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    answer::Answer,
    call::{Call, Done, LOOK, StreamAccess},
    problem::Problem,
    workspaces::{Workspace, blocking},
};

/// So many names of a folder are given.
const NAMES: usize = 5000;

/// Of so many files the size is looked up.
const SIZES: usize = 1000;

/// Bytes of a file that are sent at once.
const CHUNK: usize = 256 << 10;

/// The beginning of a file by which its type is known.
pub(crate) const HEAD: usize = 4096;

/// The media type of text, and of what could run something.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// The policy of raw files: whatever they are, they run nothing.
pub(crate) const SANDBOX: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox";

/// Returns read access to a path of the workspace.
fn reading(workspace: &Workspace, path: &str) -> Result<Files, Fault> {
    if path.contains('\0') {
        return Err(Fault::bad_args("a path has no NUL").next("Name the path without it."));
    }
    let roots = workspace.runtime.roots();
    let location = roots.locate(path)?;
    Ok(Files::reading(roots.clone(), location))
}

pub(crate) async fn list(call: Call) -> Done {
    let workspace = call.server.workspaces.of_id(call.query.get("workspace"))?;
    let path = call.query.get("path").cloned().unwrap_or_default();
    let listed = blocking(move || entries(&workspace, &path)).await?;
    Ok(Answer::ok(&listed))
}

fn entries(workspace: &Workspace, path: &str) -> Result<Value, Fault> {
    let asked = if path.is_empty() { "." } else { path };
    let mut entries = reading(workspace, asked)?.list(asked)?;
    entries.sort_by(|a, b| {
        let is_file = |it: &kit::files::Entry| it.kind != EntryKind::Folder;
        (is_file(a), &a.name).cmp(&(is_file(b), &b.name))
    });
    let more = entries.len().saturating_sub(NAMES);
    entries.truncate(NAMES);
    let mut sizes = 0;
    let mut listed = Vec::new();
    for entry in &entries {
        // No request can have a name that is not UTF-8.
        let Some(name) = entry.name.to_str() else { continue };
        let kind = match entry.kind {
            EntryKind::File => "file",
            EntryKind::Folder => "folder",
            EntryKind::Link => "link",
            EntryKind::Special => "other",
        };
        let mut value = json!({"name": name, "kind": kind});
        if entry.kind == EntryKind::File && sizes < SIZES {
            sizes += 1;
            let below = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            let about = reading(workspace, &below).and_then(|it| it.open(&below));
            if let (Ok(open), Some(fields)) = (about, value.as_object_mut()) {
                fields.insert("bytes".to_owned(), open.identity.size.into());
                let modified_ms = u64::try_from(open.identity.modified_ns / 1_000_000).unwrap_or_default();
                fields.insert("modified_ms".to_owned(), modified_ms.into());
            }
        }
        listed.push(value);
    }
    Ok(json!({"path": path, "entries": listed, "more": more}))
}

pub(crate) async fn raw(call: Call) -> Done {
    let workspace = call.server.workspaces.of_id(call.query.get("workspace"))?;
    let path = call.query.get("path").cloned().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let (file, size, tag, head) = blocking(move || {
        let open = reading(&workspace, &path)?.open(&path)?;
        let broken =
            |error: std::io::Error| Fault::new(Kind::Unavailable, format!("`{path}` can't be read: {error}"));
        let head = open.head(HEAD).map_err(broken)?;
        let file = open.file().try_clone().map_err(broken)?;
        let it = &open.identity;
        let tag = format!("\"{:x}-{:x}-{:x}\"", it.inode, it.size, it.changed_ns);
        Ok((file, it.size, tag, head))
    })
    .await?;
    send(&call, Sent { file: Arc::new(file), size, tag, head, name })
}

/// A file to send.
pub(crate) struct Sent {
    pub(crate) file: Arc<File>,
    pub(crate) size: u64,
    pub(crate) tag: String,
    pub(crate) head: Vec<u8>,
    pub(crate) name: String,
}

/// Sends a file, or the part of it that is asked for.
pub(crate) fn send(call: &Call, sent: Sent) -> Done {
    let Sent { file, size, tag, head, name } = sent;
    let (mime, is_shown) = kind(&name, &head);
    let is_download = call.query.get("download").is_some_and(|it| it == "1");
    let shown = if is_shown && !is_download { "inline" } else { "attachment" };
    let finish = |answer: Answer| {
        answer
            .header(header::ETAG, &tag)
            .header(header::ACCEPT_RANGES, "bytes")
            .header(header::CACHE_CONTROL, "private, no-cache")
            .header(header::CONTENT_SECURITY_POLICY, SANDBOX)
            .header(header::CONTENT_DISPOSITION, &format!("{shown}; filename*=UTF-8''{}", encoded(&name)))
    };
    if call.header(header::IF_NONE_MATCH).is_some_and(|it| it.split(',').any(|it| it.trim() == tag)) {
        return Ok(finish(Answer::nothing().status(StatusCode::NOT_MODIFIED)));
    }
    // A part of another version of the file is none of this one.
    let stands = call.header(header::IF_RANGE).is_none_or(|it| it == tag);
    let range = match call.header(header::RANGE).filter(|_| stands) {
        Some(range) => match part(range, size) {
            Some(Ok(part)) => Some(part),
            Some(Err(())) => {
                let answer = Problem::new(
                    StatusCode::RANGE_NOT_SATISFIABLE,
                    "bad_args",
                    format!("the file has {size} bytes, and none of those that `{range}` asks for"),
                )
                .next("Ask for bytes below its length, or for all of it.");
                return Ok(answer.answer().header(header::CONTENT_RANGE, &format!("bytes */{size}")));
            }
            // Other units and several ranges are answered with the whole.
            None => None,
        },
        None => None,
    };
    let (from, to) = range.unwrap_or((0, size));
    let (sender, receiver) = mpsc::channel(2);
    let access = call.access();
    tokio::task::spawn_blocking(move || read(&file, from, to, &sender, &access));
    let mut answer = Answer::written(mime, receiver).header(header::CONTENT_LENGTH, &(to - from).to_string());
    if range.is_some() {
        let range = format!("bytes {from}-{}/{size}", to.saturating_sub(1));
        answer = answer.status(StatusCode::PARTIAL_CONTENT).header(header::CONTENT_RANGE, &range);
    }
    Ok(finish(answer))
}

/// Reads these bytes, until the reader has gone or its access has ended.
fn read(file: &File, mut from: u64, to: u64, sender: &mpsc::Sender<Bytes>, access: &StreamAccess) {
    let mut checked = Instant::now();
    while from < to {
        if checked.elapsed() >= LOOK {
            if !access.stands() {
                return;
            }
            checked = Instant::now();
        }
        let left = usize::try_from(to - from).unwrap_or(CHUNK).min(CHUNK);
        let mut buffer = vec![0; left];
        match file.read_at(&mut buffer, from) {
            // A file that was cut meanwhile ends the answer too early, which the client sees by its length.
            Ok(0) | Err(_) => return,
            Ok(read) => {
                buffer.truncate(read);
                from += read as u64;
                if sender.blocking_send(buffer.into()).is_err() {
                    return;
                }
            }
        }
    }
}

/// Returns the bytes that a header `Range` asks for; an error, where there are none of them.
fn part(range: &str, size: u64) -> Option<Result<(u64, u64), ()>> {
    let range = range.strip_prefix("bytes=")?.trim();
    if range.contains(',') {
        return None;
    }
    let (from, to) = range.split_once('-')?;
    let found = match (from.trim(), to.trim()) {
        ("", last) => {
            let last: u64 = last.parse().ok()?;
            (size.saturating_sub(last), if last == 0 { 0 } else { size })
        }
        (from, "") => (from.parse().ok()?, size),
        (from, to) => (from.parse().ok()?, to.parse::<u64>().ok()?.saturating_add(1).min(size)),
    };
    Some(if found.0 < found.1 { Ok(found) } else { Err(()) })
}

/// Returns the media type of a file, and whether a browser may show it. What could run something is text.
pub(crate) fn kind(name: &str, head: &[u8]) -> (&'static str, bool) {
    let ending = name.rsplit_once('.').map(|it| it.1.to_ascii_lowercase());
    match ending.as_deref() {
        _ if head.starts_with(b"\x89PNG\r\n\x1a\n") => ("image/png", true),
        _ if head.starts_with(b"\xff\xd8\xff") => ("image/jpeg", true),
        _ if head.starts_with(b"GIF8") => ("image/gif", true),
        _ if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") => ("image/webp", true),
        _ if head.starts_with(b"%PDF-") => ("application/pdf", true),
        Some("mp3") => ("audio/mpeg", true),
        Some("wav") => ("audio/wav", true),
        Some("ogg" | "oga") => ("audio/ogg", true),
        Some("flac") => ("audio/flac", true),
        Some("m4a") => ("audio/mp4", true),
        Some("mp4" | "m4v") => ("video/mp4", true),
        Some("webm") => ("video/webm", true),
        Some("ogv") => ("video/ogg", true),
        _ if is_text(head) => (TEXT, true),
        _ => ("application/octet-stream", false),
    }
}

fn is_text(head: &[u8]) -> bool {
    // A character may be cut at the end.
    let whole = match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && head.len() >= HEAD,
    };
    whole && !head.contains(&0)
}

/// Encodes a name for a header.
pub(crate) fn encoded(name: &str) -> String {
    let plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~".contains(&it);
    name.bytes().map(|it| if plain(it) { char::from(it).to_string() } else { format!("%{it:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_bounded_by_the_file() {
        for (range, found) in [
            ("bytes=0-4", Some(Ok((0, 5)))),
            ("bytes=5-", Some(Ok((5, 10)))),
            ("bytes=-3", Some(Ok((7, 10)))),
            ("bytes=-30", Some(Ok((0, 10)))),
            ("bytes=8-99", Some(Ok((8, 10)))),
            ("bytes=10-", Some(Err(()))),
            ("bytes=-0", Some(Err(()))),
            ("bytes=4-2", Some(Err(()))),
            ("bytes=0-1,3-4", None),
            ("lines=1-2", None),
            ("bytes=18446744073709551615-", Some(Err(()))),
        ] {
            assert_eq!(part(range, 10), found, "{range}");
        }
    }

    #[test]
    fn what_could_run_something_is_text() {
        for name in ["a.html", "a.svg", "a.js", "a.xhtml"] {
            assert_eq!(kind(name, b"<svg onload=x>"), ("text/plain; charset=utf-8", true), "{name}");
        }
        assert_eq!(kind("a.png", b"<html>"), ("text/plain; charset=utf-8", true));
        assert_eq!(kind("x", b"\0\x01"), ("application/octet-stream", false));
    }
}
