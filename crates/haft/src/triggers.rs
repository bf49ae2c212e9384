//! Triggers in this program: the engine of each session that runs here, configured triggers, webhooks, and reports for a person.

mod webhooks;

use std::{any::Any, path::PathBuf, sync::Arc};

use agent::profiles::Profile;
use jiff::{Timestamp, tz::TimeZone};
use kit::{Fault, services::Jobs};
use runtime::{Session, WeakSession, config::TriggerSection};
use store::{HistoryEvent, HistoryRow, Store};
use tokio_util::task::AbortOnDropHandle;
use triggers::{Engine, FileChanges, Service, Sources, Spec, SystemClock, WatchedFiles};

pub(crate) use webhooks::Webhooks;

/// Number of lines that a chat reports at its start.
const LINES: usize = 10;

/// Begins the engine of a session that this process runs, with the triggers of its configuration and its profile. It ends when the
/// result is dropped.
///
/// # Errors
/// When a trigger of the configuration is not one, or there is no async runtime.
pub(crate) fn begin(
    session: &Session,
    configured: &[TriggerSection],
    profile: Option<&Profile>,
) -> Result<Box<dyn Any + Send + Sync>, Fault> {
    let name = session.name().to_owned();
    let of_config = configured.iter().filter(|it| it.session() == name).map(TriggerSection::spec);
    let of_config = of_config.collect::<Result<Vec<_>, _>>()?;
    let of_profile = profile.map(|it| it.triggers.clone()).unwrap_or_default();
    let handle = tokio::runtime::Handle::try_current()
        .map_err(|_| Fault::bug("triggers were to be run outside of an async runtime"))?;
    let store = session.runtime().store().clone();
    let sources =
        SourcesOf { workspace: session.runtime().roots().workspace().to_owned(), session: session.weak() };
    let task = handle.spawn(async move {
        let service = Service::new(store.clone());
        for (origin, wanted) in [("config", &of_config), ("profile", &of_profile)] {
            if let Err(fault) = service.settle(&name, origin, wanted, store::now_ms()).await {
                tracing::error!(session = %name, %fault, "the triggers of the {origin} are not armed");
            }
        }
        Engine::new(&store, &name, Arc::new(SystemClock), Arc::new(sources)).run().await;
    });
    Ok(Box::new(AbortOnDropHandle::new(task)))
}

/// The sources that the engine of a session watches.
struct SourcesOf {
    workspace: PathBuf,
    session: WeakSession,
}

impl Sources for SourcesOf {
    fn files(&self, spec: &Spec) -> Result<Box<dyn FileChanges>, Fault> {
        Ok(Box::new(WatchedFiles::new(&self.workspace, spec)?))
    }

    fn jobs(&self) -> Option<Arc<dyn Jobs>> {
        self.session.get().map(|it| it.job_table())
    }
}

/// Returns what a person has to learn of triggers, one line each, and marks it as told.
///
/// # Errors
/// When the store can't be read or written.
pub(crate) async fn news(store: &Store, session: Option<&str>) -> Result<Vec<String>, Fault> {
    let rows = store.triggers().untold(session)?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut lines: Vec<String> = rows.iter().take(LINES).map(line).collect();
    if rows.len() > LINES {
        lines.push(format!("and {} more of triggers: `haft triggers history ID`", rows.len() - LINES));
    }
    store.triggers().told(&rows.iter().map(|it| it.id).collect::<Vec<_>>()).await?;
    Ok(lines)
}

fn line(row: &HistoryRow) -> String {
    let (id, text) = (&row.trigger, plain(&row.text));
    let fire = row.fire.map_or_else(String::new, |it| format!(", fire {it}"));
    let what = match row.event {
        HistoryEvent::Denied => format!("was not granted: {text}"),
        HistoryEvent::Asks => format!("was missed, {text}; `haft triggers fire {id}` fires it now"),
        HistoryEvent::InboxFull => format!("did not fire: the inbox of `{}` is full", row.session),
        _ => text,
    };
    format!("trigger `{id}`{fire} ({}): {what}", time(row.at_ms))
}

/// Formats a moment in the machine's time zone.
pub(crate) fn time(at_ms: u64) -> String {
    let at = Timestamp::from_millisecond(at_ms.cast_signed());
    at.map(|at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}

/// Escapes a text of a model or a program: nothing in it acts on the terminal or begins a line.
pub(crate) fn plain(text: &str) -> String {
    kit::escape::visible(text).0.replace('\n', " ")
}
