//! Changes of processes that outlive their call, or that work for no call yet: calls of their own, checked for too many
//! deletions whenever the processes pause.
//!
//! A process of `bash`, of Python or of an MCP server may go on after the answer. What it deletes then is put back, and
//! asked about, like the deletions of a call; the next answer tells the model.

use std::{
    pin::pin,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use kit::{Fault, Output, Touches};
use sandbox::tracker::{Call, Opener, Opening, Totals};
use serde_json::{Value, json};
use store::journal::{Begun, Durability, Ended};
use tokio::{runtime::Handle, sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    deletions::Deletions,
    questions::Asking,
    unkept::{Notices, Unkept},
};
use crate::{
    approval_time::AskedTime, config::AskLimits, jobs::ThisCall, session_state::SessionState, too_much,
};

/// The tool of such calls in the log.
const TOOL: &str = "background";

/// A pause of this time ends a run of deletions, which is then checked.
const PAUSE: Duration = Duration::from_millis(300);

/// Returns the opener of calls of this session. Call it in the runtime that is to check them.
pub(super) fn opener(session: &Arc<SessionState>) -> Opener {
    let (session, runtime) = (Arc::downgrade(session), Handle::current());
    Arc::new(move |opening| {
        let session = session.clone();
        runtime.spawn(async move {
            if let Err(fault) = attend(session, opening).await {
                tracing::warn!("what a process changes between calls is not checked: {fault}");
            }
        });
    })
}

/// Opens a call that begins and ends at once: other processes make its changes. Returns its id.
pub(super) async fn open_call(
    session: &SessionState,
    tool: &str,
    arguments: &Value,
    decision: &str,
) -> Result<String, Fault> {
    let (store, call) = (session.store(), session.store().call_id());
    let begun = Begun {
        call: call.clone(),
        session: session.name().to_owned(),
        tool: tool.to_owned(),
        arguments: arguments.to_string(),
        touches: Touches::exclusive(),
        decision: decision.to_owned(),
    };
    store.journal().begin(begun, Durability::Wait).await?;
    let ended = Ended::of(&call, session.name(), &Ok(Output::text("")), Duration::ZERO);
    store.journal().end_later(ended)?;
    Ok(call)
}

/// A call for such changes.
struct Background {
    /// The id of the call before.
    after: Option<String>,
    call: Arc<Call>,
    unkept: Arc<Unkept>,
}

async fn attend(weak: Weak<SessionState>, opening: Opening) -> Result<(), Fault> {
    let Some(session) = weak.upgrade() else { return Ok(()) };
    let limits = session.execution().ask_limits();
    let mut now = Background::open(&session, opening.after().map(str::to_owned)).await?;
    drop(session);
    // The process belongs to this one, also when its changes belong to a later one.
    let first = now.call.clone();
    let mut totals = now.call.totals();
    opening.belongs_to(first.clone());
    let mut settled = pin!(first.settled());
    loop {
        let is_over = tokio::select! {
            () = settled.as_mut() => true,
            () = paused(&mut totals, limits) => false,
        };
        let Some(session) = weak.upgrade() else { return Ok(()) };
        let is_too_much = may_be_too_much(&totals, limits);
        let before = now;
        if is_over {
            return before.end(&session, is_too_much).await;
        }
        now = Background::open(&session, Some(before.call.id().to_owned())).await?;
        before.call.followed_by(now.call.clone());
        totals = now.call.totals();
        before.end(&session, is_too_much).await?;
    }
}

/// Waits until enough was deleted for a check, and nothing more for a moment.
async fn paused(totals: &mut watch::Receiver<Totals>, limits: AskLimits) {
    loop {
        // The sender lives as long as the call, which the caller has.
        let _ = totals.changed().await;
        while timeout(PAUSE, totals.changed()).await.is_ok() {}
        if may_be_too_much(totals, limits) {
            return;
        }
    }
}

fn may_be_too_much(totals: &watch::Receiver<Totals>, limits: AskLimits) -> bool {
    let totals = totals.borrow();
    too_much::may_be_too_much(totals.lost(), limits) || totals.of_git_dir > 0
}

impl Background {
    async fn open(session: &Arc<SessionState>, after: Option<String>) -> Result<Self, Fault> {
        let arguments = match &after {
            Some(call) => json!({"follows": call}),
            None => json!({"before": "the first call of this process"}),
        };
        let decision = "allowed: its process goes on";
        let id = open_call(session, TOOL, &arguments, decision).await?;
        let call = session.runtime().tracks().call(&id);
        let this = ThisCall::new(
            TOOL.to_owned(),
            title(after.as_deref()),
            Instant::now(),
            Arc::<AskedTime>::default(),
            session.jobs(),
        );
        let unkept = Unkept::new(session, &id, &id, &this, &arguments.to_string(), false);
        call.asks(unkept.asker());
        Ok(Self { after, call, unkept })
    }

    /// Notes the state in which the call left its files, and checks what it deleted.
    async fn end(self, session: &Arc<SessionState>, is_too_much: bool) -> Result<(), Fault> {
        let id = self.call.id().to_owned();
        let Notices { lines, .. } = self.unkept.take();
        lines.into_iter().for_each(|line| session.note_between_calls(line));
        if is_too_much {
            return self.check(session, &id).await;
        }
        let store = session.store().clone();
        let settled = tokio::task::spawn_blocking(move || store.tracked().settle(&id, false)).await;
        settled.map_err(|error| Fault::bug(error.to_string()))?.map(drop)
    }

    async fn check(&self, session: &Arc<SessionState>, id: &str) -> Result<(), Fault> {
        let deletions = Deletions { session, call: id };
        let Some(too_much) = deletions.too_much().await? else { return Ok(()) };
        let (asked, cancel) = (Arc::<AskedTime>::default(), CancellationToken::new());
        let asking = Asking { session, whose: id, tool: TOOL, asked: &asked, cancel: &cancel };
        let title = title(self.after.as_deref());
        if let Err(fault) = deletions.ask(&too_much, asking, (&title, "")).await {
            session.note_between_calls(format!("{title}: {}", fault.as_text()));
        }
        Ok(())
    }
}

fn title(after: Option<&str>) -> String {
    match after {
        Some(call) => format!("a process that {call} left running"),
        None => "a process between calls".to_owned(),
    }
}
