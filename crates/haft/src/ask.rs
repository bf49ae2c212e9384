//! Questions to the person at the terminal: asked on `/dev/tty`, escaped and truncated.
//!
//! Standard input and output may be redirected. haft escapes a model's text, so it can't control the terminal or
//! imitate a part of the question.

mod about_call;
mod question;

use std::{
    fs::{File, OpenOptions},
    future::Future,
    io::{self, IsTerminal, Write},
    os::fd::OwnedFd,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use kit::{Fault, Kind, effect::Scope, services::Question};
use runtime::{Approver, Request, Unattended, Verdict};
use rustix::{
    event::{PollFd, PollFlags, poll},
    termios::{
        LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
    },
};

pub(crate) use about_call::AboutCall;
pub(crate) use question::{Parts, choices, head_and_tail, is_cut, keys, parts, question, shown, wanted};

use crate::terminal::diff;

/// The byte that Ctrl-C sends.
const CTRL_C: u8 = 3;

/// The number of open questions at the terminal.
static STANDING: AtomicUsize = AtomicUsize::new(0);

/// Returns the approver: the person at the terminal, if there is one.
pub(crate) fn approver() -> Arc<dyn Approver> {
    if somebody() { Arc::new(AtTerminal) } else { Arc::new(Unattended) }
}

/// Returns whether a question is open at the terminal, which other output must not interrupt.
pub(crate) fn is_asking() -> bool {
    STANDING.load(Ordering::Acquire) > 0
}

/// Returns whether there is a person at the terminal.
pub(crate) fn somebody() -> bool {
    (io::stderr().is_terminal() || io::stdin().is_terminal()) && terminal().is_ok()
}

fn terminal() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

/// Asks the person at the terminal for a yes or a no, before anything runs. Returns `None` if nobody can be asked.
pub(crate) fn confirm(question: &str) -> Option<bool> {
    if !somebody() {
        return None;
    }
    let (stopped, _stop) = rustix::pipe::pipe().ok()?;
    let asked = on_quiet_terminal(|mut terminal| {
        terminal.write_all(question.as_bytes())?;
        let line = read_line(terminal, &stopped)?.unwrap_or_default();
        if line.last() != Some(&b'\n') {
            terminal.write_all(b"\n")?;
        }
        Ok(matches!(String::from_utf8_lossy(&line).trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    });
    asked.ok()
}

/// Asks at the terminal, and ignores keys that were typed before the question.
fn on_quiet_terminal<T>(ask: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    let terminal = terminal()?;
    tcflush(&terminal, QueueSelector::IFlush)?;
    let _quiet = Quiet::new(&terminal)?;
    ask(&terminal)
}

struct AtTerminal;

impl Approver for AtTerminal {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async move { approve_here(AboutCall::from(request)).await.unwrap_or(Verdict::NobodyThere) })
    }
}

/// Asks at the terminal whether a call may run. Returns `None` if there is none.
pub(crate) async fn approve_here(about: AboutCall) -> Option<Verdict> {
    at_terminal(move |terminal, stopped| ask(terminal, &about, stopped)).await
}

/// Asks at the terminal. Returns `None` if there is none, and `Some(None)` if the person does not want to answer.
pub(crate) async fn ask_here(question: Question) -> Option<Option<String>> {
    at_terminal(move |terminal, stopped| want(terminal, &question, stopped)).await
}

/// Shows a text at the terminal, if there is one.
pub(crate) fn show_here(text: &str) {
    let lines: String = text.lines().map(|it| format!("  {}\n", shown(it))).collect();
    // Without a terminal, nobody can see it.
    let _ = on_quiet_terminal(|mut terminal| terminal.write_all(lines.as_bytes()));
}

/// Returns the error of a question that the person did not answer.
pub(crate) fn unanswered() -> Fault {
    Fault::new(Kind::Cancelled, "the person did not answer")
        .next("Go on without the answer, or say what is missing.")
}

/// Asks in a thread of its own; returns `None` if that fails. When this future is dropped, `stopped` becomes readable,
/// and the thread withdraws the question.
async fn at_terminal<T: Send + 'static>(
    ask: impl FnOnce(&File, &OwnedFd) -> io::Result<T> + Send + 'static,
) -> Option<T> {
    let (reply, answer) = tokio::sync::oneshot::channel();
    let (stopped, _stop) = rustix::pipe::pipe().ok()?;
    let asking = move || {
        STANDING.fetch_add(1, Ordering::AcqRel);
        let said = on_quiet_terminal(|terminal| ask(terminal, &stopped));
        STANDING.fetch_sub(1, Ordering::AcqRel);
        // The receiver may be gone.
        let _ = reply.send(said.ok());
    };
    std::thread::Builder::new().name("haft-ask".to_owned()).spawn(asking).ok()?;
    answer.await.ok().flatten()
}

/// Asks until an answer is valid. `stopped` ends it.
fn ask(terminal: &File, request: &AboutCall, stopped: &OwnedFd) -> io::Result<Verdict> {
    let mut out = terminal;
    let hint = if is_cut(request) { "d shows all" } else { "" };
    out.write_all(question(request, diff::SHOWN, hint).as_bytes())?;
    loop {
        out.write_all(choices(&request.offers).as_bytes())?;
        let Some(line) = read_line(terminal, stopped)? else {
            out.write_all(b"\n(question withdrawn)\n")?;
            return Ok(Verdict::No);
        };
        match answer(&line, !request.offers.is_empty()) {
            Some(verdict) => return Ok(verdict),
            None if wants_all(&String::from_utf8_lossy(&line), request) => {
                let all = diff::proposed_plain(&request.changes, 2).join("\n");
                out.write_all(format!("{all}\n").as_bytes())?;
            }
            None => out.write_all(format!("{}\n", keys(request)).as_bytes())?,
        }
    }
}

/// Asks a question of the model; returns `None` if the person does not want to answer. `stopped` ends it.
fn want(terminal: &File, question: &Question, stopped: &OwnedFd) -> io::Result<Option<String>> {
    let mut out = terminal;
    out.write_all(format!("\n{}", wanted(question)).as_bytes())?;
    loop {
        out.write_all(b"your answer: ")?;
        let Some(line) = read_line(terminal, stopped)? else {
            out.write_all(b"\n(question withdrawn)\n")?;
            return Ok(None);
        };
        if line.is_empty() || line.contains(&CTRL_C) {
            return Ok(None);
        }
        if let Some(said) = chosen(question, &String::from_utf8_lossy(&line)) {
            return Ok(Some(said));
        }
    }
}

/// Returns the answer in this line: an offered one, by its number, or the text itself. An empty line is not an answer.
pub(crate) fn chosen(question: &Question, line: &str) -> Option<String> {
    let line = line.trim();
    let number = line.parse::<usize>().ok().and_then(|it| it.checked_sub(1));
    let offered = number.and_then(|it| question.options.get(it));
    offered.cloned().or_else(|| (!line.is_empty()).then(|| line.to_owned()))
}

pub(crate) fn answer(line: &[u8], lasting: bool) -> Option<Verdict> {
    if line.is_empty() || line.contains(&CTRL_C) {
        return Some(Verdict::No);
    }
    match String::from_utf8_lossy(line).trim().to_ascii_lowercase().as_str() {
        "o" | "once" | "y" | "yes" => Some(Verdict::Yes(Scope::Once)),
        "s" | "session" if lasting => Some(Verdict::Yes(Scope::Session)),
        "p" | "project" if lasting => Some(Verdict::Yes(Scope::Project)),
        "n" | "no" => Some(Verdict::No),
        _ => refusal(&String::from_utf8_lossy(line)).map(Verdict::Instead),
    }
}

/// Returns the reason after a no: `n use tabs`, `no, use tabs`.
fn refusal(line: &str) -> Option<String> {
    let line = line.trim();
    let head = line.find(|it: char| !it.is_ascii_alphabetic())?;
    let (no, words) = line.split_at_checked(head)?;
    let words = words.trim_start_matches([',', ':', '.', ';']);
    let is_no = no.eq_ignore_ascii_case("n") || no.eq_ignore_ascii_case("no");
    (is_no && words.starts_with(char::is_whitespace))
        .then(|| words.trim().to_owned())
        .filter(|it| !it.is_empty())
}

/// Returns whether the person wants to see the whole diff.
pub(crate) fn wants_all(line: &str, request: &AboutCall) -> bool {
    is_cut(request) && matches!(line.trim().to_ascii_lowercase().as_str(), "d" | "diff")
}

/// Reads a line; returns `None` if the question was withdrawn.
fn read_line(terminal: &File, stopped: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    loop {
        let mut fds = [PollFd::new(terminal, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let [terminal_fd, stopped_fd] = fds;
        if !stopped_fd.revents().is_empty() {
            return Ok(None);
        }
        if !terminal_fd.revents().is_empty() {
            let mut line = vec![0; 4096];
            let read = rustix::io::read(terminal, &mut line)?;
            line.truncate(read);
            return Ok(Some(line));
        }
    }
}

/// The terminal during a question: Ctrl-C is an answer, and does not end the program.
struct Quiet<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Quiet<'a> {
    fn new(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut while_asking = before.clone();
        while_asking.local_modes.remove(LocalModes::ISIG);
        while_asking.local_modes.insert(LocalModes::ICANON | LocalModes::ECHO);
        // Ctrl-C ends the line, as the return key does.
        while_asking.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
        tcsetattr(terminal, OptionalActions::Now, &while_asking)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        question::{content, in_words, unseen},
        *,
    };

    #[test]
    fn a_text_can_neither_act_on_the_terminal_nor_begin_a_line() {
        assert_eq!(
            shown("rm x\n[n]o: \u{1b}[2K\r\u{202e}\u{a0}\u{200b}ünï"),
            "rm x\\n[n]o: \\u{1b}[2K\\r\\u{202e}\\u{a0}\\u{200b}ünï"
        );
        let long = shown(&format!("begin {}; the end", "x".repeat(5_000)));
        assert!(long.starts_with("begin xxx") && long.contains("x… 3015 more characters …x"), "{long}");
        assert!(long.ends_with("x; the end") && long.len() < 2_100, "{long}");
    }

    #[test]
    fn nothing_pushes_the_end_of_a_command_out_of_sight() {
        for (blank, said) in [
            ("\u{3164}", "⟨3000 × \\u{3164}⟩"),
            ("\u{ffa0}", "⟨3000 × \\u{ffa0}⟩"),
            ("\u{115f}", "⟨3000 × \\u{115f}⟩"),
            ("\u{2800}", "⟨3000 × \\u{2800}⟩"),
            ("\n", "⟨3000 × \\n⟩"),
            (" ", "⟨3000 spaces⟩"),
        ] {
            assert_eq!(shown(&format!("ls{};rm -rf x", blank.repeat(3_000))), format!("ls{said};rm -rf x"));
        }
        // A sequence of different ones is truncated in the middle.
        let mixed = shown(&format!("ls{};rm -rf x", "\u{3164}\u{ffa0}".repeat(3_000)));
        assert!(mixed.ends_with(";rm -rf x") && mixed.contains(" more characters …"), "{mixed}");
        assert_eq!(shown("a    b ééééééééééééé"), "a    b ééééééééééééé");
    }

    #[test]
    fn letters_that_nobody_sees_are_named() {
        assert_eq!(
            unseen("ls\u{3164}\u{3164}é\u{a0}\u{e0041}"),
            ["U+00A0 (no-break space)", "U+3164 (Hangul filler), 2 times", "U+E0041 (tag)"]
        );
        assert_eq!(in_words(r#"{"a": ["\u3164"]}"#), "a\u{3164}");
    }

    #[test]
    fn an_answer_is_one_of_those_offered_or_what_the_person_says() {
        let question = Question {
            text: "Which\n1. trap?".to_owned(),
            options: vec!["main".to_owned(), "dev".to_owned()],
            ..Question::default()
        };
        assert_eq!(wanted(&question), "the model asks: Which\\n1. trap?\n  1. main\n  2. dev\n");
        for (line, said) in
            [("2\n", Some("dev")), ("3", Some("3")), (" other \n", Some("other")), ("\n", None)]
        {
            assert_eq!(chosen(&question, line).as_deref(), said);
        }
    }

    #[test]
    fn the_beginning_of_what_would_be_written_is_shown() {
        let write = r#"{"path": "x", "content": "a\n  \u001b[2Kb\n"}"#;
        assert_eq!(content(write), "It would write:\n  a\n    \\u{1b}[2Kb\n");
        let edit = r#"{"edits": [{"old": "a", "new": "b"}]}"#;
        assert_eq!(content(edit), "It would write:\n  - a\n  + b\n");
        let long = serde_json::json!({"content": "x\n".repeat(30)}).to_string();
        assert!(content(&long).contains("  x\n  … 10 more lines …\n  x\n"));
        let ends = serde_json::json!({"content": format!("{}last", "x\n".repeat(30))}).to_string();
        assert!(content(&ends).ends_with("  x\n  last\n"));
        let wide = serde_json::json!({"content": format!("{}end", "x".repeat(3_000))}).to_string();
        assert!(content(&wide).ends_with("xxxend\n"));
        assert!(content(&wide).contains(" more characters …x") && content(&wide).len() < 300);
        assert_eq!(content(r#"{"command": "ls"}"#), "");
    }

    #[test]
    fn only_a_clear_answer_is_one() {
        for (line, said) in [
            ("o\n", Some(Verdict::Yes(Scope::Once))),
            ("Session\n", Some(Verdict::Yes(Scope::Session))),
            ("p\n", Some(Verdict::Yes(Scope::Project))),
            ("n\n", Some(Verdict::No)),
            ("", Some(Verdict::No)),
            ("o\u{3}", Some(Verdict::No)),
            ("n use tabs\n", Some(Verdict::Instead("use tabs".to_owned()))),
            ("No, use tabs \n", Some(Verdict::Instead("use tabs".to_owned()))),
            ("no,\n", None),
            ("not now\n", None),
            ("\n", None),
            ("ok\n", None),
        ] {
            assert_eq!(answer(line.as_bytes(), true), said, "{line:?}");
        }
        assert_eq!(answer(b"s\n", false), None, "nothing can be kept");
    }
}
