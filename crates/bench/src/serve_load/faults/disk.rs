//! A full disk: a prompt that can't be kept is refused in words, the server lives, and goes on once there is space again.

use std::{fs, io::Write as _, path::Path};

use serde_json::json;
use tokio::time::timeout;

use super::super::{
    Outcome, TIMEOUT,
    events::Seen,
    haft::{Stage, inside},
};

/// Size of the file system that has the state.
const SIZE: u64 = 24 << 20;

/// Fills the disk while the model writes and before a prompt. Returns what went wrong, and the answer to the prompt.
pub(in super::super) async fn run(haft: &Path) -> Outcome<(Vec<String>, String)> {
    let text = "Some words of a text that is kept. ".repeat(400);
    let script = [
        json!({"say": text, "chunks": 200, "chunk_ms": 10}),
        json!({"say": "Between. ".repeat(10)}),
        json!({"say": "With space again."}),
        json!({"say": "And the last."}),
    ];
    let stage = Stage::scripted(haft, &script)?;
    let served = stage.serve_on_small_disk(SIZE)?;
    let session = served.session().await?;
    let mut stream = served.watch(&session, 0).await?;
    let mut seen = Seen::default();
    served.prompt(&session, "first").await?;
    while seen.bytes() < 2000 {
        seen.add(&timeout(TIMEOUT, stream.row()).await??.ok_or("the stream ended")?);
    }
    let filler = inside(&served, &stage.path("state"))?.join("filler");
    fill(&filler)?;
    let mut bad = Vec::new();
    let (status, answer) = served
        .ask(&format!("POST /api/v1/sessions/{session}/prompt"), "full", &json!({"text": "full"}))
        .await?;
    let said = format!("{status} {answer}");
    bad.extend(
        (status < 500 || answer.pointer("/error/what").is_none()).then(|| format!("a full disk: {said}")),
    );
    fs::remove_file(&filler)?;
    // The turn goes on or has ended as failed: the session takes the next prompt.
    served.prompt(&session, "after").await?;
    let mut stream = served.watch(&session, seen.last).await?;
    let is_after =
        |row: &super::super::events::Row| row.kind() == "turn_began" && row.text("text") == "after";
    let mut began = false;
    loop {
        let row = timeout(TIMEOUT, stream.row()).await??.ok_or("the stream ended")?;
        seen.add(&row);
        began |= is_after(&row);
        if began && row.kind() == "turn_ended" {
            break;
        }
    }
    let transcript = served.transcript(&session).await?;
    bad.extend(seen.differs(&transcript));
    bad.extend((seen.repeated > 0).then(|| "a row came again".to_owned()));
    Ok((bad, said))
}

/// Writes until nothing more fits.
fn fill(file: &Path) -> Outcome<()> {
    let mut file = fs::File::create(file)?;
    for size in [1 << 16, 1 << 10, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
    Ok(())
}
