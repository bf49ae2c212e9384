//! Output as a page shows it, compared with what a command printed: times, ids and dates may differ, nothing else.

/// Whether a page's lines are those that were printed. A line of `…` stands for any lines, a `…` in a line for any text.
pub(crate) fn is_same(shown: &str, printed: &str) -> bool {
    let lines = |text: &str| text.trim_end().lines().map(settled).collect::<Vec<_>>();
    let (shown, printed) = (lines(shown), lines(printed));
    match_lines(&shown, &printed)
}

fn match_lines(shown: &[String], printed: &[String]) -> bool {
    match shown {
        [] => printed.is_empty(),
        [any, rest @ ..] if any == "…" => (0..=printed.len()).any(|at| match_lines(rest, &printed[at..])),
        [line, rest @ ..] => {
            printed.first().is_some_and(|it| match_line(line, it)) && match_lines(rest, &printed[1..])
        }
    }
}

fn match_line(shown: &str, printed: &str) -> bool {
    let Some((start, rest)) = shown.split_once('…') else { return shown == printed };
    let Some(mut left) = printed.strip_prefix(start) else { return false };
    let mut parts = rest.split('…').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    true
}

/// Replaces the words of a line that differ from run to run by their kind.
fn settled(line: &str) -> String {
    let line = line.trim_end();
    let mut out = String::new();
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let is_start = !out.ends_with(|it: char| it.is_alphanumeric() || it == '_');
        let word =
            rest.find(|it: char| !(it.is_ascii_alphanumeric() || "_.,:-".contains(it))).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word);
        if is_start && let Some(kind) = kind(word, after) {
            out.push_str(kind);
            rest = after;
        } else {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    out
}

/// Returns the kind of a word that differs from run to run.
fn kind(word: &str, after: &str) -> Option<&'static str> {
    let word = word.trim_end_matches([',', ':', '.']);
    let digits = |text: &str| !text.is_empty() && text.chars().all(|it| it.is_ascii_digit());
    let number = |text: &str| digits(&text.replace(['.', ','], ""));
    let is_unit =
        |unit: &str| after.strip_prefix(unit).is_some_and(|it| !it.starts_with(char::is_alphanumeric));
    if number(word) && (is_unit(" ms") || is_unit(" s"))
        || word.strip_suffix('s').is_some_and(|it| number(it) && it.contains('.'))
    {
        return Some("TIME");
    }
    let parts = |between: char, lengths: &[usize]| {
        let parts: Vec<&str> = word.split(between).collect();
        parts.len() == lengths.len()
            && parts.iter().zip(lengths).all(|(part, length)| digits(part) && part.len() == *length)
    };
    if parts('-', &[4, 2, 2]) {
        return Some("DATE");
    }
    if parts(':', &[2, 2]) || parts(':', &[2, 2, 2]) {
        return Some("CLOCK");
    }
    let is_id =
        |it: &str| it.len() >= 10 && it.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
    if ["c_", "s_"].iter().any(|it| word.strip_prefix(it).is_some_and(is_id)) {
        return Some("ID");
    }
    (word.len() == 64 && word.chars().all(|it| it.is_ascii_hexdigit())).then_some("TOKEN")
}

#[test]
fn only_times_ids_and_dates_may_differ() {
    for (shown, printed) in [
        ("took 0.2 s", "took 13.4 s"),
        (
            "2026-11-22 20:55:01  c_0tv7eebq7nk8a  read  ok 1.3 ms  read a",
            "2027-01-02 03:04:05  c_0tt6s70jqxmya  read  ok 12 ms  read a",
        ),
        ("a\n…\nz", "a\nb\nc\nz"),
        ("a\n…\nz", "a\nz"),
        ("port … free", "port 80 free"),
        ("trailing", "trailing  "),
    ] {
        assert!(is_same(shown, printed), "{shown} / {printed}");
    }
    for (shown, printed) in [
        ("exit 1", "exit 2"),
        ("12 tokens in", "13 tokens in"),
        ("a", "a\nb"),
        ("a\n…\nz", "a\nb"),
        ("c_short", "c_other"),
        ("port … free", "port 80 taken"),
    ] {
        assert!(!is_same(shown, printed), "{shown} / {printed}");
    }
}
