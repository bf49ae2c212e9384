//! What a key does in the chat beyond the line: it answers a question, stops a turn, leaves, or gives the terminal to another
//! program.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        dialog::{Dialog, Pressed},
        editor,
        expanded::Reading,
        input::Heard,
        input_line::{Came, Entry},
        interrupt,
        row::{Row, Style},
    },
    Away, Front, Said,
};
use crate::attach;

/// So soon Ctrl-C has to be pressed again to leave.
const AGAIN: Duration = Duration::from_secs(2);

/// A process that is not stopped by then will not be: no shell waits for it.
const STOPS: Duration = Duration::from_millis(300);

/// How the terminal comes back.
pub(super) enum Back {
    /// The editor is closed: with this text, or why there is none.
    Editor(Result<String, String>),
    /// The shell gave it back.
    Shell,
}

/// Waits until the other program gives the terminal back. May be dropped and asked again.
pub(super) async fn returns(away: &mut Option<Away>) -> Back {
    match away {
        Some(Away::Editor(open)) => {
            Back::Editor(open.await.unwrap_or_else(|_| Err("the editor was lost".to_owned())))
        }
        // That it was continued, the clock says too: it did not go on meanwhile.
        Some(Away::Shell(since)) => {
            tokio::time::sleep_until(Instant::from_std(*since + STOPS)).await;
            Back::Shell
        }
        None => std::future::pending().await,
    }
}

impl Front {
    pub(super) fn typed(&mut self, heard: Heard, cancel: &CancellationToken) {
        match heard {
            Heard::Key(key) if self.reads(key) => {}
            Heard::Key(key) if is_stop(key) => {
                self.attention.idle(&mut self.screen);
                let is_escape = key.code == KeyCode::Esc;
                let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
                if self.dialog.is_none() && (is_escape || is_control) && self.line.gives_up(is_control) {
                    return;
                }
                cancel.cancel();
                self.stopped(key);
            }
            Heard::Key(key) => {
                self.attention.idle(&mut self.screen);
                self.leaving = None;
                match self.dialog.take() {
                    Some(dialog) => self.answer(dialog, key),
                    None if self.prompt => self.key(key),
                    None if is_suspend(key) => self.suspend(),
                    None => {}
                }
            }
            Heard::Paste(text) => match (&mut self.reading, &mut self.dialog) {
                (Some(reading), _) => reading.paste(&text),
                (None, Some(dialog)) => dialog.paste(&text),
                (None, None) if !self.prompt => {}
                (None, None) => {
                    self.typed = Some(std::time::Instant::now());
                    self.leaving = None;
                    match attach::pasted_picture(&text) {
                        Some(path) => self.line.picture(&path),
                        None => self.line.paste(&text),
                    }
                }
            },
            Heard::Resized(columns, lines) => self.screen.resized(columns, lines),
            Heard::End => {
                self.hangup.cancel();
                cancel.cancel();
            }
        }
    }

    /// Is this a key for the pager, or one that opens it?
    fn reads(&mut self, key: KeyEvent) -> bool {
        if let Some(reading) = &mut self.reading {
            if !reading.key(key, &self.outputs, self.session.as_ref()) {
                self.reading = None;
                self.screen.leave_full();
            }
            return true;
        }
        if key.code != KeyCode::Char('o') || key.modifiers != KeyModifiers::CONTROL {
            return false;
        }
        let Some(session) = &self.session else { return true };
        self.reading = Reading::newest(self.view.newest_call(), &self.outputs, session);
        if self.reading.is_none() {
            self.show(&[Row::new("Nothing to read yet: no call has ended.", Style::DIM)]);
        }
        true
    }

    /// A key for the question that stands.
    fn answer(&mut self, dialog: Dialog, key: KeyEvent) {
        let asks = dialog.asks().map(|(call, since)| (call.to_owned(), since));
        let showed = dialog.showed().map(|(call, changes)| (call.to_owned(), changes.to_vec()));
        match dialog.key(key, self.columns()) {
            Pressed::Answered(said) => {
                if let Some((call, since)) = asks {
                    self.view.asked(&call, since.elapsed());
                }
                if let Some((call, changes)) = showed {
                    self.view.showed(call, changes);
                }
                self.show(&said.wrapped(self.columns(), 2));
            }
            Pressed::Stands(dialog, rows) => {
                self.dialog = Some(*dialog);
                self.show(&rows);
            }
        }
    }

    /// A key for the line. A line that is done waits until it can be taken up.
    fn key(&mut self, key: KeyEvent) {
        self.typed = Some(std::time::Instant::now());
        match self.line.key(key) {
            Came::Nothing => {}
            Came::Line(entry) => {
                self.typed = None;
                self.said.push_back(Said::Line(entry));
            }
            Came::End => self.said.push_back(Said::End),
            Came::Wipe => self.screen.wipe(),
            Came::Edit => self.edit(),
            Came::Suspend => self.suspend(),
        }
    }

    /// Besides what it stops, Ctrl-C at the prompt clears the line; at an empty one, twice, it ends the chat.
    fn stopped(&mut self, key: KeyEvent) {
        if key.code != KeyCode::Esc && key.modifiers.contains(KeyModifiers::ALT) {
            // Esc and the next key came at once.
            self.key(KeyEvent::new(key.code, key.modifiers - KeyModifiers::ALT));
            return;
        }
        let is_free = self.dialog.is_none() && !self.is_busy && self.prompt;
        if !is_free || !key.modifiers.contains(KeyModifiers::CONTROL) {
            self.leaving = None;
        } else if !self.line.is_empty() {
            self.line.clear();
        } else if self.is_leaving() {
            self.said.push_back(Said::End);
        } else {
            self.leaving = Some(std::time::Instant::now());
        }
    }

    /// Was Ctrl-C pressed just now at an empty prompt?
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some_and(|it| it.elapsed() < AGAIN)
    }

    /// What was said for after a turn that was stopped is typed again: it may not be meant any more.
    pub(super) fn take_back(&mut self) {
        let lines = self.said.drain(..).filter_map(|it| match it {
            Said::Line(entry) => Some(entry).filter(|it| !it.text.trim().is_empty()),
            Said::End | Said::Stop => None,
        });
        let lines: Vec<Entry> = lines.collect();
        if !lines.is_empty() {
            let texts: Vec<&str> = lines.iter().map(|it| it.text.as_str()).collect();
            let pictures = lines.iter().flat_map(|it| it.pictures.clone()).collect();
            self.line.begin_with(&Entry { pictures, ..Entry::new(texts.join("\n")) });
        }
    }

    /// Opens the person's editor on what is typed. The agent goes on meanwhile.
    fn edit(&mut self) {
        let Some(command) = editor::command(&self.variables) else {
            self.tell("no editor was found: name one in the variable VISUAL or EDITOR", Style::BAD);
            return;
        };
        self.leave();
        match editor::open(&command, &self.line.text(), &self.state) {
            Ok(open) => self.away = Some(Away::Editor(open)),
            Err(error) => {
                self.take();
                self.tell(&format!("the editor `{command}` can't be opened: {error}"), Style::BAD);
            }
        }
    }

    /// Stops this process, as Ctrl-Z does elsewhere: the shell has the terminal until it continues us.
    fn suspend(&mut self) {
        self.leave();
        // A signal that nobody sends stops nothing, and the terminal is taken back.
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        self.away = Some(Away::Shell(std::time::Instant::now()));
    }

    pub(super) fn comes_back(&mut self, back: Back) {
        self.away = None;
        self.take();
        match back {
            Back::Editor(Ok(text)) => self.line.set(&text),
            Back::Editor(Err(why)) => self.show(&Row::new(why, Style::BAD).wrapped(self.columns(), 2)),
            Back::Shell => {}
        }
    }

    /// Gives the terminal away.
    fn leave(&mut self) {
        self.screen.give();
        self.input.pause();
        interrupt::is_elsewhere(true);
    }

    fn take(&mut self) {
        interrupt::is_elsewhere(false);
        if self.input.resume().is_err() {
            // Who can't be heard has gone.
            self.hangup.cancel();
        }
        self.screen.come_back();
    }

    /// Somebody stopped and continued this process: the terminal may be as the shell wants it.
    pub(super) fn retake(&mut self) {
        self.screen.give();
        self.take();
    }
}

/// Is this Esc or Ctrl-C? Esc with a key right after it comes as that key with Alt.
fn is_stop(key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Esc => true,
        KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => true,
        KeyCode::Char(letter) => {
            key.modifiers.contains(KeyModifiers::ALT) && !matches!(letter, 'b' | 'd' | 'f' | 'y')
        }
        _ => false,
    }
}

fn is_suspend(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('z') && key.modifiers == KeyModifiers::CONTROL
}
