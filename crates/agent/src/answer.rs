//! What does a model read of a call's answer, and what does a person see?

use kit::{Output, Part};
use runtime::{Answer, Session};

use crate::{
    event::{Event, Shown, ms},
    model::{Piece, ResultOf},
};

/// What came of a call, for the model and for whoever watches.
pub(crate) struct Heard {
    /// For the model.
    pub(crate) result: ResultOf,
    /// For whoever watches.
    pub(crate) event: Event,
    /// How long it took, in milliseconds.
    pub(crate) ms: f64,
}

/// The answer to the call `id` of the model.
pub(crate) fn heard(session: &Session, id: &str, tool: &str, answer: Answer) -> Heard {
    let (ok, text) = (answer.result.is_ok(), answer.as_text());
    let mut pieces = Vec::new();
    if !text.is_empty() {
        pieces.push(Piece::text(text.clone()));
    }
    let mut pictures = Vec::new();
    let seen: Option<Output> = match answer.result {
        Ok(output) => Some(output),
        Err(fault) => fault.seen.map(|it| *it),
    };
    for part in seen.into_iter().flat_map(|it| it.parts) {
        match part {
            Part::Text { .. } => {}
            Part::Link { uri, name } => pieces.push(Piece::text(format!("[{name}]({uri})"))),
            Part::Image { mime, data } => match session.keep_output(&data) {
                Ok(handle) => {
                    pictures.push(Shown { handle: handle.clone(), mime: mime.clone(), bytes: data.len() });
                    pieces.push(Piece::Image { mime, handle, data: None });
                }
                Err(fault) => {
                    pieces.push(Piece::text(format!("[a picture that can't be kept: {}]", fault.what)))
                }
            },
        }
    }
    let ms = ms(answer.took);
    let event = Event::Answered { call: answer.id, tool: tool.to_owned(), ok, ms, text, pictures };
    Heard { result: ResultOf { id: id.to_owned(), tool: tool.to_owned(), ok, pieces }, event, ms }
}
