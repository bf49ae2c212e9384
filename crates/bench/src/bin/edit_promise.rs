//! The edit promise on many random cases: prints how many edits landed, and fails if one landed wrong.
//! `edit_promise [cases] [seed]`

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

fn main() -> io::Result<ExitCode> {
    let mut numbers = std::env::args().skip(1).map(|it| it.parse::<u64>());
    let (Ok(cases), Ok(seed)) = (numbers.next().unwrap_or(Ok(100_000)), numbers.next().unwrap_or(Ok(1)))
    else {
        writeln!(io::stderr(), "usage: edit_promise [cases] [seed]")?;
        return Ok(ExitCode::from(2));
    };
    let begun = Instant::now();
    let report = bench::promise::run(cases, seed, bench::promise::kit_planner);
    let mut out = io::stdout().lock();
    write!(out, "{report}")?;
    writeln!(out, "{cases} cases, seed {seed}, {:.1} s", begun.elapsed().as_secs_f64())?;
    Ok(if report.is_kept() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
