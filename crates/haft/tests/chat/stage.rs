//! A stage for scenes at a terminal: the built program on a pseudo-terminal, and its screen as text.
//!
//! A scene plays on terminals of 80x24, 200x50 and 40x12, each in colour and with `NO_COLOR`, and is compared with
//! `screens/NAME.txt`. To add one, write a test such as this in `screens.rs`:
//!
//! ```ignore
//! #[test]
//! fn a_table_is_fitted_to_the_width() {
//!     scene("table", |stage| {
//!         stage.test_ws.put("a.txt", "hello\n");
//!         let mut chat = stage.chat(r#"{"say": "| a | b |\n|---|---|\n| 1 | 2 |\n\nDone."}"#);
//!         chat.types("go\n").rests("Done.").snapshot("a table");
//!         chat.key("C-o").shows("Nothing to read").snapshot("nothing to read");
//!     });
//! }
//! ```
//!
//! then run it with `UPDATE_EXPECT=1`, look at the file, and ask whether that is what a person should see.
//!
//! - A script has one answer of the model on each line (`crates/agent/src/model/script.rs`); `after_ms` and `end_ms` hold an
//!   answer up at its beginning or end, for as long as it takes to press Esc.
//! - `shows(TEXT)` waits for the first frame with that text, `rests(TEXT)` for one in which nobody works any more. Frames are
//!   looked at one by one, so none is missed and nothing sleeps. A frame that comes before what you mean is what you get:
//!   wait for a text that only the right one has.
//! - Times, ids, moving signs and the version are made the same in every run. Tokens and costs come from the script.
//! - In a file each row of the screen is a line after `│`. Below it, after `·`, is how its letters look, where that is not
//!   plain: `d` dim, `i` italic, `b` bold, `u` underlined, `v` reversed, and `r g y l m c` for red, green, yellow, blue,
//!   magenta and cyan; a capital is bold as well. What NO_COLOR shows is written out only where its text differs.

use std::{
    fmt::Write as _,
    fs::File,
    io::{Read, Write},
    num::NonZeroU16,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use expect_test::expect_file;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use serde_json::{Value, json};
use vt100::{Cell, Color, Parser};

use crate::support::TestWorkspace;

/// A timeout that only a program that hangs exceeds.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The terminals on which each scene plays: columns and lines.
pub(crate) const SIZES: [(u16, u16); 3] = [(80, 24), (200, 50), (40, 12)];

/// The bytes that end a frame.
const FRAME: &[u8] = b"\x1b[?2026l";

/// Plays a scene on every terminal and compares what was seen with `screens/NAME.txt`.
#[track_caller]
pub(crate) fn scene(name: &str, play: impl Fn(&mut Stage) + Sync) {
    let variants: Vec<((u16, u16), bool)> = SIZES.iter().flat_map(|it| [(*it, true), (*it, false)]).collect();
    let seen: Vec<Vec<Shot>> = std::thread::scope(|scope| {
        let play = &play;
        let playing: Vec<_> = variants
            .iter()
            .map(|(size, colours)| {
                scope.spawn(move || {
                    let mut stage = Stage::new(*size, *colours);
                    play(&mut stage);
                    stage.shots.into_inner()
                })
            })
            .collect();
        playing
            .into_iter()
            .map(|it| it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut file = String::new();
    for (((columns, lines), _), pair) in variants.iter().step_by(2).zip(seen.chunks(2)) {
        let [coloured, plain] = pair else { unreachable!() };
        assert_eq!(coloured.len(), plain.len(), "the scene is the same whatever the colours");
        for (coloured, plain) in coloured.iter().zip(plain) {
            writeln!(file, "══ {columns}x{lines}: {}\n{}", coloured.caption, coloured.painted()).unwrap();
            assert!(plain.styles.iter().all(|it| it.trim().is_empty()), "NO_COLOR: {}", plain.painted());
            if plain.rows != coloured.rows {
                writeln!(file, "══ {columns}x{lines}, NO_COLOR: {}\n{}", plain.caption, plain.painted())
                    .unwrap();
            }
        }
    }
    expect_file![format!("screens/{name}.txt")].assert_eq(&file);
}

/// The workspace and the size of the terminal of a scene.
pub(crate) struct Stage {
    pub(crate) test_ws: TestWorkspace,
    /// Columns and lines.
    pub(crate) size: (u16, u16),
    colours: bool,
    shots: std::cell::RefCell<Vec<Shot>>,
}

/// A screen as it was seen.
struct Shot {
    caption: String,
    rows: Vec<String>,
    /// The style of each letter, row by row.
    styles: Vec<String>,
}

impl Stage {
    pub(crate) fn new(size: (u16, u16), colours: bool) -> Self {
        Self { test_ws: TestWorkspace::new(), size, colours, shots: std::cell::RefCell::default() }
    }

    /// Starts the chat with this script as its model; waits until a person can type.
    pub(crate) fn chat(&self, script: &str) -> Screen<'_> {
        self.chat_with(script, &[])
    }

    /// The same with these options.
    pub(crate) fn chat_with(&self, script: &str, options: &[&str]) -> Screen<'_> {
        let mut screen = self.run(script, &[&["chat"], options].concat());
        screen.rests("/help");
        screen
    }

    /// Starts another command with this script as its model.
    pub(crate) fn run(&self, script: &str, arguments: &[&str]) -> Screen<'_> {
        let file = self.test_ws.base().join("script.jsonl");
        std::fs::write(&file, priced(script)).unwrap();
        let model = format!("script:{}", file.display());
        let mut haft = self.test_ws.haft(&[arguments, &["--model", &model]].concat());
        // The workspace is `~/ws`, so that what is seen does not depend on where tests run.
        haft.env("HOME", self.test_ws.base()).env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
        haft.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        if !self.colours {
            haft.env("NO_COLOR", "1");
        }
        Screen::start(self, &haft)
    }
}

/// Returns the script with the token counts of each answer, so that they don't depend on the length of prompts.
fn priced(script: &str) -> String {
    let lines = script.lines().filter(|it| !it.trim().is_empty()).map(|line| {
        let mut answer: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let fields = answer.as_object_mut().unwrap();
        if !fields.contains_key("fault") {
            let usage = json!({"input": 12_000, "cached": 0, "kept": 0, "output": 345, "reasoning": 0});
            fields.entry("usage").or_insert(usage);
        }
        answer.to_string() + "\n"
    });
    lines.collect()
}

/// A program at its terminal.
pub(crate) struct Screen<'a> {
    stage: &'a Stage,
    child: Child,
    ours: File,
    said: Receiver<Vec<u8>>,
    /// Output that is not drawn yet.
    left: Vec<u8>,
    terminal: Parser,
}

impl<'a> Screen<'a> {
    fn start(stage: &'a Stage, command: &Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let (columns, lines) = stage.size;
        tcsetwinsize(&ours, Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let end = |file: &File| Stdio::from(OwnedFd::from(file.try_clone().unwrap()));
        let mut setsid = Command::new("setsid");
        setsid.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args()).env_clear();
        setsid.envs(command.get_envs().map(|(name, value)| (name, value.unwrap())));
        setsid.current_dir(command.get_current_dir().unwrap());
        let child = setsid.stdin(end(&theirs)).stdout(end(&theirs)).stderr(end(&theirs)).spawn().unwrap();
        drop((theirs, setsid));
        let ours = File::from(ours);
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
        Self { stage, child, ours, said, left: Vec::new(), terminal: parser(stage.size) }
    }

    /// Waits for a frame with this text.
    #[track_caller]
    pub(crate) fn shows(&mut self, what: &str) -> &mut Self {
        self.wait(what, |screen| screen.text().contains(what))
    }

    /// Waits for a frame without this text.
    #[track_caller]
    pub(crate) fn lacks(&mut self, what: &str) -> &mut Self {
        self.wait(&format!("no {what}"), |screen| !screen.text().contains(what))
    }

    /// Waits for a frame with this text in which nobody works.
    #[track_caller]
    pub(crate) fn rests(&mut self, what: &str) -> &mut Self {
        self.wait(&format!("{what}, at rest"), |screen| {
            let text = screen.text();
            let line = usize::from(screen.terminal.screen().cursor_position().0);
            let is_prompt = text.lines().nth(line).is_some_and(|it| it.starts_with('>'));
            is_prompt && text.contains(what) && !text.contains(is_spin)
        })
    }

    #[track_caller]
    fn wait(&mut self, what: &str, is_there: impl Fn(&Self) -> bool) -> &mut Self {
        let limit = Instant::now() + TIMEOUT;
        while !is_there(self) {
            if !self.next_frame(limit) {
                panic!("`{what}` at {:?} is not in:\n{}", self.stage.size, self.text());
            }
        }
        self
    }

    /// Draws up to the end of the next frame, or all there is. False: nothing comes any more.
    fn next_frame(&mut self, limit: Instant) -> bool {
        loop {
            if let Some(at) = self.left.windows(FRAME.len()).position(|it| it == FRAME) {
                let frame: Vec<u8> = self.left.drain(..at + FRAME.len()).collect();
                self.terminal.process(&frame);
                return true;
            }
            match self.said.recv_timeout(limit.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.left.extend(bytes),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) if self.left.is_empty() => return false,
                Err(RecvTimeoutError::Disconnected) => {
                    let rest = std::mem::take(&mut self.left);
                    self.terminal.process(&rest);
                    return true;
                }
            }
        }
    }

    /// Returns the text on the screen.
    pub(crate) fn text(&self) -> String {
        self.terminal.screen().rows(0, self.stage.size.0).map(|it| it.trim_end().to_owned() + "\n").collect()
    }

    /// Types a text; a line break is the return key.
    pub(crate) fn types(&mut self, text: &str) -> &mut Self {
        self.ours.write_all(text.replace('\n', "\r").as_bytes()).unwrap();
        self
    }

    /// Presses a key: `Esc`, `C-o`, `PgDn`, or a letter.
    pub(crate) fn key(&mut self, name: &str) -> &mut Self {
        let bytes: Vec<u8> = match name {
            "Enter" => b"\r".to_vec(),
            "Esc" => b"\x1b".to_vec(),
            "Tab" => b"\t".to_vec(),
            "Backspace" => b"\x7f".to_vec(),
            "Up" => b"\x1b[A".to_vec(),
            "Down" => b"\x1b[B".to_vec(),
            "Right" => b"\x1b[C".to_vec(),
            "Left" => b"\x1b[D".to_vec(),
            "PgUp" => b"\x1b[5~".to_vec(),
            "PgDn" => b"\x1b[6~".to_vec(),
            "Home" => b"\x1b[H".to_vec(),
            "End" => b"\x1b[F".to_vec(),
            _ => match name.strip_prefix("C-") {
                Some(letter) => vec![letter.as_bytes()[0] & 0x1f],
                None => name.as_bytes().to_vec(),
            },
        };
        self.ours.write_all(&bytes).unwrap();
        self
    }

    /// Pastes a text, as a terminal does that says so.
    pub(crate) fn pastes(&mut self, text: &str) -> &mut Self {
        self.ours.write_all(format!("\x1b[200~{text}\x1b[201~").as_bytes()).unwrap();
        self
    }

    /// Keeps what is seen now under this caption.
    pub(crate) fn snapshot(&mut self, caption: &str) -> &mut Self {
        let lines = self.stage.size.1;
        let mut seen = self.rows();
        while seen.last().is_some_and(|(row, style)| row.is_empty() && style.is_empty()) {
            seen.pop();
        }
        // A longer animated line may have pushed this up for a moment: how far is chance.
        let screen = self.terminal.screen_mut();
        screen.set_scrollback(usize::from(lines));
        let above = screen.scrollback();
        let mut gone = self.rows();
        gone.truncate(above);
        self.terminal.screen_mut().set_scrollback(0);
        let test_ws = usize::from(lines).saturating_sub(seen.len()).min(gone.len());
        let all = gone.split_off(gone.len() - test_ws).into_iter().chain(seen);
        let (rows, styles) = all.map(|(row, style)| (steady(&row), style)).unzip();
        let shot = Shot { caption: caption.to_owned(), rows, styles };
        self.stage.shots.borrow_mut().push(shot);
        self
    }

    /// Returns the rows of the screen, with their styles.
    fn rows(&self) -> Vec<(String, String)> {
        let screen = self.terminal.screen();
        let (columns, lines) = self.stage.size;
        let row = |line| {
            let (mut text, mut style) = (String::new(), String::new());
            for column in 0..columns {
                let Some(cell) = screen.cell(line, column).filter(|it| !it.is_wide_continuation()) else {
                    continue;
                };
                let contents = if cell.has_contents() { cell.contents() } else { " " };
                text.push_str(contents);
                style.push(style_of(cell));
                if cell.is_wide() {
                    style.push(' ');
                }
            }
            (text.trim_end().to_owned(), style.trim_end().to_owned())
        };
        (0..lines).map(row).collect()
    }

    /// Waits until the program has ended, and gives all that its screen shows then.
    pub(crate) fn ends(mut self) -> String {
        let limit = Instant::now() + TIMEOUT;
        while self.next_frame(limit) {}
        self.text()
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        // The program also notices that its terminal is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parser((columns, lines): (u16, u16)) -> Parser {
    let size = |it| NonZeroU16::new(it).unwrap();
    Parser::new(size(lines), size(columns), usize::from(lines))
}

impl Shot {
    fn painted(&self) -> String {
        let mut text = String::new();
        for (row, style) in self.rows.iter().zip(&self.styles) {
            writeln!(text, "│{row}").unwrap();
            if !style.is_empty() {
                writeln!(text, "·{style}").unwrap();
            }
        }
        text
    }
}

/// Returns the style of a cell, as one letter.
fn style_of(cell: &Cell) -> char {
    if cell.inverse() {
        return 'v';
    }
    let colour = match cell.fgcolor() {
        Color::Default => None,
        Color::Idx(at @ 0..16) => colour(at),
        Color::Idx(_) | Color::Rgb(..) => Some('?'),
    };
    match colour {
        Some(colour) if cell.bold() => colour.to_ascii_uppercase(),
        Some(colour) => colour,
        None if cell.bold() && cell.underline() => 'U',
        None if cell.bold() && cell.italic() => 'I',
        None if cell.bold() => 'b',
        None if cell.underline() => 'u',
        None if cell.dim() && cell.italic() => 'j',
        None if cell.dim() => 'd',
        None if cell.italic() => 'i',
        None => ' ',
    }
}

/// Returns one of the terminal's own colours.
fn colour(at: u8) -> Option<char> {
    "krgylmcw".chars().nth(usize::from(at % 8))
}

fn is_spin(letter: char) -> bool {
    ('\u{2801}'..='\u{28ff}').contains(&letter)
}

/// Replaces the parts of a row that differ from run to run. Its length stays.
fn steady(row: &str) -> String {
    let row: String = row.chars().map(|it| if is_spin(it) { '⠿' } else { it }).collect();
    let row = replaced(&row, " s", |before| {
        // `0.3 s`, `12 s`
        let digits = before.chars().rev().take_while(|it| it.is_ascii_digit() || *it == '.').count();
        (digits > 0).then_some((digits, '#'))
    });
    // An estimate depends on the length of prompts.
    let row = match row.split_once("~") {
        Some((before, after)) if after.split(' ').nth(1) == Some("of") => {
            let rest = after.split_once(' ').map_or("", |it| it.1);
            let rest = rest
                .split_once('(')
                .and_then(|(of, rest)| Some(format!("{of}(#%{}", rest.split_once("%")?.1)));
            format!("{before}~#k {}", rest.unwrap_or_default())
        }
        _ => row,
    };
    // `Nov 23 01:02`
    let row = match row.split_once(':').filter(|_| row.contains("  ")) {
        Some((before, after)) if before.len() > 8 && is_date(before, after) => {
            format!("{}Mon 00 00:00{}", &before[..before.len() - 9], &after[2..])
        }
        _ => row,
    };
    let mut words = Vec::new();
    for word in row.split(' ') {
        let id = ["c_0", "s_0"].iter().find_map(|it| word.find(it));
        // `explore_1f3a`
        if let Some((name, hash)) = word.trim_end_matches(':').rsplit_once('_')
            && hash.len() == 4
            && hash.bytes().all(|it| it.is_ascii_hexdigit())
        {
            words.push(word.replacen(&format!("{name}_{hash}"), &format!("{name}_xxxx"), 1));
            continue;
        }
        words.push(match id {
            Some(at) => {
                let (before, id) = word.split_at(at);
                let length =
                    id.find(|it: char| !(it.is_ascii_alphanumeric() || it == '_')).unwrap_or(id.len());
                let (id, after) = id.split_at(length);
                format!("{before}{}{}{after}", &id[..2], "x".repeat(id.len() - 2))
            }
            None => word.to_owned(),
        });
    }
    words.join(" ").replace(concat!("haft ", env!("CARGO_PKG_VERSION")), "haft #.#.#")
}

/// Returns whether `before` ends like `Nov 23 01`, and `after` begins like `02`.
fn is_date(before: &str, after: &str) -> bool {
    let is_digits = |it: &str| it.len() == 2 && it.bytes().all(|it| it.is_ascii_digit());
    let words: Vec<&str> = before.rsplitn(4, ' ').collect();
    matches!(words[..], [hour, day, month, _] if is_digits(hour) && is_digits(day) && month.len() == 3)
        && after.get(..2).is_some_and(is_digits)
}

/// Replaces the text before each `mark` by as many of these letters as `found` returns.
fn replaced(text: &str, mark: &str, found: impl Fn(&str) -> Option<(usize, char)>) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(mark) {
        let (before, after) = rest.split_at(at);
        let is_whole = !after[mark.len()..].starts_with(char::is_alphanumeric);
        match found(before).filter(|_| is_whole) {
            Some((count, with)) => {
                done.push_str(&before[..before.len() - count]);
                let number = &before[before.len() - count..];
                done.extend(number.chars().map(|it| if it == '.' { '.' } else { with }));
            }
            None => done.push_str(before),
        }
        done.push_str(mark);
        rest = &after[mark.len()..];
    }
    done + rest
}
