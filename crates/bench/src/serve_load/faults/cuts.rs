//! Connections that are cut after a random byte, while the model writes: each watcher goes on after the last row that it has.

use std::{path::Path, time::Duration};

use serde_json::json;
use tokio::{io::AsyncReadExt as _, task::JoinSet, time::timeout};

use super::super::{
    Outcome, TIMEOUT,
    events::{Parser, Seen, Sent},
    haft::{Served, Stage},
};
use super::Random;

/// Watchers that are cut at the same time.
const WATCHERS: usize = 8;
/// The most bytes that one connection gets.
const BYTES: usize = 3000;
/// Time that a connection has for its bytes.
const LIFE: Duration = Duration::from_millis(60);

/// Cuts so many connections, and returns the differences from the transcript.
pub(in super::super) async fn run(haft: &Path, cuts: usize, seed: u64) -> Outcome<Vec<String>> {
    let each = cuts.div_ceil(WATCHERS);
    let words = "Grüße, 漢字 and 🙂, in *many* pieces. ".repeat(4);
    let text =
        format!("# Title\n\n{}", format!("{words}\n\n- one\n- two\n\n").repeat(each.div_ceil(4).max(20)));
    // The turn lasts about as long as the cuts.
    let script = [json!({"think": words.repeat(5), "say": text, "chunks": each * 3, "chunk_ms": 12})];
    let stage = Stage::scripted(haft, &script)?;
    let served = std::sync::Arc::new(stage.serve()?);
    let session = served.session().await?;
    served.prompt(&session, "go").await?;
    let mut watchers = JoinSet::new();
    for at in 0..WATCHERS {
        let (served, session) = (served.clone(), session.clone());
        let random = Random(seed.wrapping_add(at as u64));
        watchers
            .spawn(async move { watch(&served, &session, each, random).await.map_err(|it| it.to_string()) });
    }
    let mut bad = Vec::new();
    let mut all = Vec::new();
    while let Some(watched) = watchers.join_next().await {
        all.push(watched??);
    }
    let transcript = served.transcript(&session).await?;
    for seen in all {
        bad.extend(seen.differs(&transcript));
        bad.extend((seen.repeated > 0).then(|| format!("{} rows came again", seen.repeated)));
    }
    Ok(bad)
}

/// Follows a session through so many cuts, and then to the end of its turn.
async fn watch(served: &Served, session: &str, cuts: usize, mut random: Random) -> Outcome<Seen> {
    let mut seen = Seen::default();
    for _ in 0..cuts {
        let most = 1 + random.below(BYTES);
        let mut socket = served.events(session, seen.last).await?.into_socket();
        let mut got = Vec::new();
        // Nothing more may come: that is a cut, too.
        let _ = timeout(LIFE, async {
            while got.len() < most {
                let mut piece = vec![0; most - got.len()];
                match socket.read(&mut piece).await {
                    Ok(0) | Err(_) => return,
                    Ok(read) => got.extend(piece.drain(..read)),
                }
            }
        })
        .await;
        for sent in Parser::default().take(&unchunked(&got))? {
            if let Sent::Row(row) = sent {
                seen.add(&row);
            }
        }
    }
    let mut stream = served.watch(session, seen.last).await?;
    while seen.count("turn_ended") == 0 {
        let row = timeout(TIMEOUT, stream.row()).await??.ok_or("the stream ended before the turn")?;
        seen.add(&row);
    }
    Ok(seen)
}

/// Returns the body that is in these chunks; the last one may be cut.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|it| it == b"\r\n") {
        let size = bytes.get(..end).and_then(|it| std::str::from_utf8(it).ok());
        let Some(size) = size.and_then(|it| usize::from_str_radix(it, 16).ok()) else { break };
        let chunk = bytes.get(end + 2..).unwrap_or_default();
        body.extend_from_slice(chunk.get(..size).unwrap_or(chunk));
        bytes = chunk.get(size + 2..).unwrap_or_default();
    }
    body
}
