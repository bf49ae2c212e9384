//! The job of a process id, also after the process ended.
//!
//! A job drops its process when it ends; only the process id is kept here.

use std::collections::VecDeque;

use kit::{prelude::*, services::Job};
use parking_lot::Mutex;

/// Maximum number of processes: more than the finished jobs that can still be read.
const MOST: usize = 200;

/// The processes of a session that went to the background, oldest first.
#[derive(Default)]
pub(super) struct Started(Mutex<VecDeque<(u32, String)>>);

/// A process in the background, with its job.
pub(super) struct InBackground {
    pub(super) pid: u32,
    pub(super) job: Job,
}

impl Started {
    /// Records that the process belongs to this job.
    pub(super) fn note(&self, pid: u32, job: &str) {
        let mut all = self.0.lock();
        if all.iter().any(|(known, id)| *known == pid && id == job) {
            return;
        }
        // The system reuses process ids: the newest is meant.
        all.retain(|(known, _)| *known != pid);
        all.push_back((pid, job.to_owned()));
        if all.len() > MOST {
            all.pop_front();
        }
    }

    /// Returns all known processes, oldest first.
    pub(super) fn all(cx: &Cx) -> Vec<InBackground> {
        let jobs = cx.jobs().list();
        let started = cx.shelf().get::<Self>();
        // A person may have moved a command to the background without a record here.
        for job in &jobs {
            if let Some(process) = &job.live.process {
                started.note(process.pid(), &job.id);
            }
        }
        let known = started.0.lock().clone();
        let with_job = |(pid, id): (u32, String)| {
            let job = jobs.iter().find(|job| job.id == id)?.clone();
            Some(InBackground { pid, job })
        };
        known.into_iter().filter_map(with_job).collect()
    }
}
