//! Tests of diffs: the layout at several widths, and the emphasis.

use expect_test::{Expect, expect};

use super::*;

fn change(path: &str, diff: &str) -> Change {
    let count = |sign: char| diff.lines().filter(|it| it.starts_with(sign)).count();
    Change {
        path: path.to_owned(),
        added: count('+'),
        removed: count('-'),
        diff: format!("--- a/{path}\n+++ b/{path}\n{diff}"),
        ..Change::default()
    }
}

/// Returns changed words, added and removed lines, a second hunk, a tab, a line that is too long for any terminal, a letter
/// of two columns, and text that would act on a terminal.
fn example() -> Vec<Change> {
    let long = |word: &str| format!("const KEYS = \"{}{word}{}\";", "a".repeat(150), "b".repeat(1_000));
    let diff = format!(
        "@@ -9,6 +9,7 @@\n def total(items):\n-    return sum(items)\n+    return round(sum(items), 2)\n+\n \n-\told = 1\n+\tnew = 1\n # 日本語 \u{1b}[2J\n\
         @@ -120,3 +121,2 @@\n keep\n-gone\n-{}\n+{}\n\\ No newline at end of file\n",
        long("OLD"),
        long("NEW"),
    );
    let binary = Change {
        path: "logo.png".to_owned(),
        note: Some("binary, 120 bytes -> 99 bytes".to_owned()),
        ..Change::default()
    };
    let made = change("sub/new.txt", "@@ -0,0 +1,2 @@\n+one\n+two\n");
    vec![change("prices.py", &diff), binary, Change { kind: ChangeKind::Created, ..made }]
}

fn painted(columns: usize, colours: bool, expected: &Expect) {
    let rows = rows(&example(), 4, columns, 100, "");
    assert!(rows.iter().all(|it| it.width() <= columns), "at most {columns} columns");
    let rows = rows.iter().map(|it| it.painted(colours).replace('\u{1b}', "^"));
    // A margin, as blanks at the beginning of an expected text are layout.
    let text: String = rows.map(|it| format!("│{}\n", it.trim_end())).collect();
    expected.assert_eq(&text);
}

#[test]
fn diffs_without_colours_at_40_80_and_200_columns() {
    painted(
        40,
        false,
        &expect![[r#"
            │    prices.py (+4 -4)
            │      9   def total(items):
            │     10 -     return sum(items)
            │     10 +     return round(sum(items), 2
            │          )
            │     11 +
            │     12
            │     12 -     old = 1
            │     13 +     new = 1
            │     14   # 日本語 \u{1b}[2J
            │      ⋮
            │    121   keep
            │    121 - gone
            │    122 - const KEYS = "aaaaaaaaaaaaaaaa
            │          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            │          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            │          aaaaaaaaaaaaaaaaaaaaaaaaaaaa…
            │    122 + const KEYS = "aaaaaaaaaaaaaaaa
            │          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            │          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            │          aaaaaaaaaaaaaaaaaaaaaaaaaaaa…
            │          (no line break at the end)
            │    logo.png: binary, 120 bytes -> 99 b…
            │    created sub/new.txt (+2 -0)
            │    1 + one
            │    2 + two
        "#]],
    );
    painted(
        80,
        false,
        &expect![[r#"
            │    prices.py (+4 -4)
            │      9   def total(items):
            │     10 -     return sum(items)
            │     10 +     return round(sum(items), 2)
            │     11 +
            │     12
            │     12 -     old = 1
            │     13 +     new = 1
            │     14   # 日本語 \u{1b}[2J
            │      ⋮
            │    121   keep
            │    121 - gone
            │    122 - const KEYS = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            │          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            │          aaaaaaaaaaaaaaaaaaaaaaaaOLDbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            │          bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…
            │    122 + const KEYS = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            │          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            │          aaaaaaaaaaaaaaaaaaaaaaaaNEWbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            │          bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…
            │          (no line break at the end)
            │    logo.png: binary, 120 bytes -> 99 bytes
            │    created sub/new.txt (+2 -0)
            │    1 + one
            │    2 + two
        "#]],
    );
    painted(
        200,
        false,
        &expect![[r#"
            │    prices.py (+4 -4)
            │      9   def total(items):
            │     10 -     return sum(items)
            │     10 +     return round(sum(items), 2)
            │     11 +
            │     12
            │     12 -     old = 1
            │     13 +     new = 1
            │     14   # 日本語 \u{1b}[2J
            │      ⋮
            │    121   keep
            │    121 - gone
            │    122 - const KEYS = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaOLDbbbbbbbbbbbbbbbbbbbbbbb
            │          bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            │          bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            │          bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…
            │    122 + const KEYS = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaNEWbbbbbbbbbbbbbbbbbbbbbbb
            │          bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            │          bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            │          bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…
            │          (no line break at the end)
            │    logo.png: binary, 120 bytes -> 99 bytes
            │    created sub/new.txt (+2 -0)
            │    1 + one
            │    2 + two
        "#]],
    );
}

#[test]
fn diffs_in_colour_at_40_80_and_200_columns() {
    painted(
        40,
        true,
        &expect![[r#"
            │    ^[1mprices.py^[0m (^[32m+4^[0m ^[31m-4^[0m)
            │^[2m      9 ^[0m  def total(items):
            │^[2m     10 ^[0m^[31m-     return sum(items)^[0m
            │^[2m     10 ^[0m^[32m+     return ^[0m^[7;32mround(^[0m^[32msum(items)^[0m^[7;32m, 2^[0m
            │          ^[7;32m)^[0m
            │^[2m     11 ^[0m^[32m+ ^[0m
            │^[2m     12 ^[0m
            │^[2m     12 ^[0m^[31m-     old = 1^[0m
            │^[2m     13 ^[0m^[32m+     new = 1^[0m
            │^[2m     14 ^[0m  # 日本語 \u{1b}[2J
            │^[2m      ⋮^[0m
            │^[2m    121 ^[0m  keep
            │^[2m    121 ^[0m^[31m- gone^[0m
            │^[2m    122 ^[0m^[31m- const KEYS = "aaaaaaaaaaaaaaaa^[0m
            │          ^[31maaaaaaaaaaaaaaaaaaaaaaaaaaaaaa^[0m
            │          ^[31maaaaaaaaaaaaaaaaaaaaaaaaaaaaaa^[0m
            │          ^[31maaaaaaaaaaaaaaaaaaaaaaaaaaaa^[0m^[2m…^[0m
            │^[2m    122 ^[0m^[32m+ const KEYS = "aaaaaaaaaaaaaaaa^[0m
            │          ^[32maaaaaaaaaaaaaaaaaaaaaaaaaaaaaa^[0m
            │          ^[32maaaaaaaaaaaaaaaaaaaaaaaaaaaaaa^[0m
            │          ^[32maaaaaaaaaaaaaaaaaaaaaaaaaaaa^[0m^[2m…^[0m
            │^[2m          (no line break at the end)^[0m
            │    ^[1mlogo.png^[0m^[2m: binary, 120 bytes -> 99 b…^[0m
            │    created ^[1msub/new.txt^[0m (^[32m+2^[0m ^[31m-0^[0m)
            │^[2m    1 ^[0m^[32m+ one^[0m
            │^[2m    2 ^[0m^[32m+ two^[0m
        "#]],
    );
    painted(
        80,
        true,
        &expect![[r#"
            │    ^[1mprices.py^[0m (^[32m+4^[0m ^[31m-4^[0m)
            │^[2m      9 ^[0m  def total(items):
            │^[2m     10 ^[0m^[31m-     return sum(items)^[0m
            │^[2m     10 ^[0m^[32m+     return ^[0m^[7;32mround(^[0m^[32msum(items)^[0m^[7;32m, 2)^[0m
            │^[2m     11 ^[0m^[32m+ ^[0m
            │^[2m     12 ^[0m
            │^[2m     12 ^[0m^[31m-     old = 1^[0m
            │^[2m     13 ^[0m^[32m+     new = 1^[0m
            │^[2m     14 ^[0m  # 日本語 \u{1b}[2J
            │^[2m      ⋮^[0m
            │^[2m    121 ^[0m  keep
            │^[2m    121 ^[0m^[31m- gone^[0m
            │^[2m    122 ^[0m^[31m- const KEYS = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa^[0m
            │          ^[31maaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa^[0m
            │          ^[31maaaaaaaaaaaaaaaaaaaaaaaaOLDbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb^[0m
            │          ^[31mbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb^[0m^[2m…^[0m
            │^[2m    122 ^[0m^[32m+ const KEYS = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa^[0m
            │          ^[32maaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa^[0m
            │          ^[32maaaaaaaaaaaaaaaaaaaaaaaaNEWbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb^[0m
            │          ^[32mbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb^[0m^[2m…^[0m
            │^[2m          (no line break at the end)^[0m
            │    ^[1mlogo.png^[0m^[2m: binary, 120 bytes -> 99 bytes^[0m
            │    created ^[1msub/new.txt^[0m (^[32m+2^[0m ^[31m-0^[0m)
            │^[2m    1 ^[0m^[32m+ one^[0m
            │^[2m    2 ^[0m^[32m+ two^[0m
        "#]],
    );
    painted(
        200,
        true,
        &expect![[r#"
            │    ^[1mprices.py^[0m (^[32m+4^[0m ^[31m-4^[0m)
            │^[2m      9 ^[0m  def total(items):
            │^[2m     10 ^[0m^[31m-     return sum(items)^[0m
            │^[2m     10 ^[0m^[32m+     return ^[0m^[7;32mround(^[0m^[32msum(items)^[0m^[7;32m, 2)^[0m
            │^[2m     11 ^[0m^[32m+ ^[0m
            │^[2m     12 ^[0m
            │^[2m     12 ^[0m^[31m-     old = 1^[0m
            │^[2m     13 ^[0m^[32m+     new = 1^[0m
            │^[2m     14 ^[0m  # 日本語 \u{1b}[2J
            │^[2m      ⋮^[0m
            │^[2m    121 ^[0m  keep
            │^[2m    121 ^[0m^[31m- gone^[0m
            │^[2m    122 ^[0m^[31m- const KEYS = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaOLDbbbbbbbbbbbbbbbbbbbbbbb^[0m
            │          ^[31mbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb^[0m
            │          ^[31mbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb^[0m
            │          ^[31mbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb^[0m^[2m…^[0m
            │^[2m    122 ^[0m^[32m+ const KEYS = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaNEWbbbbbbbbbbbbbbbbbbbbbbb^[0m
            │          ^[32mbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb^[0m
            │          ^[32mbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb^[0m
            │          ^[32mbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb^[0m^[2m…^[0m
            │^[2m          (no line break at the end)^[0m
            │    ^[1mlogo.png^[0m^[2m: binary, 120 bytes -> 99 bytes^[0m
            │    created ^[1msub/new.txt^[0m (^[32m+2^[0m ^[31m-0^[0m)
            │^[2m    1 ^[0m^[32m+ one^[0m
            │^[2m    2 ^[0m^[32m+ two^[0m
        "#]],
    );
}

#[test]
fn diffs_on_a_very_narrow_terminal_have_no_line_numbers() {
    painted(
        20,
        false,
        &expect![[r#"
            │    prices.py (+4 -…
            │      def total(item
            │      s):
            │    -     return sum
            │      (items)
            │    +     return rou
            │      nd(sum(items),
            │       2)
            │    +
            │
            │    -     old = 1
            │    +     new = 1
            │      # 日本語 \u{1b
            │      }[2J
            │    ⋮
            │      keep
            │    - gone
            │    - const KEYS = "
            │      aaaaaaaaaaaaaa
            │      aaaaaaaaaaaaaa
            │      aaaaaaaaaaaa…
            │    + const KEYS = "
            │      aaaaaaaaaaaaaa
            │      aaaaaaaaaaaaaa
            │      aaaaaaaaaaaa…
            │      (no line brea…
            │    logo.png: binar…
            │    created sub/new…
            │    + one
            │    + two
        "#]],
    );
}

fn text(rows: &[Row]) -> Vec<String> {
    rows.iter().map(Row::text).collect()
}

fn added(lines: usize) -> Change {
    let body: String = (1..=lines).map(|it| format!("+line {it}\n")).collect();
    change("a", &format!("@@ -0,0 +1,{lines} @@\n{body}"))
}

#[test]
fn rows_are_bounded_and_the_rest_is_counted() {
    let shown = text(&rows(&[added(100), added(3)], 0, 80, 40, "d shows all"));
    assert_eq!(shown.len(), 41);
    assert_eq!(shown.last().map(String::as_str), Some("… 65 more lines; d shows all"));
    // The lines that the diff itself omitted count, too.
    let cut = Change { more: 7, ..added(100) };
    let shown = text(&rows(&[cut], 0, 80, 40, ""));
    assert_eq!(shown.last().map(String::as_str), Some("… 68 more lines"));
    // A diff that is slightly longer is shown whole.
    assert_eq!(rows(&[added(40)], 0, 80, 40, "").len(), 41);
    assert_eq!(rows(&[added(500)], 0, 80, usize::MAX, "").len(), 501);
}

#[test]
fn plain_text_is_bounded_alike_and_keeps_hunk_headers() {
    let shown = plain(&[added(100)], 2, 40, "d shows all");
    assert_eq!(shown.len(), 41);
    assert_eq!(shown.first().map(String::as_str), Some("  a (+100 -0)"));
    assert_eq!(shown.get(1).map(String::as_str), Some("  @@ -0,0 +1,100 @@"));
    assert_eq!(shown.last().map(String::as_str), Some("  … 62 more lines; d shows all"));
    let whole = plain(&[added(100)], 0, usize::MAX, "");
    assert_eq!((whole.len(), whole.last().map(String::as_str)), (102, Some("+line 100")));
}

#[test]
fn only_the_words_that_changed_are_emphasised() {
    let differ = |one: &str, other: &str| {
        words_that_differ(one, other).map(|(before, after)| {
            let cut = |ranges: Ranges, text: &str| -> Vec<String> {
                ranges.into_iter().filter_map(|it| text.get(it).map(str::to_owned)).collect()
            };
            (cut(before, one), cut(after, other))
        })
    };
    let some = |before: &[&str], after: &[&str]| {
        let all = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        Some((all(before), all(after)))
    };
    assert_eq!(differ("return sum(items)", "return round(sum(items), 2)"), some(&[], &["round(", ", 2)"]));
    assert_eq!(
        differ("let total = one two;", "let total = three four;"),
        some(&["one two"], &["three four"])
    );
    assert_eq!(differ("    x = 1", "x = 1"), some(&["    "], &[]));
    assert_eq!(differ("entirely something", "of another kind"), None);
}

#[test]
fn a_line_end_that_all_lines_have_is_not_shown() {
    let all = change("a", "@@ -1,2 +1,2 @@\n same\r\n-one\r\n+two\r\n");
    assert_eq!(text(&rows(&[all], 0, 40, 40, "")), ["a (+1 -1)", "1   same", "2 - one", "2 + two"]);
    let some = change("a", "@@ -1 +1 @@\n-one\r\n+one\n");
    assert_eq!(text(&rows(&[some], 0, 40, 40, "")), ["a (+1 -1)", "1 - one\\r", "1 + one"]);
}
