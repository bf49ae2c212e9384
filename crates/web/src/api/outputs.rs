//! Outputs that a session keeps, and files that a person uploads to it: both have handles such as `out_12`.

use std::{fs::File, sync::Arc};

use http::{StatusCode, header};
use kit::{Fault, Kind};
use serde_json::{Value, json};

use super::files::{Sent, kind, send};
use crate::{
    answer::Answer,
    call::{Call, Done},
    problem::Problem,
    workspaces::{Workspace, blocking},
};

/// The largest upload, in bytes.
const LARGEST: usize = 64 << 20;

/// So many files there can be in one form.
const FILES: usize = 20;

/// Returns whether these are the bytes of a picture that a model may be shown.
pub(crate) fn is_picture(bytes: &[u8]) -> bool {
    kind("", bytes).0.starts_with("image/")
}

/// Returns the bytes of a handle.
pub(crate) async fn kept(workspace: &Workspace, session: &str, handle: &str) -> Result<Vec<u8>, Fault> {
    let (spills, session, handle) =
        (workspace.runtime.spills().clone(), session.to_owned(), handle.to_owned());
    blocking(move || spills.read(&session, &handle)).await
}

pub(crate) async fn get(call: Call) -> Done {
    let workspace = call.workspace().await?;
    send_handle(&call, &workspace, call.name(0).to_owned(), call.name(1).to_owned()).await
}

/// Sends the bytes of a handle.
pub(crate) async fn send_handle(call: &Call, workspace: &Workspace, session: String, handle: String) -> Done {
    let spills = workspace.runtime.spills().clone();
    let name = handle.clone();
    let (file, size, head) = blocking(move || {
        let path = spills.path(&session, &handle)?;
        let broken =
            |error: std::io::Error| Fault::new(Kind::Unavailable, format!("{handle} can't be read: {error}"));
        let file = File::open(path).map_err(broken)?;
        let size = file.metadata().map_err(broken)?.len();
        let mut head = vec![0; usize::try_from(size.min(4096)).unwrap_or(4096)];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, 0).map_err(broken)?;
        Ok((file, size, head))
    })
    .await?;
    let tag = format!("\"{name}-{size:x}\"");
    send(call, Sent { file: Arc::new(file), size, tag, head, name })
}

pub(crate) async fn upload(mut call: Call) -> Done {
    let (workspace, session) = (call.workspace().await?, call.name(0).to_owned());
    let kind = call.header(header::CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let form = match boundary(kind) {
        None if essence.to_ascii_lowercase().starts_with("multipart/") => return Err(not_a_form(kind)),
        form => form,
    };
    let bytes = call.bytes(LARGEST).await?;
    let Some(boundary) = form else {
        let name = call.query.get("name").cloned().unwrap_or_else(|| "file".to_owned());
        let kept = keep(&workspace, &session, name, bytes.to_vec()).await?;
        return Ok(Answer::json(StatusCode::CREATED, &kept));
    };
    let files = parts(&bytes, &boundary).ok_or_else(|| Problem::bad("the form can't be read"))?;
    if files.is_empty() || files.len() > FILES {
        return Err(Problem::bad(format!("the form has {} files; it has 1 to {FILES}", files.len())));
    }
    let mut all = Vec::new();
    for (name, bytes) in files {
        all.push(keep(&workspace, &session, name, bytes.to_vec()).await?);
    }
    Ok(Answer::json(StatusCode::CREATED, &json!({"uploads": all})))
}

async fn keep(workspace: &Workspace, session: &str, name: String, bytes: Vec<u8>) -> Result<Value, Problem> {
    if bytes.is_empty() {
        return Err(Problem::bad(format!("`{name}` is empty")));
    }
    let clean: String = name.chars().filter(|it| !it.is_control()).take(200).collect();
    let name = clean.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    let mime = kind(&name, bytes.get(..4096).unwrap_or(&bytes)).0;
    let (spills, session, size) = (workspace.runtime.spills().clone(), session.to_owned(), bytes.len());
    let handle = blocking(move || spills.keep(&session, &bytes)).await?;
    Ok(json!({"upload": handle, "name": name, "bytes": size, "mime": mime}))
}

fn not_a_form(kind: &str) -> Problem {
    let shown: String = kind.chars().take(100).collect();
    Problem::bad(format!(
        "`Content-Type: {shown}` has no `boundary` of 1 to 70 characters, or is not multipart/form-data"
    ))
    .next("Have the client write the header of its form; or send the bytes of one file, with `?name=NAME`.")
}

/// Returns the boundary of a form, if the media type is one.
fn boundary(kind: &str) -> Option<Vec<u8>> {
    const FORM: &str = "multipart/form-data";
    let (essence, rest) = kind.trim_start().split_at_checked(FORM.len())?;
    if !essence.eq_ignore_ascii_case(FORM) {
        return None;
    }
    let fields = rest.split(';').filter_map(|it| it.trim().split_once('='));
    let boundary = fields.into_iter().find(|it| it.0.eq_ignore_ascii_case("boundary"))?.1;
    let boundary = boundary.trim_matches('"');
    (!boundary.is_empty() && boundary.len() <= 70).then(|| format!("--{boundary}").into_bytes())
}

/// Returns the files of a form: the name of each, and its bytes.
fn parts<'a>(form: &'a [u8], boundary: &[u8]) -> Option<Vec<(String, &'a [u8])>> {
    let mut files = Vec::new();
    let mut rest = form.get(find(form, boundary)? + boundary.len()..)?;
    loop {
        if rest.starts_with(b"--") {
            return Some(files);
        }
        rest = rest.strip_prefix(b"\r\n")?;
        let end = find(rest, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(rest.get(..end)?).into_owned();
        rest = rest.get(end + 4..)?;
        let close = [b"\r\n", boundary].concat();
        let end = find(rest, &close)?;
        let content = rest.get(..end)?;
        rest = rest.get(end + close.len()..)?;
        if let Some(name) = file_name(&head) {
            files.push((name, content));
        }
    }
}

/// Returns the name of the file, if a part of a form is one.
fn file_name(head: &str) -> Option<String> {
    let line = head.lines().find(|it| it.to_ascii_lowercase().starts_with("content-disposition:"))?;
    let name = line.split_once("filename=\"")?.1.split('"').next()?;
    Some(name.to_owned())
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|it| it == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_its_files() {
        let form = b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\n1\r\n2\r\n--x\r\nContent-Disposition: form-data; name=\"words\"\r\n\r\nhi\r\n--x--\r\n";
        for kind in [
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/mixed; boundary=x",
            "text/plain",
        ] {
            assert_eq!(boundary(kind), None, "{kind}");
        }
        let boundary = boundary("Multipart/Form-Data; boundary=x");
        assert_eq!(
            parts(form, &boundary.unwrap_or_default()),
            Some(vec![("a.txt".to_owned(), &b"1\r\n2"[..])])
        );
        for broken in [&b"--x"[..], b"--x\r\n", b"--x\r\nabc", b"", b"--x\r\n\r\n\r\nno end"] {
            assert_eq!(parts(broken, b"--x"), None);
        }
    }
}
