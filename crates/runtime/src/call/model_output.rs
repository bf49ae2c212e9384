//! Output for the model: redacts secrets, escapes invisible characters, limits the size.

use std::borrow::Cow;

use kit::{Body, Fault, Output, Part, escape::visible, redact::Secrets};
use serde_json::Value;
use store::credentials::hide_in_text;

use crate::{
    session_state::SessionState,
    truncate::{self, Limits},
};

/// Limit of a title, in bytes.
const TITLE: usize = 120;

/// Returns the result for the model, and the number of escaped characters. Redacts before truncating: a
/// secret that is cut in two can't be found.
pub(super) fn shown(
    session: &SessionState,
    mut result: Result<Output, Fault>,
) -> (Result<Output, Fault>, usize) {
    let secrets = session.secrets().clone();
    let mut spelled = 0;
    let mut show = |text: &mut String| {
        if let Cow::Owned(masked) = secrets.mask(text) {
            *text = masked;
        }
        let (visible, count) = visible(text);
        spelled += count;
        if let Cow::Owned(visible) = visible {
            *text = visible;
        }
    };
    if let Err(fault) = &mut result {
        fault.render(|text| session.tools().named(text));
    }
    match &mut result {
        Ok(output) => {
            texts(output).for_each(&mut show);
            if let Some(structured) = &mut output.structured {
                mask_all(&secrets, structured);
            }
        }
        Err(fault) => {
            show(&mut fault.what);
            fault.next.as_mut().map(&mut show);
            fault.seen.as_deref_mut().into_iter().flat_map(texts).for_each(&mut show);
        }
    }
    let keep = |bytes: &[u8]| session.spill(bytes);
    let bounded = match result {
        Ok(output) => Ok(truncate::truncate(output, &Limits::default(), &keep)),
        Err(fault) => Err(truncate::truncate_fault(fault, &Limits::default(), &keep)),
    };
    (bounded, spelled)
}

/// Redacts every text in a value. Names are the tool's own, but may contain what it read.
pub(super) fn mask_all(secrets: &Secrets, value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = secrets.mask(text) {
                *text = masked;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|it| mask_all(secrets, it)),
        Value::Object(fields) => {
            *fields = std::mem::take(fields)
                .into_iter()
                .map(|(name, mut value)| {
                    mask_all(secrets, &mut value);
                    (secrets.mask(&name).into_owned(), value)
                })
                .collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns a call's title for a person: one line, redacted.
pub(super) fn title(session: &SessionState, title: String) -> String {
    if title.is_empty() {
        return title;
    }
    let open = hide_in_text(&title);
    let masked = session.secrets().mask(&open);
    let line = masked.lines().next().unwrap_or_default().trim();
    let (line, _) = visible(line);
    if line.len() <= TITLE {
        return line.into_owned();
    }
    format!("{}…", line.get(..line.floor_char_boundary(TITLE)).unwrap_or_default())
}

/// Returns the size of a result, before any cut.
pub(super) fn size(result: &Result<Output, Fault>) -> usize {
    match result {
        Ok(output) => output_size(output),
        Err(fault) => fault.what.len() + fault.seen.as_deref().map_or(0, output_size),
    }
}

fn output_size(output: &Output) -> usize {
    let parts = output.parts.iter().map(|part| match part {
        Part::Text { text } => text.len(),
        Part::Image { data, .. } | Part::Audio { data, .. } => data.len(),
        Part::Resource { body: Body::Text(text), .. } => text.len(),
        Part::Resource { body: Body::Bytes(data), .. } => data.len(),
        Part::Link { uri, name, .. } => uri.len() + name.len(),
    });
    parts.sum()
}

/// Returns the texts of an output.
fn texts(output: &mut Output) -> impl Iterator<Item = &mut String> {
    output.parts.iter_mut().flat_map(|part| match part {
        Part::Text { text } => vec![text],
        Part::Link { uri, name, .. } => vec![uri, name],
        Part::Resource { uri, body: Body::Text(text), .. } => vec![uri, text],
        Part::Resource { uri, body: Body::Bytes(_), .. } => vec![uri],
        Part::Image { .. } | Part::Audio { .. } => Vec::new(),
    })
}
