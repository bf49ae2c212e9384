//! The process that runs a group until it is killed, or until nothing is left to do.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
    time::Duration,
};

use groups::{
    member_process::{End, GroupSocket},
    recipe::{Limits, document::Places},
    service::{Parts, Service, Settled},
};
use kit::redact::Secrets;
use policy::{Approve, Policy};
use runtime::{Commands, Runtime, config::spec_of_creature};
use sandbox::SandboxMode;
use serde_json::json;
use store::{Store, TriggerState};

use super::{
    Trouble,
    member::{Ahead, Members},
    plan::Plan,
};

/// The line that says that all members run.
pub(super) const READY: &str = "ready";
/// The line of a request to a model.
pub(super) const ASKED: &str = "asked";
/// The line that says that nothing is left to do.
pub(super) const OVER: &str = "over";

/// Time until all is done.
const TIMEOUT: Duration = Duration::from_secs(60);

fn line(text: &str) {
    let mut out = io::stdout().lock();
    // Whoever reads may be gone; then this process is killed in a moment.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

fn asked() {
    line(ASKED);
}

/// Opens the store of a run.
pub(super) fn open(folder: &Path) -> Store {
    Store::open(&folder.join("state"), &folder.join("ws"), Arc::new(Secrets::none()))
}

fn runtime(folder: &Path) -> Result<Runtime, Trouble> {
    let settings = runtime::Settings {
        network: Default::default(),
        tool_files: Default::default(),
        workspace: folder.join("ws"),
        roots: Vec::new(),
        state: folder.join("state"),
        config: folder.join("state/config"),
        policy: Policy { sandbox: SandboxMode::Workspace, approve: Approve::Auto, ..Policy::default() },
        other_names: kit::files::OtherNames::Refuse,
        allowed: None,
        deadline: TIMEOUT,
        secrets: Secrets::none(),
        commands: Commands { decodes_here: true, ..Commands::default() },
    };
    Ok(Runtime::open(settings, tools::of_agents(tools::HAFT)).map_err(|it| it.what)?)
}

fn members(folder: &Path, ahead_ms: u64) -> Result<Members, Trouble> {
    let plan: Plan = serde_json::from_slice(&fs::read(folder.join("plan.json"))?)?;
    let (runtime, clock) = (runtime(folder)?, Ahead(ahead_ms));
    Ok(Members { runtime, plan, clock, asked, folder: folder.to_owned() })
}

/// Runs one member of the group of the plan in this process, which the group has started.
///
/// # Errors
/// When it can't be run.
pub async fn run_member(folder: &Path, ahead_ms: u64) -> Result<(), Trouble> {
    let joined = GroupSocket::take()?.join().await.map_err(|it| it.what)?;
    let members = Arc::new(members(folder, ahead_ms)?);
    let store = members.runtime.store().clone();
    match joined.run(store, members).await.map_err(|it| it.what)? {
        End::Asked => Ok(()),
        End::Alone => std::process::exit(1),
    }
}

/// Runs the group of the plan in this folder: begins it, or goes on with it. `ahead_ms` is how far the clock of its triggers is
/// ahead. Ends when nothing is left to do.
///
/// # Errors
/// When it can't be run, or does not come to an end.
pub async fn run_group(folder: &Path, ahead_ms: u64) -> Result<(), Trouble> {
    let members = members(folder, ahead_ms)?;
    let (plan, store) = (members.plan.clone(), members.runtime.store().clone());
    let parts = Parts {
        store: store.clone(),
        maker: Arc::new(members),
        places: Places::new([], None),
        workspace: folder.join("ws"),
        by: "bench".to_owned(),
    };
    let known = store.groups().list().map_err(|it| it.what)?;
    let limits = Limits::default();
    let group = match known.first() {
        Some(record) => Service::resume(parts, &record.name, limits).await.map_err(|it| it.what)?,
        None => {
            let group = Service::begin(parts, &plan.recipe, "plan", limits).await.map_err(|it| it.what)?;
            arm(&store, group.name(), &plan, ahead_ms).await?;
            group
        }
    };
    group.start().await.map_err(|it| it.what)?;
    group.say(None, &plan.task(), "task").await.map_err(|it| it.what)?;
    line(READY);
    tokio::time::timeout(TIMEOUT, settle(&group, &store))
        .await
        .map_err(|_| "the group comes to no end")??;
    group.close("ended").await.map_err(|it| it.what)?;
    line(OVER);
    Ok(())
}

/// Makes the triggers of the plan.
async fn arm(store: &Store, group: &str, plan: &Plan, ahead_ms: u64) -> Result<(), Trouble> {
    let now = store::now_ms() + ahead_ms;
    let service = triggers::Service::new(store.clone());
    for member in store.groups().shape(group).map_err(|it| it.what)?.members {
        let mut wanted = Vec::new();
        for planned in plan.triggers.iter().filter(|it| it.member == member.name) {
            let mut keys = planned.keys.clone();
            if let Some(after) = planned.due_after {
                let at = jiff::Timestamp::from_millisecond((now + after).cast_signed())?;
                keys.insert("once".to_owned(), json!(at.to_string()));
            }
            wanted.push((planned.id.clone(), spec_of_creature(&keys).map_err(|it| it.what)?));
        }
        service.settle(&member.session, "profile", &wanted, now).await.map_err(|it| it.what)?;
    }
    Ok(())
}

/// Waits until nobody works, nothing waits, and no trigger is to fire.
async fn settle(group: &Service, store: &Store) -> Result<(), Trouble> {
    loop {
        let was_over = has_fired(store)?;
        match group.settled(true).await.map_err(|it| it.what)? {
            Settled::Quiet if was_over => return Ok(()),
            Settled::Quiet => {}
            other => return Err(format!("the group ended by {other:?}").into()),
        }
    }
}

/// Returns whether all triggers that occur once are over, and all timers have fired as often as they may on a day.
fn has_fired(store: &Store) -> Result<bool, Trouble> {
    let rows = store.triggers().list(None).map_err(|it| it.what)?;
    Ok(rows.iter().all(|row| match row.kind.as_str() {
        "add_schedule" => row.state == TriggerState::Done,
        "add_timer" => row
            .body
            .get("max_per_day")
            .and_then(serde_json::Value::as_u64)
            .is_some_and(|it| row.fires_of_day >= it),
        _ => true,
    }))
}
