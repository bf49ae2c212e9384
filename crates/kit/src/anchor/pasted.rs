//! Pasted anchors: detects anchor prefixes in new text and strips them.

use std::borrow::Cow;

use super::{Anchor, hash};

/// Strips pasted anchor prefixes from `lines` if at least half of the non-blank lines carry a genuine one:
/// its hash is that of the rest of the line, or `shown` says that the session showed a line under it. Any
/// other text of that form is content and stays.
pub(crate) fn unpaste(lines: &[Cow<'_, str>], shown: impl Fn(Anchor) -> bool) -> Option<Vec<String>> {
    let with_text = lines.iter().filter(|line| !line.trim().is_empty()).count();
    let genuine = lines
        .iter()
        .filter_map(|line| split(line))
        .filter(|(anchor, rest)| hash(rest) == anchor.hash || shown(*anchor))
        .count();
    if genuine == 0 || genuine * 2 < with_text {
        return None;
    }
    Some(lines.iter().map(|line| split(line).map_or(&**line, |(_, rest)| rest).to_owned()).collect())
}

/// The anchor a line begins with, and the rest of the line.
pub(crate) fn split(line: &str) -> Option<(Anchor, &str)> {
    let (prefix, rest) = line.split_once('|')?;
    let (number, _) = prefix.trim_start().split_once(':')?;
    let looks = !number.is_empty() && prefix.len() <= 24 && number.bytes().all(|it| it.is_ascii_digit());
    Some((looks.then(|| Anchor::parse(prefix).ok())??, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(text: &str) -> String {
        let lines: Vec<Cow<'_, str>> = text.lines().map(Cow::from).collect();
        unpaste(&lines, |anchor| anchor.line == 7 && anchor.hash == 0x11)
            .map_or_else(|| text.to_owned(), |lines| lines.join("\n"))
    }

    #[test]
    fn takes_genuine_prefixes_off() {
        assert_eq!(stripped("3:18|  }\n4:c4|return 1"), "  }\nreturn 1");
        // The second line was changed after it was pasted, the third is new.
        assert_eq!(stripped("3:18|}\n7:11|return 2\n\nnew"), "}\nreturn 2\n\nnew");
    }

    #[test]
    fn leaves_honest_content_alone() {
        for honest in ["12:30|lunch", "1:aa|x\n2:bb|y", "3:18|}\na\nb\nc", "key:18|}", "a|b"] {
            assert_eq!(stripped(honest), honest);
        }
    }
}
