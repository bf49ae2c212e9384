//! The bytes that the model reads and writes for one fixed piece of work: find a function, read it, change a line, and
//! see that it is changed.

use serde_json::{Value, json};

use super::{
    super::{Aim, Amount, Comparison, Row, Scratch, Trouble},
    Site, call,
    install::Peer,
    tasks::Who,
};

/// The pattern of the search, the line before the change, and the line after it.
const NEEDLE: &str = "fn total_of";
const OLD: &str = "        total += entry.amount;";
const NEW: &str = "        total = total.saturating_add(entry.amount);";

/// Lines that are shown after the function's first one: all of it.
const AFTER: usize = 6;
/// The line before the function, counted from 1, in the file that [`source`] returns.
const AT: usize = 400;

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let site = Site::new(scratch, "context")?;
    let mut used: Vec<(Who, usize)> = Vec::new();
    for who in site.contestants() {
        std::fs::write(site.workspace.folder.join("ledger.rs"), source())?;
        let calls = calls(who, &site);
        if calls.is_empty() {
            continue;
        }
        let mut server = site.server(who)?;
        let mut bytes = 0;
        for params in calls {
            server.ask("tools/call", &params)?;
            bytes += params.to_string().len() + server.texts()?.len();
        }
        let changed = std::fs::read_to_string(site.workspace.folder.join("ledger.rs"))?;
        if !changed.contains(NEW) {
            return Err(format!("{} did not change the line", who.name()).into());
        }
        used.push((who, bytes));
    }
    let of = |wanted: Who| {
        used.iter().find(|(who, _)| *who == wanted).map(|(_, bytes)| Amount::Bytes(*bytes as u64))
    };
    let Some(ours) = of(Who::Haft) else { return Ok(Vec::new()) };
    let best = used.iter().filter(|(who, _)| matches!(who, Who::Peer(_))).min_by_key(|(_, bytes)| *bytes);
    let comparison = match best {
        Some((who, bytes)) => {
            Comparison::Measured(format!("the best peer, {}", who.name()), Amount::Bytes(*bytes as u64))
        }
        None => Comparison::Missing("no peer could be started".to_owned()),
    };
    Ok(vec![Row {
        what: "find, look, change, check: bytes".to_owned(),
        ours,
        p95: None,
        comparison,
        aim: Some(Aim::Times(0.5)),
    }])
}

/// Returns the calls of the work: as few as the tools of this contestant allow.
fn calls(who: Who, site: &Site) -> Vec<Value> {
    let path = site.workspace.folder.join("ledger.rs");
    match who {
        // Its matches come with the lines after them, and its answer to an edit shows what changed.
        Who::Haft | Who::Release => vec![
            call("grep", &json!({"pattern": NEEDLE, "path": "ledger.rs", "after": AFTER})),
            call("edit", &json!({"path": "ledger.rs", "old": OLD, "new": NEW})),
        ],
        // It has no numbers in its answers; its answer to an edit is a diff.
        Who::Peer(Peer::Rust) => vec![
            call(
                "search_files_content",
                &json!({"path": site.workspace.folder, "pattern": "ledger.rs", "query": NEEDLE}),
            ),
            call("read_file_lines", &json!({"path": path, "offset": AT, "limit": AFTER + 1})),
            call("edit_file", &json!({"path": path, "edits": [{"oldText": OLD, "newText": NEW}]})),
        ],
        // It searches by a job, whose results come with its first answer, with as many lines before them as after.
        Who::Peer(Peer::Commander) => vec![
            call(
                "start_search",
                &json!({"path": path, "pattern": NEEDLE, "searchType": "content", "literalSearch": true,
                    "contextLines": AFTER}),
            ),
            call("edit_block", &json!({"file_path": path, "old_string": OLD, "new_string": NEW})),
        ],
        Who::Peer(Peer::Node | Peer::FastMcp) | Who::Floor => Vec::new(),
    }
}

/// Returns a file of 800 lines in which the function begins after line [`AT`].
fn source() -> String {
    let mut lines: Vec<String> = Vec::new();
    while lines.len() < 800 {
        if lines.len() + 1 == AT {
            lines.extend(
                [
                    "/// Returns the total of the entries of a day, in cents.",
                    "fn total_of(entries: &[Entry], day: Day) -> u64 {",
                    "    let mut total = 0u64;",
                    "    for entry in entries.iter().filter(|entry| entry.day == day) {",
                    OLD,
                    "    }",
                    "    total",
                    "}",
                ]
                .map(str::to_owned),
            );
        }
        let number = lines.len();
        lines.push(format!("const LIMIT_{number}: u64 = {};", number * 17));
    }
    lines.join("\n") + "\n"
}
