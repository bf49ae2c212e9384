//! Preview of a command: its output, and what it would change.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kit::{
    Cx, Fault, Kind, Output, counted,
    procs::{
        Ending, Stdin, Streams,
        preview::{Change, PathChange, Previewed},
    },
    services::Live,
};
use similar::TextDiff;
use tokio::time::sleep;

use super::{
    DRAIN,
    answer::{self, SHOWN},
    start::CommandLine,
};

/// Limits of what is listed: lines, lines of one diff and of all, bytes of a line.
const LISTED: usize = 100;
const DIFF: usize = 40;
const DIFFS: usize = 200;
const LINE: usize = 300;

/// Time for a command to end by itself when it is stopped.
const GRACE: Duration = Duration::from_millis(100);

/// Runs a command for at most this long, and returns what it would change.
///
/// # Errors
/// When there is no preview here, and [`Kind::Timeout`] or [`Kind::Cancelled`] with the changes so far.
pub(super) async fn run(command: &str, dir: &str, wait: Duration, cx: &Cx) -> Result<Output, Fault> {
    let line = CommandLine::new(command, dir, Stdin::Null, Streams::Together);
    let preview = cx.procs().preview()?;
    let process = Arc::new(line.start_by(&preview.procs(), cx).await?);
    cx.caller().show(Live {
        output: Some(process.output().clone()),
        process: Some(process.clone()),
        ..Live::default()
    });
    let ended = tokio::select! {
        biased;
        () = cx.cancelled() => Err(Kind::Cancelled),
        exit = process.finished(DRAIN) => Ok(exit),
        () = sleep(wait) => Err(Kind::Timeout),
    };
    let left = process.end(Ending::within(if ended.is_ok() { Duration::ZERO } else { GRACE })).await;
    let changes = preview.changes().await?;
    let listed = Listed { workspace: cx.files().roots().workspace().to_owned() }.text(&changes);
    let seen = |mut output: Output, notes: &[String]| {
        let text = answer::with(&output.as_text(), notes);
        output.parts = Output::text(format!("{text}\n{listed}")).parts;
        output
    };
    match ended {
        Ok(exit) => {
            let notes = match left {
                0 => Vec::new(),
                1 => vec!["[1 process that it left running ended with the preview]".to_owned()],
                left => vec![format!("[{left} processes that it left running ended with the preview]")],
            };
            Ok(seen(answer::of_exit(cx, process.output(), 0, exit), &notes))
        }
        Err(kind) => {
            let output = Output::text(process.output().since(0, SHOWN).text);
            let fault = Fault::new(
                kind,
                format!("the preview was stopped after {}; nothing was kept", answer::time(wait)),
            );
            let fault = match kind {
                Kind::Timeout => fault.hint(
                    "A preview does not go on in the background: let the command do less, or wait for longer.",
                ),
                _ => Fault::new(kind, "the preview was stopped; nothing was kept"),
            };
            Err(fault.seen(seen(output, &[])))
        }
    }
}

/// The list of changes as a model reads it.
struct Listed {
    workspace: PathBuf,
}

impl Listed {
    fn text(&self, previewed: &Previewed) -> String {
        let count = previewed.changes.len();
        let mut text = match count {
            0 => "[preview: it would change no file; nothing was kept]".to_owned(),
            _ => format!("[preview: it would make {}; nothing was kept]", counted(count, "change")),
        };
        let mut diffs = DIFFS;
        for one in previewed.changes.iter().take(LISTED) {
            text.push('\n');
            text.push_str(&self.line(one));
            if let Change::Changed { texts: Some((before, after)), .. } = &one.change {
                diff(before, after, &mut diffs, &mut text);
            }
        }
        if count > LISTED {
            let mut folders: BTreeMap<String, usize> = BTreeMap::new();
            for one in previewed.changes.iter().skip(LISTED) {
                let folder = one.path.parent().map_or_else(String::new, |it| self.name(it));
                *folders.entry(folder).or_default() += 1;
            }
            let mut folders: Vec<_> = folders.into_iter().collect();
            folders.sort_by_key(|it| std::cmp::Reverse(it.1));
            let named: Vec<String> =
                folders.iter().take(10).map(|(folder, count)| format!("{folder} ({count})")).collect();
            let more = if folders.len() > named.len() { ", …" } else { "" };
            let _ = write!(text, "\n[and {} more, in {}{more}]", count - LISTED, named.join(", "));
        }
        for note in &previewed.notes {
            let _ = write!(text, "\n[{note}]");
        }
        text
    }

    fn line(&self, one: &PathChange) -> String {
        let name = self.name(&one.path);
        let files = |count: u64| counted(usize::try_from(count).unwrap_or(usize::MAX), "file");
        match &one.change {
            Change::Created { bytes } => format!("created  {name} ({bytes} bytes)"),
            Change::CreatedFolder => format!("created  {name}/"),
            Change::CreatedOther { what } => format!("created  {name} ({what})"),
            Change::Changed { bytes: (before, after), texts } => match texts {
                Some((old, new)) => {
                    let (added, removed) = lines(old, new);
                    format!("changed  {name} (+{added} -{removed})")
                }
                None => format!("changed  {name} ({before} bytes to {after})"),
            },
            Change::Replaced { kinds: (before, after) } => format!("replaced {name} ({before} by {after})"),
            Change::Metadata { what } => format!("metadata {name} ({what})"),
            Change::Deleted { folder: None } => format!("deleted  {name}"),
            Change::Deleted { folder: Some(count) } => format!("deleted  {name}/ ({})", files(*count)),
            Change::Moved { from, folder: None } => format!("moved    {} to {name}", self.name(from)),
            Change::Moved { from, folder: Some(count) } => {
                format!("moved    {}/ to {name}/ ({})", self.name(from), files(*count))
            }
        }
    }

    fn name(&self, path: &Path) -> String {
        let short = path.strip_prefix(&self.workspace).unwrap_or(path);
        let name = if short.as_os_str().is_empty() { ".".into() } else { short.to_string_lossy() };
        // A line feed in a name would look like another change.
        if name.chars().any(char::is_control) { format!("{name:?}") } else { name.into_owned() }
    }
}

fn lines(old: &str, new: &str) -> (usize, usize) {
    let diff = TextDiff::configure().timeout(Duration::from_millis(200)).diff_lines(old, new);
    diff.iter_all_changes().fold((0, 0), |(added, removed), change| match change.tag() {
        similar::ChangeTag::Insert => (added + 1, removed),
        similar::ChangeTag::Delete => (added, removed + 1),
        similar::ChangeTag::Equal => (added, removed),
    })
}

/// Appends the hunks of a diff, as far as the limits allow.
fn diff(old: &str, new: &str, left: &mut usize, text: &mut String) {
    let diff = TextDiff::configure().timeout(Duration::from_millis(200)).diff_lines(old, new);
    let unified = diff.unified_diff().context_radius(2).to_string();
    let all: Vec<&str> = unified.lines().collect();
    let shown = all.len().min(DIFF).min(*left);
    *left -= shown;
    for line in all.iter().take(shown) {
        let end = line.char_indices().nth(LINE).map_or(line.len(), |(at, _)| at);
        let _ = write!(text, "\n  {}", line.get(..end).unwrap_or(line));
    }
    if shown < all.len() {
        let _ = write!(text, "\n  [{} more of its diff]", counted(all.len() - shown, "line"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_listed_with_short_diffs_and_the_rest_is_counted_by_folder() {
        let listed = Listed { workspace: "/w".into() };
        let one = |path: &str, change| PathChange { path: path.into(), change };
        let mut previewed = Previewed {
            changes: vec![
                one(
                    "/w/a",
                    Change::Changed { bytes: (4, 4), texts: Some(("x\ny\n".into(), "x\nz\n".into())) },
                ),
                one("/w/b\nc", Change::Deleted { folder: None }),
                one("/w/new", Change::Moved { from: "/w/old".into(), folder: Some(2) }),
            ],
            notes: vec!["a note".into()],
        };
        assert_eq!(
            listed.text(&previewed),
            "[preview: it would make 3 changes; nothing was kept]\nchanged  a (+1 -1)\n  @@ -1,2 +1,2 @@\n   x\n  -y\n  +z\n\
             deleted  \"b\\nc\"\nmoved    old/ to new/ (2 files)\n[a note]"
        );
        previewed.changes = (0..130).map(|at| one(&format!("/w/d/{at}"), Change::CreatedFolder)).collect();
        let text = listed.text(&previewed);
        assert!(text.contains("[and 30 more, in d (30)]"), "{text}");
        assert_eq!(
            listed.text(&Previewed::default()),
            "[preview: it would change no file; nothing was kept]"
        );
    }
}
