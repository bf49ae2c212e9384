//! Logging to standard error: errors, or what `HAFT_LOG` asks for.

use std::sync::LazyLock;

use tracing::{
    Event, Level, Metadata, Subscriber,
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{EnvFilter, fmt, fmt::format::FmtSpan, util::SubscriberInitExt as _};

/// Starts logging to standard error; without `HAFT_LOG`, only errors are logged. With it, the end of each span is
/// logged too.
pub(crate) fn start() {
    let asked = std::env::var_os("HAFT_LOG").is_some_and(|it| !it.is_empty());
    let filter = if asked { EnvFilter::try_from_env("HAFT_LOG").ok() } else { None };
    // rmcp traces whole messages, with any secrets in them.
    if let (Some(filter), Ok(directive)) = (filter, "rmcp=error".parse()) {
        return fmt()
            .with_env_filter(filter.add_directive(directive))
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .init();
    }
    Errors(LazyLock::new(|| Box::new(fmt().with_writer(std::io::stderr).with_ansi(false).finish()))).init();
}

/// Logs errors. Its parts are made for the first one: tables for spans would take a part of every start.
struct Errors(LazyLock<Box<dyn Subscriber + Send + Sync>>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // The caller reports the errors of a server; rmcp would repeat them.
        *metadata.level() == Level::ERROR && metadata.target().split("::").next() != Some("rmcp")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::ERROR)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.new_span(span)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.0.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.0.record_follows_from(span, follows);
    }

    fn event(&self, event: &Event<'_>) {
        self.0.event(event);
    }

    fn enter(&self, span: &Id) {
        self.0.enter(span);
    }

    fn exit(&self, span: &Id) {
        self.0.exit(span);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.0.clone_span(id)
    }

    fn try_close(&self, id: Id) -> bool {
        self.0.try_close(id)
    }
}
