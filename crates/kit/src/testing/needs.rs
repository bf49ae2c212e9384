//! Programs that tests run. A test whose program is missing is skipped and reported by name, with the Debian package that
//! has the program; with `HAFT_TEST_STRICT=1` it fails instead.
//!
//! libtest counts a skipped test as passed and keeps what it prints to itself. So each skip is written to the process's
//! own standard error, and to `target/skipped-tests.txt`, from which the last test binary prints a summary.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// Returns from a test whose programs are not all there, and reports it as skipped.
///
/// It is the first line of a test: `needs!(Git, Python);`. The names are those of [`Program`].
#[macro_export]
macro_rules! needs {
    ($($program:ident),+ $(,)?) => {{
        fn here() {}
        let programs = [$($crate::testing::needs::Program::$program),+];
        if $crate::testing::needs::skips(::std::any::type_name_of_val(&here), &programs) {
            return;
        }
    }};
}

/// A program, or a part of one, that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `bwrap`.
    Bubblewrap,
    /// `mkfs.btrfs`.
    BtrfsProgs,
    /// Chromium, or Google Chrome.
    Chromium,
    /// `curl`.
    Curl,
    /// `git`.
    Git,
    /// `groff`, which formats man pages.
    Groff,
    /// `ip`, which configures networks.
    Ip,
    /// `node`, for JavaScript.
    Node,
    /// `npm`, which runs the scripts of a package.
    Npm,
    /// `openscad`.
    OpenScad,
    /// OpenSCAD's library of parts.
    OpenScadMcad,
    /// `ps`, `pgrep`, `pkill` and `kill`.
    Procps,
    /// Any `python3` on `PATH`.
    Python,
    /// `rsync`.
    Rsync,
    /// `ssh`, `ssh-keygen` and `ssh-agent`.
    SshClient,
    /// `/usr/sbin/sshd`.
    SshServer,
    /// `/usr/bin/python3`, as one elsewhere may not be visible to another user or in a sandbox.
    SystemPython,
    /// `tmux`.
    Tmux,
    /// `uv`, or what fetches it: Python's modules `venv` and `pip`.
    Uv,
    /// Python's modules `venv` and `ensurepip`.
    Venv,
    /// `mkfs.xfs`.
    XfsProgs,
}

impl Program {
    /// Returns its name for people, and its Debian package.
    const fn about(self) -> (&'static str, &'static str) {
        match self {
            Self::Bubblewrap => ("bwrap", "bubblewrap"),
            Self::BtrfsProgs => ("mkfs.btrfs", "btrfs-progs"),
            Self::Chromium => ("chromium", "chromium"),
            Self::Curl => ("curl", "curl"),
            Self::Git => ("git", "git"),
            Self::Groff => ("groff", "groff-base"),
            Self::Ip => ("ip", "iproute2"),
            Self::Node => ("node", "nodejs"),
            Self::Npm => ("npm", "npm"),
            Self::OpenScad => ("openscad", "openscad"),
            Self::OpenScadMcad => ("/usr/share/openscad/libraries/MCAD", "openscad-mcad"),
            Self::Procps => ("ps", "procps"),
            Self::Python => ("python3", "python3"),
            Self::Rsync => ("rsync", "rsync"),
            Self::SshClient => ("ssh", "openssh-client"),
            Self::SshServer => ("sshd", "openssh-server"),
            Self::SystemPython => ("/usr/bin/python3", "python3"),
            Self::Tmux => ("tmux", "tmux"),
            Self::Uv => ("uv", "python3-venv"),
            Self::Venv => ("python3 with venv", "python3-venv"),
            Self::XfsProgs => ("mkfs.xfs", "xfsprogs"),
        }
    }

    fn is_there(self) -> bool {
        match self {
            Self::Chromium => {
                ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"]
                    .into_iter()
                    .any(on_path)
            }
            Self::OpenScadMcad | Self::SystemPython => Path::new(self.about().0).exists(),
            Self::SshServer => Path::new("/usr/sbin/sshd").exists(),
            Self::BtrfsProgs | Self::XfsProgs => {
                on_path(self.about().0) || Path::new("/usr/sbin").join(self.about().0).exists()
            }
            Self::Uv => on_path("uv") || has_venv(),
            Self::Venv => has_venv(),
            _ => on_path(self.about().0),
        }
    }
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|it| it.join(name).is_file())
}

/// Returns whether Python can make a virtual environment: Debian's own comes without that.
fn has_venv() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let mut import = Command::new("python3");
        import.args(["-c", "import venv, ensurepip"]).stdout(Stdio::null()).stderr(Stdio::null());
        import.status().is_ok_and(|it| it.success())
    })
}

/// Returns whether this test is skipped because it does not run as root, and reports it. Also in strict mode: that is not a
/// program that can be installed.
pub fn skips_without_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped_because(test, "needs root, to become another user");
    }
    !is_root
}

/// Reports that this test is skipped for something that can't be installed, also in strict mode.
pub fn skipped_because(test: &str, reason: &str) {
    report(&format!("skipped: {test}: {reason}\n"));
}

/// Returns whether this test is skipped for lack of a program, and reports it.
///
/// # Panics
/// In strict mode, when a program is missing.
#[expect(clippy::panic, reason = "a test fails by a panic")]
pub fn skips_test(test: &str, programs: &[Program]) -> bool {
    let missing: Vec<Program> = programs.iter().copied().filter(|it| !it.is_there()).collect();
    if missing.is_empty() {
        return false;
    }
    let needs = needed(&missing);
    if is_strict() {
        panic!("this test {needs}");
    }
    report(&format!("skipped: {test}: {needs}\n"));
    true
}

/// [`skips_test`] for the test that has this function in it.
pub fn skips(here: &str, programs: &[Program]) -> bool {
    skips_test(&name(here), programs)
}

/// Returns whether a missing program fails the test that needs it.
pub fn is_strict() -> bool {
    std::env::var_os("HAFT_TEST_STRICT").is_some_and(|it| it != "0" && !it.is_empty())
}

/// Formats `needs bwrap, git (apt install bubblewrap git)`.
fn needed(missing: &[Program]) -> String {
    let mut packages: Vec<&str> = missing.iter().map(|it| it.about().1).collect();
    packages.dedup();
    let names: Vec<&str> = missing.iter().map(|it| it.about().0).collect();
    format!("needs {} (apt install {})", names.join(", "), packages.join(" "))
}

/// Returns the test's name as in libtest, from the path of a function in it: `CRATE::area::test::here`.
fn name(here: &str) -> String {
    let path = here.trim_end_matches("::here").replace("::{{closure}}", "");
    path.split_once("::").map_or(path.clone(), |(_, name)| name.to_owned())
}

/// Writes a line to stderr and to the list. If the list can't be written, the test goes on.
fn report(line: &str) {
    let _ = io::stderr().write_all(line.as_bytes());
    if let Some(path) = list() {
        let _ = add(&path, &of_this_run(), line);
    }
}

/// Adds a line to the list of this run; the list of another run is discarded.
fn add(path: &Path, run: &str, line: &str) -> io::Result<()> {
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    if !text.starts_with(run) {
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(run.as_bytes())?;
    }
    file.write_all(line.as_bytes())
}

/// Returns the tests that this `cargo test` has skipped until now, a line each.
pub fn skipped() -> Vec<String> {
    let text = list().and_then(|it| fs::read_to_string(it).ok()).unwrap_or_default();
    let lines = text.strip_prefix(&of_this_run()).unwrap_or_default().lines();
    lines.map(str::to_owned).collect()
}

/// Returns the first line of the list: all test binaries of one `cargo test` have the same parent.
fn of_this_run() -> String {
    format!("# cargo test, process {}\n", std::os::unix::process::parent_id())
}

/// Returns `target/skipped-tests.txt` in the target folder of this program; `HAFT_TEST_SKIPPED` names another file.
fn list() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("HAFT_TEST_SKIPPED") {
        return Some(path.into());
    }
    let program = std::env::current_exe().ok()?;
    let target = program.ancestors().find(|it| it.join("CACHEDIR.TAG").exists())?;
    Some(target.join("skipped-tests.txt"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn skip_line_names_the_test_the_programs_and_their_packages() {
        fn here() {}
        let path = std::any::type_name_of_val(&here);
        assert_eq!(
            name(path),
            "testing::needs::tests::skip_line_names_the_test_the_programs_and_their_packages"
        );
        assert_eq!(name("integration::cad::part::{{closure}}::here"), "cad::part");
        assert_eq!(
            needed(&[Program::SshServer, Program::Python, Program::SystemPython]),
            "needs sshd, python3, /usr/bin/python3 (apt install openssh-server python3)"
        );
    }

    #[test]
    fn list_of_another_run_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        for (run, line) in [("# 1\n", "a\n"), ("# 1\n", "b\n"), ("# 2\n", "c\n")] {
            add(&path, run, line).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "# 2\nc\n");
    }
}
