//! A pseudo-terminal for the built program.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::TIMEOUT;

/// A program whose controlling terminal is ours.
pub(crate) struct Terminal {
    child: Child,
    ours: File,
    said: Receiver<Vec<u8>>,
    /// All output until now.
    seen: String,
}

impl Terminal {
    /// Starts the program in a session of its own; standard input and error are the terminal, standard output is not.
    pub(crate) fn start(command: &Command) -> Self {
        Self::of(command, false)
    }

    /// The same, with its output at the terminal, too.
    pub(crate) fn with_output(command: &Command) -> Self {
        Self::of(command, true)
    }

    fn of(command: &Command, with_output: bool) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let end = |file: &File| Stdio::from(OwnedFd::from(file.try_clone().unwrap()));
        let mut setsid = Command::new("/usr/bin/setsid");
        setsid.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args()).env_clear();
        for (name, value) in command.get_envs() {
            setsid.env(name, value.unwrap());
        }
        setsid.current_dir(command.get_current_dir().unwrap());
        let output = if with_output { end(&theirs) } else { Stdio::null() };
        let child = setsid.stdin(end(&theirs)).stderr(end(&theirs)).stdout(output).spawn().unwrap();
        drop((theirs, setsid));
        let ours = File::from(master);
        let mut reader = ours.try_clone().unwrap();
        let (heard, said) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal that nobody holds any more is an error, not an end.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if heard.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, ours, said, seen: String::new() }
    }

    /// Waits until the terminal has shown this, `times` times in all.
    #[track_caller]
    pub(crate) fn shows(&mut self, what: &str, times: usize) -> &mut Self {
        while self.seen.matches(what).count() < times {
            let Ok(bytes) = self.said.recv_timeout(TIMEOUT) else {
                panic!("`{what}` not in:\n{}", self.seen)
            };
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        self
    }

    pub(crate) fn types(&mut self, text: &str) -> &mut Self {
        self.ours.write_all(text.as_bytes()).unwrap();
        self
    }

    /// Returns the exit code, and all output.
    pub(crate) fn ends(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        while let Ok(bytes) = self.said.recv_timeout(std::time::Duration::from_millis(100)) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        (code, self.seen)
    }
}
