//! A `haft call --batch` that runs one shell command after the other, for measurements of commands.

use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// The result of a step of a measurement.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Whether haft records what commands change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracking {
    /// As it is delivered.
    On,
    /// The change tracker can't start: the process has another listener, and the kernel allows one.
    Off,
}

/// A haft in a workspace, which takes calls until it is dropped.
#[derive(Debug)]
pub struct Haft {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    state: PathBuf,
}

impl Haft {
    /// Starts it and makes a first call.
    ///
    /// # Errors
    /// Those of the system and of the call; if changes are tracked although they should not be, or the reverse.
    pub fn start(program: &Path, workspace: &Path, state: &Path, tracking: Tracking) -> Outcome<Self> {
        let home = state.with_extension("home");
        fs::create_dir_all(home.join("config"))?;
        // Nobody is there to be asked about the many files that are deleted here.
        fs::write(home.join("config/haft.toml"), "[undo]\nask_files = 1_000_000\nask_percent = 100\n")?;
        let mut command = Command::new(program);
        command
            .arg("--dir")
            .arg(workspace)
            .args(["call", "--json", "--batch", "-"])
            .env("HAFT_STATE_DIR", state)
            .env("HAFT_CONFIG_DIR", home.join("config"))
            .env("HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if tracking == Tracking::Off {
            without_tracker(&mut command);
        }
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut haft = Self { child, input, output, state: state.to_owned() };
        haft.call("true > haft-first && rm haft-first")?;
        let log = logs(state).pop().ok_or("the first call has no log of changes")?;
        let is_off = fs::read_to_string(log)?.contains("\"unknown\"");
        if is_off != (tracking == Tracking::Off) {
            return Err(format!("tracking should be {tracking:?}, and is not").into());
        }
        Ok(haft)
    }

    /// Runs a command, and returns how long the call took.
    ///
    /// # Errors
    /// If the call fails.
    pub fn call(&mut self, command: &str) -> Outcome<Duration> {
        let began = Instant::now();
        let arguments = json!({"command": command, "wait_ms": 600_000});
        writeln!(self.input, "{}", json!({"tool": "shell", "arguments": arguments}))?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let took = began.elapsed();
        let answer: Value = serde_json::from_str(&line)?;
        if answer.get("ok") == Some(&Value::Bool(true)) { Ok(took) } else { Err(line.into()) }
    }

    /// Returns the bytes that before-images and logs of changes hold on the disk.
    pub fn held(&self) -> u64 {
        let mut held = 0;
        walk(&self.state, &mut |path, about| {
            if path.components().any(|it| it.as_os_str() == "tracked") {
                held += about.blocks() * 512;
            }
        });
        held
    }
}

impl Drop for Haft {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a script by bash in a folder, without haft, and returns how long it took.
///
/// # Errors
/// If it fails.
pub fn bare(folder: &Path, script: &str) -> Outcome<Duration> {
    let began = Instant::now();
    if script.is_empty() {
        return Ok(Duration::ZERO);
    }
    let ran = Command::new("bash").args(["-c", script]).current_dir(folder).stdin(Stdio::null()).output()?;
    if ran.status.success() {
        Ok(began.elapsed())
    } else {
        Err(String::from_utf8_lossy(&ran.stderr).into_owned().into())
    }
}

/// Returns the middle one, in milliseconds; of an even number, the upper one of the two.
pub fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1000.0
}

/// Describes the machine: kernel, processors, and how busy they are.
pub fn machine() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    format!("Linux {}, {processors} processors, load {load}", kernel.trim())
}

fn logs(state: &Path) -> Vec<PathBuf> {
    let mut logs = Vec::new();
    walk(state, &mut |path, about| {
        if about.is_file() && path.ends_with("log") && path.components().any(|it| it.as_os_str() == "tracked")
        {
            logs.push(path.to_owned());
        }
    });
    logs
}

/// Calls `each` for all that is below a folder.
pub fn walk(folder: &Path, each: &mut dyn FnMut(&Path, &fs::Metadata)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, Ok(about)) = (entry.path(), entry.metadata()) else { continue };
        each(&path, &about);
        if about.is_dir() {
            walk(&path, each);
        }
    }
}

/// Gives the program a listener of its own, which is notified of nothing.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "std has no call for it")]
fn without_tracker(command: &mut Command) {
    use std::{io, os::unix::process::CommandExt};

    const SET_MODE_FILTER: libc::c_long = 1;
    const NEW_LISTENER: libc::c_long = 1 << 3;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7FFF_0000;

    let install = || {
        let mut allow = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW };
        let program = libc::sock_fprog { len: 1, filter: &raw mut allow };
        // SAFETY: the first call takes numbers, the second a program that lives until it returns. The listener is left
        // open in the program that is executed: once it is closed, the kernel would allow another.
        let listener = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, NEW_LISTENER, &raw const program)
        };
        // SAFETY: it takes numbers.
        if listener < 0 || unsafe { libc::fcntl(listener as libc::c_int, libc::F_SETFD, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: the function makes system calls only, and allocates nothing.
    unsafe { command.pre_exec(install) };
}

/// Other systems have no tracker.
#[cfg(not(target_os = "linux"))]
fn without_tracker(_: &mut Command) {}
