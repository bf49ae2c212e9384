//! Growth of costs with the number of jobs, own tools, sessions and files, with the exponents that fit best.
//!
//! `cargo build --release -p haft && cargo run --release -p bench --bin growth [jobs|tools|sessions|files] [NUMBER …]`
//!
//! Without numbers: 10, 100, 1,000, 10,000. `HAFT_BIN` names another haft.

use std::io;

use bench::growth::{Outcome, files, jobs, sessions, tools};

const NUMBERS: [usize; 4] = [10, 100, 1_000, 10_000];

fn main() -> Outcome<()> {
    let (mut what, mut numbers) = (Vec::new(), Vec::new());
    for argument in std::env::args().skip(1) {
        match argument.parse() {
            Ok(number) => numbers.push(number),
            Err(_) => what.push(argument),
        }
    }
    if numbers.is_empty() {
        numbers.extend(NUMBERS);
    }
    let known = ["jobs", "tools", "sessions", "files"];
    if let Some(name) = what.iter().find(|it| !known.contains(&it.as_str())) {
        return Err(format!("there is no `{name}`; the names are {}", known.join(", ")).into());
    }
    let wants = |name: &str| what.is_empty() || what.iter().any(|it| it == name);
    let mut out = io::stdout().lock();
    if wants("jobs") {
        jobs::table(&mut out, &numbers)?;
    }
    if wants("tools") {
        tools::table(&mut out, &numbers)?;
    }
    if wants("sessions") {
        sessions::table(&mut out, &numbers)?;
    }
    if wants("files") {
        files::table(&mut out, &numbers)?;
    }
    Ok(())
}
