//! Unified diff parser.

use std::path::Path;

use crate::Fault;

/// A block of lines, some of which change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hunk {
    /// The number of the hunk's first line in the old file, as its header has it.
    pub(super) start: Option<usize>,
    pub(super) lines: Vec<(LineRole, String)>,
    /// A marker declares that the last old line has no newline.
    pub(super) old_unended: bool,
    /// A marker declares that the last new line has no newline.
    pub(super) new_unended: bool,
}

/// The role of a line in a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineRole {
    Context,
    Removed,
    Added,
}

impl Hunk {
    /// Returns the lines that must be in the file.
    pub(super) fn old(&self) -> Vec<&str> {
        let old = self.lines.iter().filter(|(role, _)| *role != LineRole::Added);
        old.map(|(_, line)| line.as_str()).collect()
    }
}

/// Parses the hunks of a diff of `file`.
pub(super) fn parse(diff: &str, file: &Path) -> Result<Vec<Hunk>, Fault> {
    let mut lines: Vec<&str> = diff.split('\n').collect();
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let body = |line: &&&str| !line.starts_with(['@', '\\']) && !is_header(line);
    if lines.iter().filter(body).count() > 0 && lines.iter().filter(body).all(|line| line.ends_with('\r')) {
        lines = lines.iter().map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    }
    if lines.first().is_some_and(|line| line.starts_with("```")) {
        lines.remove(0);
        lines.pop_if(|line| line.trim() == "```");
    }

    let mut hunks = Vec::new();
    let mut files = 0_usize;
    let mut rest = lines.as_slice();
    while let Some((line, after)) = rest.split_first() {
        if let Some(header) = line.strip_prefix("@@") {
            let (hunk, left) = hunk(header, after)?;
            hunks.push(hunk);
            rest = left;
            continue;
        }
        header(line, file, &mut files)?;
        rest = after;
        // Some leave the `@@` line out.
        if hunks.is_empty()
            && !lines.iter().any(|it| it.starts_with("@@"))
            && !after.iter().any(|it| is_header(it))
        {
            let headless = if is_header(line) { after } else { lines.as_slice() };
            let (hunk, _) = hunk("", headless)?;
            hunks.push(hunk);
            break;
        }
    }
    if hunks.is_empty() || hunks.iter().all(|hunk| hunk.lines.is_empty()) {
        return Err(Fault::bad_args("the diff has no hunk: no line begins with `@@`")
            .next("Send `@@ -START,COUNT +START,COUNT @@`, then lines that begin with ` `, `-` or `+`."));
    }
    Ok(hunks)
}

fn is_header(line: &str) -> bool {
    const STARTS: [&str; 13] = [
        "diff --git ",
        "index ",
        "--- ",
        "+++ ",
        "old mode ",
        "new mode ",
        "new file mode ",
        "deleted file mode ",
        "similarity index ",
        "rename ",
        "copy ",
        "Binary files ",
        "GIT binary patch",
    ];
    STARTS.iter().any(|start| line.starts_with(start))
}

/// Checks a line that stands before a hunk.
fn header(line: &str, file: &Path, files: &mut usize) -> Result<(), Fault> {
    let refused = |what: &str| {
        Err(Fault::bad_args(format!("{what}: `{}`", line.trim_end()))
            .next("Send a unified diff that changes lines of this one file."))
    };
    let is = |starts: &[&str]| starts.iter().any(|start| line.starts_with(start));
    if is(&["rename ", "copy ", "similarity index"]) {
        return refused("a diff that renames or copies can't be applied here");
    }
    if is(&["GIT binary patch", "Binary files "]) {
        return refused("a binary diff can't be applied here");
    }
    if is(&["new file mode", "deleted file mode", "--- /dev/null", "+++ /dev/null"]) {
        return refused("a diff that creates or deletes a file can't be applied here");
    }
    if is(&["*** "]) {
        return refused("this is not a unified diff");
    }
    let Some(name) = line.strip_prefix("--- ").or_else(|| line.strip_prefix("+++ ")) else { return Ok(()) };
    *files += usize::from(line.starts_with("--- "));
    if *files > 1 {
        return refused("the diff is for more than one file");
    }
    let name = name.split('\t').next().unwrap_or(name).trim().trim_matches('"');
    let bare = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name);
    let is_it = |name: &str| file.ends_with(name.strip_prefix("./").unwrap_or(name));
    if is_it(name) || is_it(bare) { Ok(()) } else { refused("the diff is for another file") }
}

/// Parses the lines of one hunk; returns it and the lines after it.
fn hunk<'a, 'b>(header: &str, lines: &'a [&'b str]) -> Result<(Hunk, &'a [&'b str]), Fault> {
    let counts = counts(header);
    let start = counts.map(|(start, _, _)| start);
    let length =
        counts.and_then(|(_, old, new)| counted(lines, old, new)).unwrap_or_else(|| uncounted(lines));
    let mut hunk = Hunk { start, lines: Vec::new(), old_unended: false, new_unended: false };
    for line in lines.iter().take(length) {
        let role = match line.chars().next() {
            None | Some(' ') => LineRole::Context,
            Some('-') => LineRole::Removed,
            Some('+') => LineRole::Added,
            Some('\\') => {
                match hunk.lines.last() {
                    Some((LineRole::Removed, _)) => hunk.old_unended = true,
                    Some((LineRole::Added, _)) => hunk.new_unended = true,
                    Some((LineRole::Context, _)) => (hunk.old_unended, hunk.new_unended) = (true, true),
                    None => {}
                }
                continue;
            }
            Some(_) => {
                return Err(Fault::bad_args(format!(
                    "a line of the hunk begins with none of ` `, `-`, `+`: `{line}`"
                ))
                .next("Begin context lines with one space."));
            }
        };
        hunk.lines.push((role, line.get(1..).unwrap_or_default().to_owned()));
    }
    Ok((hunk, lines.get(length..).unwrap_or_default()))
}

/// Parses `-START,COUNT +START,COUNT`: returns the old start and both counts.
fn counts(header: &str) -> Option<(usize, usize, usize)> {
    let mut words = header.split_whitespace();
    let old = words.next()?.strip_prefix('-')?;
    let new = words.next()?.strip_prefix('+')?;
    let pair = |range: &str| -> Option<(usize, usize)> {
        let (start, count) = range.split_once(',').unwrap_or((range, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let (start, old) = pair(old)?;
    let (_, new) = pair(new)?;
    Some((start, old, new))
}

/// Returns the number of lines of the hunk if its counts are right.
fn counted(lines: &[&str], mut old: usize, mut new: usize) -> Option<usize> {
    let mut length = 0;
    for line in lines {
        match line.chars().next() {
            Some('\\') => {}
            _ if old == 0 && new == 0 => break,
            Some('-') => old = old.checked_sub(1)?,
            Some('+') => new = new.checked_sub(1)?,
            None | Some(' ') => (old, new) = (old.checked_sub(1)?, new.checked_sub(1)?),
            Some(_) => return None,
        }
        length += 1;
    }
    let next = lines.get(length).copied().unwrap_or_default();
    let ended = next.trim().is_empty() || next.starts_with("@@") || is_header(next);
    (old == 0 && new == 0 && ended).then_some(length)
}

/// Returns the number of lines of the hunk, judged by lines that can't be part of one.
fn uncounted(lines: &[&str]) -> usize {
    let ends = |at: usize, line: &str| {
        let another = line.starts_with("--- ") && lines.get(at + 1).is_some_and(|it| it.starts_with("+++ "));
        another || line.starts_with("@@") || line.starts_with("diff --git ")
    };
    let length =
        lines.iter().enumerate().find(|(at, line)| ends(*at, line)).map_or(lines.len(), |(at, _)| at);
    // Blank lines before the next hunk are not context.
    let body = lines.get(..length).unwrap_or_default();
    body.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    fn hunks(diff: &str) -> Vec<Hunk> {
        parse(diff, Path::new("/w/src/a.rs")).unwrap()
    }

    fn refusal(diff: &str) -> String {
        parse(diff, Path::new("/w/src/a.rs")).unwrap_err().what
    }

    #[test]
    fn reads_hunks_with_or_without_headers() {
        let bare = "@@ -3,2 +3,2 @@ fn f()\n a\n-b\n+c\n";
        let full = format!(
            "diff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n--- a/src/a.rs\t2026\n+++ b/src/a.rs\n{bare}"
        );
        let fenced = format!("```diff\n{bare}```\n");
        let crlf = bare.replace('\n', "\r\n");
        for diff in [bare, &full, &fenced, &crlf] {
            let hunks = hunks(diff);
            assert_eq!(hunks.len(), 1, "{diff}");
            assert_eq!(hunks[0].start, Some(3));
            assert_eq!(hunks[0].old(), ["a", "b"], "{diff}");
        }
        assert_eq!(hunks(" a\n-b\n+c\n")[0].old(), ["a", "b"]);
        assert_eq!(hunks("@@\n a\n-b\n+c\n")[0].old(), ["a", "b"]);
    }

    #[test]
    fn counts_tell_a_removed_rule_from_the_header_of_a_file() {
        let diff = "@@ -1,2 +1,1 @@\n--- x\n a\n@@ -9 +8 @@\n-c\n+d\n";
        assert_eq!(hunks(diff)[0].old(), ["-- x", "a"]);
        assert_eq!(hunks(diff)[1].old(), ["c"]);
    }

    #[test]
    fn wrong_counts_do_not_matter() {
        let diff = "@@ -1,9 +1,9 @@\n a\n\n-b\n+c\n\n@@ -20,1 +20,1 @@\n-x\n+y\n+z\n";
        assert_eq!(hunks(diff)[0].old(), ["a", "", "b"]);
        assert_eq!(hunks(diff)[1].lines.len(), 3);
    }

    #[test]
    fn reads_the_final_newline_marker() {
        let hunk = &hunks("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n")[0];
        assert!(hunk.old_unended && !hunk.new_unended);
    }

    #[test]
    fn diffs_of_other_files_and_other_kinds_are_refused() {
        for (diff, what) in [
            ("--- a/src/b.rs\n+++ b/src/b.rs\n@@ -1 +1 @@\n-a\n+b\n", "the diff is for another file"),
            (
                "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-a\n+b\n--- a/src/a.rs\n",
                "the diff is for more than one",
            ),
            ("diff --git a/x b/y\nsimilarity index 90%\nrename from x\n", "a diff that renames"),
            ("Binary files a/x and b/x differ\n", "a binary diff"),
            ("--- /dev/null\n+++ b/src/a.rs\n@@ -0,0 +1 @@\n+b\n", "a diff that creates"),
            ("*** Begin Patch\n*** Update File: src/a.rs\n@@\n-a\n+b\n", "this is not a unified diff"),
            ("", "the diff has no hunk"),
        ] {
            assert!(refusal(diff).starts_with(what), "{diff}: {}", refusal(diff));
        }
    }
}
