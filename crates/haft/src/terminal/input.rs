//! Keyboard input: one thread reads it, and stops while another program has the terminal.
//!
//! The thread sends all events to one channel in the order of typing, so no key is lost, doubled or overtaken.

use std::{
    fs::OpenOptions,
    io::{self, IsTerminal},
    os::fd::{AsFd, OwnedFd},
    sync::mpsc,
    time::Duration,
};

use crossterm::{
    event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    terminal::{disable_raw_mode, enable_raw_mode},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::screen;

/// Poll interval at which the thread checks whether it is to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Time limit for parsing input that has arrived: with a limit of zero the parser finds no key.
const NOW: Duration = Duration::from_millis(1);

/// The end of the chat waits at most this long for the thread.
const TIMEOUT: Duration = Duration::from_secs(1);

/// An event from the keyboard.
#[derive(Debug)]
pub(crate) enum InputEvent {
    Key(KeyEvent),
    /// Pasted text.
    Paste(String),
    /// The terminal was resized to these columns and lines.
    Resized(u16, u16),
    /// The keyboard is gone.
    End,
}

/// The keyboard. It can be handed to another program for a while.
pub(crate) struct Input {
    keys: Option<Keys>,
}

/// The thread that reads, while it runs.
struct Keys {
    events: UnboundedReceiver<InputEvent>,
    /// Dropped to end the thread.
    listens: Option<mpsc::Sender<()>>,
    /// Notified when the thread has ended.
    ended: mpsc::Receiver<()>,
}

impl Input {
    /// Starts to read.
    ///
    /// # Errors
    /// If the terminal can't be read key by key.
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Self { keys: Some(Keys::start()?) })
    }

    /// Waits for the next event; pending while another program has the keyboard.
    pub(crate) async fn next(&mut self) -> InputEvent {
        match &mut self.keys {
            Some(keys) => keys.events.recv().await.unwrap_or(InputEvent::End),
            None => std::future::pending().await,
        }
    }

    /// Returns the next event if one has arrived.
    pub(crate) fn next_now(&mut self) -> Option<InputEvent> {
        self.keys.as_mut()?.events.try_recv().ok()
    }

    /// Hands the keyboard over: restores the terminal mode from before the chat.
    pub(crate) fn pause(&mut self) {
        self.keys = None;
    }

    /// Takes the keyboard back. Also resets it if it was not handed over: a shell may have changed the terminal mode.
    ///
    /// # Errors
    /// Returns the errors of [`start`](Self::start).
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        self.keys = None;
        self.keys = Some(Keys::start()?);
        Ok(())
    }
}

impl Keys {
    fn start() -> io::Result<Self> {
        let (listens, is_heard) = mpsc::channel();
        let (tell, events) = unbounded_channel();
        let (end, ended) = mpsc::channel();
        let keys = keyboard()?;
        enable_raw_mode()?;
        let _ = crossterm::execute!(io::stdout(), event::EnableBracketedPaste);
        let thread = std::thread::Builder::new().name("haft-keys".to_owned()).spawn(move || {
            // The receiver gets `End` when no more events follow.
            let _ = read_before(&tell).and_then(|()| {
                while matches!(is_heard.try_recv(), Err(mpsc::TryRecvError::Empty)) {
                    wait(&keys)?;
                    read(&tell, |key| key)?;
                }
                Some(())
            });
            let _ = tell.send(InputEvent::End);
            let _ = end.send(());
        });
        thread.inspect_err(|_| give_back())?;
        Ok(Self { events, listens: Some(listens), ended })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.listens = None;
        // The thread must not read keys that are meant for the next program; but a read from a terminal that is gone may hang.
        let _ = self.ended.recv_timeout(TIMEOUT);
        give_back();
    }
}

/// Restores the terminal when the chat is over.
pub(crate) fn restore() {
    super::attention::restore();
    give_back();
}

/// Restores the terminal mode and leaves the alternate screen.
fn give_back() {
    screen::leave();
    // A terminal that is gone needs no restoring.
    let _ = disable_raw_mode();
    let _ = crossterm::execute!(io::stdout(), event::DisableBracketedPaste);
}

/// Reads text that was typed before raw mode: the terminal turned the return key into a line feed then, which is Ctrl-J now.
fn read_before(tell: &UnboundedSender<InputEvent>) -> Option<()> {
    let as_meant = |key: KeyEvent| match (key.code, key.modifiers) {
        (KeyCode::Char('j'), KeyModifiers::CONTROL) => KeyEvent::from(KeyCode::Enter),
        _ => key,
    };
    read(tell, as_meant)
}

/// Opens the source of keys: standard input, or the terminal itself if input is piped in. It is the same source as the
/// parser's.
fn keyboard() -> io::Result<OwnedFd> {
    let input = io::stdin();
    if input.is_terminal() {
        return input.as_fd().try_clone_to_owned();
    }
    Ok(OpenOptions::new().read(true).write(true).open("/dev/tty")?.into())
}

/// Waits at most one poll interval for a key. Returns `None` when the terminal was closed: the parser would read its end in a
/// loop.
fn wait(keys: &OwnedFd) -> Option<()> {
    let mut fds = [PollFd::new(keys, PollFlags::IN)];
    match poll(&mut fds, Some(&LOOK)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(_) => return None,
    }
    let [keys] = fds;
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    (!keys.revents().intersects(gone)).then_some(())
}

/// Sends all events that have arrived. Returns `None` when the keyboard or the receiver is gone.
fn read(tell: &UnboundedSender<InputEvent>, as_meant: impl Fn(KeyEvent) -> KeyEvent) -> Option<()> {
    while event::poll(NOW).ok()? {
        let event = match event::read().ok()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => InputEvent::Key(as_meant(key)),
            Event::Paste(text) => InputEvent::Paste(text),
            Event::Resize(columns, lines) => InputEvent::Resized(columns, lines),
            _ => continue,
        };
        tell.send(event).ok()?;
    }
    Some(())
}
