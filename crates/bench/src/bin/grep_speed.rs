//! The speed of `grep`, compared with ripgrep: `cargo run --release -p bench --bin grep_speed [FOLDER]`
#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::{error::Error, path::PathBuf, time::Duration};

use bench::haystack::{self, FILES};

const RUNS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let dir = match &given {
        Some(dir) => dir.clone(),
        None => haystack::tree()?,
    };
    match given {
        Some(dir) => println!("`{}`", dir.display()),
        None => println!("{FILES} files"),
    }
    println!("warm cache, median of {RUNS} runs each in turn, milliseconds of wall time");
    println!("{:<18} {:>8} {:>8} {:>6}   what grep says last", "pattern", "grep", "rg", "ratio");
    for case in haystack::cases() {
        let compared = haystack::compare(&dir, &case, RUNS)?;
        let (name, ours) = (case.0, ms(compared.grep));
        let last = compared.says.lines().last().unwrap_or_default();
        match compared.rg.map(ms) {
            None => println!("{name:<18} {ours:>8.1} {:>8} {:>6}   {last}", "no rg", "-"),
            Some(rg) => println!("{name:<18} {ours:>8.1} {rg:>8.1} {:>6.2}   {last}", ours / rg),
        }
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
