//! Commands that can't be started: the reason, and what to do next.

use std::{collections::HashMap, ffi::CString, io, os::unix::ffi::OsStrExt, path::Path, time::Duration};

use super::{
    Program,
    wire::{Failure, PATH, Step},
};
use crate::{Fault, Kind};

/// The longest single argument or variable that the kernel accepts, with its terminating byte.
const LONGEST: usize = 128 << 10;
/// Maximum number of characters of a long command that are shown.
const SHOWN: usize = 80;

/// Returns the arguments and the variables as the kernel takes them, or what is wrong with them.
pub(super) fn check(
    program: &Program,
    base: &[(String, String)],
) -> Result<(Vec<CString>, Vec<CString>), Fault> {
    if program.argv.first().is_none_or(String::is_empty) {
        return Err(Fault::bad_args("no program is named"));
    }
    let argv = program
        .argv
        .iter()
        .map(|it| text(it.clone().into_bytes(), "an argument"))
        .collect::<Result<_, _>>()?;
    let own: HashMap<&str, ()> = program.env.iter().map(|(name, _)| (name.as_str(), ())).collect();
    let base = base.iter().filter(|(name, _)| !own.contains_key(name.as_str()));
    let env = base
        .chain(&program.env)
        .map(|(name, value)| {
            if name.is_empty() || name.contains('=') {
                return Err(Fault::bad_args(format!("`{name}` can't be the name of a variable")));
            }
            text(format!("{name}={value}").into_bytes(), &format!("the variable {name}"))
        })
        .collect::<Result<_, _>>()?;
    Ok((argv, env))
}

/// Returns the working directory.
pub(super) fn folder(cwd: &Path) -> Result<CString, Fault> {
    if !cwd.is_absolute() {
        return Err(Fault::bad_args(format!("the folder {} is not an absolute path", cwd.display())));
    }
    text(cwd.as_os_str().as_bytes().to_vec(), "the folder")
}

/// Returns the fault for a failure that the supervisor reported.
pub(super) fn failed(program: &Program, base: &[(String, String)], failure: Failure) -> Fault {
    let error = io::Error::from_raw_os_error(failure.errno);
    let name = shown(program);
    let cwd = program.cwd.display();
    let fault = match (failure.step, failure.errno) {
        (Step::Cwd, libc::ENOENT) => Fault::not_found(format!("there is no folder {cwd} to start in")),
        (Step::Cwd, libc::ENOTDIR) => Fault::not_found(format!("{cwd} is not a folder to start in")),
        (Step::Cwd, _) => Fault::denied(format!("can't start in {cwd}: {error}")),
        (Step::Program, libc::ENOENT | libc::ENOTDIR) => missing(&name, program, base),
        (Step::Program, libc::EISDIR) => Fault::bad_args(format!("{name} is a folder, not a program")),
        (Step::Program, libc::EACCES) => {
            Fault::denied(format!("{name} may not be run: it is not executable"))
                .next(format!("Make it so with `chmod +x`, or run it by its interpreter: `sh {name}`."))
        }
        (Step::Program, libc::ENOEXEC) => {
            Fault::bad_args(format!("{name} is not a program that this machine runs"))
        }
        (Step::Program, libc::E2BIG) => too_big("the arguments and variables together are too long"),
        (Step::Interpreter, _) => {
            Fault::not_found(format!("{name} is there, but what runs it is not: see its first line, `#!`"))
        }
        (Step::Fork | Step::Program, libc::EAGAIN | libc::ENOMEM) => Fault::new(
            Kind::Unavailable,
            format!("{name} can't be started: no more processes are allowed ({error})"),
        )
        .next("End jobs that are not needed."),
        (Step::Terminal, _) => {
            Fault::new(Kind::Unavailable, format!("no terminal is available for {name}: {error}"))
        }
        (Step::Limits, _) => {
            Fault::new(Kind::Unavailable, format!("the limits of {name} can't be set: {error}"))
        }
        (Step::Inside, _) => {
            Fault::new(Kind::Unavailable, format!("the sandbox of {name} can't be entered: {error}"))
        }
        (Step::Program | Step::Fork | Step::Setup, _) => {
            Fault::new(Kind::Unavailable, format!("{name} can't be started: {error}"))
        }
    };
    fault.caused_by(error)
}

/// Returns the fault for a command that has neither started nor failed in time.
pub(super) fn too_slow(program: &Program, waited: Duration) -> Fault {
    Fault::new(
        Kind::Unavailable,
        format!(
            "{} did not begin within {} s: is its folder on a disk that hangs?",
            shown(program),
            waited.as_secs()
        ),
    )
}

/// Returns the fault for a pipe that can't be created; most likely too many files are open.
pub(super) fn no_pipe(error: io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("can't create a pipe to a command: {error}")).caused_by(error)
}

fn missing(name: &str, program: &Program, base: &[(String, String)]) -> Fault {
    if name.contains('/') {
        return Fault::not_found(format!("there is no program {name}"));
    }
    let path = program.env.iter().chain(base).find(|it| it.0 == "PATH").map_or(PATH, |it| it.1.as_str());
    Fault::not_found(format!("there is no program {name} in {path}"))
        .next("Give its whole path, or install it. A builtin of the shell is run by the shell: `sh -c …`.")
}

fn text(bytes: Vec<u8>, what: &str) -> Result<CString, Fault> {
    if bytes.len() >= LONGEST {
        let (length, most) = (bytes.len(), LONGEST - 1);
        return Err(too_big(&format!("{what} has {length} bytes, and the system takes at most {most}")));
    }
    CString::new(bytes).map_err(|_| Fault::bad_args(format!("{what} has a NUL byte in it")))
}

fn too_big(what: &str) -> Fault {
    Fault::new(Kind::TooBig, what).next("Write it to a file and run that.")
}

fn shown(program: &Program) -> String {
    let name = program.argv.first().map_or("", String::as_str);
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::procs::{Stdin, Streams};

    fn program(argv: &[&str]) -> Program {
        Program {
            argv: argv.iter().map(|it| (*it).to_owned()).collect(),
            cwd: "/tmp".into(),
            env: vec![("A".to_owned(), "1".to_owned())],
            stdin: Stdin::Null,
            streams: Streams::Together,
            files: Vec::new(),
        }
    }

    #[test]
    fn a_variable_of_the_program_overrides_the_session_s() {
        let base = [("A".to_owned(), "0".to_owned()), ("B".to_owned(), "2".to_owned())];
        let (argv, env) = check(&program(&["x", "y"]), &base).unwrap();
        assert_eq!(argv, [c"x".to_owned(), c"y".to_owned()]);
        assert_eq!(env, [c"B=2".to_owned(), c"A=1".to_owned()]);
    }

    #[test]
    fn arguments_that_the_kernel_would_refuse_are_refused_first() {
        let kind = |argv: &[&str]| check(&program(argv), &[]).unwrap_err().kind;
        assert_eq!(kind(&[]), Kind::BadArgs);
        assert_eq!(kind(&["a\0b"]), Kind::BadArgs);
        assert_eq!(kind(&["a", &"x".repeat(LONGEST)]), Kind::TooBig);
        assert!(check(&program(&["a", &"x".repeat(LONGEST - 1)]), &[]).is_ok());
    }

    #[test]
    fn a_missing_program_is_named_with_the_searched_path() {
        let failure = Failure { step: Step::Program, errno: libc::ENOENT };
        let fault = failed(&program(&["nope"]), &[("PATH".to_owned(), "/a:/b".to_owned())], failure);
        assert_eq!(fault.what, "there is no program nope in /a:/b");
        assert_eq!(failed(&program(&["./nope"]), &[], failure).what, "there is no program ./nope");
    }
}
