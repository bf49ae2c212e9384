//! Parts of a result: text, pictures, links.

use kit::{Part, base64};
use serde::Deserialize;

/// Limit of an image, in bytes: models accept less.
const LARGEST: usize = 10 << 20;

/// One part of a result.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Piece {
    Text { text: String },
    Image { mime: Option<String>, data: String },
    Link { uri: String, name: Option<String> },
}

/// Returns haft's note on a tool's result.
pub(crate) fn note(note: &str) -> Part {
    Part::Text { text: format!("note: {note}") }
}

/// Converts a part for the model.
pub(crate) fn part(piece: Piece) -> Part {
    match piece {
        Piece::Text { text } => Part::Text { text },
        Piece::Link { uri, name } => {
            let name = name.unwrap_or_else(|| uri.rsplit('/').next().unwrap_or_default().to_owned());
            Part::Link { uri, name, mime: None, bytes: None }
        }
        Piece::Image { mime, data } => picture(mime.as_deref(), &data)
            .unwrap_or_else(|why| Part::Text { text: format!("[a picture is left out: {why}]") }),
    }
}

fn picture(declared: Option<&str>, data: &str) -> Result<Part, String> {
    let size = data.len() / 4 * 3;
    if size > LARGEST {
        return Err(format!("it has {} MB; {} MB is the most", size >> 20, LARGEST >> 20));
    }
    let data = base64::decoded(data).ok_or("it is not base64")?;
    let Some(mime) = media_type(&data).or(declared).filter(|it| it.starts_with("image/")) else {
        return Err("what it is can't be told from its bytes, and nothing else says so".to_owned());
    };
    Ok(Part::Image { mime: mime.to_owned(), data })
}

/// Detects the media type by the first bytes, for the formats that models accept.
fn media_type(data: &[u8]) -> Option<&'static str> {
    match data {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_type_of_a_picture_comes_from_its_bytes() {
        let png = |mime: Option<&str>| {
            part(Piece::Image { mime: mime.map(str::to_owned), data: "iVBORw0KGgo=".to_owned() })
        };
        assert!(matches!(png(Some("image/jpeg")), Part::Image { mime, .. } if mime == "image/png"));
        assert!(matches!(png(None), Part::Image { .. }));
        let text = part(Piece::Image { mime: None, data: "Zm9v".to_owned() });
        assert!(matches!(text, Part::Text { text } if text.contains("can't be told")));
    }
}
