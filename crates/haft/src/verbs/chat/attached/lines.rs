//! An attached chat line by line: prompts from standard input, one after the other, and plain lines.
//!
//! Text of the model and answers of commands go to standard output; events and faults go to standard error.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use agent::Observer;
use kit::{Fault, Kind, services::Question};
use runtime::Verdict;
use sessions::Job;
use tokio_util::sync::CancellationToken;

use super::{Attached, Chat, Reached, feed::Screen, left, runs, title};
use crate::{
    Options, Place,
    ask::{AboutCall, approver, somebody},
    print,
    session_service::{Reply, Viewer},
    terminal::{
        chat::seen::Seen,
        interrupt::{self, STOPPED},
        plain::{Out, Plain},
        row::{Style, Tint, harmless},
    },
    verbs::{FAULT, chat::lines::Lines, close},
};

/// Shows the session of this name, which another process runs, in lines; ends at the end of the input, once the session works on
/// nothing.
///
/// # Errors
/// When the session can't be reached.
pub(in crate::verbs::chat) async fn run(
    chat: Chat,
    name: &str,
    options: &Options,
    place: &Place,
) -> Result<ExitCode, Fault> {
    let cancel = CancellationToken::new();
    interrupt::watch(cancel.clone(), || ())
        .map_err(|error| Fault::new(Kind::Unavailable, format!("signals can't be handled: {error}")))?;
    let Chat { agent, words, .. } = chat;
    let reached = Reached::new(agent, name, (options, place), approver()).await?;
    let runtime = reached.runtime();
    let plain = Arc::new(Plain::new(Out::new(cancel.clone())));
    let screen = Arc::new(InLines { plain: plain.clone(), failed: AtomicBool::new(false) });
    let front = Lines::new(plain.clone(), &words, cancel.clone());
    print::err(&format!("haft: attached to {}; {}", harmless(&title(&reached)), runs(&reached).await));
    let mut attached = Attached::new(front, reached, screen.clone(), somebody(), Some(cancel.clone()));
    attached.talk().await;
    let Attached { front, handle, view, _attending, .. } = attached;
    drop((view, _attending));
    plain.end();
    left(&handle, &runtime, options).await;
    close(&runtime);
    let failed = front.failed || screen.failed.load(Ordering::Relaxed);
    Ok(match cancel.is_cancelled() {
        true => ExitCode::from(STOPPED),
        false if failed => ExitCode::from(FAULT),
        false => ExitCode::SUCCESS,
    })
}

/// Shows the session in lines.
struct InLines {
    plain: Arc<Plain>,
    /// Whether something failed.
    failed: AtomicBool,
}

impl InLines {
    /// Shows the end of a command that the person here ran, with all of its output.
    fn whole(&self, event: agent::Event) {
        let (text, is_good) = match &event {
            agent::Event::Answered { text, ok, exit, .. } => {
                (text.clone(), *ok && exit.is_none_or(|it| it == 0))
            }
            _ => (String::new(), true),
        };
        self.failed.fetch_or(!is_good, Ordering::Relaxed);
        self.plain.observe(event);
        self.plain.show(if text.trim().is_empty() { "(no output)" } else { text.trim_end() });
    }

    fn event(&self, text: &str) {
        self.plain.end();
        text.trim_end().lines().for_each(|it| print::err(&format!("haft: {}", harmless(it))));
    }
}

impl Screen for InLines {
    fn see(&self, seen: Seen) {
        match seen {
            Seen::Event(event) => self.plain.observe(event),
            Seen::Began(Some((text, by))) if !text.trim().is_empty() => {
                self.plain.end();
                let text = text.trim_end().replace('\n', "\n  ");
                let lines: Vec<_> = text.lines().map(harmless).collect();
                print::err(&format!("> {}  ({by})", lines.join("\n")));
            }
            Seen::Began(_) | Seen::Asks(_) => {}
            Seen::Ended(None) => self.plain.end(),
            Seen::Ended(Some(how)) => {
                self.failed.store(true, Ordering::Relaxed);
                self.event(&how);
            }
            Seen::Line(text, Style { tint: Tint::Bad, .. }) => {
                self.failed.store(true, Ordering::Relaxed);
                self.event(&text);
            }
            Seen::Line(text, _) => self.event(&text),
            Seen::Whole(event) => self.whole(event),
            Seen::Text(text) => self.plain.show(&text),
            Seen::Typed(said) => self.event(&format!("you had said: {said}")),
            Seen::Job(job) => self.plain.job(job),
            Seen::Settled(how) => self.plain.settled(&how),
        }
    }

    fn answer(&self, text: String) {
        self.plain.show(&text);
    }
}

impl Observer for InLines {
    fn observe(&self, event: agent::Event) {
        self.plain.observe(event);
    }
}

impl Viewer for InLines {
    fn job(&self, job: Job) {
        self.plain.job(job);
    }

    fn text(&self, text: &str) {
        self.plain.text(text);
    }

    fn approve(&self, call: AboutCall) -> Reply<Verdict> {
        self.plain.approve(call)
    }

    fn ask(&self, question: Question) -> Reply<Option<String>> {
        self.plain.ask(question)
    }

    fn settled(&self, how: &str) {
        self.plain.settled(how);
    }

    fn fails(&self, fault: &Fault) {
        self.failed.store(true, Ordering::Relaxed);
        self.plain.fails(fault);
    }
}
