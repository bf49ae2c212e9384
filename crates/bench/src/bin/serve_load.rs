//! `haft serve` under load, beside KohakuTerrarium's server, and under faults.
//!
//! `cargo run --release -p bench --bin serve_load [-- --sample] [-- load|faults]`. The load: 64 sessions whose model streams at a
//! fixed pace, 4 watchers each; the time from the model's byte to the watcher, memory, processor time, the weight of the page.
//! The faults: 1,000 connections cut at any byte, `kill -9` at each kind of row, 100 watchers beside readers that take nothing, a
//! full disk. It fails if haft loses or repeats anything. `--sample` takes less than two minutes.
//!
//! `HAFT_BIN` is the program, by default `haft` beside this one. The peer is there after `python3 -m venv target/terrarium &&
//! target/terrarium/bin/pip install kohakuterrarium`; `--terrarium PYTHON` names another interpreter that has it.

use std::{env, io, path::PathBuf};

use bench::serve_load::{Amounts, Outcome, SAMPLE, WHOLE, faults, load};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let program = env::current_exe()?;
    let haft =
        env::var_os("HAFT_BIN").map_or(program.with_file_name("haft"), PathBuf::from).canonicalize()?;
    let target = program.ancestors().nth(2).map(|it| it.join("terrarium/bin/python"));
    let mut terrarium = target.filter(|it| it.is_file());
    let (mut amounts, mut parts): (Amounts, Vec<String>) = (WHOLE, Vec::new());
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--sample" => amounts = SAMPLE,
            "--terrarium" => {
                terrarium = Some(words.next().ok_or("--terrarium needs the path of a Python")?.into());
            }
            "load" | "faults" => parts.push(word),
            other => {
                return Err(
                    format!("`{other}` is unknown: use --sample, --terrarium PYTHON, load, faults").into()
                );
            }
        }
    }
    let has = |part: &str| parts.is_empty() || parts.iter().any(|it| it == part);
    if has("load") {
        load(&haft, terrarium.as_deref(), &amounts, &mut io::stdout()).await?;
    }
    if has("faults") {
        faults(&haft, &amounts, &mut io::stdout()).await?;
    }
    Ok(())
}
