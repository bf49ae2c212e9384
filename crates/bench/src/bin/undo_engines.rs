//! Engines that could keep what commands change, measured beside each other: the table behind the choice of the change
//! tracker.
//!
//! `cargo build --release -p haft && cargo run --release -p bench --bin undo_engines -- [HAFT]`
//!
//! A figure is the time of one command with all that its engine does before, during and after it, in milliseconds: the
//! median of runs that are done in turn. Each engine has a folder of its own with 20,000 files and one of 2 GB.

use std::{
    io::{self, Write},
    time::Instant,
};

use bench::{
    batch::{Outcome, Tracking, bare, machine, median},
    engines::{Bare, Engine, Sandboxed, git::Git, overlay::Overlay, snapshot::Snapshots},
};

/// A script that is not measured, a command, and how often it is run.
const ROWS: &[(&str, &str, &str, usize)] = &[
    ("true", "", "true", 9),
    (
        "5,000 new files",
        "rm -rf new",
        "mkdir new && perl -e 'for (1..5000) { open(F, \">\", \"new/$_\"); print F \"x\" x 4096 }'",
        3,
    ),
    ("rm -rf of 10,000", "rm -rf many; cp -r files/a many", "rm -rf many", 3),
    ("append to 2 GB", "", "echo one line >> big", 1),
];

const FOLDER: &str = r#"
mkdir -p files/a files/b
perl -e 'for my $d ("a", "b") { for my $s (1..20) { mkdir "files/$d/$s"; for (1..500) { open(F, ">", "files/$d/$s/$_"); print F "file $d $s $_\n" x 64 } } }'
head -c 2000000000 /dev/zero > big
"#;

fn main() -> Outcome<()> {
    let base = tempfile::tempdir()?;
    let program = match std::env::args_os().nth(1) {
        Some(program) => program.into(),
        None => std::env::current_exe()?.with_file_name("haft"),
    };
    let folder = |name: &str| -> Outcome<_> {
        let folder = base.path().join(name);
        std::fs::create_dir(&folder)?;
        bare(&folder, FOLDER)?;
        Ok(folder)
    };
    let mut engines: Vec<Box<dyn Engine>> = vec![
        Box::new(Bare(folder("bare")?)),
        Box::new(Sandboxed::start(&program, folder("sandbox")?, Tracking::Off)?),
        Box::new(Sandboxed::start(&program, folder("haft")?, Tracking::On)?),
        Box::new(Overlay::new(folder("overlay")?)?),
        Box::new(Snapshots::new(folder("snapshot")?)?),
        Box::new(Git::new(folder("git")?)?),
    ];
    let mut out = io::stdout().lock();
    writeln!(out, "{}; milliseconds for one command, median of the runs", machine())?;
    for (number, engine) in (1..).zip(&mut engines) {
        let began = Instant::now();
        engine.prepare()?;
        writeln!(out, "{number}: {} (made ready in {:.1} s)", engine.name(), began.elapsed().as_secs_f64())?;
        writeln!(out, "   lacks: {}", engine.lacks())?;
    }
    write!(out, "{:<20}", "")?;
    for number in 1..=engines.len() {
        write!(out, "{number:>10}")?;
    }
    writeln!(out)?;
    for (name, before, command, times) in ROWS {
        let mut taken = vec![Vec::new(); engines.len()];
        for _ in 0..*times {
            for (engine, taken) in engines.iter_mut().zip(&mut taken) {
                bare(engine.folder(), before)?;
                taken.push(engine.run(command)?);
            }
        }
        write!(out, "{name:<20}")?;
        for taken in taken {
            write!(out, "{:>10.1}", median(taken))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
