//! Inline pictures: the escape sequences for terminals that can show them.

use kit::base64;

/// A larger picture, in bytes, is not shown.
const LARGEST: usize = 8 << 20;

/// The chunk size of kitty's protocol, in bytes.
const PIECE: usize = 4096;

/// The protocols for inline pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Kitty,
    ITerm,
}

/// Returns the protocol that this terminal supports according to the environment variables. Returns `None` inside
/// multiplexers such as tmux, as they would not pass a picture on.
pub(crate) fn protocol(variables: &[(String, String)]) -> Option<Protocol> {
    let of = |name: &str| variables.iter().find(|it| it.0 == name).map_or("", |it| it.1.as_str());
    let term = of("TERM");
    if !of("TMUX").is_empty()
        || !of("STY").is_empty()
        || term.starts_with("tmux")
        || term.starts_with("screen")
    {
        return None;
    }
    match (term, of("TERM_PROGRAM")) {
        ("xterm-kitty" | "xterm-ghostty", _) | (_, "ghostty") => Some(Protocol::Kitty),
        (_, "iTerm.app" | "WezTerm") => Some(Protocol::ITerm),
        _ => None,
    }
}

/// Returns the escape sequence that shows the picture, or `None` if this protocol can't show it.
pub(crate) fn escape(protocol: Protocol, mime: &str, bytes: &[u8]) -> Option<String> {
    if bytes.len() > LARGEST {
        return None;
    }
    let data = base64::encoded(bytes);
    match protocol {
        Protocol::ITerm => Some(format!(
            "\u{1b}]1337;File=inline=1;size={};width=auto;preserveAspectRatio=1:{data}\u{7}",
            bytes.len()
        )),
        // Of the formats, kitty accepts only PNG unchanged.
        Protocol::Kitty if mime == "image/png" => {
            let mut text = String::new();
            let mut rest = data.as_str();
            let mut begin = "f=100,a=T,";
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(PIECE));
                let more = u8::from(!after.is_empty());
                text.push_str(&format!("\u{1b}_G{begin}m={more};{piece}\u{1b}\\"));
                (rest, begin) = (after, "");
            }
            Some(text)
        }
        Protocol::Kitty => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_is_used_only_where_the_terminal_is_known_to_have_it() {
        let of = |pairs: &[(&str, &str)]| {
            let variables: Vec<_> =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            protocol(&variables)
        };
        assert_eq!(of(&[("TERM", "xterm-kitty")]), Some(Protocol::Kitty));
        assert_eq!(of(&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")]), Some(Protocol::ITerm));
        assert_eq!(of(&[("TERM", "xterm-256color")]), None);
        assert_eq!(of(&[("TERM", "tmux-256color"), ("TERM_PROGRAM", "iTerm.app")]), None);
        assert_eq!(of(&[("TERM", "xterm-kitty"), ("TMUX", "/run/tmux,1,0")]), None);
    }

    #[test]
    fn a_picture_is_carried_whole() {
        let bytes = vec![7; 10_000];
        let text = escape(Protocol::Kitty, "image/png", &bytes).unwrap_or_default();
        let carried: String = text
            .split("\u{1b}_G")
            .filter_map(|it| it.split_once(';').map(|it| it.1.trim_end_matches("\u{1b}\\")))
            .collect();
        assert_eq!(carried, base64::encoded(&bytes));
        assert_eq!(text.matches("m=1").count(), 3);
        assert_eq!(escape(Protocol::Kitty, "image/jpeg", &bytes), None);
        assert!(escape(Protocol::ITerm, "image/jpeg", &bytes).is_some_and(|it| it.ends_with('\u{7}')));
    }
}
