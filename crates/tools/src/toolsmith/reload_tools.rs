//! `reload_tools`: reloads tool files and reports errors.

use std::{path::Path, time::Duration};

use kit::{prelude::*, services::Reloaded};

use super::{bounded, last_line, shown_path};

/// Describing new files means running them, and they may be many.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Reload tool files; reports what was loaded, and why a file was not.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReloadTools {}

impl Tool for ReloadTools {
    const NAME: &str = "reload_tools";
    const AT_MOST: Kinds = Kinds::SESSION;

    fn touches(&self) -> Touches {
        Touches::session("tools")
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.check()?;
        let reloaded = cx.tools().reload().await;
        let report = report(cx, &reloaded);
        match reloaded.failed.len() {
            0 => Ok(Output::text(report)),
            // The call fails if there are errors, but the other files are loaded.
            failed => {
                let file = if failed == 1 { "file" } else { "files" };
                Err(Fault::new(Kind::Failed, format!("{failed} {file} could not be loaded"))
                    .seen(Output::text(report)))
            }
        }
    }
}

/// Reports the tools, the errors, and then each traceback.
fn report(cx: &Cx, reloaded: &Reloaded) -> String {
    let Reloaded { loaded, changed, gone, failed, aside, notes } = reloaded;
    let mut lines = vec![if loaded.is_empty() {
        "No tools loaded.".to_owned()
    } else {
        format!("Loaded ({}): {}", loaded.len(), loaded.join(", "))
    }];
    for (what, names) in [("New or changed", changed), ("Gone", gone)] {
        if !names.is_empty() {
            lines.push(format!("{what} ({}): {}", names.len(), names.join(", ")));
        }
    }
    if *aside > 0 {
        lines.push(super::left_aside(*aside));
    }
    lines.extend(notes.iter().map(|note| format!("note: {note}")));
    if !failed.is_empty() {
        lines.push(format!("Errors ({}):", failed.len()));
    }
    let file = |file: &str| shown_path(cx, Path::new(file));
    lines.extend(failed.iter().map(|it| format!(" {}: {}", file(&it.file), last_line(&it.why))));
    for it in failed {
        if it.older_serves {
            lines.push(format!("The last good version of {} stays in use.", file(&it.file)));
        }
        // A one-line error is in the list already.
        if it.why.trim().contains('\n') {
            lines.push(format!("\n{}:\n{}", file(&it.file), bounded(&it.why)));
        }
    }
    lines.join("\n")
}
