//! Many watchers of one session, and readers that take nothing: the watchers lose nothing, the server's memory does not grow by
//! what the readers leave, and a reader that goes on gets all rows.

use std::{path::Path, time::Duration};

use serde_json::json;
use tokio::{task::JoinSet, time::timeout};

use super::super::{
    Outcome, TIMEOUT,
    events::{Seen, Stream},
    haft::{Served, Stage},
};
use crate::processes::{memory, tree};

/// Readers that take nothing.
const SLOW: usize = 20;
/// Bytes of a file that each call reads.
const PAGE: usize = 60_000;

/// The results.
pub(in super::super) struct Crowd {
    pub(in super::super) bad: Vec<String>,
    /// Bytes of the session's rows.
    pub(in super::super) bytes: usize,
    /// Memory of the server in KB, before the slow readers and with them.
    pub(in super::super) memory: [u64; 2],
}

/// Has so many watchers, and slow readers beside them, watch a session whose first turn has so many calls with a page of output.
pub(in super::super) async fn run(haft: &Path, watchers: usize, calls: usize) -> Outcome<Crowd> {
    let names: Vec<String> = (0..calls).map(|at| format!("f{at}.txt")).collect();
    let reads: Vec<_> =
        names.iter().map(|name| json!({"tool": "read", "arguments": {"path": name}})).collect();
    let slowly =
        json!({"say": "Some *text* of the turn that all watch. ".repeat(100), "chunks": 100, "chunk_ms": 20});
    let stage = Stage::scripted(haft, &[json!({"calls": reads}), json!({"say": "Read."}), slowly])?;
    for (at, name) in names.iter().enumerate() {
        let line = format!("{at} is a file with a line that is long enough for a page\n");
        std::fs::write(stage.path("ws").join(name), line.repeat(PAGE / line.len()))?;
    }
    let served = stage.serve()?;
    let session = served.session().await?;
    served.prompt(&session, "read all").await?;
    until(&mut served.watch(&session, 0).await?, 1).await?;
    let mut streams = Vec::new();
    for _ in 0..watchers {
        let mut stream = served.watch(&session, 0).await?;
        let mut seen = Seen::default();
        while seen.count("turn_ended") == 0 {
            seen.add(&timeout(TIMEOUT, stream.row()).await??.ok_or("a stream ended")?);
        }
        streams.push((stream, seen));
    }
    let before = memory(&tree(served.id()));
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        slow.push(served.watch(&session, 0).await?);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let with = memory(&tree(served.id()));
    served.prompt(&session, "write").await?;
    let mut bad = finish(&served, &session, streams).await?;
    for stream in slow {
        bad.extend(go_on(&served, &session, stream).await?);
    }
    let rows = served.rows(&session).await?;
    let bytes = rows.iter().map(|it| it.whole.to_string().len()).sum();
    Ok(Crowd { bad, bytes, memory: [before, with] })
}

async fn until(stream: &mut Stream, turns: usize) -> Outcome<()> {
    let mut seen = Seen::default();
    while seen.count("turn_ended") < turns {
        seen.add(&timeout(TIMEOUT, stream.row()).await??.ok_or("a stream ended")?);
    }
    Ok(())
}

/// Has all watchers see the end of the second turn, and compares.
async fn finish(served: &Served, session: &str, streams: Vec<(Stream, Seen)>) -> Outcome<Vec<String>> {
    let mut tasks = JoinSet::new();
    for (mut stream, mut seen) in streams {
        tasks.spawn(async move {
            while seen.count("turn_ended") < 2 {
                match timeout(TIMEOUT, stream.row()).await {
                    Ok(Ok(Some(row))) => seen.add(&row),
                    _ => return Err("a watcher's stream ended".to_owned()),
                }
            }
            Ok(seen)
        });
    }
    let mut all = Vec::new();
    while let Some(seen) = tasks.join_next().await {
        all.push(seen??);
    }
    let transcript = served.transcript(session).await?;
    let bad = all.iter().flat_map(|seen| {
        [seen.differs(&transcript), (seen.repeated > 0).then(|| "a row came again".to_owned())]
    });
    Ok(bad.flatten().collect())
}

/// Has a reader go on that took nothing so far. The server may have given it up: it reconnects.
async fn go_on(served: &Served, session: &str, mut stream: Stream) -> Outcome<Vec<String>> {
    let mut seen = Seen::default();
    for _ in 0..3 {
        while seen.count("turn_ended") < 2 {
            match timeout(TIMEOUT, stream.row()).await?? {
                Some(row) => seen.add(&row),
                None => break,
            }
        }
        if seen.count("turn_ended") == 2 {
            break;
        }
        stream = served.watch(session, seen.last).await?;
    }
    let transcript = served.transcript(session).await?;
    Ok(seen.differs(&transcript).map(|it| format!("a slow reader: {it}")).into_iter().collect())
}
