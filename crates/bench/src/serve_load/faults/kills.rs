//! `kill -9` of the server at each kind of row: a watcher sees the row, the server dies, the next one goes on, and nothing is
//! lost or repeated. What was acknowledged is done once.

use std::path::Path;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::{
    Outcome, TIMEOUT,
    events::{Row, Seen, Stream},
    haft::{Served, Stage},
};

/// The kinds of rows at which the server is killed.
pub(in super::super) const KINDS: [&str; 24] = [
    "opened",
    "turn_began",
    "asked",
    "reasoning",
    "text",
    "writing",
    "called",
    "progress",
    "approval_opened",
    "approval_closed",
    "question_opened",
    "question_closed",
    "answered",
    "used",
    "again",
    "job_ended",
    "turn_ended",
    "renamed",
    "archived",
    "configured",
    "command",
    "undone",
    "forked",
    "rewound",
];

/// The prompts of a life. Each turn but one that was interrupted ends by itself.
const PROMPTS: [&str; 3] = ["first", "second", "last"];

fn script() -> Vec<Value> {
    let call = |tool: &str, arguments: Value| json!({"tool": tool, "arguments": arguments});
    let calls = [
        call("edit", json!({"path": "a.txt", "edits": [{"old": "two", "new": "2"}]})),
        call("shell", json!({"command": "for n in 1 2; do echo $n; sleep 0.4; done"})),
        // It waits for the one before, which is progress.
        call("shell", json!({"command": "echo after it"})),
        call("shell", json!({"command": "sleep 0.2", "run_in_background": true})),
        call("write", json!({"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"})),
        call("ask_user", json!({"question": "Which one?", "options": ["red", "blue"]})),
    ];
    let mut all = vec![
        json!({"think": "hm, let me see. ".repeat(8), "say": "Grüße, 漢字 and 🙂: *a plan*. ".repeat(10), "chunks": 10,
            "chunk_ms": 8, "calls": calls}),
        json!({"fault": "cut"}),
        json!({"say": "It is done, as far as I see. ".repeat(4), "chunks": 4}),
    ];
    // For the turns after, whichever answer comes first there, and for the end of the job.
    all.extend((0..20).map(|at| json!({"say": format!("Answer {at}. "), "chunks": 2, "chunk_ms": 2})));
    all
}

/// Lives one session, whose server is killed at the first row of this kind. Returns what went wrong.
pub(in super::super) async fn run(haft: &Path, kind: &'static str) -> Outcome<Vec<String>> {
    let stage = Stage::scripted(haft, &script())?;
    std::fs::create_dir_all(stage.path("ws/.git/hooks"))?;
    std::fs::write(stage.path("ws/a.txt"), "one\ntwo\nthree\n")?;
    let served = stage.serve()?;
    let session = served.session().await?;
    let stream = served.watch(&session, 0).await?;
    let mut life =
        Life { stage, served, session, stream, seen: Seen::default(), rows: Vec::new(), kind, killed: false };
    life.live().await?;
    let transcript = life.served.transcript(&life.session).await?;
    let mut bad = Vec::new();
    bad.extend((!life.killed).then(|| "no row of this kind came".to_owned()));
    bad.extend(life.seen.differs(&transcript));
    bad.extend((life.seen.repeated > 0).then(|| format!("{} rows came again", life.seen.repeated)));
    for key in PROMPTS {
        for end in ["turn_began", "turn_ended"] {
            let times = life.rows.iter().filter(|it| it.kind() == end && it.text("key") == key).count();
            bad.extend((times != 1).then(|| format!("{times} rows {end} of the prompt {key}")));
        }
    }
    Ok(bad.into_iter().map(|it| format!("{kind}: {it}")).collect())
}

/// A session, from its first prompt to its last.
struct Life {
    stage: Stage,
    served: Served,
    session: String,
    stream: Stream,
    seen: Seen,
    rows: Vec<Row>,
    kind: &'static str,
    killed: bool,
}

impl Life {
    async fn live(&mut self) -> Outcome<()> {
        let [first, second, last] = PROMPTS;
        self.prompt(first).await?;
        self.prompt(second).await?;
        let model = format!("script:{}", self.stage.path("script").display());
        self.act("PATCH", "", "k1", &json!({"title": "A title"}), "renamed").await?;
        self.act("PATCH", "", "k2", &json!({"archived": true}), "archived").await?;
        self.act("PATCH", "", "k3", &json!({"model": model}), "configured").await?;
        self.act("POST", "/command", "k4", &json!({"command": "echo by hand"}), "command").await?;
        self.act("POST", "/undo", "k5", &json!({"call": self.edited()}), "undone").await?;
        self.act("POST", "/fork", "k6", &json!({}), "forked").await?;
        self.act("POST", "/rewind", "k7", &json!({"turns": 1}), "rewound").await?;
        self.prompt(last).await
    }

    /// Returns the id of the call that changed the file; empty where it was not called.
    fn edited(&self) -> String {
        let edit = self.rows.iter().find(|it| it.kind() == "called" && it.text("tool") == "edit");
        edit.map(|it| it.text("call").to_owned()).unwrap_or_default()
    }

    async fn prompt(&mut self, key: &str) -> Outcome<()> {
        let body = json!({"text": key});
        self.send("POST", "/prompt", key, &body).await?;
        self.follow(|row| row.kind() == "turn_ended" && row.text("key") == key).await?;
        // A prompt that was acknowledged is not begun again.
        self.send("POST", "/prompt", key, &body).await.map(drop)
    }

    /// Has an operation done, and follows to its row. What can't be done any more after a kill is left out.
    async fn act(&mut self, method: &str, path: &str, key: &str, body: &Value, row: &str) -> Outcome<()> {
        let before = self.rows.len();
        let status = self.send(method, path, key, body).await?;
        let is_there = |it: &Self| it.rows.iter().skip(before).any(|it| it.kind() == row);
        if (200..300).contains(&status) && !is_there(self) {
            self.follow(|it| it.kind() == row).await
        } else if status < 500 && self.killed {
            Ok(())
        } else {
            Err(format!("{}: {method} {path}: {status}", self.kind).into())
        }
    }

    async fn send(&self, method: &str, path: &str, key: &str, body: &Value) -> Outcome<u16> {
        let line = format!("{method} /api/v1/sessions/{}{path}", self.session);
        Ok(self.served.ask(&line, key, body).await?.0)
    }

    /// Reads rows up to one that is the last, decides what is asked, and kills the server at its row.
    async fn follow(&mut self, is_last: impl Fn(&Row) -> bool) -> Outcome<()> {
        loop {
            let row = timeout(TIMEOUT, self.stream.row()).await;
            let row = row.map_err(|_| format!("{}: nothing came after {:?}", self.kind, self.seen))??;
            let Some(row) = row else { return Err(format!("{}: the stream ended", self.kind).into()) };
            let mut is_over = self.take(&row, &is_last);
            if row.kind() == self.kind && !self.killed {
                is_over |= self.kill(&is_last).await?;
            } else {
                self.decide(&row).await?;
            }
            if is_over {
                return Ok(());
            }
        }
    }

    fn take(&mut self, row: &Row, is_last: impl Fn(&Row) -> bool) -> bool {
        self.seen.add(row);
        self.rows.push(row.clone());
        is_last(row)
    }

    /// Kills the server, takes what had come, and starts the next one.
    async fn kill(&mut self, is_last: impl Fn(&Row) -> bool) -> Outcome<bool> {
        self.killed = true;
        self.served.restart(&self.stage)?;
        let mut is_over = false;
        while let Some(row) = timeout(TIMEOUT, self.stream.row()).await?? {
            is_over |= self.take(&row, &is_last);
        }
        self.stream = self.served.watch(&self.session, self.seen.last).await?;
        Ok(is_over)
    }

    async fn decide(&self, row: &Row) -> Outcome<()> {
        let (path, body) = match row.kind() {
            "approval_opened" => ("approvals", json!({"decision": "once", "hash": row.text("hash")})),
            "question_opened" => ("questions", json!({"text": "blue"})),
            _ => return Ok(()),
        };
        let line = format!("POST /api/v1/sessions/{}/{path}/{}", self.session, row.text("id"));
        // One that waited when the server was killed waits no more.
        self.served.ask(&line, "", &body).await.map(drop)
    }
}
