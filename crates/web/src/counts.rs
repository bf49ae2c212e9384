//! Counts of the server, as Prometheus reads them.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use http::StatusCode;

/// Counts since the server began.
#[derive(Default)]
pub(crate) struct Counts {
    requests: AtomicU64,
    /// Answers, by the first digit of their status.
    statuses: [AtomicU64; 6],
    streams: Arc<AtomicU64>,
}

/// A stream that is open as long as this is held.
pub(crate) struct OpenStream(Arc<AtomicU64>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counts {
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn status(&self, status: StatusCode) {
        if let Some(count) = self.statuses.get(usize::from(status.as_u16() / 100)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn stream(&self) -> OpenStream {
        self.streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.streams.clone())
    }

    /// Returns the counts as text. `sessions` says how many there are by their state.
    pub(crate) fn text(&self, sessions: &[(&str, usize)], waiting: usize) -> String {
        let mut text = String::new();
        let mut about = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let plain = |value: u64| vec![(String::new(), value)];
        let requests = self.requests.load(Ordering::Relaxed);
        about("haft_http_requests_total", "counter", "Requests so far.", &plain(requests));
        let statuses = self.statuses.iter().enumerate().skip(1);
        let statuses =
            statuses.map(|(at, it)| (format!("{{status=\"{at}xx\"}}"), it.load(Ordering::Relaxed)));
        let statuses: Vec<_> = statuses.collect();
        about("haft_http_responses_total", "counter", "Answers so far, by their status.", &statuses);
        let streams = self.streams.load(Ordering::Relaxed);
        about("haft_event_streams", "gauge", "Open streams of events, and open WebSockets.", &plain(streams));
        let sessions =
            sessions.iter().map(|(state, count)| (format!("{{state=\"{state}\"}}"), *count as u64));
        let sessions: Vec<_> = sessions.collect();
        about("haft_sessions", "gauge", "Listed sessions, by their state.", &sessions);
        about("haft_waiting_for_a_person", "gauge", "Open approvals and questions.", &plain(waiting as u64));
        text
    }
}
