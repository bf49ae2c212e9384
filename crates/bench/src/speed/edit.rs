//! Durable edits, beside making the same bytes durable.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use kit::anchor::Anchor;
use serde_json::{Value, json};

use super::{Aim, Fixture, Row, Scratch, Trouble, in_turn, line, timed};

const LINES: usize = 13_107;
const CHANGED: usize = 6_543;
const PAIRS: usize = 150;

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let mut rows = Vec::new();
    for form in ["anchor", "text"] {
        let name = format!("{form}.rs");
        let file = scratch.lines("edit", &name, LINES)?;
        let folder = file.parent().ok_or("a file lies in a folder")?;
        let fixture = Fixture::open(scratch, folder, tools::all())?;
        fixture.call("read", json!({"path": name, "offset": CHANGED - 20, "limit": 40}))?;
        let (mut now, mut count) = (line(CHANGED), 0_usize);
        let mut bytes = fs::read(&file)?;
        let [ours, plain] = in_turn(
            PAIRS,
            [
                &mut || {
                    count += 1;
                    let next = format!("    let value = {count}; // line {CHANGED}\n");
                    let took = fixture.call("edit", arguments(form, &name, &now, &next))?;
                    now = next;
                    Ok(took)
                },
                &mut || {
                    if let Some(byte) = bytes.first_mut() {
                        *byte = byte.wrapping_add(1);
                    }
                    timed(|| replace(folder, "plain.rs", &bytes))
                },
            ],
        )?;
        let comparison = plain.comparison("write, fsync, rename, fsync of the folder");
        rows.push(ours.row(
            format!("`edit` of a line in 1 MB, by {form}"),
            comparison,
            Some(Aim::Times(2.0)),
        ));
    }
    Ok(rows)
}

/// Returns arguments for an edit whose result never existed before.
fn arguments(form: &str, path: &str, old: &str, new: &str) -> Value {
    let (old, new) = (old.trim_end_matches('\n'), new.trim_end_matches('\n'));
    if form == "text" {
        return json!({"path": path, "edits": [{"old": old, "new": new}]});
    }
    let anchor = Anchor { line: CHANGED, hash: kit::anchor::hash(old) }.to_string();
    json!({"path": path, "edits": [{"anchor": anchor, "new": new}]})
}

/// Performs the minimal atomic and durable change.
fn replace(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Trouble> {
    let fresh = folder.join(".plain");
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, folder.join(name))?;
    File::open(folder)?.sync_all()?;
    Ok(())
}
