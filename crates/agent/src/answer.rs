//! Answers of tool calls: converts each for the model and for observers.

use kit::{Body, Output, Part};
use runtime::{Answer, Session};
use store::changes::{Change, DiffLimits, Versions};

use crate::{
    event::{Event, Shown, ms},
    images,
    model::{Piece, ResultOf},
};

/// The answer of a call, for the model and for observers.
pub(crate) struct AnsweredCall {
    /// The result for the model.
    pub(crate) result: ResultOf,
    /// The event for observers.
    pub(crate) event: Event,
    /// The exit code, where a command ran.
    pub(crate) exit: Option<i32>,
    /// The handles of the pictures in the answer.
    pub(crate) pictures: Vec<String>,
    /// Duration in milliseconds.
    pub(crate) ms: f64,
}

/// Converts the answer to the model's call `id`. Only image parts become pictures, whatever a text looks
/// like.
pub(crate) async fn answered_call(session: &Session, id: &str, tool: &str, answer: Answer) -> AnsweredCall {
    let (ok, mut text) = (answer.result.is_ok(), answer.as_text());
    let fault = answer.result.as_ref().err().map(|it| it.kind);
    let mut pieces = Vec::new();
    if !text.is_empty() {
        pieces.push(Piece::text(text.clone()));
    }
    let (mut pictures, mut links) = (Vec::new(), Vec::new());
    let seen: Option<Output> = match answer.result {
        Ok(output) => Some(output),
        Err(fault) => fault.seen.map(|it| *it),
    };
    let exit = seen.as_ref().and_then(|it| it.exit);
    for part in seen.into_iter().flat_map(|it| it.parts) {
        match part {
            Part::Text { .. } => {}
            Part::Link { uri, name, .. } => {
                // Links are for the person, so the event has them too.
                text.push_str(&format!("\n{name}: {uri}"));
                links.push(format!("{name}: {uri}"));
                pieces.push(Piece::text(format!("[{name}]({uri})")));
            }
            Part::Audio { mime, data } => {
                pieces.push(Piece::text(format!("[a sound of {} bytes, {mime}: not shown]", data.len())));
            }
            Part::Resource { uri, body: Body::Text(text), .. } => {
                pieces.push(Piece::text(format!("[{uri}]\n{text}")));
            }
            Part::Resource { uri, body: Body::Bytes(data), .. } => {
                pieces.push(Piece::text(format!("[{uri}: {} bytes, not shown]", data.len())));
            }
            Part::Image { mime, data } => match images::keep(session, mime, data).await {
                Ok(picture) => {
                    let Shown { handle, mime, .. } = picture.clone();
                    pictures.push(picture);
                    pieces.push(Piece::Image { mime, handle, data: None });
                }
                Err(why) => pieces.push(Piece::text(format!("[a picture that can't be shown: {why}]"))),
            },
        }
    }
    if pieces.is_empty() {
        // Some providers reject a result without content.
        pieces.push(Piece::text("[no output]"));
    }
    let changes = changes(session, answer.changes).await;
    let ms = ms(answer.took);
    let handles = pictures.iter().map(|it| it.handle.clone()).collect();
    let (call, tool_name) = (answer.id, tool.to_owned());
    let event =
        Event::Answered { call, tool: tool_name, ok, fault, exit, ms, text, pictures, changes, links };
    let result = ResultOf { id: id.to_owned(), tool: tool.to_owned(), ok, pieces };
    AnsweredCall { result, event, exit, pictures: handles, ms }
}

/// Returns the changes that a call made. Compares on a blocking thread, not on the threads of calls and
/// streams.
async fn changes(session: &Session, files: Vec<Versions>) -> Vec<Change> {
    if files.is_empty() {
        return Vec::new();
    }
    let runtime = session.runtime().clone();
    let compared = tokio::task::spawn_blocking(move || runtime.changes(&files, DiffLimits::default())).await;
    compared.unwrap_or_else(|error| {
        tracing::warn!("what a call changed can't be shown: {error}");
        Vec::new()
    })
}
