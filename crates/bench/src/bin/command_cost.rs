//! The cost of the sandbox and of its change tracker, beside the same commands without haft.
//!
//! `cargo build --release -p haft && cargo run --release -p bench --bin command_cost -- [--only TEXT] [OTHER_HAFT]`
//!
//! Each row is one command: bare (bash in the folder), in haft's sandbox without the tracker, in haft as it is, and by
//! OTHER_HAFT, such as an earlier version. All are run in turn, so that a busy machine is busy for each of them. A
//! figure is the median of the runs, without the first.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use bench::batch::{Haft, Outcome, Tracking, bare, machine, median};

/// One command that is measured.
struct Row {
    name: &'static str,
    /// A script before each run, which is not measured.
    before: &'static str,
    command: &'static str,
    times: usize,
    /// The bytes of files that were there before, and that one run overwrites or removes.
    lost: u64,
}

const ROWS: &[Row] = &[
    Row { name: "true", before: "", command: "true", times: 200, lost: 0 },
    Row {
        name: "git status, 20,000 files",
        before: "",
        command: "git status --short | wc -l",
        times: 10,
        lost: 0,
    },
    Row {
        name: "5,000 new files of 4 KB by one process",
        before: "rm -rf target",
        command: "mkdir -p target && perl -e 'for (1..5000) { open(F, \">\", \"target/$_.o\"); print F \"x\" x 4096; close F }'",
        times: 7,
        lost: 0,
    },
    Row {
        name: "500 processes with 10 new files each",
        before: "rm -rf target",
        command: "mkdir -p target && for i in $(seq 500); do perl -e 'for (1..10) { open(F, \">\", \"target/$ARGV[0].$_\"); print F \"x\" x 4096 }' $i; done",
        times: 3,
        lost: 0,
    },
    Row {
        name: "make: 200 C files, compiled and linked",
        before: "make -s -C program clean",
        command: "make -s -j2 -C program",
        times: 3,
        lost: 0,
    },
    Row {
        name: "rm -rf of 10,000 files of 4 KB",
        before: "mkdir -p many && perl -e 'for (1..10000) { open(F, \">\", \"many/$_\"); print F \"x\" x 4096 }'",
        command: "rm -rf many",
        times: 5,
        lost: 10_000 * 4096,
    },
    Row {
        name: "append 1 MB to a file of 2 GB",
        before: "",
        command: "head -c 1000000 /dev/zero >> big",
        times: 7,
        lost: 0,
    },
    Row {
        name: "5,000 files of 16 KB overwritten in place",
        before: "",
        command: "perl -e 'for (1..5000) { open(F, \"+<\", \"data/$_\"); print F \"z\" x 16384; close F }'",
        times: 5,
        lost: 5000 * 16_384,
    },
    Row {
        name: "200 files of 1 MB overwritten in place",
        before: "",
        command: "perl -e 'for (1..200) { open(F, \"+<\", \"large/$_\"); print F \"z\" x 1048576; close F }'",
        times: 3,
        lost: 200 << 20,
    },
    Row {
        name: "sed -i on 2,000 files",
        before: "",
        command: "sed -i s/file/FILE/ files/d1/*.txt files/d2/*.txt files/d3/*.txt files/d4/*.txt",
        times: 5,
        lost: 0,
    },
];

/// Makes the folder in which all of it happens.
const FOLDER: &str = r##"
mkdir -p files data large program
perl -e 'for my $d (1..40) { mkdir "files/d$d"; for (1..500) { open(F, ">", "files/d$d/$_.txt"); print F "file $d $_\n" } }
for (1..5000) { open(F, ">", "data/$_"); print F "y" x 16384 } for (1..200) { open(F, ">", "large/$_"); print F "y" x 1048576 }
for (1..200) { open(F, ">", "program/f$_.c"); print F "#include <stdio.h>\nint f$_(int a) { for (int i = 0; i < a; i++) printf(\"%d\", i); return a; }\n" }
open(F, ">", "program/main.c"); print F "int main(void) { return 0; }\n"; close F'
printf 'CFLAGS = -O1\nOBJECTS = $(patsubst %%.c,%%.o,$(wildcard *.c))\nall: $(OBJECTS)\n\tcc -o all $(OBJECTS)\nclean:\n\trm -f *.o all\n' > program/Makefile
printf 'target/\nbig\n' > .gitignore
export GIT_CONFIG_GLOBAL=/dev/null
git init -q && git add files .gitignore && git -c user.name=a -c user.email=a@b commit -qm one
printf 'data/\nlarge/\nprogram/\nmany/\n' > .git/info/exclude
head -c 2000000000 /dev/zero > big
"##;

/// One way to run commands.
struct Side {
    name: String,
    folder: PathBuf,
    /// `None`: without haft.
    haft: Option<Haft>,
}

fn main() -> Outcome<()> {
    let (only, others) = arguments();
    let base = tempfile::tempdir()?;
    let haft = std::env::current_exe()?.with_file_name("haft");
    let mut sides = vec![side(base.path(), "bare", None)?];
    sides.push(side(base.path(), "sandbox", Some((&haft, Tracking::Off)))?);
    sides.push(side(base.path(), "haft", Some((&haft, Tracking::On)))?);
    for (number, other) in others.iter().enumerate() {
        sides.push(side(base.path(), &format!("other {number}"), Some((other, Tracking::On)))?);
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}; milliseconds", machine())?;
    write!(out, "{:<42}", "")?;
    for side in &sides {
        write!(out, "{:>10}", side.name)?;
    }
    writeln!(out, "   haft/bare   haft/sandbox   held/lost")?;
    for row in ROWS.iter().filter(|it| it.name.contains(&only)) {
        measure(row, &mut sides, &mut out)?;
    }
    Ok(())
}

/// Returns the text that rows must have in their name, and the other programs.
fn arguments() -> (String, Vec<PathBuf>) {
    let (mut only, mut others) = (String::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--only" {
            only = arguments.next().unwrap_or_default();
        } else {
            others.push(argument.into());
        }
    }
    (only, others)
}

fn side(base: &Path, name: &str, program: Option<(&Path, Tracking)>) -> Outcome<Side> {
    let folder = base.join(name);
    std::fs::create_dir_all(&folder)?;
    bare(&folder, FOLDER)?;
    let state = base.join(format!("{name}.state"));
    let haft =
        program.map(|(program, tracking)| Haft::start(program, &folder, &state, tracking)).transpose()?;
    Ok(Side { name: name.to_owned(), folder, haft })
}

/// Runs a row on all sides in turn, and prints it.
fn measure(row: &Row, sides: &mut [Side], out: &mut impl Write) -> Outcome<()> {
    let mut times = vec![Vec::new(); sides.len()];
    let mut held = None;
    for run in 0..=row.times {
        for (side, times) in sides.iter_mut().zip(&mut times) {
            bare(&side.folder, row.before)?;
            let held_before = side.haft.as_ref().map_or(0, |it| if run == 0 { it.held() } else { 0 });
            let took = match &mut side.haft {
                None => bare(&side.folder, row.command)?,
                Some(haft) => haft.call(row.command)?,
            };
            if run > 0 {
                times.push(took);
            } else if side.name == "haft" && row.lost > 0 {
                held = side.haft.as_ref().map(|it| it.held().saturating_sub(held_before));
            }
        }
    }
    let times: Vec<f64> = times.into_iter().map(median).collect();
    write!(out, "{:<42}", row.name)?;
    for time in &times {
        write!(out, "{time:>10.2}")?;
    }
    if let [bare, sandbox, haft, ..] = times.as_slice() {
        write!(out, "{:>12.2}{:>15.2}", haft / bare, haft / sandbox)?;
    }
    if let Some(held) = held {
        write!(out, "{:>12.2}", held as f64 / row.lost as f64)?;
    }
    writeln!(out)?;
    Ok(())
}
