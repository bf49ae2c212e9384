//! Attention: rings the bell and sets the terminal's title when a question is open or a long turn is over.

use std::{
    io::Write as _,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use kit::escape::visible;
use runtime::config::Notify;

use super::screen::Screen;

/// A turn that took longer is announced when it ends.
const LONG: Duration = Duration::from_secs(10);

/// Maximum length of a title, in letters.
const TITLE: usize = 60;

/// The terminal has saved its earlier title.
static KEPT: AtomicBool = AtomicBool::new(false);

/// Notifies a person who looks elsewhere.
pub(crate) struct Attention {
    bell: bool,
    title: bool,
    /// The name of the folder.
    name: String,
    /// The state that the title shows now.
    shown: State,
    /// When the agent's turn started.
    busy: Option<Instant>,
}

/// The state that a title shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Nothing,
    Idle,
    Works,
    Asks,
    Done,
}

impl Attention {
    /// Creates it with the configured notifications. Without colours, no title is set.
    pub(crate) fn new(notify: Notify, colours: bool, name: &str) -> Self {
        let name = visible(name).0.chars().take(TITLE).collect();
        Self {
            bell: matches!(notify, Notify::All | Notify::Bell),
            title: colours && matches!(notify, Notify::All | Notify::Title),
            name,
            shown: State::Nothing,
            busy: None,
        }
    }

    /// Shows that the chat began or that the person is present.
    pub(crate) fn idle(&mut self, screen: &mut Screen) {
        let state = if self.busy.is_some() { State::Works } else { State::Idle };
        self.show(state, screen);
    }

    /// Shows that the agent's turn started.
    pub(crate) fn works(&mut self, screen: &mut Screen) {
        self.busy = Some(Instant::now());
        self.show(State::Works, screen);
    }

    /// Shows that the turn is over.
    pub(crate) fn done(&mut self, screen: &mut Screen) {
        let was_long = self.busy.take().is_some_and(|it| it.elapsed() > LONG);
        if was_long {
            self.ring(screen);
        }
        self.show(if was_long { State::Done } else { State::Idle }, screen);
    }

    /// Shows that a question is open.
    pub(crate) fn asks(&mut self, screen: &mut Screen) {
        self.ring(screen);
        self.show(State::Asks, screen);
    }

    fn ring(&self, screen: &mut Screen) {
        if self.bell {
            screen.signal("\u{7}");
        }
    }

    fn show(&mut self, state: State, screen: &mut Screen) {
        if !self.title || state == self.shown {
            return;
        }
        self.shown = state;
        if !KEPT.swap(true, Ordering::AcqRel) {
            screen.signal("\u{1b}[22;2t");
        }
        screen.signal(&title(&self.name, state));
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        restore();
    }
}

/// Returns the escape sequence that sets the title.
fn title(name: &str, state: State) -> String {
    let says = match state {
        State::Nothing | State::Idle => "",
        State::Works => " (working)",
        State::Asks => " (asks you)",
        State::Done => " (done)",
    };
    format!("\u{1b}]2;haft: {name}{says}\u{7}")
}

/// Restores the title from before the chat.
pub(crate) fn restore() {
    if KEPT.swap(false, Ordering::AcqRel) {
        let mut out = std::io::stdout().lock();
        // A terminal that is gone has no title.
        let _ = out.write_all(b"\x1b[23;2t").and_then(|()| out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_folder_s_name_acts_on_the_terminal() {
        let attention = Attention::new(Notify::All, true, "a\u{1b}]2;x\u{7}b");
        assert!(
            !title(&attention.name, State::Asks).trim_end_matches('\u{7}')[1..].contains(['\u{1b}', '\u{7}'])
        );
    }

    #[test]
    fn what_is_configured_is_announced() {
        let of = |notify, colours| {
            let it = Attention::new(notify, colours, "x");
            (it.bell, it.title)
        };
        assert_eq!(of(Notify::All, true), (true, true));
        assert_eq!(of(Notify::All, false), (true, false));
        assert_eq!(of(Notify::Bell, true), (true, false));
        assert_eq!(of(Notify::Title, true), (false, true));
        assert_eq!(of(Notify::None, true), (false, false));
    }
}
