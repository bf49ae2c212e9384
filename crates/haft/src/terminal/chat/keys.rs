//! Keys of the chat outside the input line: they answer a question, stop a turn, leave, or hand the terminal to another
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
        input::InputEvent,
        input_line::{Came, Entry},
        interrupt,
        row::{Row, Style},
    },
    Away, Front, PromptInput,
};
use crate::attach;

/// A second Ctrl-C within this time leaves the chat.
const AGAIN: Duration = Duration::from_secs(2);

/// A process that is not stopped after this time will not be: no shell waits for it.
const STOPS: Duration = Duration::from_millis(300);

/// How haft regains the terminal.
pub(super) enum Back {
    /// The editor is closed, with this text or the reason why there is none.
    Editor(Result<String, String>),
    /// The shell continued this process.
    Shell,
}

/// Waits until the other program returns the terminal. Cancel safe.
pub(super) async fn returns(away: &mut Option<Away>) -> Back {
    match away {
        Some(Away::Editor(open)) => {
            Back::Editor(open.await.unwrap_or_else(|_| Err("the editor was lost".to_owned())))
        }
        // The clock also shows that the process was continued: time stood still for it meanwhile.
        Some(Away::Shell(since)) => {
            tokio::time::sleep_until(Instant::from_std(*since + STOPS)).await;
            Back::Shell
        }
        None => std::future::pending().await,
    }
}

impl Front {
    pub(super) fn typed(&mut self, event: InputEvent, cancel: &CancellationToken) {
        match event {
            InputEvent::Key(key) if self.reads(key) => {}
            InputEvent::Key(key) if is_stop(key) => {
                self.attention.idle(&mut self.screen);
                let is_escape = key.code == KeyCode::Esc;
                let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
                if self.dialog.is_none() && (is_escape || is_control) && self.line.gives_up(is_control) {
                    return;
                }
                cancel.cancel();
                self.stopped(key);
            }
            InputEvent::Key(key) => {
                self.attention.idle(&mut self.screen);
                self.leaving = None;
                match self.dialog.take() {
                    Some(dialog) => self.answer(dialog, key),
                    None if self.prompt => self.key(key),
                    None if is_suspend(key) => self.suspend(),
                    None => {}
                }
            }
            InputEvent::Paste(text) => match (&mut self.reading, &mut self.dialog) {
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
            InputEvent::Resized(columns, lines) => self.screen.resized(columns, lines),
            InputEvent::End => {
                self.hangup.cancel();
                cancel.cancel();
            }
        }
    }

    /// Returns whether this key is for the pager, or opens it.
    fn reads(&mut self, key: KeyEvent) -> bool {
        if let Some(reading) = &mut self.reading {
            if !reading.key(key, &self.outputs, self.source.as_ref()) {
                self.reading = None;
                self.screen.leave_full();
            }
            return true;
        }
        if key.code != KeyCode::Char('o') || key.modifiers != KeyModifiers::CONTROL {
            return false;
        }
        let Some(source) = &self.source else { return true };
        self.reading = Reading::newest(self.view.newest_call(), &self.outputs, source);
        if self.reading.is_none() {
            self.show(&[Row::new("Nothing to read yet: no call has ended.", Style::DIM)]);
        }
        true
    }

    /// Passes a key to the open question.
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

    /// Passes a key to the input line. A finished line is queued.
    fn key(&mut self, key: KeyEvent) {
        self.typed = Some(std::time::Instant::now());
        match self.line.key(key) {
            Came::Nothing => {}
            Came::Line(entry) => {
                self.typed = None;
                self.said.push_back(PromptInput::Line(entry));
            }
            Came::End => self.said.push_back(PromptInput::End),
            Came::Wipe => self.screen.wipe(),
            Came::Edit => self.edit(),
            Came::Suspend => self.suspend(),
        }
    }

    /// Handles Esc and Ctrl-C at the prompt. Ctrl-C clears the line; twice at an empty one, it ends the chat.
    fn stopped(&mut self, key: KeyEvent) {
        if key.code != KeyCode::Esc && key.modifiers.contains(KeyModifiers::ALT) {
            // Esc and the next key arrived at once.
            self.key(KeyEvent::new(key.code, key.modifiers - KeyModifiers::ALT));
            return;
        }
        let is_free = self.dialog.is_none() && !self.is_busy && self.prompt;
        if !is_free || !key.modifiers.contains(KeyModifiers::CONTROL) {
            self.leaving = None;
        } else if !self.line.is_empty() {
            self.line.clear();
        } else if self.is_leaving() {
            self.said.push_back(PromptInput::End);
        } else {
            self.leaving = Some(std::time::Instant::now());
        }
    }

    /// Returns whether Ctrl-C was pressed just now at an empty prompt.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some_and(|it| it.elapsed() < AGAIN)
    }

    /// Puts queued input back on the input line after a turn was stopped: it may no longer apply.
    pub(super) fn take_back(&mut self) {
        let lines = self.said.drain(..).filter_map(|it| match it {
            PromptInput::Line(entry) => Some(entry).filter(|it| !it.text.trim().is_empty()),
            PromptInput::End | PromptInput::Stop => None,
        });
        let lines: Vec<Entry> = lines.collect();
        if !lines.is_empty() {
            let texts: Vec<&str> = lines.iter().map(|it| it.text.as_str()).collect();
            let pictures = lines.iter().flat_map(|it| it.pictures.clone()).collect();
            self.line.begin_with(&Entry { pictures, ..Entry::new(texts.join("\n")) });
        }
    }

    /// Opens the person's editor on the typed text. The agent works on meanwhile.
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

    /// Suspends this process, as Ctrl-Z does elsewhere: the shell has the terminal until it continues haft.
    fn suspend(&mut self) {
        self.leave();
        // If the signal can't be sent, nothing stops, and the terminal is taken back.
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

    /// Hands the terminal over.
    fn leave(&mut self) {
        self.screen.give();
        self.input.pause();
        interrupt::is_elsewhere(true);
    }

    fn take(&mut self) {
        interrupt::is_elsewhere(false);
        if self.input.resume().is_err() {
            // A person whose keys can't be read has left.
            self.hangup.cancel();
        }
        self.screen.come_back();
    }

    /// Takes the terminal back after this process was stopped and continued: the shell may have changed its mode.
    pub(super) fn retake(&mut self) {
        self.screen.give();
        self.take();
    }
}

/// Returns whether this is Esc or Ctrl-C. Esc with a key right after it arrives as that key with Alt.
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
