//! The chat line by line: in a pipe, in Emacs, wherever there is no terminal to draw on.
//!
//! The same commands work as at a terminal. Text of the model and answers of commands go to standard output; events and
//! faults go to standard error. The exit code says whether something failed.

use std::{
    future::Future,
    io::{BufRead, IsTerminal, Write},
    process::ExitCode,
    sync::Arc,
};

use agent::{Agent, CUT_OFF, Change, Message};
use kit::{Fault, Kind};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::{
    Chat,
    conversation::Conversation,
    front_end::{Face, HINT},
};
use crate::{
    Options, Place,
    agent_factory::AgentFactory,
    ask::{approver, somebody},
    print,
    session_service::{self, Person},
    terminal::{
        abbreviate,
        chat::PromptInput,
        complete::{Own, Value},
        diff,
        input_line::Entry,
        interrupt::{self, STOPPED},
        picker::Item,
        plain::{Out, Plain},
        row::{Style, Tint},
    },
    verbs::{FAULT, finish},
};

/// Maximum length of the printed arguments of a call.
const TITLE: usize = 100;

/// Reads lines, executes each, and prints the result. `chosen` is a session that the person chose, and that nobody runs.
pub(super) async fn run(
    chat: Chat,
    options: &Options,
    chosen: Option<String>,
    place: &Place,
) -> Result<ExitCode, Fault> {
    let cancel = CancellationToken::new();
    interrupt::watch(cancel.clone(), || ())
        .map_err(|error| Fault::new(Kind::Unavailable, format!("signals can't be handled: {error}")))?;
    let Chat { agent, words, images, resume, .. } = chat;
    let factory = agent.open(options, place, approver()).await?;
    let name = match chosen {
        Some(name) => Some(name),
        None => factory.earlier(resume, options.session.as_deref())?,
    };
    let plain = Arc::new(Plain::new(Out::new(cancel.clone())));
    let lines = Lines::new(plain.clone(), &words, cancel.clone());
    let person = Person { viewer: plain, is_there: somebody(), shows_texts: true };
    let mut talk = Conversation::open(lines, factory, name.as_deref(), person).await?;
    talk.pictures = images;
    talk.begin();
    talk.talk().await;
    let Conversation { agent, owner, service, face, closed, .. } = talk;
    if let Some(by) = closed {
        print::err(&format!("haft: {by} closed this session"));
    }
    session_service::close(owner, service.who()).await;
    finish(agent.session()).await;
    Ok(if cancel.is_cancelled() {
        let goes_on = AgentFactory::goes_on("chat", options, &agent);
        print::err(&format!("haft: stopped; to continue: {goes_on}"));
        ExitCode::from(STOPPED)
    } else if face.failed {
        ExitCode::from(FAULT)
    } else {
        ExitCode::SUCCESS
    })
}

/// Lines in, lines out.
pub(super) struct Lines {
    plain: Arc<Plain>,
    /// The first message, from the command line.
    first: Option<String>,
    /// The lines of standard input. It is read from the first prompt on: until then it may turn out that another front end
    /// takes it.
    lines: Option<UnboundedReceiver<String>>,
    /// Somebody ended the chat.
    cancel: CancellationToken,
    pub(super) failed: bool,
}

impl Lines {
    /// `words` are the first line, if there are any; the others come from standard input.
    pub(super) fn new(plain: Arc<Plain>, words: &[String], cancel: CancellationToken) -> Self {
        let first = Some(words.join(" ")).filter(|it| !it.trim().is_empty());
        Self { plain, first, lines: None, cancel, failed: false }
    }
}

impl Face for Lines {
    async fn prompt(&mut self) -> PromptInput {
        if let Some(words) = self.first.take() {
            return PromptInput::Line(Entry::new(words));
        }
        mark();
        let line = tokio::select! {
            () = self.cancel.cancelled() => None,
            line = self.lines.get_or_insert_with(read_lines).recv() => line,
        };
        line.map_or(PromptInput::End, |line| PromptInput::Line(Entry::new(line)))
    }

    async fn attend<T>(&mut self, work: impl Future<Output = T>, cancel: &CancellationToken) -> T {
        tokio::pin!(work);
        let done = tokio::select! {
            done = &mut work => done,
            () = self.cancel.cancelled() => {
                cancel.cancel();
                work.await
            }
        };
        self.plain.end();
        done
    }

    fn tell(&mut self, text: &str, style: Style) {
        let text = text.trim_end();
        match style.tint {
            Tint::Bad | Tint::Asks => text.lines().for_each(|it| print::err(&format!("haft: {it}"))),
            _ => print::out(text),
        }
    }

    async fn page(&mut self, _: &str, text: &str) {
        self.tell(text, Style::PLAIN);
    }

    async fn pick(&mut self, _: &str, _: Vec<Item>) -> Option<Option<usize>> {
        None
    }

    fn columns(&self) -> usize {
        usize::MAX
    }

    fn note(&mut self, text: &str) {
        print::err(&format!("haft: {text}"));
    }

    fn show_before(&mut self, said: &[Message]) {
        for message in said {
            let line = match message {
                Message::Person { text, .. } => format!("> {text}"),
                Message::Model { text, cut_off: false } => text.clone(),
                Message::Model { text, cut_off: true } => format!("{}\n{CUT_OFF}", text.trim_end()),
                Message::Tool { tool, title, .. } => {
                    let arguments = serde_json::from_str(title).unwrap_or_else(|_| title.clone().into());
                    format!("< {tool} {}", abbreviate::arguments(&arguments, TITLE))
                }
                Message::Note { text } => format!("! {text}"),
            };
            print::err(&line);
        }
    }

    fn show_changes(&mut self, changes: &[Change]) {
        diff::plain(changes, 2, diff::SHOWN, HINT).iter().for_each(|it| print::err(it));
    }

    fn follow(&mut self, _: &Agent) {}

    fn failed(&mut self) {
        self.failed = true;
    }

    fn give_back(&mut self, _: &Entry) -> bool {
        false
    }

    fn offer(&mut self, _: Vec<Own>, _: Vec<(&'static str, Vec<Value>)>) {}

    fn copy(&mut self, _: &str) -> Result<(), Fault> {
        Err(Fault::new(Kind::Unavailable, "there is no terminal here whose clipboard could take it")
            .next("/export FILE writes the conversation to a file."))
    }

    fn is_answered(&mut self) {}

    fn shows_whole(&mut self) {}

    fn is_over(&self) -> bool {
        self.cancel.is_cancelled()
    }

    fn waits_at_end(&self) -> bool {
        // The end of a pipe or a file means only that there are no more messages.
        !self.cancel.is_cancelled() && !std::io::stdin().is_terminal()
    }
}

/// Prints a prompt if a person types at a terminal.
fn mark() {
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        let mut out = std::io::stdout().lock();
        // A failed write of the prompt does not matter: the person can still type.
        let _ = out.write_all(b"> ").and_then(|()| out.flush());
    }
}

/// Returns the lines of standard input as they arrive.
fn read_lines() -> UnboundedReceiver<String> {
    let (tell, lines) = unbounded_channel();
    // A separate thread: a read can't be cancelled, and must not delay the end.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    lines
}
