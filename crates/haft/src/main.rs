//! The `haft` program: becomes the process that starts commands, or runs one verb of the command line.

use std::process::ExitCode;

use haft::{Haft, Place, print, verbs};

fn main() -> ExitCode {
    // The keeper, the decoder workers and the probe that `haft doctor` runs in the sandbox are this program too.
    if let Some(code) = haft::keeper() {
        return code;
    }
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).unwrap_or_default() == haft::sandbox::probe::PROBE {
        return haft::sandbox::probe::probe();
    }
    let haft = match Haft::of_process() {
        Ok(haft) => haft,
        Err(code) => return code,
    };
    start_log();
    let place = match Place::from_env() {
        Ok(place) => place,
        Err(fault) => {
            print::fault(&fault);
            return ExitCode::FAILURE;
        }
    };
    // One thread: calls are served in the order of their arrival, and start-up costs less. Blocking work has threads of
    // its own.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print::err(&format!("haft: can't start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(haft.run(&place));
    // The program does not wait for a thread that a stopped call left behind.
    runtime.shutdown_background();
    match done {
        Ok(code) => code,
        Err(fault) => {
            print::fault(&fault);
            ExitCode::from(if fault.kind == haft::kit::Kind::BadArgs { verbs::USAGE } else { verbs::FAULT })
        }
    }
}

/// Starts logging to standard error; without `HAFT_LOG`, only errors are logged. With it, the end of each span is
/// logged too.
fn start_log() {
    use tracing_subscriber::{EnvFilter, fmt::format::FmtSpan};
    let asked = std::env::var_os("HAFT_LOG").is_some_and(|it| !it.is_empty());
    let filter = if asked { EnvFilter::try_from_env("HAFT_LOG").ok() } else { None };
    // rmcp traces whole messages, with any secrets in them.
    let filter = match (filter, "rmcp=error".parse()) {
        (Some(filter), Ok(directive)) => filter.add_directive(directive),
        // The caller reports the errors of a server; rmcp would repeat them.
        _ => EnvFilter::new("error,rmcp=off"),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}
