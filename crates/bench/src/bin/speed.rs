//! The speed of haft: `cargo run --release -p bench --bin speed [-- NAME…]`
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
    let names: Vec<String> = std::env::args().skip(1).collect();
    let known: Vec<&str> = speed::BENCHMARKS.iter().map(|(name, _)| *name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("there is no `{name}`; the names are {}", known.join(", ")).into());
    }
    let scratch = speed::Scratch::new()?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", speed::HEADING)?;
    for (name, measure) in speed::BENCHMARKS {
        if names.is_empty() || names.iter().any(|it| it == name) {
            match measure(&scratch) {
                Ok(rows) => rows.iter().try_for_each(|row| writeln!(out, "{row}"))?,
                Err(why) => writeln!(out, "{name}: not measured: {why}")?,
            }
        }
    }
    Ok(())
}
