//! Views for hosts of MCP (MCP Apps): which tools have one, and the data that it shows.

use kit::{
    Fault, Kinds, Output,
    services::{Job, Transcript},
};
use runtime::Answer;
use serde_json::{Value, json};
use serve::View;
use store::changes::DiffLimits;

use super::{McpBackend, aside};

/// The tools whose answers the board of jobs shows.
const JOB_TOOLS: [&str; 4] = ["jobs", "read_job", "shell_status", "stop_task"];

/// The tools whose files the 3D viewer shows.
const PART_TOOLS: [&str; 2] = ["model_3d", "render_3d"];

/// The end of a job's output that the board shows, in bytes.
const TAIL: usize = 4 << 10;

/// The newest jobs are on the board, at most so many.
const BOARD: usize = 50;

impl McpBackend {
    pub(super) fn all_views(&self) -> Vec<View> {
        let catalog = self.session.catalog();
        let changes_files = |kinds: Kinds| kinds.covers(Kinds::WRITE) && !kinds.covers(Kinds::RUN);
        let view = |it: &web::View| {
            let called: &[&str] = match it.name {
                "jobs" => &["jobs", "stop_task"],
                "part" => &["share_file"],
                _ => &["undo"],
            };
            let tools = match it.name {
                "jobs" => JOB_TOOLS.map(str::to_owned).to_vec(),
                "part" => PART_TOOLS.map(str::to_owned).to_vec(),
                _ => catalog
                    .listed()
                    .filter(|spec| changes_files(spec.at_most) && !PART_TOOLS.contains(&&*spec.name))
                    .map(|spec| spec.name.clone())
                    .collect(),
            };
            View {
                uri: format!("ui://haft/{}", it.name),
                name: it.name.to_owned(),
                description: it.about.to_owned(),
                html: it.html.clone(),
                tools,
                calls: called.iter().filter_map(|name| Some(catalog.get(name)?.spec().clone())).collect(),
            }
        };
        web::views().iter().map(view).collect()
    }

    pub(super) async fn data_of(&self, tool: &str, answer: &Answer) -> Option<Value> {
        if JOB_TOOLS.contains(&tool) {
            let jobs = self.session.job_table().list();
            let newest = jobs.iter().skip(jobs.len().saturating_sub(BOARD));
            return Some(json!({"jobs": newest.map(|it| self.job_on_board(it)).collect::<Vec<_>>()}));
        }
        if answer.changes.is_empty() {
            return None;
        }
        let (runtime, files) = (self.session.runtime().clone(), answer.changes.clone());
        let compared = aside(move || Ok(runtime.changes(&files, DiffLimits::default()))).await.ok()?;
        let changes: Vec<Value> = compared.iter().map(web::change).collect();
        (!changes.is_empty()).then(|| json!({"call": answer.id, "changes": changes}))
    }

    fn job_on_board(&self, job: &Job) -> Value {
        let tail = match (&job.live.output, job.result.as_deref()) {
            (Some(output), _) => Transcript::tail(&**output, TAIL).text,
            (None, Some(result)) => result.as_ref().map_or_else(Fault::as_text, Output::as_text),
            (None, None) => String::new(),
        };
        json!({
            "id": job.id,
            "tool": job.tool,
            "title": self.shown(&job.title),
            "state": job.state.name(),
            "ms": u64::try_from(job.took.as_millis()).unwrap_or(u64::MAX),
            "tail": self.shown(&tail),
            "over": job.state.is_over(),
        })
    }
}
