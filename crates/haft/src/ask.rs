//! Questions to the person at the terminal: asked on `/dev/tty`, escaped and truncated.
//!
//! Standard input and output may be redirected. haft escapes a model's text, so it can't control the terminal or
//! imitate a part of the question.

mod about_call;

use std::{
    collections::BTreeMap,
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

use agent::{Asker, ChangeKind, NobodyToAsk, nobody};
use kit::{
    Fault, Kind,
    effect::{Effect, Scope},
    escape::is_unseen,
    services::{Question, Soon},
};
use runtime::{Approver, Request, Unattended, Verdict};
use rustix::{
    event::{PollFd, PollFlags, poll},
    termios::{
        LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
    },
};
use serde_json::Value;

pub(crate) use about_call::AboutCall;

use crate::terminal::diff;

/// The first and last parts of a longer text are shown; the rest is counted.
const LONGEST: usize = 2_000;

/// At most so many identical blanks or invisible characters are shown one by one; more are counted.
const SAME: usize = 8;

/// At most so many lines of the new content are shown, and so many bytes.
const LINES: usize = 20;
const CONTENT: usize = 1_500;

/// At most so much of one such line is shown.
const WIDTH: usize = 200;

/// The byte that Ctrl-C sends.
const CTRL_C: u8 = 3;

/// The number of open questions at the terminal.
static STANDING: AtomicUsize = AtomicUsize::new(0);

/// Returns the approver: the person at the terminal, if there is one.
pub(crate) fn approver() -> Arc<dyn Approver> {
    if somebody() { Arc::new(AtTerminal) } else { Arc::new(Unattended) }
}

/// Returns the asker for questions of a model: the person at the terminal, if there is one.
pub(crate) fn asker() -> Arc<dyn Asker> {
    if somebody() { Arc::new(AtTerminal) } else { Arc::new(NobodyToAsk) }
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
        Box::pin(async move {
            let about = AboutCall::from(request);
            let verdict = at_terminal(move |terminal, stopped| ask(terminal, &about, stopped)).await;
            verdict.unwrap_or(Verdict::NobodyThere)
        })
    }
}

impl Asker for AtTerminal {
    fn ask(&self, question: Question) -> Soon<'_, Result<String, Fault>> {
        Box::pin(async move {
            let said = at_terminal(move |terminal, stopped| want(terminal, &question, stopped)).await;
            said.ok_or_else(nobody)?.ok_or_else(unanswered)
        })
    }

    fn show(&self, text: String) -> Soon<'_, Result<(), Fault>> {
        Box::pin(async move {
            let show = move |mut terminal: &File, _: &OwnedFd| {
                let lines: Vec<String> = text.lines().map(|it| format!("  {}\n", shown(it))).collect();
                terminal.write_all(lines.concat().as_bytes())
            };
            at_terminal(show).await.ok_or_else(nobody)
        })
    }
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

/// Returns the text of a model's question, with the answers that it offers.
pub(crate) fn wanted(question: &Question) -> String {
    let mut text = format!("the model asks: {}\n", shown(&question.text));
    for (at, option) in question.options.iter().enumerate() {
        text.push_str(&format!("  {}. {}\n", at + 1, shown(option)));
    }
    text
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

/// A question in parts: the effects, the diffs of the changes, and the reason for asking.
pub(crate) struct Parts {
    pub(crate) asks: String,
    pub(crate) effects: Vec<String>,
    pub(crate) why: Vec<String>,
}

/// Returns the parts of a question, each as an escaped line.
pub(crate) fn parts(request: &AboutCall) -> Parts {
    let whose = request.agent.as_ref().map(|it| format!("{}: ", shown(it))).unwrap_or_default();
    // The diffs show which files are written.
    let is_shown = |it: &&String| !it.starts_with("write ") || request.changes.is_empty();
    let mut effects: Vec<String> =
        request.effects.iter().filter(is_shown).map(|it| format!("  {}", shown(it))).collect();
    if effects.is_empty() && request.changes.is_empty() {
        effects.push(format!("  {}", shown(&request.arguments)));
    }
    let mut why = vec![format!("Reason: {} (rule {})", shown(&request.says), shown(&request.rule))];
    let is_said = |it: &String| it.ends_with(request.about.as_str());
    if !request.effects.iter().any(is_said) && !request.changes.iter().any(|it| is_said(&it.path)) {
        why.push(format!("  {}", shown(&request.about)));
    }
    if request.changes.is_empty() {
        why.extend(content(&request.arguments).lines().map(str::to_owned));
    }
    let hidden =
        unseen(&format!("{}{}{}", request.effects.concat(), request.about, in_words(&request.arguments)));
    if !hidden.is_empty() {
        why.push(format!("Careful, it has letters that can't be seen: {}", hidden.join("; ")));
    }
    if !request.offers.is_empty() {
        why.push("A session or project approval covers:".to_owned());
        why.extend(request.offers.iter().map(|it| format!("  {}", shown(&covered(it)))));
    }
    let asks = format!("{whose}Allow `{}` to {}?", shown(&request.tool), does(request, &effects));
    Parts { asks, effects, why }
}

/// Describes the effects in a few words: a single file by its path.
fn does(request: &AboutCall, effects: &[String]) -> String {
    let ([change], []) = (request.changes.as_slice(), effects) else { return "do this".to_owned() };
    let does = match change.kind {
        ChangeKind::Created => "create",
        ChangeKind::Changed => "change",
        ChangeKind::Deleted => "delete",
    };
    format!("{does} {}", bounded(&change.path, WIDTH))
}

/// Returns all texts of these arguments, without JSON escapes.
fn in_words(arguments: &str) -> String {
    fn add(value: &Value, text: &mut String) {
        match value {
            Value::String(it) => text.push_str(it),
            Value::Array(list) => list.iter().for_each(|it| add(it, text)),
            Value::Object(map) => map.iter().for_each(|(name, it)| {
                text.push_str(name);
                add(it, text);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let Ok(value) = serde_json::from_str(arguments) else { return arguments.to_owned() };
    let mut text = String::new();
    add(&value, &mut text);
    text
}

/// Returns what a grant covers, in the words of `haft grants`.
fn covered(offer: &Effect) -> String {
    match offer {
        Effect::Edit(path) if path == "." => {
            format!("{offer}  (every file in the workspace, except those that always need approval)")
        }
        _ => offer.to_string(),
    }
}

/// Returns the question as text, with at most so many lines of diffs.
pub(crate) fn question(request: &AboutCall, lines: usize, hint: &str) -> String {
    let Parts { asks, effects, why } = parts(request);
    let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
    let diffs = diff::proposed_plain(&request.changes, 2);
    let diffs = head_and_tail(diffs, lines, |rest| format!("  … {rest} more lines{hint} …"));
    let all: Vec<String> = [vec![asks], effects, diffs, why].concat();
    format!("\n{}\n", all.join("\n"))
}

/// Returns whether the diffs have more lines than a question shows at first.
pub(crate) fn is_cut(request: &AboutCall) -> bool {
    let lines: usize = request.changes.iter().map(|it| it.diff.lines().count()).sum();
    lines > diff::SHOWN
}

/// Returns the beginning and the end of the new content, if the arguments contain it.
fn content(arguments: &str) -> String {
    let Ok(arguments) = serde_json::from_str::<Value>(arguments) else { return String::new() };
    let field = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut lines: Vec<String> = Vec::new();
    let mut add = |mark: &str, text: Option<String>| {
        lines.extend(
            text.iter().flat_map(|it| it.lines()).map(|line| format!("{mark}{}", bounded(line, WIDTH))),
        );
    };
    add("", field(&arguments, "content"));
    for edit in arguments.get("edits").and_then(Value::as_array).into_iter().flatten() {
        add("- ", field(edit, "old"));
        add("+ ", field(edit, "new"));
    }
    if lines.is_empty() {
        return String::new();
    }
    // A few long lines take as much space as many short ones.
    let longest = lines.iter().map(String::len).max().unwrap_or_default().max(1);
    let most = LINES.min(CONTENT / longest).max(4);
    let lines = head_and_tail(lines, most, |rest| {
        format!("… {rest} more {} …", if rest == 1 { "line" } else { "lines" })
    });
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("It would write:\n{lines}")
}

/// Returns the first and the last of so many lines, and between them one that counts the omitted ones.
pub(crate) fn head_and_tail<T>(mut all: Vec<T>, most: usize, more: impl FnOnce(usize) -> T) -> Vec<T> {
    if all.len() <= most.saturating_add(1) {
        return all;
    }
    let tail = all.split_off(all.len() - most / 3);
    let head = most - most / 3;
    let left_out = all.len() - head;
    all.truncate(head);
    all.push(more(left_out));
    all.extend(tail);
    all
}

pub(crate) fn choices(offers: &[Effect]) -> &'static str {
    if offers.is_empty() {
        "allow it? [o]nce, [n]o: "
    } else {
        "allow it? [o]nce, this [s]ession, this [p]roject, [n]o: "
    }
}

/// Returns the possible answers, for a person who typed another one.
pub(crate) fn keys(request: &AboutCall) -> String {
    let keys = if request.offers.is_empty() { "o or n" } else { "o, s, p or n" };
    let all = if is_cut(request) { "; d shows the whole diff" } else { "" };
    format!("Type {keys}; `n WORDS` refuses and tells the model why{all}.")
}

/// Escapes a text into one line: a line break can't start a fake question, and nothing pushes the end out of view.
pub(crate) fn shown(text: &str) -> String {
    bounded(text, LONGEST)
}

/// Does the same, truncated in the middle to about so many characters.
fn bounded(text: &str, longest: usize) -> String {
    let pieces = pieces(text);
    let width = |piece: &String| piece.chars().count();
    let all: usize = pieces.iter().map(width).sum();
    if all <= longest {
        return pieces.concat();
    }
    let (mut head, mut room) = (String::new(), longest - longest / 3);
    let mut rest = pieces.as_slice();
    while let [first, after @ ..] = rest
        && width(first) <= room
    {
        head.push_str(first);
        room -= width(first);
        rest = after;
    }
    let (mut tail, mut room) = (Vec::new(), longest / 3);
    while let [before @ .., last] = rest
        && width(last) <= room
    {
        tail.push(last.as_str());
        room -= width(last);
        rest = before;
    }
    let left_out: usize = rest.iter().map(width).sum();
    tail.reverse();
    format!("{head}… {left_out} more characters …{}", tail.concat())
}

/// Splits a text into characters as shown; repeated blanks become one piece that counts them.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let shown = match letter {
            ' '..='~' => letter.to_string(),
            // Letters of other scripts are shown; marks, blanks and control characters are escaped.
            letter if letter.is_alphanumeric() && !is_unseen(letter) => letter.to_string(),
            letter => letter.escape_default().to_string(),
        };
        let mut count = 1;
        // A visible letter is never counted as a blank, however often it is repeated.
        if letter == ' ' || shown.chars().count() > 1 {
            while letters.next_if_eq(&letter).is_some() {
                count += 1;
            }
        }
        match (count, letter) {
            (..=SAME, _) => pieces.extend(std::iter::repeat_n(shown, count)),
            (_, ' ') => pieces.push(format!("⟨{count} spaces⟩")),
            _ => pieces.push(format!("⟨{count} × {shown}⟩")),
        }
    }
    pieces
}

/// Lists the invisible characters in a text by name: `U+3164 (Hangul filler), 500 times`.
fn unseen(text: &str) -> Vec<String> {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    let odd = |it: &char| !it.is_ascii() && (is_unseen(*it) || it.is_whitespace() || *it == '\u{2800}');
    text.chars().filter(odd).for_each(|it| *counts.entry(it).or_default() += 1);
    let said = |(letter, count): (char, usize)| {
        let times = if count == 1 { String::new() } else { format!(", {count} times") };
        let name = name_of(letter).map(|it| format!(" ({it})")).unwrap_or_default();
        format!("U+{:04X}{name}{times}", u32::from(letter))
    };
    counts.into_iter().map(said).collect()
}

/// Returns the Unicode name of the invisible characters that are known here.
fn name_of(letter: char) -> Option<&'static str> {
    Some(match letter {
        '\u{85}' => "next line",
        '\u{a0}' => "no-break space",
        '\u{ad}' => "soft hyphen",
        '\u{34f}' => "combining grapheme joiner",
        '\u{61c}' => "Arabic letter mark",
        '\u{115f}' => "Hangul choseong filler",
        '\u{1160}' => "Hangul jungseong filler",
        '\u{17b4}' | '\u{17b5}' => "Khmer inherent vowel",
        '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' => "space",
        '\u{200b}' => "zero width space",
        '\u{200c}' => "zero width non-joiner",
        '\u{200d}' => "zero width joiner",
        '\u{200e}' | '\u{200f}' => "direction mark",
        '\u{2028}' => "line separator",
        '\u{2029}' => "paragraph separator",
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => "direction override",
        '\u{2060}' => "word joiner",
        '\u{2061}'..='\u{2064}' => "invisible operator",
        '\u{2800}' => "Braille blank",
        '\u{3000}' => "ideographic space",
        '\u{3164}' => "Hangul filler",
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => "variation selector",
        '\u{feff}' => "zero width no-break space",
        '\u{ffa0}' => "halfwidth Hangul filler",
        '\u{e0000}'..='\u{e007f}' => "tag",
        _ => return None,
    })
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
    use super::*;

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
