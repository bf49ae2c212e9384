//! The speed of haft: `cargo run --release -p bench --bin speed [-- NAME…]`, and beside other servers of MCP:
//! `cargo run --release -p bench --bin speed -- --peers [NAME…]`
//!
//! `--peers` installs rust-mcp-filesystem (cargo), FastMCP (pip), server-filesystem and desktop-commander (npm)
//! below the target folder. In its benchmark `http`, each of 64 clients makes 1,000 calls of each server;
//! `--calls=10000` makes that 640,000 calls of each server, which take FastMCP about half an hour. `HAFT_BIN` names
//! a haft of another profile (`cargo build --profile dist -p haft`); the one of the release profile then has rows
//! beside it.
//!
//! Every number is compared with a floor or a peer that was measured in the same run, in turn with it. The
//! rows about processes need `cargo build --release -p haft` first; those about KohakuTerrarium need `python3
//! -m venv target/terrarium && target/terrarium/bin/pip install kohakuterrarium`.

use std::{
    error::Error,
    io::{self, Write},
};

use bench::speed;

fn main() -> Result<(), Box<dyn Error>> {
    let (flags, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|it| it.starts_with('-'));
    let (mut benchmarks, mut scratch) = (&speed::BENCHMARKS[..], speed::Scratch::new()?);
    for flag in &flags {
        match (flag.as_str(), flag.strip_prefix("--calls=")) {
            ("--peers", _) => benchmarks = &speed::PEERS,
            (_, Some(calls)) => {
                let calls = calls.parse().ok().filter(|calls| *calls > 1);
                let calls = calls.ok_or_else(|| format!("`{flag}` is not a number of at least 2"))?;
                scratch = scratch.with_calls(calls);
            }
            _ => return Err(format!("there is no `{flag}`; the flags are --peers and --calls=N").into()),
        }
    }
    let known: Vec<&str> = benchmarks.iter().map(|(name, _)| *name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("there is no `{name}`; the names are {}", known.join(", ")).into());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}", speed::HEADING)?;
    for (name, measure) in benchmarks {
        if names.is_empty() || names.iter().any(|it| it == name) {
            match measure(&scratch) {
                Ok(rows) => rows.iter().try_for_each(|row| writeln!(out, "{row}"))?,
                Err(why) => writeln!(out, "{name}: not measured: {why}")?,
            }
        }
    }
    Ok(())
}
