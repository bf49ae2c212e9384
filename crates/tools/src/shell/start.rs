//! How is a command line started?

use std::path::PathBuf;

use kit::{
    Cx, Fault, Kind,
    procs::{Process, Program, Stdin, Streams},
};

/// A command line for a shell, and where and how it runs.
pub(crate) struct Line<'a> {
    pub(super) command: &'a str,
    pub(super) dir: &'a str,
    pub(super) stdin: Stdin,
    pub(super) streams: Streams,
    pub(super) env: &'a [(&'a str, &'a str)],
    /// The shell; bash, or sh where there is no bash, if this is not given.
    pub(crate) shell: Option<&'a str>,
}

impl<'a> Line<'a> {
    /// A command line for whichever shell there is.
    pub(crate) fn new(command: &'a str, dir: &'a str, stdin: Stdin, streams: Streams) -> Self {
        Self { command, dir, stdin, streams, env: &[], shell: None }
    }

    /// Starts it.
    pub(crate) async fn start(&self, cx: &Cx) -> Result<Process, Fault> {
        checked(self.command)?;
        let cwd = folder(cx, self.dir)?;
        if let Some(shell) = self.shell {
            return cx.procs().start(self.program(shell, cwd)).await;
        }
        match cx.procs().start(self.program("bash", cwd.clone())).await {
            Err(fault) if fault.kind == Kind::NotFound => cx.procs().start(self.program("sh", cwd)).await,
            other => other,
        }
    }

    fn program(&self, shell: &str, cwd: PathBuf) -> Program {
        Program {
            argv: [shell, "-c", self.command].map(str::to_owned).to_vec(),
            cwd,
            env: self.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            stdin: self.stdin,
            streams: self.streams,
            files: Vec::new(),
        }
    }
}

/// The folder of this name, which lies in the roots.
fn folder(cx: &Cx, dir: &str) -> Result<PathBuf, Fault> {
    let location = cx.files().locate(dir)?;
    Ok(location.absolute())
}

/// Refuses what no shell can be told.
pub(super) fn checked(command: &str) -> Result<(), Fault> {
    if command.contains('\0') {
        return Err(Fault::bad_args("`command` contains a NUL byte, which no command line can")
            .next("Write it as an escape: printf '\\0'."));
    }
    if command.trim().is_empty() {
        return Err(Fault::bad_args("`command` is empty"));
    }
    Ok(())
}
