//! The client that the official suite plays its scenarios with: haft, with a person and a browser that always agree.

#[path = "../client/person.rs"]
mod person;
#[path = "../client/play.rs"]
mod play;

use std::process::ExitCode;

use haft::print;

fn main() -> ExitCode {
    // haft starts its own program for commands; a scenario starts none.
    if std::env::args_os().nth(1).unwrap_or_default() == sandbox::KEEPER {
        return sandbox::keep();
    }
    let Some(url) = std::env::args().next_back() else { return ExitCode::FAILURE };
    let tokio = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(tokio) => tokio,
        Err(error) => {
            print::err(&format!("conformance: can't start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match tokio.block_on(play::play(&url)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            print::fault(&fault);
            ExitCode::FAILURE
        }
    }
}
