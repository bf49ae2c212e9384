//! Output truncation: keeps head and tail of a long output, and spills the whole.
//!
//! Both ends stay, as the beginning and the outcome matter. A failure has its reason at the end, so there the
//! tail gets more.

use kit::{Body, Fault, Output, Part};
use serde_json::Value;

/// Bytes of a cut text that are reserved for the note.
const NOTE: usize = 320;
/// Limit of parts; further ones are joined or left out.
const PARTS: usize = 64;

/// Limits of an output, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A text.
    pub text: usize,
    /// A text that the tool has cut to a page itself.
    pub page: usize,
    /// The whole reply on the wire.
    pub reply: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text: 64 << 10, page: 256 << 10, reply: 1 << 20 }
    }
}

/// Stores the whole text and returns its handle: [`Spills::keep`](store::spill::Spills::keep) of a session.
pub type Keep<'a> = &'a dyn Fn(&[u8]) -> Result<String, Fault>;

/// Truncates an output to `limits`. The texts must be redacted already: a secret that is cut in two can't be
/// found. A text that can't be stored is cut too, and the note says so.
pub fn truncate(output: Output, limits: &Limits, keep: Keep) -> Output {
    let failed = output.exit.is_some_and(|it| it != 0);
    bound_as(output, if failed { Weight::Tail } else { Weight::Even }, limits, keep)
}

/// Truncates what was seen in a fault to `limits`, its tail longer than its head.
pub fn truncate_fault(mut fault: Fault, limits: &Limits, keep: Keep) -> Fault {
    let short = limits.text / 8;
    let sentence = |text: &mut String| {
        let mut long = Long::new(text);
        long.cut(short, Weight::Even, keep);
        if let Some(cut) = long.cut {
            *text = cut;
        }
    };
    sentence(&mut fault.what);
    fault.next.as_mut().map(sentence);
    let spent = wire_len(&fault.what) + fault.next.as_deref().map_or(0, wire_len);
    fault.seen = fault.seen.map(|seen| {
        let left = Limits { reply: limits.reply.saturating_sub(spent), ..*limits };
        Box::new(bound_as(*seen, Weight::Tail, &left, keep))
    });
    fault
}

/// The share of head and tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    Even,
    Tail,
}

fn bound_as(output: Output, weight: Weight, limits: &Limits, keep: Keep) -> Output {
    let Output { parts, structured, exit, paged } = output;
    let mut parts = few(parts);
    let mut left = limits.reply.saturating_sub(1024);
    for part in &mut parts {
        bound_other(part, &mut left);
    }
    let mut text_limit = if paged { limits.page } else { limits.text };
    let mut texts: Vec<Long> = parts.iter().enumerate().filter_map(Long::of_part).collect();
    // Many texts, or texts with many escapes, can be too long together: then each is cut shorter.
    loop {
        for text in &mut texts {
            text.cut(text_limit, weight, keep);
        }
        // Escaping makes a text at most six times as long: most texts need not be counted.
        let most: usize = texts.iter().map(|it| it.shown().len() * 6 + PART_WIRE).sum();
        let count = || texts.iter().map(|it| wire_len(it.shown()) + PART_WIRE).sum();
        let size = if most <= left && structured.is_none() { most } else { count() };
        if size <= left || text_limit <= NOTE {
            left = left.saturating_sub(size);
            break;
        }
        text_limit = (text_limit / 2).max(NOTE);
    }
    let cuts: Vec<(usize, String)> = texts.into_iter().filter_map(|it| Some((it.place, it.cut?))).collect();
    for (place, text) in cuts {
        if let Some(part) = parts.get_mut(place) {
            *part = Part::Text { text };
        }
    }
    let structured = structured.and_then(|value| bound_structured(value, left, keep, &mut parts));
    Output { parts, structured, exit, paged }
}

/// Bytes that the wire format adds to a part.
const PART_WIRE: usize = 32;

/// Joins the texts if there are too many parts.
fn few(parts: Vec<Part>) -> Vec<Part> {
    if parts.len() <= PARTS {
        return parts;
    }
    let mut texts = Vec::new();
    let mut others = Vec::new();
    for part in parts {
        match part {
            Part::Text { text } => texts.push(text),
            Part::Image { .. } | Part::Audio { .. } | Part::Resource { .. } | Part::Link { .. } => {
                others.push(part);
            }
        }
    }
    let over = others.len().saturating_sub(PARTS);
    others.truncate(PARTS);
    if over > 0 {
        texts.push(format!("[{} more images and other parts left out]", grouped(over)));
    }
    let mut few = vec![Part::Text { text: texts.join("\n") }];
    few.extend(others);
    few
}

/// Keeps an image or a link whole, or leaves it out.
fn bound_other(part: &mut Part, left: &mut usize) {
    let (size, what) = match part {
        Part::Text { .. } => return,
        Part::Image { mime, data } => (data.len().div_ceil(3) * 4 + mime.len(), "image"),
        Part::Audio { mime, data } => (data.len().div_ceil(3) * 4 + mime.len(), "sound"),
        Part::Resource { uri, body, .. } => {
            let size = match body {
                Body::Text(text) => wire_len(text),
                Body::Bytes(data) => data.len().div_ceil(3) * 4,
            };
            (wire_len(uri) + size, "resource")
        }
        Part::Link { uri, name, .. } => (wire_len(uri) + wire_len(name), "link"),
    };
    // A quarter is reserved for texts, however large the images are.
    let free = *left / 4 * 3;
    if size + PART_WIRE <= free {
        *left -= size + PART_WIRE;
        return;
    }
    let text =
        format!("[{what} of {} bytes left out: the whole reply may have {}]", grouped(size), grouped(*left));
    *part = Part::Text { text };
}

fn bound_structured(value: Value, left: usize, keep: Keep, parts: &mut Vec<Part>) -> Option<Value> {
    let mut size = Count(0);
    let counted = serde_json::to_writer(&mut size, &value);
    if counted.is_ok() && size.0 <= left {
        return Some(value);
    }
    let kept = serde_json::to_vec(&value).map_err(|error| error.to_string());
    let kept = kept.and_then(|it| keep(&it).map_err(|fault| fault.what));
    let text = format!("[structured result of {} bytes left out; {}]", grouped(size.0), where_it_is(&kept));
    parts.push(Part::Text { text });
    None
}

/// A text that may be too long, its shown form, and the handle of the whole.
struct Long<'a> {
    place: usize,
    text: &'a str,
    cut: Option<String>,
    kept: Option<Result<String, String>>,
}

impl<'a> Long<'a> {
    fn new(text: &'a str) -> Self {
        Self { place: 0, text, cut: None, kept: None }
    }

    fn of_part((place, part): (usize, &'a Part)) -> Option<Self> {
        match part {
            Part::Text { text } => Some(Self { place, ..Self::new(text) }),
            Part::Image { .. } | Part::Audio { .. } | Part::Resource { .. } | Part::Link { .. } => None,
        }
    }

    /// Cuts the text to head, note and tail, if it is longer than `limit`.
    fn cut(&mut self, limit: usize, weight: Weight, keep: Keep) {
        if self.text.len() > limit {
            let text = self.text;
            let kept = self.kept.get_or_insert_with(|| keep(text.as_bytes()).map_err(|fault| fault.what));
            self.cut = Some(cut(text, limit, weight, kept));
        }
    }

    fn shown(&self) -> &str {
        self.cut.as_deref().unwrap_or(self.text)
    }
}

/// Cuts a text. The result is a prefix of `text`, the note, and a suffix of `text`. It is at most `limit`
/// long, if that leaves space for the note.
fn cut(text: &str, limit: usize, weight: Weight, kept: &Result<String, String>) -> String {
    let room = limit.saturating_sub(NOTE);
    let for_head = match weight {
        Weight::Even => room / 2,
        Weight::Tail => room / 4,
    };
    let for_tail = room - for_head;
    let (head, head_whole) = head(text, for_head);
    let (tail, tail_whole) = tail(text, for_tail);
    let out = text.len() - head.len() - tail.len();
    let place = where_it_is(kept);
    let note = if head_whole && tail_whole {
        let middle = text.get(head.len()..text.len() - tail.len()).unwrap_or_default();
        let next = lines(head) + 1;
        let read = if kept.is_ok() {
            format!("; grep it or read from line {}", grouped(next))
        } else {
            String::new()
        };
        format!("[{} of {} lines left out; {place}{read}]", grouped(lines(middle)), grouped(lines(text)))
    } else {
        let read = if kept.is_ok() { "; grep it" } else { "" };
        format!("[{} of {} bytes left out; {place}{read}]", grouped(out), grouped(text.len()))
    };
    let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{gap}{note}\n{tail}")
}

fn where_it_is(kept: &Result<String, String>) -> String {
    match kept {
        Ok(handle) => format!("all of it: {handle}"),
        Err(why) => {
            let why: String = why.chars().take(40).collect();
            format!("the whole could not be kept: {why}")
        }
    }
}

/// Returns the handle in the note of a cut text.
pub fn kept_handle(text: &str) -> Option<&str> {
    // The note is in the middle: the tool may itself show part of another cut text.
    let (_, rest) = text.split_once(" left out; all of it: ")?;
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
    rest.get(..end).filter(|it| store::spill_number(it).is_some())
}

/// Returns the beginning of `text`, up to the end of a line if one is near, and whether it is.
fn head(text: &str, room: usize) -> (&str, bool) {
    let end = text.floor_char_boundary(room);
    // A line break just after the limit is free: the note begins on a new line anyway.
    let end = if text.get(end..).is_some_and(|it| it.starts_with('\n')) { end + 1 } else { end };
    let head = text.get(..end).unwrap_or_default();
    match head.rfind('\n') {
        Some(line) if line >= end / 2 => (head.get(..=line).unwrap_or_default(), true),
        _ => (head, false),
    }
}

/// Returns the end of `text`, from the beginning of a line if one is near, and whether it is.
fn tail(text: &str, room: usize) -> (&str, bool) {
    let start = text.ceil_char_boundary(text.len().saturating_sub(room));
    // A line break just before `start` counts: then `start` itself begins a line.
    let from = text.floor_char_boundary(start.saturating_sub(1));
    let near = text.get(from..).unwrap_or_default();
    match near.find('\n') {
        Some(line) if line <= near.len() / 2 => (near.get(line + 1..).unwrap_or_default(), true),
        _ => (text.get(start..).unwrap_or_default(), false),
    }
}

/// Counts the lines of `text`; the last needs no line break.
fn lines(text: &str) -> usize {
    text.lines().count()
}

/// Formats a number with a comma after each group of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns the length of `text` as a JSON string.
fn wire_len(text: &str) -> usize {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..32 => 5,
        _ => 0,
    });
    text.len() + 2 + escapes.sum::<usize>()
}

/// Counts the bytes that are written to it.
struct Count(usize);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use kit::Kind;
    use proptest::prelude::*;

    use super::*;

    fn kept(_: &[u8]) -> Result<String, Fault> {
        Ok("out_12".to_owned())
    }

    fn full(_: &[u8]) -> Result<String, Fault> {
        Err(Fault::new(Kind::Unavailable, "no space left"))
    }

    fn numbered(lines: usize) -> String {
        (1..=lines).map(|it| format!("line {it}\n")).collect()
    }

    #[test]
    fn short_output_passes_as_it_is() {
        let output = Output { exit: Some(3), ..Output::text("x".repeat(64 << 10)) };
        assert_eq!(truncate(output.clone(), &Limits::default(), &full), output);
        let page = Output::page("x".repeat(256 << 10));
        assert_eq!(truncate(page.clone(), &Limits::default(), &full), page);
    }

    #[test]
    fn handle_is_found_in_a_cut_text() {
        for (limit, text) in [(380, numbered(200)), (1000, "x".repeat(5000))] {
            let limits = Limits { text: limit, ..Limits::default() };
            let cut = truncate(Output::text(text), &limits, &kept).as_text();
            assert_eq!(kept_handle(&cut), Some("out_12"), "{cut}");
        }
        let lost = truncate(Output::text(numbered(200)), &Limits { text: 380, ..Limits::default() }, &full);
        assert_eq!(kept_handle(&lost.as_text()), None);
        for text in ["", "out_12", "5 left out; all of it: it", "1 left out; all of it: out_012]"] {
            assert_eq!(kept_handle(text), None, "{text}");
        }
    }

    #[test]
    fn says_how_many_lines_are_left_out_and_where_they_are() {
        let limits = Limits { text: 380, ..Limits::default() };
        let text = truncate(Output::text(numbered(4312)), &limits, &kept).as_text();
        assert_eq!(
            text,
            "line 1\nline 2\nline 3\nline 4\n\
             [4,305 of 4,312 lines left out; all of it: out_12; grep it or read from line 5]\n\
             line 4310\nline 4311\nline 4312\n"
        );
    }

    #[test]
    fn keeps_more_of_the_tail_of_a_failure_and_the_exit_code_outside() {
        let limits = Limits { text: 720, ..Limits::default() };
        let failed = Output { exit: Some(101), ..Output::text(numbered(1000)) };
        let failed = truncate(failed, &limits, &kept);
        assert_eq!(failed.exit, Some(101));
        let text = failed.as_text();
        let (head, tail) = text.split_once("[9").unwrap();
        assert!(tail.len() > 2 * head.len(), "{text}");
        let fault = Fault::new(Kind::Timeout, "too slow").seen(Output::text(numbered(1000)));
        let text = truncate_fault(fault, &limits, &kept).as_text();
        assert!(text.starts_with("too slow\nline 1\n") && text.ends_with("line 1000\n"), "{text}");
    }

    #[test]
    fn counts_bytes_where_there_are_no_lines() {
        let limits = Limits { text: 400, ..Limits::default() };
        let text = truncate(Output::text("é".repeat(100_000)), &limits, &kept).as_text();
        assert!(
            text.contains("\n[199,920 of 200,000 bytes left out; all of it: out_12; grep it]\n"),
            "{text}"
        );
    }

    #[test]
    fn says_when_the_whole_could_not_be_kept() {
        let limits = Limits { text: 400, ..Limits::default() };
        let text = truncate(Output::text(numbered(100)), &limits, &full).as_text();
        assert!(text.contains("lines left out; the whole could not be kept: no space left]\n"), "{text}");
    }

    #[test]
    fn the_whole_reply_has_a_bound() {
        let limits = Limits::default();
        let image = Part::Image { mime: "image/png".to_owned(), data: vec![0; 700 << 10] };
        let mut output = Output::page("\u{1}".repeat(256 << 10));
        output.parts.extend(std::iter::repeat_n(image, 3));
        output.parts.extend((0..2000).map(|_| Part::Text { text: numbered(100) }));
        output.structured = Some(serde_json::json!({ "text": "y".repeat(2 << 20) }));
        let bounded = truncate(output, &limits, &kept);
        let wire = serde_json::to_string(&bounded).unwrap();
        assert!(wire.len() <= limits.reply, "{}", wire.len());
        assert!(bounded.structured.is_none());
        let text = bounded.as_text();
        assert!(
            text.contains("[structured result of 2,097,163 bytes left out; all of it: out_12]"),
            "{text}"
        );
        assert!(text.contains("[image of 955,745 bytes left out"), "{text}");
    }

    proptest! {
        #[test]
        fn any_cut_keeps_head_and_tail_and_reports_correct_numbers(
            text in "([a-zé€😀]{0,30}[\n]){0,60}[a-zé😀]{0,400}",
            room in 0..2000_usize,
            failed in any::<bool>(),
        ) {
            let limit = NOTE + room;
            let weight = if failed { Weight::Tail } else { Weight::Even };
            let mut long = Long::new(&text);
            long.cut(limit, weight, &kept);
            let Some(cut) = long.cut else {
                prop_assert!(text.len() <= limit);
                return Ok(());
            };
            prop_assert!(cut.len() <= limit, "{} > {}", cut.len(), limit);
            let at = cut.find('[').unwrap();
            let end = at + cut[at..].find("]\n").unwrap();
            let (mut head, note, tail) = (&cut[..at], &cut[at + 1..end], &cut[end + 2..]);
            prop_assert!(text.ends_with(tail));
            if !text.starts_with(head) {
                head = head.strip_suffix('\n').unwrap();
            }
            prop_assert!(text.starts_with(head));
            let number = |text: &str| text.replace(',', "").parse::<usize>().unwrap();
            let words: Vec<&str> = note.split([' ', ';', ']']).collect();
            let middle = &text[head.len()..text.len() - tail.len()];
            if words[3] == "lines" {
                prop_assert_eq!(number(words[0]) + head.lines().count() + tail.lines().count(), text.lines().count());
                prop_assert_eq!(number(words[2]), text.lines().count());
                prop_assert_eq!(number(words.last().unwrap()), head.lines().count() + 1);
                prop_assert!(middle.ends_with('\n'));
            } else {
                prop_assert_eq!(number(words[0]), middle.len());
                prop_assert_eq!(number(words[2]), text.len());
            }
            // Both ends use most of their share.
            prop_assert!(head.len() + 4 >= room / 8 && tail.len() + 4 >= room / 4, "{} {}", head.len(), tail.len());
        }
    }
}
