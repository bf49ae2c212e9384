//! The keyboard: read by one thread, which stops while another program has the terminal.
//!
//! What it reads goes to one place in the order in which it was typed, so no key is lost, doubled or overtaken.

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

/// How soon the thread sees that it is to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How long a key may take that has come already: what takes the keys apart looks for none in no time at all.
const NOW: Duration = Duration::from_millis(1);

/// So long the end of the chat waits for the thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// What came from the keyboard.
#[derive(Debug)]
pub(crate) enum Heard {
    Key(KeyEvent),
    /// A text that was pasted.
    Paste(String),
    /// The terminal has this size now.
    Resized(u16, u16),
    /// There is no keyboard any more.
    End,
}

/// The keyboard. It can be given to another program for a while.
pub(crate) struct Input {
    keys: Option<Keys>,
}

/// The thread that reads, while there is one.
struct Keys {
    heard: UnboundedReceiver<Heard>,
    /// Dropped when nobody listens any more.
    listens: Option<mpsc::Sender<()>>,
    /// Notified when the thread reads no more.
    ended: mpsc::Receiver<()>,
}

impl Input {
    /// Begins to read.
    ///
    /// # Errors
    /// When the terminal can't be read key by key.
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Self { keys: Some(Keys::start()?) })
    }

    /// What comes next; nothing, as long as another program has the keyboard.
    pub(crate) async fn next(&mut self) -> Heard {
        match &mut self.keys {
            Some(keys) => keys.heard.recv().await.unwrap_or(Heard::End),
            None => std::future::pending().await,
        }
    }

    /// What has come already.
    pub(crate) fn next_now(&mut self) -> Option<Heard> {
        self.keys.as_mut()?.heard.try_recv().ok()
    }

    /// Gives the keyboard away: the terminal is as it was before the chat.
    pub(crate) fn pause(&mut self) {
        self.keys = None;
    }

    /// Takes the keyboard back, or takes it anew: a shell may have changed the terminal meanwhile.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        self.keys = None;
        self.keys = Some(Keys::start()?);
        Ok(())
    }
}

impl Keys {
    fn start() -> io::Result<Self> {
        let (listens, is_heard) = mpsc::channel();
        let (tell, heard) = unbounded_channel();
        let (end, ended) = mpsc::channel();
        let keys = keyboard()?;
        enable_raw_mode()?;
        let _ = crossterm::execute!(io::stdout(), event::EnableBracketedPaste);
        let thread = std::thread::Builder::new().name("haft-keys".to_owned()).spawn(move || {
            // Who waits hears that nothing comes any more.
            let _ = read_before(&tell).and_then(|()| {
                while matches!(is_heard.try_recv(), Err(mpsc::TryRecvError::Empty)) {
                    wait(&keys)?;
                    read(&tell, |key| key)?;
                }
                Some(())
            });
            let _ = tell.send(Heard::End);
            let _ = end.send(());
        });
        thread.inspect_err(|_| give_back())?;
        Ok(Self { heard, listens: Some(listens), ended })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.listens = None;
        // Nothing is to read the keys of whoever has the terminal next; but a read from one that is gone may hang.
        let _ = self.ended.recv_timeout(PATIENCE);
        give_back();
    }
}

/// Puts the terminal back as it was, when the chat is over.
pub(crate) fn restore() {
    super::attention::restore();
    give_back();
}

/// Puts the terminal back as it was.
fn give_back() {
    screen::leave();
    // A terminal that is gone needs no restoring.
    let _ = disable_raw_mode();
    let _ = crossterm::execute!(io::stdout(), event::DisableBracketedPaste);
}

/// Reads what was typed before the terminal was taken: it made the return key a line feed then, which is Ctrl-J now.
fn read_before(tell: &UnboundedSender<Heard>) -> Option<()> {
    let as_meant = |key: KeyEvent| match (key.code, key.modifiers) {
        (KeyCode::Char('j'), KeyModifiers::CONTROL) => KeyEvent::from(KeyCode::Enter),
        _ => key,
    };
    read(tell, as_meant)
}

/// Where keys come from: standard input, or the terminal itself where something is piped in. The same as for what takes the
/// keys apart.
fn keyboard() -> io::Result<OwnedFd> {
    let input = io::stdin();
    if input.is_terminal() {
        return input.as_fd().try_clone_to_owned();
    }
    Ok(OpenOptions::new().read(true).write(true).open("/dev/tty")?.into())
}

/// Waits a while for a key; nothing, when the terminal was closed. That is found out here, because what takes the keys
/// apart would read its end again and again.
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

/// Tells all that was typed until now; nothing, when there is no keyboard or nobody listens any more.
fn read(tell: &UnboundedSender<Heard>, as_meant: impl Fn(KeyEvent) -> KeyEvent) -> Option<()> {
    while event::poll(NOW).ok()? {
        let heard = match event::read().ok()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => Heard::Key(as_meant(key)),
            Event::Paste(text) => Heard::Paste(text),
            Event::Resize(columns, lines) => Heard::Resized(columns, lines),
            _ => continue,
        };
        tell.send(heard).ok()?;
    }
    Some(())
}
