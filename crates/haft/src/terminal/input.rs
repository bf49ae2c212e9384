//! Who reads the keyboard: the line editor while the prompt stands, and single keys otherwise?
//!
//! One thread does both, so that no key is read by two.

use std::{
    borrow::Cow,
    fs::OpenOptions,
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

use crossterm::{
    event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    terminal::{disable_raw_mode, enable_raw_mode},
};
use reedline::{
    ColumnarMenu, EditCommand, Emacs, FileBackedHistory, MenuBuilder, Prompt, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal, ValidationResult, Validator,
    default_emacs_keybindings,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::complete::Words;

/// So many lines are remembered.
const REMEMBERED: usize = 1_000;

/// How soon the thread sees that it is to do something else.
const LOOK: Duration = Duration::from_millis(30);

/// The name of the menu of completions.
const MENU: &str = "completions";

/// What came from the keyboard.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A line was typed at the prompt.
    Line(String),
    /// Ctrl-C at the prompt.
    Cleared,
    /// Ctrl-D at the prompt, or there is no keyboard any more.
    End,
    /// The prompt was taken away; this had been typed.
    Broken(String),
    /// A key, while no prompt stands.
    Key(KeyEvent),
    /// A text that was pasted, while no prompt stands.
    Paste(String),
    /// The terminal has this size now.
    Resized(u16, u16),
}

/// The keyboard.
pub(crate) struct Input {
    /// What the prompt begins with, whenever one is wanted.
    wants: Option<mpsc::Sender<String>>,
    heard: UnboundedReceiver<Heard>,
    breaks: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How the prompt is to be.
pub(crate) struct Settings {
    /// Where what was typed is remembered.
    pub(crate) history: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) colours: bool,
}

impl Input {
    /// Begins to read.
    ///
    /// # Errors
    /// When the terminal can't be read key by key.
    pub(crate) fn start(settings: Settings) -> io::Result<Self> {
        let (wants, wanted) = mpsc::channel();
        let (tell, heard) = unbounded_channel();
        let breaks = Arc::new(AtomicBool::new(false));
        enable_raw_mode()?;
        let signal = breaks.clone();
        let thread = std::thread::Builder::new().name("haft-keys".to_owned()).spawn(move || {
            let mut editor = editor(&settings, signal);
            while read(&mut editor, &wanted, &tell).is_some() {}
            // Who waits hears that nothing comes any more.
            let _ = tell.send(Heard::End);
            restore();
        })?;
        Ok(Self { wants: Some(wants), heard, breaks, thread: Some(thread) })
    }

    /// Puts up the prompt, with this typed already.
    pub(crate) fn want_line(&self, begun: String) {
        self.breaks.store(false, Ordering::Release);
        if let Some(wants) = &self.wants {
            // A thread that is gone has said so.
            let _ = wants.send(begun);
        }
    }

    /// Takes the prompt away: what was typed comes as [`Heard::Broken`].
    pub(crate) fn take_prompt(&self) {
        self.breaks.store(true, Ordering::Release);
    }

    /// What comes next.
    pub(crate) async fn next(&mut self) -> Heard {
        self.heard.recv().await.unwrap_or(Heard::End)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.wants = None;
        self.take_prompt();
        if let Some(thread) = self.thread.take() {
            // It has put the terminal back by then.
            let _ = thread.join();
        }
    }
}

/// Puts the terminal back as it was.
pub(crate) fn restore() {
    // A terminal that is gone needs no restoring.
    let _ = disable_raw_mode();
    let _ = crossterm::execute!(io::stdout(), event::DisableBracketedPaste);
}

/// One look; nothing, when there is no keyboard or nobody listens any more.
fn read(editor: &mut Reedline, wanted: &mpsc::Receiver<String>, tell: &UnboundedSender<Heard>) -> Option<()> {
    match wanted.try_recv() {
        Err(mpsc::TryRecvError::Disconnected) => return None,
        Err(mpsc::TryRecvError::Empty) => {}
        Ok(begun) => {
            editor.run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(begun)]);
            let said = editor.read_line(&Mark);
            // The editor leaves the terminal as it was before haft.
            enable_raw_mode().ok()?;
            let heard = match said {
                Ok(Signal::Success(line)) => {
                    // What can't be kept is not remembered; nothing worse.
                    let _ = editor.sync_history();
                    Heard::Line(line)
                }
                Ok(Signal::ExternalBreak(typed)) => Heard::Broken(typed),
                Ok(Signal::CtrlC) => Heard::Cleared,
                Ok(_) | Err(_) => Heard::End,
            };
            return tell.send(heard).ok();
        }
    }
    if !event::poll(LOOK).ok()? {
        return Some(());
    }
    let heard = match event::read().ok()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Heard::Key(key),
        Event::Paste(text) => Heard::Paste(text),
        Event::Resize(columns, lines) => Heard::Resized(columns, lines),
        _ => return Some(()),
    };
    tell.send(heard).ok()
}

fn editor(settings: &Settings, breaks: Arc<AtomicBool>) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let next = ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, next);
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    let line = || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    for (modifiers, code) in [
        (KeyModifiers::ALT, KeyCode::Enter),
        (KeyModifiers::SHIFT, KeyCode::Enter),
        (KeyModifiers::CONTROL, KeyCode::Char('j')),
    ] {
        keys.add_binding(modifiers, code, line());
    }
    let menu = ReedlineMenu::EngineCompleter(Box::new(ColumnarMenu::default().with_name(MENU)));
    let mut editor = Reedline::create()
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_completer(Box::new(Words::new(settings.workspace.clone())))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_menu(menu)
        .with_validator(Box::new(Backslash))
        .with_history_exclusion_prefix(Some(" ".to_owned()))
        .with_ansi_colors(settings.colours)
        .with_break_signal(breaks)
        .with_poll_interval(LOOK)
        .use_bracketed_paste(true);
    if let Ok(history) = history(&settings.history) {
        editor = editor.with_history(Box::new(history));
    }
    editor
}

/// What was typed before, in a file that nobody else reads.
fn history(path: &Path) -> io::Result<FileBackedHistory> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    FileBackedHistory::with_file(REMEMBERED, path.to_owned()).map_err(io::Error::other)
}

/// A line that ends with a backslash goes on.
struct Backslash;

impl Validator for Backslash {
    fn validate(&self, line: &str) -> ValidationResult {
        if line.ends_with('\\') { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}

/// The mark at the beginning of the line.
struct Mark;

impl Prompt for Mark {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(searching: {}) ", search.term))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_was_typed_is_kept_where_nobody_else_reads() {
        use reedline::{History as _, HistoryItem};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/history");
        let mut kept = history(&path).unwrap();
        kept.save(HistoryItem::from_command_line("first\nand second line")).unwrap();
        kept.sync().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = history(&path).unwrap();
        assert_eq!(again.count_all().unwrap(), 1);
    }
}
