//! The line of a call's answer that says most, for lists, logs and the screen.

/// Returns the first line of a fault, and the last line of everything else; for a call that continues as a
/// job, a line with the job. Prefers other lines to those that only frame an answer, and counts lines of a
/// file (`LINE:HASH|text`) instead of showing them. Returns an empty line for an empty answer.
pub fn summary_line(text: &str, ok: bool) -> String {
    let said = || text.lines().map(str::trim).filter(|it| it.chars().any(char::is_alphanumeric));
    let mut lines = said().filter(|it| !is_frame(it));
    if !ok {
        return lines.next().or_else(|| said().next()).unwrap_or_default().to_owned();
    }
    if let Some(job) = text.lines().find_map(in_background) {
        return match lines.rfind(|it| *it != "(no output)") {
            Some(last) => format!("{BACKGROUND}{job}; so far: {last}"),
            None => format!("{BACKGROUND}{job}"),
        };
    }
    let last = lines.rfind(|it| !is_anchored(it));
    let anchored = said().filter(|it| is_anchored(it)).count();
    match last.or_else(|| said().rfind(|it| !is_anchored(it))) {
        // A note on what is shown below the lines of a file.
        Some(it) if anchored == 0 || !is_frame(it) => footer(it).unwrap_or(it).to_owned(),
        _ if anchored == 1 => "1 line".to_owned(),
        _ if anchored > 0 => format!("{anchored} lines"),
        _ => String::new(),
    }
}

/// The beginning of the summary line of a call that continues as a job.
const BACKGROUND: &str = "runs in the background as ";

/// Returns whether a line of [`summary_line`] says that the call goes on as a job.
pub fn is_in_background(line: &str) -> bool {
    line.starts_with(BACKGROUND)
}

/// Returns the job as which a command continues: `[still running after 0.1 s: job_1 (pid 4, no open port)]`,
/// or `job_1 runs in the background: make`.
fn in_background(line: &str) -> Option<&str> {
    if let Some((job, _)) = line.split_once(" runs in the background: ") {
        return job.starts_with("job_").then_some(job);
    }
    let (_, job) = line.strip_prefix("[still running after ")?.split_once(": ")?;
    job.split(' ').next()
}

/// Returns whether haft itself added this line around an answer.
pub fn is_frame(line: &str) -> bool {
    let is_job = line.starts_with('[') && line.contains("job_");
    const FRAMES: [&str; 7] =
        ["exit ", "[exit ", "[stopped", "[waited ", "note: ", "sandbox: ", "A later answer will say "];
    is_job || in_background(line).is_some() || FRAMES.iter().any(|it| line.starts_with(it))
}

/// Returns whether this is a line of a file as a tool shows it: `12:a0|text`.
fn is_anchored(line: &str) -> bool {
    let Some((anchor, _)) = line.split_once('|') else { return false };
    let Some((number, hash)) = anchor.split_once(':') else { return false };
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    is_number(number) && !hash.is_empty() && hash.len() <= 8 && hash.bytes().all(|it| it.is_ascii_hexdigit())
}

/// Returns the first part of a line such as `[12 matches; more with offset 100]`.
fn footer(line: &str) -> Option<&str> {
    let inside = line.strip_prefix('[')?.strip_suffix(']')?;
    inside.split(';').next().map(str::trim).filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_is_the_first_line_of_a_fault_and_the_last_of_anything_else() {
        let text = "Ran 2 tests\n\nFAILED (failures=1)\n---\n[exit 1]\n";
        assert_eq!(summary_line(text, true), "FAILED (failures=1)");
        assert_eq!(summary_line("........ [ 63%]\n456 passed in 3.1s\n", true), "456 passed in 3.1s");
        assert_eq!(
            (summary_line("", true), summary_line("[exit 1]", true)),
            (String::new(), "exit 1".to_owned())
        );
        assert_eq!(summary_line("one\ntwo\n[job_1 goes on in the background]", true), "two");
        let job = "[still running after 0.1 s: job_1 (pid 4, listening on nothing)]\n[next: wait {\"job\": \"job_1\"}]";
        assert_eq!(summary_line(&format!("(no output)\n{job}"), true), "runs in the background as job_1");
        let promised = "job_1 runs in the background: make\nA later answer will say that it has ended; read_job shows its output.";
        assert_eq!(summary_line(promised, true), "runs in the background as job_1");
        let so_far = summary_line(&format!("ready\n{job}"), true);
        assert_eq!(so_far, "runs in the background as job_1; so far: ready");
        assert!(is_in_background(&so_far) && !is_in_background("ready"));
        let fault = "`nope.txt` does not exist\nDid you mean `c.txt`?\nnote: waited 1.2 s";
        assert_eq!(summary_line(fault, false), "`nope.txt` does not exist");
        assert_eq!(summary_line("ZeroDivisionError\nnote: waited 1.2 s", true), "ZeroDivisionError");
    }

    #[test]
    fn lines_of_files_are_counted_and_footers_lose_their_brackets() {
        assert_eq!(summary_line("1:b9|def add(a, b):\n2:90|    return a - b\n", true), "2 lines");
        assert_eq!(summary_line("Updated a.py (+1 -1)\n1:b9|def add(a, b):\n", true), "Updated a.py (+1 -1)");
        assert_eq!(summary_line("a.py\n2:    return\n[1 match]", true), "1 match");
        assert_eq!(summary_line("a.py\n[100 of 120 files; offset 100 shows more]", true), "100 of 120 files");
    }
}
