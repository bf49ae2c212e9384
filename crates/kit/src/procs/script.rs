//! Passing a script to Python so that no process list shows it.

use std::os::{fd::OwnedFd, unix::net::UnixStream};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::{Program, Stdin, Streams};

/// The descriptor through which the script comes.
const DESCRIPTOR: i32 = 3;

/// The code that the interpreter runs with `-c`. It must parse in interpreters that are too old, too.
const FIRST: &str = "\
import os,sys
if sys.version_info<(3,MINOR):sys.exit('Python 3.MINOR or newer is needed; this is '+sys.version)
d=b''
while len(d)<8:d+=os.read(3,8-len(d)) or sys.exit(1)
n=int(d);s=b''
while len(s)<n:s+=os.read(3,n-len(s)) or sys.exit(1)
exec(compile(s,'<haft>','exec'),{'__name__':'haft','MODE':sys.argv[1]})";

/// Returns an interpreter, Python 3.`minor` or newer, that runs the [`framed`] script from `file`; the rest
/// of `file` is for the script, which finds `mode` in `MODE`.
pub fn python(name: &str, minor: u8, mode: &str, file: impl Into<OwnedFd>, stdin: Stdin) -> Program {
    let first = FIRST.replace("MINOR", &minor.to_string());
    // Unbuffered: output is complete when the code is killed, and in order with the errors.
    let argv = [name, "-u", "-X", "utf8", "-c", &first, mode];
    Program {
        argv: argv.map(str::to_owned).to_vec(),
        cwd: "/".into(),
        env: Vec::new(),
        stdin,
        streams: Streams::Together,
        files: vec![(DESCRIPTOR, file.into())],
    }
}

/// Prefixes a script with its length, for the interpreter.
pub fn framed(script: &str) -> Vec<u8> {
    format!("{:08}{script}", script.len()).into_bytes()
}

/// Returns both ends of a socket, haft's first.
///
/// # Errors
/// When too many files are open.
pub fn sockets() -> std::io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    Ok((ours.into(), theirs))
}
