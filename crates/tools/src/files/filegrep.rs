//! `filegrep`: finds lines in one file.

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use kit::{
    anchor,
    files::Open,
    prelude::*,
    seen::{LARGE, Rows},
    text::{Encoding, NotText, Text},
};

use super::open;
use crate::search::lines::{Around, CLIP, End, Find, Pattern, Scanner, builder};

/// Default number of matches.
const MATCHES: usize = 100;

/// Find lines in one file, shown as `LINE:HASH|text` with the lines around them, ready to edit.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filegrep {
    /// File, relative to the workspace or absolute.
    pub(crate) path: String,
    /// Text to find; a regular expression if `regex` is set.
    pub(crate) pattern: String,
    /// The pattern is a regular expression (Rust syntax).
    #[serde(default)]
    pub(crate) regex: bool,
    /// Upper and lower case differ.
    #[serde(default)]
    pub(crate) case_sensitive: bool,
    /// Lines before each match. Default 2.
    #[serde(default)]
    pub(crate) before: Option<usize>,
    /// Lines after each match. Default 2.
    #[serde(default)]
    pub(crate) after: Option<usize>,
    /// Matches to skip; a longer result names the value to pass.
    #[serde(default)]
    pub(crate) offset: usize,
    /// Maximum matches. Default 100.
    #[serde(default)]
    pub(crate) limit: Option<usize>,
}

impl Tool for Filegrep {
    const NAME: &str = "filegrep";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.search(cx)).await
    }
}

impl Filegrep {
    fn search(&self, cx: &Cx) -> Result<Output, Fault> {
        let matcher = self.matcher()?;
        let file = cx.files().open(&self.path)?;
        if file.identity.size > LARGE as u64 {
            return self.search_large(cx, &file);
        }
        let opened = open::text_of(file, &self.path)?;
        let total = opened.text.line_count();
        let matched = self.matching(cx, &matcher, &opened.text)?;
        let Self { path, pattern, .. } = self;
        if matched.is_empty() {
            return Ok(Output::text(format!("No matches for `{pattern}` in {path} ({total} lines)")));
        }
        let limit = self.limit.unwrap_or(MATCHES);
        let page = matched.iter().skip(self.offset).take(limit);
        let mut rows = Rows::new();
        for row in page {
            let first = row.saturating_sub(self.before.unwrap_or(2));
            rows.add(first..(row + 1 + self.after.unwrap_or(2)).min(total));
        }
        if rows.is_empty() {
            let count = matched.len();
            return Err(Fault::bad_args(format!(
                "`offset` is {}, and there are {count} matches",
                self.offset
            )));
        }
        let shown = cx.show(opened.location(), &opened.text, &rows).text;
        let left = matched.len().saturating_sub(self.offset + limit);
        let more = match left {
            0 => String::new(),
            left => format!("\n[{left} more; next: offset {}]", self.offset + limit),
        };
        let plural = if matched.len() == 1 { "match" } else { "matches" };
        Ok(Output::page(format!("[{} {plural} in {total} lines]\n{shown}{more}", matched.len())))
    }

    /// Returns the rows that match.
    fn matching(&self, cx: &Cx, matcher: &RegexMatcher, text: &Text) -> Result<Vec<usize>, Fault> {
        if let Some(rows) = self.matching_bytes(text) {
            return Ok(rows);
        }
        let mut matched = Vec::new();
        for row in 0..text.line_count() {
            if row % 4096 == 0 {
                cx.check()?;
            }
            let line = text.line(row).unwrap_or_default();
            if matcher.is_match(line.as_bytes()).or_fault(Kind::Bug, "the search failed")? {
                matched.push(row);
            }
        }
        Ok(matched)
    }

    /// Searches the bytes of the whole text, where that finds the same as line by line. It is ten times as fast.
    fn matching_bytes(&self, text: &Text) -> Option<Vec<usize>> {
        let pattern = &self.pattern;
        // `\A` and `\z` are the ends of a line here, and a carriage return before a line feed is not part of it.
        let may_differ = text.has_bom()
            || text.encoding() != Encoding::Utf8
            || str::from_utf8(text.bytes()).is_err()
            || text.bytes().contains(&b'\r')
            || pattern.contains(['\n', '\r'])
            || (self.regex && ["-m", "\\A", "\\z", "\\n", "\\r"].iter().any(|it| pattern.contains(it)));
        if may_differ {
            return None;
        }
        let mut scanner = Scanner::new(self.wanted(), Around::default(), true).ok()?;
        let numbers = scanner.numbers(text.bytes())?;
        numbers.into_iter().map(|number| usize::try_from(number).ok()?.checked_sub(1)).collect()
    }

    /// Searches a file too large to load as a stream; long lines of it are cut around the match.
    fn search_large(&self, cx: &Cx, file: &Open) -> Result<Output, Fault> {
        let Self { path, pattern, .. } = self;
        let limit = self.limit.unwrap_or(MATCHES).min(MATCHES * 10);
        let around = Around { before: self.before.unwrap_or(2), after: self.after.unwrap_or(2) };
        let hits = Scanner::new(self.wanted(), around, true)?.file(
            file.file(),
            file.identity.size,
            Find::Lines(self.offset.saturating_add(limit)),
            &|| cx.check().is_ok(),
        );
        cx.check()?;
        if matches!(hits.end, End::Binary) {
            let head = file.head(8 * 1024).or_fault(Kind::Unavailable, "can't read the file")?;
            let fault = open::not_text(path, &head, NotText::Binary(0));
            return Err(Fault { what: format!("{}, {} bytes", fault.what, file.identity.size), ..fault });
        }
        if hits.matches == 0 {
            return Ok(Output::text(format!(
                "No matches for `{pattern}` in {path} ({} bytes)",
                file.identity.size
            )));
        }
        let mut shown = String::new();
        let mut last = None;
        for line in hits.lines.iter().filter(|line| line.of >= self.offset) {
            let number = usize::try_from(line.number).unwrap_or(usize::MAX);
            if last.is_some_and(|last| number > last + 1) {
                shown.push_str("...\n");
            }
            last = Some(number);
            // A line that may have been cut has no anchor: its hash would differ.
            if line.text.len() < CLIP {
                shown.push_str(&format!("{number}:{:02x}|{}\n", anchor::hash(&line.text), line.text));
                cx.showed_of_large(
                    &file.location,
                    &file.identity,
                    None,
                    number - 1,
                    &[Some(line.text.clone())],
                );
            } else {
                shown.push_str(&format!("{number}|{}\n", line.text));
            }
        }
        let more = match hits.matches.saturating_sub(self.offset + limit) {
            0 => String::new(),
            left => format!("[{left} more; next: offset {}]", self.offset + limit),
        };
        Ok(Output::page(format!("[{} matches]\n{shown}{more}", hits.matches).trim_end().to_owned()))
    }

    fn wanted(&self) -> Pattern<'_> {
        Pattern {
            text: &self.pattern,
            literal: !self.regex,
            ignore_case: !self.case_sensitive,
            multiline: false,
        }
    }

    fn matcher(&self) -> Result<RegexMatcher, Fault> {
        if self.pattern.is_empty() {
            return Err(Fault::bad_args("`pattern` is empty, so every line would match")
                .hint("`tool:read` shows the whole file.".to_owned()));
        }
        builder(self.wanted()).build(&self.pattern).map_err(|error| {
            let words = error.to_string();
            let next = if words.contains("size limit") {
                "Use smaller repetitions."
            } else {
                "Leave `regex` out to find the text as it stands."
            };
            Fault::bad_args(format!("`{}` is not a regular expression: {words}", self.pattern)).next(next)
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use expect_test::expect;
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_text_as_it_stands_in_any_case_with_lines_around_it() {
        let test_ws = TestWorkspace::new("//- a\none\ntwo\nthree (3)\nfour\nfive\nsix\nseven\nTHREE (3)\n");
        expect![[r#"
            [2 matches in 8 lines]
            2:f4|two
            3:db|three (3)
            4:dd|four
            ...
            7:77|seven
            8:1c|THREE (3)"#]]
        .assert_eq(
            &test_ws.says::<Filegrep>(&json!({"path": "a", "pattern": "three (3)", "before": 1, "after": 1})),
        );
    }

    #[test]
    fn a_large_file_is_searched_without_loading_it() {
        let test_ws = TestWorkspace::empty();
        let line = "0123456789 the quick brown fox\n";
        let many = line.repeat(LARGE / line.len() + 1);
        let text = format!("{many}the needle is here\n{line}");
        std::fs::write(test_ws.path().join("big"), &text).unwrap();
        let row = text.lines().count() - 1;
        let found =
            test_ws.says::<Filegrep>(&json!({"path": "big", "pattern": "NEEDLE", "before": 0, "after": 1}));
        assert!(found.starts_with(&format!("[1 matches]\n{row}:")), "{found}");
        assert!(found.contains("|the needle is here\n"), "{found}");
        std::fs::write(test_ws.path().join("bin"), [text.as_bytes(), b"\0"].concat()).unwrap();
        let found = test_ws.says::<Filegrep>(&json!({"path": "bin", "pattern": "NEEDLE"}));
        assert!(found.starts_with("bad_args: `bin` is not text"), "{found}");
    }

    #[test]
    fn searching_all_bytes_at_once_finds_the_same_as_line_by_line() {
        let test_ws = TestWorkspace::empty();
        let cx = test_ws.cx();
        let texts =
            ["one\n\n two \nTwo\n\tthree", "a\n", "\n\n", "eins\nzwei ü\nDREI Ü\n", "x\r\ny\r\n", "a\0b\n"];
        let patterns = [
            "two", "ü", "^$", "^", "$", r"\s", r"\s+$", r"^\S+$", r"\bt", "o.e", "(?s)e.", "[^x]", r"\Aone",
            r"e\z", "e|x$",
        ];
        let mut compared = 0;
        for (text, pattern) in texts.iter().flat_map(|text| patterns.iter().map(move |it| (text, it))) {
            for case_sensitive in [true, false] {
                let arguments =
                    json!({"path": "a", "pattern": pattern, "regex": true, "case_sensitive": case_sensitive});
                let filegrep: Filegrep = serde_json::from_value(arguments).unwrap();
                let matcher = filegrep.matcher().unwrap();
                let text = Text::parse(text.as_bytes()).unwrap_or_else(|_| Text::parse("binary").unwrap());
                let expected: Vec<usize> = (0..text.line_count())
                    .filter(|row| matcher.is_match(text.line(*row).unwrap().as_bytes()).unwrap())
                    .collect();
                assert_eq!(
                    filegrep.matching(&cx, &matcher, &text).unwrap(),
                    expected,
                    "{pattern} in {text:?}"
                );
                compared += usize::from(filegrep.matching_bytes(&text).is_some());
            }
        }
        assert!(compared > 60, "{compared}");
    }

    #[test]
    fn finds_by_regular_expression_and_pages() {
        let test_ws = TestWorkspace::new("//- a\na1\nb\na2\na3\n");
        let arguments =
            json!({"path": "a", "pattern": "^a\\d$", "regex": true, "before": 0, "after": 0, "limit": 2});
        expect![[r#"
            [3 matches in 4 lines]
            1:28|a1
            ...
            3:3a|a2
            [1 more; next: offset 2]"#]]
        .assert_eq(&test_ws.says::<Filegrep>(&arguments));
        expect!["No matches for `zzz` in a (4 lines)"]
            .assert_eq(&test_ws.says::<Filegrep>(&json!({"path": "a", "pattern": "zzz"})));
        let broken = test_ws.says::<Filegrep>(&json!({"path": "a", "pattern": "a(", "regex": true}));
        assert!(broken.starts_with("bad_args: `a(` is not a regular expression"), "{broken}");
    }

    #[test]
    fn a_regular_expression_that_becomes_huge_is_refused() {
        let test_ws = TestWorkspace::new("//- a\na\n");
        let pattern = "(?:\\w{100}){1000}";
        let huge = test_ws.says::<Filegrep>(&json!({"path": "a", "pattern": pattern, "regex": true}));
        assert!(huge.contains("size limit") && huge.ends_with("Use smaller repetitions."), "{huge}");
    }
}
