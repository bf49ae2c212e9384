//! A tmux session that runs `haft chat`: types keys and waits for what the screen shows.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use crate::support::TestWorkspace;

/// A timeout that only a program that hangs exceeds.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The interval between two captures of the screen.
const LOOK: Duration = Duration::from_millis(30);

/// A terminal in which `haft` runs.
pub(crate) struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// Starts the chat in this workspace, with this script as its model.
    pub(crate) fn chat(test_ws: &TestWorkspace, script: &str, columns: u32, options: &[&str]) -> Self {
        Self::verb(test_ws, script, columns, "", &[&["chat"], options].concat())
    }

    /// Starts a command with this script as its model; `before` precedes it in the shell: `printf x | `.
    pub(crate) fn verb(
        test_ws: &TestWorkspace,
        script: &str,
        columns: u32,
        before: &str,
        verb: &[&str],
    ) -> Self {
        let file = test_ws.base().join("script.jsonl");
        std::fs::write(&file, script).unwrap();
        let model = format!("script:{}", file.display());
        let haft = test_ws.haft(&[verb, &["--model", &model]].concat());
        Self::behind(test_ws, &haft, (columns, 40), before)
    }

    /// This program in a terminal of so many columns and lines.
    pub(crate) fn start(test_ws: &TestWorkspace, haft: &Command, size: (u32, u32)) -> Self {
        Self::behind(test_ws, haft, size, "")
    }

    fn behind(test_ws: &TestWorkspace, haft: &Command, (columns, lines): (u32, u32), before: &str) -> Self {
        let mut words = vec![
            "env".to_owned(),
            "-i".to_owned(),
            "TERM=tmux-256color".to_owned(),
            "LANG=C.UTF-8".to_owned(),
        ];
        for (name, value) in haft.get_envs() {
            words.push(format!("{}={}", name.display(), value.unwrap().display()));
        }
        words.push(haft.get_program().display().to_string());
        words.extend(haft.get_args().map(|it| it.display().to_string()));
        let quoted: Vec<String> = words.iter().map(|it| format!("'{it}'")).collect();
        // Its last output stays visible.
        let command = format!("{before}{}; cat", quoted.join(" "));
        // A name of its own: a server that is stopping still answers at its socket for a moment.
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let tmux = Self { socket: test_ws.base().join(format!("tmux-{number}")) };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let size = ["-x", &columns, "-y", &lines];
        let made =
            tmux.run(&[&["-u", "-f", "/dev/null", "new-session", "-d"][..], &size, &[&command]].concat());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        tmux
    }

    /// Appends all later output to the terminal to this file, byte by byte.
    pub(crate) fn recorded(&self, to: &Path) -> &Self {
        self.run(&["pipe-pane", "-O", &format!("cat > '{}'", to.display())]);
        self
    }

    /// Returns a value that tmux has of the terminal.
    pub(crate) fn knows(&self, format: &str) -> String {
        String::from_utf8(self.run(&["display-message", "-p", format]).stdout).unwrap().trim().to_owned()
    }

    /// Presses these keys as fast as they go, each the byte or name that tmux has for it.
    pub(crate) fn keys(&self, names: &[&str]) -> &Self {
        self.run(&[&["send-keys"], names].concat());
        self
    }

    /// Closes the terminal under the program, and waits until that has ended.
    pub(crate) fn close(self) {
        let test_ws = self.socket.parent().unwrap().display().to_string();
        drop(self);
        until(|| !of_room(&test_ws), "the program outlives its terminal");
    }

    /// Waits until the screen shows this.
    #[track_caller]
    pub(crate) fn shows(&self, what: &str) -> &Self {
        self.shows_times(what, 1)
    }

    /// Waits until the screen no longer shows this.
    #[track_caller]
    pub(crate) fn lacks(&self, what: &str) -> &Self {
        let until = Instant::now() + TIMEOUT;
        while self.screen().contains(what) {
            assert!(Instant::now() < until, "`{what}` is still in:\n{}", self.screen());
            std::thread::sleep(LOOK);
        }
        self
    }

    /// Waits until the screen shows this so many times.
    #[track_caller]
    pub(crate) fn shows_times(&self, what: &str, times: usize) -> &Self {
        let until = Instant::now() + TIMEOUT;
        loop {
            let screen = self.screen();
            if screen.matches(what).count() >= times {
                return self;
            }
            assert!(Instant::now() < until, "`{what}` is not {times} times in:\n{screen}");
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the text on the screen, including the scrollback.
    pub(crate) fn screen(&self) -> String {
        String::from_utf8(self.run(&["capture-pane", "-p", "-S", "-"]).stdout).unwrap()
    }

    /// Types a text; a line break is the return key.
    pub(crate) fn types(&self, text: &str) -> &Self {
        let (line, enter) = text.strip_suffix('\n').map_or((text, false), |it| (it, true));
        self.run(&["send-keys", "-l", line]);
        if enter { self.key("Enter") } else { self }
    }

    /// Pastes a text, as a terminal does it that says where a paste begins and ends.
    pub(crate) fn pastes(&self, text: &str) -> &Self {
        self.run(&["set-buffer", "--", text]);
        self.run(&["paste-buffer", "-p", "-r"]);
        self
    }

    /// Sets an option of the server.
    pub(crate) fn set(&self, option: &str, value: &str) -> &Self {
        self.run(&["set-option", "-s", option, value]);
        self
    }

    /// Waits until the clipboard holds this.
    #[track_caller]
    pub(crate) fn buffer_is(&self, text: &str) -> &Self {
        let until = Instant::now() + TIMEOUT;
        loop {
            let shown = String::from_utf8(self.run(&["show-buffer"]).stdout).unwrap();
            if shown == text {
                return self;
            }
            assert!(Instant::now() < until, "the clipboard holds {shown:?}");
            std::thread::sleep(LOOK);
        }
    }

    /// Presses one key, by tmux's name for it.
    pub(crate) fn key(&self, name: &str) -> &Self {
        self.run(&["send-keys", name]);
        self
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let ran = self.command(arguments).output();
        ran.unwrap_or_else(|error| panic!("tmux can't be run: {error}; it is a package of that name"))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&self.socket).args(arguments).env_remove("TMUX");
        tmux
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command(&["kill-server"]).output();
    }
}

/// Waits until something is so; `otherwise` says what is wrong if it never is.
#[track_caller]
pub(crate) fn until(mut is_so: impl FnMut() -> bool, otherwise: &str) {
    let until = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < until, "{otherwise}");
        std::thread::sleep(LOOK);
    }
}

/// Returns whether a chat of this workspace still runs.
fn of_room(test_ws: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok()).any(|it| {
        let line = String::from_utf8_lossy(&it);
        line.contains(test_ws) && line.split('\0').any(|word| word == "chat")
    })
}
