//! The edit promise, rule by rule.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;

use super::*;

/// A file, the session that reads it, and what the file holds by now.
struct Fixture {
    views: Views,
    now: Text,
}

const FILE: &str = "/w/src/a.rs";

impl Fixture {
    fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self { views: Views::default(), now: Text::parse(bytes).unwrap() }
    }

    /// Returns a fixture whose whole file was shown.
    fn read(bytes: impl Into<Vec<u8>>) -> Self {
        let fixture = Self::new(bytes);
        fixture.show(0..fixture.now.line_count());
        fixture
    }

    fn show(&self, rows: Range<usize>) {
        self.views.showed(Path::new(FILE), &self.now, &Rows::from(rows));
    }

    fn changed(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.now = Text::parse(bytes).unwrap();
        self
    }

    fn try_all(&self, edits: &[Edit]) -> Result<Plan, Fault> {
        plan(&self.now, &self.views, Path::new(FILE), edits)
    }

    #[track_caller]
    fn lands(&mut self, edits: &[Edit], expected: &str) -> Plan {
        let plan = self.try_all(edits).unwrap_or_else(|fault| panic!("{}", fault.as_text()));
        assert_eq!(String::from_utf8_lossy(plan.bytes()), expected);
        plan.landed(&self.views, Path::new(FILE), None);
        self.now = plan.text.clone();
        plan
    }

    #[track_caller]
    fn refuses(&self, edits: &[Edit], kind: Kind) -> String {
        let fault = self.try_all(edits).unwrap_err();
        assert_eq!(fault.kind, kind, "{}", fault.as_text());
        fault.as_text()
    }
}

fn anchor(line: usize, text: &str) -> Anchor {
    Anchor { line, hash: anchor::hash(text) }
}

fn replace(line: usize, text: &str, new: &str) -> Edit {
    Edit::Replace { from: anchor(line, text), to: None, new: new.to_owned() }
}

fn insert(at: At, new: &str) -> Edit {
    Edit::Insert { at, new: new.to_owned() }
}

fn swap(old: &str, new: &str) -> Edit {
    Edit::Text { old: old.to_owned(), new: new.to_owned(), which: Which::Only }
}

#[test]
fn a_final_newline_comes_with_other_edits_and_has_no_number() {
    for (new, expected) in [("x", "a\nx\n"), ("b", "a\nb\n")] {
        Fixture::read("a\nb").lands(&[replace(2, "b", new), Edit::FinalNewline], expected);
    }
    Fixture::read("a\nb\n").refuses(&[replace(2, "b", "b"), Edit::FinalNewline], Kind::BadArgs);
    let said =
        Fixture::read("a\nb").try_all(&[replace(3, "c", "x"), Edit::FinalNewline]).unwrap_err().as_text();
    assert!(said.starts_with("line 3 does not exist"), "{said}");
}

#[test]
fn anchors_replace_delete_and_insert() {
    let mut fixture = Fixture::read("a\nb\nc\nd\n");
    let range = Edit::Replace { from: anchor(2, "b"), to: Some(anchor(3, "c")), new: "x\ny\nz\n".to_owned() };
    let plan = fixture.lands(&[range, insert(At::After(anchor(4, "d")), "end")], "a\nx\ny\nz\nd\nend\n");
    assert_eq!((plan.plus, plan.minus), (4, 2));
    assert!(plan.fresh.text.starts_with("1:") && plan.fresh.text.contains("\n4:"), "{}", plan.fresh.text);
    fixture.lands(&[replace(4, "z", "")], "a\nx\ny\nd\nend\n");
    fixture.lands(&[insert(At::Start, "0\n"), insert(At::End, "\n")], "0\na\nx\ny\nd\nend\n\n");
}

#[test]
fn an_empty_file_takes_lines_at_either_end() {
    Fixture::new("").lands(&[insert(At::Start, "a\nb")], "a\nb\n");
    Fixture::new("\u{feff}").lands(&[insert(At::End, "a")], "\u{feff}a\n");
}

#[test]
fn follows_lines_that_moved_and_says_so() {
    let mut fixture = Fixture::read("a\nb\nc\nd\n").changed("new\na\nb\nc\nd\n");
    let range = Edit::Replace { from: anchor(2, "b"), to: Some(anchor(3, "c")), new: "x".to_owned() };
    let plan = fixture.lands(&[range], "new\na\nx\nd\n");
    assert_eq!(plan.notes, ["lines 2-3 are at 3-4 now; edited there"]);
}

#[test]
fn a_brace_that_took_the_place_of_a_deleted_one_is_not_edited() {
    let fixture = Fixture::read("f {\n}\ng {\n}\nh {\n}\n").changed("f {\n}\nh {\n}\n");
    let said = fixture.refuses(&[replace(4, "}", "};")], Kind::Stale);
    assert!(said.contains("line 4 changed since shown, or can't be told from others"), "{said}");
}

#[test]
fn a_refusal_carries_fresh_anchors_and_the_retry_lands() {
    let mut fixture = Fixture::read("}\n}\n}\n").changed("}\n}\n}\n}\n");
    let said = fixture.refuses(&[replace(2, "}", "x")], Kind::Stale);
    assert!(said.contains("\n1:18|}\n2:18|}\n3:18|}\n"), "{said}");
    fixture.lands(&[replace(2, "}", "x")], "}\nx\n}\n}\n");
}

#[test]
fn a_refusal_shows_where_a_moved_line_may_be() {
    let mut fixture = Fixture::read("m\na\nb\nc\nd\ne\nf\n").changed("a\nb\nc\nd\ne\nf\nm\n");
    let said = fixture.refuses(&[replace(1, "m", "x")], Kind::Stale);
    assert!(said.contains("|f\n7:"), "{said}");
    fixture.lands(&[replace(7, "m", "x")], "a\nb\nc\nd\ne\nf\nx\n");
}

#[test]
fn an_anchor_that_was_never_shown_is_refused_even_if_it_fits() {
    let mut fixture = Fixture::new("a\nb\nc\n");
    fixture.show(0..1);
    let said = fixture.refuses(&[replace(3, "c", "x")], Kind::Stale);
    assert!(said.contains("line 3 was not shown as 3:"), "{said}");
    fixture.lands(&[replace(3, "c", "x")], "a\nb\nx\n");
    let said = fixture.refuses(&[replace(9, "c", "x")], Kind::Stale);
    assert!(said.contains("line 9 does not exist (the file has 3 lines)"), "{said}");
    let said = fixture.refuses(&[replace(1, "q", "x")], Kind::Stale);
    assert!(said.contains("line 1 was shown as 1:"), "{said}");
}

#[test]
fn a_range_over_lines_never_shown_is_refused_with_those_lines() {
    let mut fixture = Fixture::new("a\nb\nc\nd\n");
    fixture.show(0..1);
    fixture.show(3..4);
    let range = [Edit::Replace { from: anchor(1, "a"), to: Some(anchor(4, "d")), new: String::new() }];
    let said = fixture.refuses(&range, Kind::Stale);
    assert!(said.contains("lines 1-4 are meant, but lines 2-3 were never shown"), "{said}");
    fixture.lands(&range, "");
    for (shown, says) in
        [(vec![0..1, 2..5], "line 2 was never shown"), (vec![0..1, 2..3, 4..5], "line 2, line 4 were never")]
    {
        let fixture = Fixture::new("a\nb\nc\nd\ne\n");
        shown.into_iter().for_each(|rows| fixture.show(rows));
        let range = [Edit::Replace { from: anchor(1, "a"), to: Some(anchor(5, "e")), new: String::new() }];
        let said = fixture.refuses(&range, Kind::Stale);
        assert!(said.contains(says), "{said}");
    }
    let one = Fixture::read("a\n");
    assert!(one.refuses(&[replace(3, "b", "x")], Kind::Stale).contains("(the file has 1 line)"));
}

#[test]
fn views_that_disagree_refuse_once() {
    let fixture = Fixture::read("a\n}\nb\n}\nc\n").changed("}\na\n}\nb\n}\nc\n");
    fixture.show(0..6);
    // Line 2 was `}` and is `a`; line 3 was `b` and is `}`: each anchor has one meaning.
    assert!(fixture.try_all(&[replace(3, "}", "x")]).is_ok());
    let mut fixture = Fixture::read("}\nb\n}\n").changed("new\nb\n}\n");
    fixture.show(0..3);
    let mut twice = Fixture::read("a\n}\nb\n}\n").changed("a\nb\n}\n}\n");
    twice.views.also_showed(Path::new(FILE), &twice.now, &Rows::from(0..4));
    let said = twice.refuses(&[replace(4, "}", "x")], Kind::Stale);
    assert!(said.contains("line 4 stood for something else in an earlier view"), "{said}");
    twice.lands(&[replace(4, "}", "x")], "a\nb\n}\nx\n");
    fixture.lands(&[replace(3, "}", "x")], "new\nb\nx\n");
    let both = Fixture::read("a\nk\nb\n").changed("n\nk\na\nk\nb\n");
    both.views.also_showed(Path::new(FILE), &both.now, &Rows::from(0..5));
    let said = both.refuses(&[replace(2, "k", "x")], Kind::Stale);
    assert!(said.contains("line 2 was shown more than once; it may be line "), "{said}");
}

#[test]
fn after_a_fresh_read_an_anchor_means_the_line_that_the_read_showed() {
    let mut fixture = Fixture::read("a\n}\nb\n}\n").changed("a\nb\n}\n}\n");
    fixture.show(0..4);
    fixture.lands(&[replace(4, "}", "x")], "a\nb\n}\nx\n");
    // Text that was elsewhere in an older view is where the read showed it.
    let mut fixture = Fixture::read("let x = 1;\na\nb\n").changed("a\nb\nlet x = 1;\n");
    fixture.show(0..3);
    fixture.lands(&[swap("x = 1", "x = 2")], "a\nb\nlet x = 2;\n");
    // A read of some lines decides about those alone.
    let fixture = Fixture::read("a\n}\nb\n}\n").changed("a\nb\n}\n}\n");
    fixture.show(0..2);
    fixture.refuses(&[replace(4, "}", "x")], Kind::Stale);
}

#[test]
fn a_read_of_another_version_does_not_resolve_anchors() {
    let fixture = Fixture::read("a\n}\nb\n}\n").changed("a\nb\n}\n}\n");
    fixture.show(0..4);
    let fixture = fixture.changed("a\n}\nb\n}\n");
    fixture.refuses(&[replace(4, "}", "x")], Kind::Stale);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn an_anchor_of_the_newest_read_names_its_line_whatever_was_read_before(
        states in proptest::collection::vec(proptest::collection::vec("[ab}]{0,1}", 1..8), 1..6),
        at in any::<prop::sample::Index>(),
    ) {
        let mut fixture = Fixture::new("");
        for lines in &states {
            fixture = fixture.changed(lines.join("\n") + "\n");
            fixture.show(0..lines.len());
        }
        let mut expected = states.last().unwrap().clone();
        let row = at.index(expected.len());
        let edit = replace(row + 1, expected.get(row).unwrap(), "new");
        let plan = fixture.try_all(&[edit]).map_err(|fault| TestCaseError::fail(fault.as_text()))?;
        *expected.get_mut(row).unwrap() = "new".to_owned();
        prop_assert_eq!(String::from_utf8_lossy(plan.bytes()), expected.join("\n") + "\n");
    }

    /// A model may send both edits before it sees an answer.
    #[test]
    fn anchors_of_a_read_before_an_edit_never_hit_another_line(
        file in proptest::collection::vec("[ab}]{0,1}", 1..8),
        first in any::<prop::sample::Index>(),
        new in proptest::collection::vec("[ab}]", 1..4),
        second in any::<prop::sample::Index>(),
    ) {
        let mut fixture = Fixture::read(file.join("\n") + "\n");
        let (first, second) = (first.index(file.len()), second.index(file.len()));
        let mut expected = file.clone();
        expected.splice(first + 1..first + 1, new.iter().cloned());
        let at = At::After(anchor(first + 1, file.get(first).unwrap()));
        fixture.lands(&[insert(at, &new.join("\n"))], &(expected.join("\n") + "\n"));
        if let Ok(plan) = fixture.try_all(&[replace(second + 1, file.get(second).unwrap(), "new")]) {
            let row = if second > first { second + new.len() } else { second };
            *expected.get_mut(row).unwrap() = "new".to_owned();
            prop_assert_eq!(String::from_utf8_lossy(plan.bytes()), expected.join("\n") + "\n");
        }
    }
}

#[test]
fn anchors_of_one_read_outlive_edits_of_the_session_itself() {
    let mut fixture = Fixture::read("a\nb\nc\nd\ne\nf\n");
    fixture.lands(&[replace(1, "a", "a1\na2\na3")], "a1\na2\na3\nb\nc\nd\ne\nf\n");
    fixture.lands(&[replace(6, "f", "F")], "a1\na2\na3\nb\nc\nd\ne\nF\n");
    fixture.lands(&[swap("c\nd", "x")], "a1\na2\na3\nb\nx\ne\nF\n");
}

#[test]
fn overlap_is_refused_with_both_named() {
    let fixture = Fixture::read("a\nb\nc\n");
    let range = Edit::Replace { from: anchor(1, "a"), to: Some(anchor(3, "c")), new: "x".to_owned() };
    let said = fixture.refuses(&[range.clone(), replace(2, "b", "y")], Kind::BadArgs);
    assert!(said.starts_with("edits 1 and 2 overlap at line 2"), "{said}");
    fixture.refuses(&[range, insert(At::Before(anchor(2, "b")), "y")], Kind::BadArgs);
    fixture.refuses(&[swap("a\n", "x"), insert(At::Before(anchor(2, "b")), "y")], Kind::BadArgs);
    let mut fixture = fixture;
    let gap = At::After(anchor(1, "a"));
    fixture.lands(&[insert(gap, "1"), insert(gap, "2"), swap("b", "B")], "a\n1\n2\nB\nc\n");
}

#[test]
fn all_or_nothing() {
    let fixture = Fixture::read("a\nb\n");
    let said = fixture.refuses(&[replace(1, "a", "x"), swap("q", "r"), replace(2, "a", "x")], Kind::NotFound);
    assert!(said.contains("edit 2: `old` is not in the file.\nedit 3: line 2 was shown as 2:"), "{said}");
    assert!(said.contains("Nothing was written."), "{said}");
}

#[test]
fn an_edit_that_changes_nothing_is_refused() {
    let fixture = Fixture::read("a\nb");
    for edit in [replace(2, "b", "b\n"), swap("a", "a"), Edit::Diff("@@ -1 +1 @@\n a\n".to_owned())] {
        let said = fixture.refuses(&[edit], Kind::BadArgs);
        assert!(said.starts_with("this edit changes nothing"), "{said}");
    }
}

#[test]
fn text_is_literal_and_need_not_be_whole_lines() {
    let mut fixture = Fixture::new("let a = $&;\r\nlet b = (.*);\r\n");
    fixture.lands(&[swap("(.*);", "$& $1 \\n"), swap("a = ", "A=")], "let A=$&;\r\nlet b = $& $1 \\n\r\n");
    fixture.lands(&[swap("$&;\nlet", "x;\ny;\nlet")], "let A=x;\r\ny;\r\nlet b = $& $1 \\n\r\n");
    let all = Edit::Text { old: "let ".to_owned(), new: String::new(), which: Which::All };
    fixture.lands(&[all], "A=x;\r\ny;\r\nb = $& $1 \\n\r\n");
}

#[test]
fn text_edits_decide_about_the_final_newline() {
    Fixture::new("a\nb\n").lands(&[swap("b\n", "c")], "a\nc");
    Fixture::new("a\nb").lands(&[swap("b", "c\n")], "a\nc\n");
    Fixture::new("a\r\nb").lands(&[swap("b", "c\nd")], "a\r\nc\r\nd");
    Fixture::new("\u{feff}a\n").lands(&[swap("\u{feff}a", "b")], "\u{feff}b\n");
}

#[test]
fn missing_or_ambiguous_text_is_refused() {
    let fixture = Fixture::new("\tfoo(1);\n\tbar();\n\tfoo(1);\n");
    let said = fixture.refuses(&[swap("foo(1)", "x")], Kind::Ambiguous);
    assert!(
        said.starts_with("`old` occurs 2 times (lines 1, 3); add a line of context or set `all`."),
        "{said}"
    );
    let said = fixture.refuses(&[swap("    bar();", "x")], Kind::NotFound);
    assert!(said.starts_with("`old` is not in the file: line 2 differs only in white space."), "{said}");
    assert!(said.contains("line 2 is  →bar();\n`old` has ····bar();"), "{said}");
    assert!(said.contains("2:"), "{said}");
    fixture.refuses(&[swap("", "x")], Kind::BadArgs);
}

#[test]
fn text_with_an_unsure_place_is_refused_once() {
    // What was shown at line 1 is gone; the same text came elsewhere.
    let mut fixture = Fixture::read("let x = 1;\na\nb\n").changed("a\nb\nlet x = 1;\n");
    let said = fixture.refuses(&[swap("x = 1", "x = 2")], Kind::Stale);
    assert!(said.contains("it was at line 1 when it was shown"), "{said}");
    fixture.lands(&[swap("x = 1", "x = 2")], "a\nb\nlet x = 2;\n");

    let mut fixture = Fixture::read("x\na\nx\n").changed("a\nx\n");
    let said = fixture.refuses(&[swap("x", "y")], Kind::Stale);
    assert!(said.contains("it occurred 2 times when it was shown"), "{said}");
    fixture.lands(&[swap("x", "y")], "a\ny\n");

    let mut fixture = Fixture::read("a\nx\n").changed("new\na\nx\n");
    fixture.lands(&[swap("x", "y")], "new\na\ny\n");
}

#[test]
fn text_that_the_session_replaced_is_not_a_second_match() {
    let mut fixture = Fixture::read("a\nx = 1\nb\nx = 1\nc\nx = 1\n");
    fixture.lands(&[swap("a\nx = 1", "a\nx = 2")], "a\nx = 2\nb\nx = 1\nc\nx = 1\n");
    fixture.lands(&[swap("b\nx = 1", "b\nx = 2")], "a\nx = 2\nb\nx = 2\nc\nx = 1\n");
    fixture.lands(&[swap("x = 1", "x = 2")], "a\nx = 2\nb\nx = 2\nc\nx = 2\n");
}

#[test]
fn anchors_that_a_refusal_retired_do_not_make_text_less_sure() {
    let fixture = Fixture::read("q\nlet x = 1;\nb\n").changed("}\nb\n1\n2\n3\n4\nlet x = 1;\n");
    fixture.refuses(&[replace(1, "q", "Q")], Kind::Stale);
    fixture.refuses(&[swap("x = 1", "x = 2")], Kind::Stale);
}

#[test]
fn a_refusal_stays_short() {
    let lines: String = (0..5000).map(|row| format!("{row}\n")).collect();
    let fixture = Fixture::new(lines);
    let range = Edit::Replace { from: anchor(1, "0"), to: Some(anchor(5000, "4999")), new: String::new() };
    let said = fixture.refuses(&[range], Kind::Stale);
    assert!(said.lines().count() < 210 && said.contains("read them first"), "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn many_edits_in_one_call_are_all_made_or_none(
        file in proptest::collection::vec("[ab}]{0,2}", 1..12),
        acts in proptest::collection::vec((0..12_usize, 0..3_usize, 0..4_u8), 1..5),
        ended in any::<bool>(),
    ) {
        let mut whole = file.join("\n");
        if ended || file.last().unwrap().is_empty() {
            whole.push('\n');
        }
        let fixture = Fixture::read(whole);
        let name = |row: usize| anchor(row + 1, file.get(row).unwrap());
        // For each row: whether it goes, and what comes before it.
        let mut gone = vec![0; file.len() + 1];
        let mut before = vec![Vec::new(); file.len() + 1];
        let mut gaps = Vec::new();
        let mut edits = Vec::new();
        for (at, (row, length, act)) in acts.into_iter().enumerate() {
            let row = row.min(file.len() - 1);
            let last = (row + length).min(file.len() - 1);
            let new = format!("new {at}");
            let gap = match act {
                0 => row,
                1 => row + 1,
                _ => {
                    (row..=last).for_each(|row| *gone.get_mut(row).unwrap() += 1);
                    edits.push(Edit::Replace { from: name(row), to: Some(name(last)), new: String::new() });
                    gaps.extend((row + 1..=last).map(|row| (row, true)));
                    continue;
                }
            };
            let at = if act == 0 { At::Before(name(row)) } else { At::After(name(row)) };
            before.get_mut(gap).unwrap().push(new.clone());
            gaps.push((gap, false));
            edits.push(insert(at, &new));
        }
        let torn = gaps.iter().any(|(gap, inside)| *inside && gaps.contains(&(*gap, false)));
        let overlap = gone.iter().any(|times| *times > 1) || torn;
        let mut expected: Vec<String> = Vec::new();
        for (row, new) in before.into_iter().enumerate() {
            expected.extend(new);
            if gone.get(row) == Some(&0) {
                expected.extend(file.get(row).cloned());
            }
        }
        match fixture.try_all(&edits) {
            Ok(plan) => {
                prop_assert!(!overlap);
                let lines: Vec<String> =
                    (0..plan.text.line_count()).map(|row| plan.text.line(row).unwrap().into_owned()).collect();
                prop_assert_eq!(&lines, &expected);
                let before = i64::try_from(file.len()).unwrap();
                let counted = i64::try_from(plan.plus).unwrap() - i64::try_from(plan.minus).unwrap();
                prop_assert_eq!(counted, i64::try_from(lines.len()).unwrap() - before);
            }
            Err(fault) => {
                prop_assert!(overlap, "{}", fault.as_text());
                prop_assert!(fault.what.contains("overlap"), "{}", fault.what);
            }
        }
    }
}

#[test]
fn diffs_land_by_their_context() {
    let mut fixture = Fixture::read("a\nb\nc\nd\n");
    let diff = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -77,9 +77,9 @@\n a\n-b\n+B\n+B2\n@@ -90 +90 @@\n-d\n";
    let plan = fixture.lands(&[Edit::Diff(diff.to_owned())], "a\nB\nB2\nc\n");
    assert_eq!((plan.plus, plan.minus), (2, 2));
    let said = fixture.refuses(&[Edit::Diff("@@ -1,2 +1,2 @@\n a\n-  B\n+C\n".to_owned())], Kind::NotFound);
    assert!(said.starts_with("the old lines of the hunk are not in the file"), "{said}");
}

#[test]
fn the_number_of_a_hunk_decides_only_in_the_file_as_shown() {
    let diff = || [Edit::Diff("@@ -3 +3 @@\n-x\n+y\n".to_owned())];
    Fixture::read("x\na\nx\n").lands(&diff(), "x\na\ny\n");
    Fixture::new("x\na\nx\n").refuses(&diff(), Kind::Ambiguous);
    Fixture::read("x\na\nx\n").changed("new\nx\na\nx\n").refuses(&diff(), Kind::Ambiguous);
    // It decides which of those shown was meant, too.
    Fixture::read("x\na\nx\n").changed("a\nx\n").lands(&diff(), "a\ny\n");
}

#[test]
fn diffs_know_the_final_newline() {
    let diff = "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n";
    Fixture::new("a").lands(&[Edit::Diff(diff.to_owned())], "b\n");
    let diff = "@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n";
    Fixture::new("a\n").lands(&[Edit::Diff(diff.to_owned())], "b");
    Fixture::new("x\r\na").lands(&[Edit::Diff("@@ -2 +2,2 @@\n-a\n+b\n+c\n".to_owned())], "x\r\nb\r\nc");
    Fixture::new("a\nc\n").refuses(&[Edit::Diff(diff.to_owned())], Kind::BadArgs);
}

#[test]
fn pasted_anchors_are_taken_off_new_text() {
    let mut fixture = Fixture::read("fn f() {\n}\n");
    let new = format!("{}|fn f() {{\n    g();\n2:18|}}", anchor(1, "fn f() {"));
    let range = Edit::Replace { from: anchor(1, "fn f() {"), to: Some(anchor(2, "}")), new };
    let plan = fixture.lands(&[range], "fn f() {\n    g();\n}\n");
    assert_eq!(plan.notes, ["took the pasted `LINE:HASH|` off the text"]);
    // A file about anchors keeps them.
    let mut fixture = Fixture::read("example:\n1:18|}\n");
    fixture.lands(&[insert(At::End, "2:18|}")], "example:\n1:18|}\n2:18|}\n");
}

#[test]
fn characters_outside_the_encoding_are_refused() {
    let mut fixture = Fixture::read(b"na\xefve\nb\n".to_vec());
    let said = fixture.refuses(&[replace(2, "b", "→")], Kind::BadArgs);
    assert!(said.starts_with("`→` (U+2192) can't be written in windows-1252"), "{said}");
    let plan = fixture.lands(&[replace(2, "b", "é")], "na\u{fffd}ve\n\u{fffd}\n");
    assert_eq!(plan.bytes(), b"na\xefve\n\xe9\n");
    // These bytes would be read as UTF-8 from then on.
    let fixture = Fixture::read(b"\xef\n".to_vec());
    fixture.refuses(&[replace(1, "ï", "Ã©")], Kind::BadArgs);
}

#[test]
fn broken_bytes_beside_an_edit_stay_as_they_are() {
    let mut bytes = "é è ê ë\n".as_bytes().to_vec();
    bytes.extend(b"bad \xff here\n");
    let fixture = Fixture::read(bytes);
    let plan = fixture.try_all(&[swap("here", "there")]).unwrap();
    assert!(plan.bytes().ends_with(b"bad \xff there\n"));
}

#[test]
fn a_line_too_long_to_show_is_edited_by_text() {
    let mut fixture = Fixture::new(format!("a\n{}needle{}\n", "x".repeat(3000), "y".repeat(3000)));
    let long = fixture.now.line(1).unwrap().into_owned();
    for _ in 0..2 {
        let said = fixture.refuses(&[replace(2, &long, "")], Kind::Stale);
        assert!(said.contains("line 2 is too long to be shown in full"), "{said}");
    }
    fixture.lands(&[swap("needle", "")], &format!("a\n{}{}\n", "x".repeat(3000), "y".repeat(3000)));
}

#[test]
fn a_window_is_good_for_the_file_it_was_of() {
    let (views, file) = (Views::default(), Path::new(FILE));
    let text = Text::parse("a\nb\nc\n").unwrap();
    let (then, now) = (Identity([1, 2, 3, 4]), Identity([1, 2, 3, 5]));
    views.showed_window(file, &then, Some(3), 1, &["b"]);
    let edits = [replace(2, "b", "B")];
    assert_eq!(
        plan_large(&text, Some(&then), &views, file, &edits, || Ok(())).unwrap().bytes(),
        b"a\nB\nc\n"
    );
    let fault = plan_large(&text, Some(&now), &views, file, &edits, || Ok(())).unwrap_err();
    assert_eq!(fault.kind, Kind::Stale);
    assert_eq!(plan_large(&text, Some(&now), &views, file, &edits, || Ok(())).unwrap().bytes(), b"a\nB\nc\n");
}

#[test]
fn the_newest_window_on_a_large_file_means_its_lines_too() {
    let (views, file) = (Views::default(), Path::new(FILE));
    let text = Text::parse("a\nb\nc\n").unwrap();
    let (then, now) = (Identity([1, 2, 3, 4]), Identity([1, 2, 3, 5]));
    views.showed_window(file, &then, Some(3), 1, &["b"]);
    views.showed_window(file, &now, Some(3), 1, &["b"]);
    let edits = [replace(2, "b", "B")];
    let plan = plan_large(&text, Some(&now), &views, file, &edits, || Ok(())).unwrap();
    assert_eq!(plan.bytes(), b"a\nB\nc\n");
}

#[test]
fn an_edit_that_is_cancelled_stops_its_search() {
    let text = Text::parse("some text\n".repeat(10_000)).unwrap();
    let edits: Vec<Edit> = (0..1_000).map(|it| swap(&format!("absent {it}"), "")).collect();
    let asked = std::cell::Cell::new(0);
    let check = || match asked.replace(asked.get() + 1) {
        100.. => Err(Fault::new(Kind::Cancelled, "stopped")),
        _ => Ok(()),
    };
    let fault = plan_large(&text, None, &Views::default(), Path::new(FILE), &edits, check).unwrap_err();
    assert_eq!(fault.kind, Kind::Cancelled);
    assert!(asked.get() < 110, "asked {} times, and went on", asked.get());
}

#[test]
fn at_most_ten_failed_edits_are_reported() {
    let fixture = Fixture::read("one\ntwo\n");
    let edits: Vec<Edit> = (0..1_000).map(|it| swap(&format!("absent {it}"), "")).collect();
    let said = fixture.refuses(&edits, Kind::NotFound);
    assert_eq!(said.matches("`old` is not in the file").count(), 10, "{said}");
    assert!(said.contains("990 more edits of those from 11 to 1000 can't be made either."), "{said}");
    let said = fixture.refuses(edits.split_at(11).0, Kind::NotFound);
    assert!(said.contains("Edit 11 can't be made either.\nNothing was written."), "{said}");
}
