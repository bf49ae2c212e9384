//! Running OpenSCAD.

use std::{
    fs::File,
    io::{Read, Seek, Write},
    os::fd::OwnedFd,
    path::PathBuf,
    time::{Duration, Instant},
};

use kit::{
    Cx, Fault, Kind, OrFault, Output,
    procs::{Ending, Exit, Process, Program, Stdin, Streams, signal_name},
};
use tokio::time::{sleep, sleep_until};

use super::{
    super::{source::Source, stl},
    messages::Messages,
};

/// Interval at which progress is reported and the size of the output is checked.
const LOOK: Duration = Duration::from_millis(500);
/// Time to wait for the rest of its output.
const DRAIN: Duration = Duration::from_secs(2);
/// Maximum bytes of its messages that are read.
const SAID: usize = 64 << 10;

/// Source that is to be compiled.
pub(super) struct Compile<'a> {
    pub(super) source: &'a Source<'a>,
    /// Each as `name=value`.
    pub(super) definitions: Vec<String>,
    pub(super) at_most: Duration,
}

/// The result of a run.
pub(super) struct Compiled {
    pub(super) exit: Exit,
    pub(super) stl: Vec<u8>,
    /// Its messages.
    pub(super) said: String,
    /// The folder in which it ran.
    pub(super) folder: PathBuf,
}

impl Compile<'_> {
    /// Runs OpenSCAD in the sandbox, and kills it with everything it started when its time is over.
    pub(super) async fn run(&self, cx: &Cx) -> Result<Compiled, Fault> {
        let folder = match (&self.source.place, self.source.path) {
            (Some(place), Some(_)) => place.parent().map(PathBuf::from).unwrap_or_default(),
            _ => cx.files().roots().workspace().to_owned(),
        };
        let mut made = File::from(nameless("stl")?);
        let process = self.start(cx, folder.clone(), &made).await?;
        let began = Instant::now();
        let until = tokio::time::Instant::now() + self.at_most;
        let exit = loop {
            tokio::select! {
                biased;
                exit = process.finished(DRAIN) => break exit,
                () = cx.cancelled() => {
                    process.end(Ending::NOW).await;
                    return Err(Fault::new(Kind::Cancelled, "the compilation was stopped"));
                }
                () = sleep_until(until) => {
                    process.end(Ending::NOW).await;
                    return Err(self.too_slow(&process, &folder));
                }
                () = sleep(LOOK) => {}
            }
            let length = made.metadata().map_or(0, |it| it.len());
            if length > stl::LONGEST {
                process.end(Ending::NOW).await;
                return Err(too_long(length));
            }
            let so_far = began.elapsed();
            let total = Some(self.at_most.as_secs_f64());
            cx.progress(so_far.as_secs_f64(), total, &format!("compiling for {} s", so_far.as_secs()));
        };
        process.end(Ending::NOW).await;
        let mut stl = Vec::new();
        made.rewind().or_fault(Kind::Unavailable, "what OpenSCAD made can't be read")?;
        let read = (&mut made).take(stl::LONGEST + 1).read_to_end(&mut stl);
        read.or_fault(Kind::Unavailable, "what OpenSCAD made can't be read")?;
        if stl.len() as u64 > stl::LONGEST {
            return Err(too_long(stl.len() as u64));
        }
        Ok(Compiled { exit, stl, said: process.output().since(0, SAID).text, folder })
    }

    async fn start(&self, cx: &Cx, cwd: PathBuf, made: &File) -> Result<Process, Fault> {
        let named = cx.preferences().programs.openscad.clone();
        let program = named.as_ref().map_or_else(|| "openscad".to_owned(), |it| it.display().to_string());
        let place = self.source.place.as_ref().filter(|_| self.source.path.is_some());
        let mut argv = [&program, "-o", "-", "--export-format", "binstl"].map(str::to_owned).to_vec();
        for definition in &self.definitions {
            argv.extend(["-D".to_owned(), definition.clone()]);
        }
        argv.push(place.map_or_else(|| "-".to_owned(), |it| it.display().to_string()));
        let mut stdin = File::from(nameless("source")?);
        if place.is_none() {
            let written = stdin.write_all(self.source.text.as_bytes()).and_then(|()| stdin.rewind());
            written.or_fault(Kind::Unavailable, "the source can't be handed over")?;
        }
        let made = made.try_clone().or_fault(Kind::Unavailable, "the output can't be handed over")?;
        let started = cx.procs().start(Program {
            argv,
            cwd,
            // Its messages are parsed, so they must be in one language.
            env: vec![("LC_ALL".to_owned(), "C.UTF-8".to_owned())],
            stdin: Stdin::Null,
            streams: Streams::Given,
            files: vec![(0, stdin.into()), (1, made.into())],
        });
        started.await.map_err(|fault| match fault.kind {
            Kind::NotFound => Fault::new(Kind::Unavailable, format!("there is no program `{program}`"))
                .next("Install OpenSCAD (`apt install openscad`), or name it by `openscad` under `[programs]` in haft.toml.")
                .caused_by(fault),
            _ => fault,
        })
    }

    fn too_slow(&self, process: &Process, folder: &std::path::Path) -> Fault {
        let said = process.output().since(0, SAID).text;
        let what = format!(
            "OpenSCAD was ended after {} ms (`timeout_ms`), with all it had started; nothing was written",
            self.at_most.as_millis()
        );
        Fault::new(Kind::Timeout, what)
            .next(
                "Make the model simpler (a smaller `$fn`, fewer repetitions), or give a larger `timeout_ms`.",
            )
            .seen(Output::text(Messages::of(&said, self.source, folder).lines.join("\n")))
    }
}

/// Describes how a failed run ended.
pub(super) fn how(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(signal) => signal_name(signal).to_string(),
        Exit::Lost => "nobody knows what".to_owned(),
    }
}

fn too_long(length: u64) -> Fault {
    Fault::new(
        Kind::TooBig,
        format!(
            "the STL is longer than {} MiB ({length} bytes so far); nothing was written",
            stl::LONGEST >> 20
        ),
    )
    .next("Make the model simpler: a smaller `$fn`, fewer repetitions.")
}

/// Creates a file in memory, which is freed with its last descriptor.
#[cfg(target_os = "linux")]
fn nameless(name: &str) -> Result<OwnedFd, Fault> {
    let made = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC);
    made.or_fault(Kind::Unavailable, "there is no memory for what OpenSCAD makes")
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &str) -> Result<OwnedFd, Fault> {
    Err(Fault::new(Kind::Unavailable, "OpenSCAD is run on Linux only, as yet"))
}
