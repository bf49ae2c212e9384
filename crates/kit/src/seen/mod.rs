//! Views: what a session has shown the model, file by file.

use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

use crate::{
    anchor::Anchor,
    text::{Digest, Text},
};

mod persisted;
mod window;

pub use crate::anchor::Rows;
pub use persisted::PersistedView;
pub use window::Identity;
pub(crate) use window::Window;

/// Files over this many bytes are shown in windows, without the whole text.
pub const LARGE: usize = 8 * 1024 * 1024;

const FILES: usize = 256;
/// Each edit creates a version, and anchors of the read before it should outlive a few.
const VERSIONS: usize = 8;
const WINDOWS: usize = 4;
const BYTES: usize = 64 * 1024 * 1024;

/// The views of one session. Files are named by their absolute canonical paths.
#[derive(Debug, Default)]
pub struct Views {
    state: Mutex<State>,
}

/// How much of the current content of a file the session has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// Every line of exactly this content.
    Yes,
    /// Nothing of the file.
    Never,
    /// Some lines of this content.
    Partly {
        /// The lines seen.
        seen: usize,
        /// The lines there are.
        total: usize,
    },
    /// Lines of the file as it was before it changed.
    Changed,
}

/// A version of a file and the rows shown of it.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) text: Text,
    /// Rows that the model can name by number and hash.
    pub(crate) shown: Rows,
    /// Rows whose text the model knows, because it was shown them or wrote them.
    pub(crate) known: Rows,
    /// Rows that a read showed while this is the newest view of the file. Their anchors mean this version,
    /// whatever an older view had under the same anchors. The rows in the answer to an edit are not among
    /// them: a model may have written its next edit before it saw that answer.
    pub(crate) read: Rows,
    /// Whether an edit of the session itself followed: then everything known of this version is known of the
    /// next, and text that the model quotes is searched there.
    pub(crate) followed: bool,
}

/// The effect of a refusal on older views, so that the retry is unambiguous.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    /// Rows of versions that can't be distinguished from others any more.
    pub(crate) rows: Vec<(Digest, Range<usize>)>,
}

/// Rows before an edit, and the rows that took their place.
pub(crate) type Region = (Range<usize>, Range<usize>);

#[derive(Debug, Default)]
struct State {
    clock: u64,
    files: HashMap<PathBuf, File>,
}

#[derive(Debug, Default)]
struct File {
    used: u64,
    /// Newest first.
    versions: Vec<Version>,
    /// Newest first.
    windows: Vec<Window>,
}

impl Views {
    /// Records that `rows` of `text`, which is what the file holds, were shown in full.
    pub fn showed(&self, file: &Path, text: &Text, rows: &Rows) {
        self.change(file, |file| {
            let version = file.version(text);
            version.shown.add_all(rows);
            version.known.add_all(rows);
            version.read.add_all(rows);
        });
    }

    /// Records rows that were shown beside the answer to something else, such as an edit. Anchors of an
    /// earlier read keep their meaning.
    pub fn also_showed(&self, file: &Path, text: &Text, rows: &Rows) {
        self.change(file, |file| file.show(text, None, rows));
    }

    /// Records that the model wrote the whole of `text` itself.
    pub fn wrote(&self, file: &Path, text: &Text) {
        self.change(file, |file| file.version(text).known.add(0..text.line_count()));
    }

    /// Records lines shown of a file over [`LARGE`], the first at row `first`.
    pub fn showed_window<S: AsRef<str>>(
        &self,
        file: &Path,
        identity: &Identity,
        total: Option<usize>,
        first: usize,
        lines: &[S],
    ) {
        self.change(file, |file| {
            let window = file.window(identity);
            window.total = total.or(window.total);
            for (at, line) in lines.iter().enumerate() {
                window.show(first + at, line.as_ref());
            }
            window.read.add(first..first + lines.len());
        });
    }

    /// Records that `rows` were not shown after all, such as those that hold a secret.
    pub fn hid(&self, file: &Path, text: &Text, rows: &Rows) {
        let digest = text.digest();
        let mut state = self.state.lock();
        let Some(file) = state.files.get_mut(file) else { return };
        for version in file.versions.iter_mut().filter(|version| version.text.digest() == digest) {
            version.shown.remove_all(rows);
            version.known.remove_all(rows);
            version.read.remove_all(rows);
        }
    }

    /// Records that rows of a file over [`LARGE`] were not shown after all.
    pub fn hid_window(&self, file: &Path, identity: &Identity, rows: &Rows) {
        let mut state = self.state.lock();
        let Some(file) = state.files.get_mut(file) else { return };
        for window in file.windows.iter_mut().filter(|window| window.identity == *identity) {
            rows.ranges().iter().for_each(|rows| window.forget(rows));
        }
    }

    /// Returns how much of `text`, the current content of the file, the session has seen.
    pub fn whole(&self, file: &Path, text: &Text) -> Whole {
        let total = text.line_count();
        let state = self.state.lock();
        let Some(file) = state.files.get(file) else { return Whole::Never };
        if let Some(version) = file.versions.iter().find(|it| it.text.digest() == text.digest()) {
            let seen = version.known.count();
            return if seen >= total { Whole::Yes } else { Whole::Partly { seen, total } };
        }
        match file.windows.first() {
            Some(window) if file.versions.is_empty() => {
                Whole::Partly { seen: window.shown(), total: window.total.unwrap_or(total).max(total) }
            }
            _ => Whole::Changed,
        }
    }

    /// Forgets a file, as when it was removed.
    pub fn forget(&self, file: &Path) {
        self.state.lock().files.remove(file);
    }

    /// Returns the anchor of a line as it was shown last, for a model that gives a bare line number.
    pub fn anchor(&self, file: &Path, line: usize) -> Option<Anchor> {
        let row = line.checked_sub(1)?;
        let state = self.state.lock();
        let mut versions = state.files.get(file)?.versions.iter();
        let version = versions.find(|version| version.shown.contains(row))?;
        Anchor::of(&version.text, row)
    }

    /// Returns the views of the file, newest first.
    pub(crate) fn of(&self, file: &Path) -> (Vec<Version>, Vec<Window>) {
        let state = self.state.lock();
        state.files.get(file).map(|file| (file.versions.clone(), file.windows.clone())).unwrap_or_default()
    }

    /// Records the lines that a refusal showed. Older views lose their claim to these line numbers and to
    /// rows that could not be distinguished, so that a retry works.
    pub(crate) fn refused(
        &self,
        file: &Path,
        text: &Text,
        identity: Option<&Identity>,
        shown: &Rows,
        retired: &Retired,
    ) {
        let digest = text.digest();
        self.change(file, |file| {
            for version in file.versions.iter_mut().filter(|version| version.text.digest() != digest) {
                version.shown.remove_all(shown);
                for (of, rows) in &retired.rows {
                    if *of == version.text.digest() {
                        version.shown.remove(rows.clone());
                        version.known.remove(rows.clone());
                    }
                }
            }
            for window in file.windows.iter_mut().filter(|window| Some(&window.identity) != identity) {
                shown.ranges().iter().for_each(|rows| window.forget(rows));
            }
            file.windows.retain(|window| window.shown() > 0);
            file.show(text, identity, shown);
        });
    }

    /// Records an edit that was applied, and the rows shown of its result.
    pub(crate) fn landed(
        &self,
        file: &Path,
        (before, after): (&Text, &Text),
        identity: Option<&Identity>,
        regions: &[Region],
        shown: &Rows,
    ) {
        let digest = before.digest();
        self.change(file, |file| {
            let mut known = Rows::new();
            for version in file.versions.iter_mut().filter(|version| version.text.digest() == digest) {
                for (old, _) in regions {
                    version.shown.remove(old.clone());
                }
                version.followed = true;
                known = carried(&version.known, regions, before.line_count());
            }
            file.show(after, identity, shown);
            if let Some(version) = file.versions.iter_mut().find(|it| it.text.digest() == after.digest()) {
                version.known.add_all(&known);
                for (_, new) in regions {
                    version.known.add(new.clone());
                }
            }
        });
    }

    fn change(&self, path: &Path, act: impl FnOnce(&mut File)) {
        let mut state = self.state.lock();
        state.clock += 1;
        let clock = state.clock;
        let file = state.files.entry(path.to_owned()).or_default();
        file.used = clock;
        act(file);
        state.bound();
    }
}

impl File {
    /// Returns the version with this content, and makes it the newest.
    fn version(&mut self, text: &Text) -> &mut Version {
        let digest = text.digest();
        let known = self.versions.iter().position(|version| version.text.digest() == digest);
        let version = known.map_or_else(
            || Version {
                text: text.clone(),
                shown: Rows::new(),
                known: Rows::new(),
                read: Rows::new(),
                followed: false,
            },
            |at| Version { followed: false, ..self.versions.remove(at) },
        );
        self.unread();
        self.versions.truncate(VERSIONS - 1);
        self.versions.insert_mut(0, version)
    }

    /// Returns the window on the file in this state, and makes it the newest.
    fn window(&mut self, identity: &Identity) -> &mut Window {
        let known = self.windows.iter().position(|window| window.identity == *identity);
        let window = known.map_or_else(|| Window::new(identity.clone()), |at| self.windows.remove(at));
        self.unread();
        self.windows.truncate(WINDOWS - 1);
        self.windows.insert_mut(0, window)
    }

    /// Another view is the newest now: no anchor refers to one of these versions first.
    fn unread(&mut self) {
        self.versions.iter_mut().for_each(|version| version.read = Rows::new());
        self.windows.iter_mut().for_each(|window| window.read = Rows::new());
    }

    fn show(&mut self, text: &Text, identity: Option<&Identity>, rows: &Rows) {
        let large = identity.filter(|_| text.bytes().len() > LARGE);
        let Some(identity) = large else {
            let version = self.version(text);
            version.shown.add_all(rows);
            version.known.add_all(rows);
            return;
        };
        let window = self.window(identity);
        window.total = Some(text.line_count());
        for row in rows.iter() {
            if let Some(line) = text.line(row) {
                window.show(row, &line);
            }
        }
    }
}

impl State {
    /// Evicts the oldest views until the rest is within the limits. The newest one stays, however large it is.
    fn bound(&mut self) {
        let mut bytes: usize =
            self.files.values().flat_map(|file| &file.versions).map(|it| it.text.bytes().len()).sum();
        while self.files.len() > FILES || bytes > BYTES {
            let only = self.files.len() == 1;
            let Some((path, file)) = self.files.iter_mut().min_by_key(|(_, file)| file.used) else { return };
            if file.versions.len() > 1 && bytes > BYTES {
                let oldest = file.versions.pop();
                bytes -= oldest.map_or(0, |version| version.text.bytes().len());
                continue;
            }
            if only {
                return;
            }
            let path = path.clone();
            let gone = self.files.remove(&path).unwrap_or_default();
            bytes -= gone.versions.iter().map(|it| it.text.bytes().len()).sum::<usize>();
        }
    }
}

/// Returns the new rows of those outside the edited regions.
fn carried(known: &Rows, regions: &[Region], before: usize) -> Rows {
    let mut rows = Rows::new();
    let mut old = 0;
    let mut new = 0;
    let end = (before..before, 0..0);
    for (gone, come) in regions.iter().chain(std::iter::once(&end)) {
        for range in known.ranges() {
            let from = range.start.max(old);
            let to = range.end.min(gone.start);
            if from < to {
                rows.add(from - old + new..to - old + new);
            }
        }
        old = gone.end;
        new = come.end;
    }
    rows
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::single_range_in_vec_init, reason = "tests")]
mod tests {
    use super::*;

    fn text(bytes: &str) -> Text {
        Text::parse(bytes).unwrap()
    }

    #[test]
    fn says_how_much_of_the_content_was_seen() {
        let views = Views::default();
        let file = Path::new("/w/a");
        let old = text("a\nb\nc\n");
        assert_eq!(views.whole(file, &old), Whole::Never);
        views.showed(file, &old, &Rows::from(0..2));
        assert_eq!(views.whole(file, &old), Whole::Partly { seen: 2, total: 3 });
        views.showed(file, &old, &Rows::from(2..3));
        assert_eq!(views.whole(file, &old), Whole::Yes);
        assert_eq!(views.whole(file, &text("a\nb\nC\n")), Whole::Changed);
        views.hid(file, &old, &Rows::from(1..2));
        assert_eq!(views.whole(file, &old), Whole::Partly { seen: 2, total: 3 });
    }

    #[test]
    fn a_file_written_whole_is_known_whole() {
        let views = Views::default();
        views.wrote(Path::new("/w/a"), &text("a\n"));
        assert_eq!(views.whole(Path::new("/w/a"), &text("a\n")), Whole::Yes);
    }

    #[test]
    fn an_edit_of_a_file_known_whole_leaves_it_known_whole() {
        let views = Views::default();
        let file = Path::new("/w/a");
        let (before, after) = (text("a\nb\nc\nd\n"), text("a\nx\ny\nc\nd\n"));
        views.showed(file, &before, &Rows::from(0..4));
        views.landed(file, (&before, &after), None, &[(1..2, 1..3)], &Rows::from(1..3));
        assert_eq!(views.whole(file, &after), Whole::Yes);
        let (versions, _) = views.of(file);
        assert_eq!(
            versions.iter().map(|it| it.shown.ranges().to_vec()).collect::<Vec<_>>(),
            [vec![1..3], vec![0..1, 2..4]]
        );
    }

    #[test]
    fn remembers_within_bounds() {
        let views = Views::default();
        for at in 0..300 {
            views.showed(&PathBuf::from(format!("/w/{at}")), &text("a\n"), &Rows::from(0..1));
        }
        assert_eq!(views.state.lock().files.len(), FILES);
        assert_eq!(views.whole(Path::new("/w/0"), &text("a\n")), Whole::Never);

        let big = "x".repeat(20 * 1024 * 1024);
        for at in 0..5 {
            let big = text(&format!("{at}{big}"));
            views.showed(Path::new("/w/big"), &big, &Rows::from(0..1));
            assert_eq!(views.whole(Path::new("/w/big"), &big), Whole::Yes);
        }
        assert_eq!(views.of(Path::new("/w/big")).0.len(), 3);
        for at in 0..2 * VERSIONS {
            views.showed(Path::new("/w/small"), &text(&format!("{at}")), &Rows::from(0..1));
        }
        assert_eq!(views.of(Path::new("/w/small")).0.len(), VERSIONS);
    }

    #[test]
    fn windows_know_their_lines_again() {
        let views = Views::default();
        let file = Path::new("/w/log");
        let identity = Identity([1, 2, 3, 4]);
        views.showed_window(file, &identity, Some(900), 40, &["a", "b", "c"]);
        views.hid_window(file, &identity, &Rows::from(41..42));
        let (_, windows) = views.of(file);
        let window = windows.first().unwrap();
        assert!(window.showed(40, "a") && !window.showed(40, "b") && !window.showed(41, "b"));
        assert!(window.claims(42, crate::anchor::hash("c")));
        assert_eq!(views.whole(file, &text("a\n")), Whole::Partly { seen: 2, total: 900 });
    }

    #[test]
    fn a_session_kept_and_restored_has_seen_the_same() {
        let views = Views::default();
        let latin = Text::parse(b"na\xefve\nb\n".to_vec()).unwrap();
        views.showed(Path::new("/w/a"), &text("a\nb\n"), &Rows::from(0..1));
        views.showed(Path::new("/w/b"), &latin, &Rows::from(0..2));
        views.showed_window(Path::new("/w/c"), &Identity([9, 8, 7, 6]), None, 3, &["x"]);
        let stored: Vec<(PathBuf, String)> = views
            .keep()
            .into_iter()
            .map(|(file, kept)| (file, serde_json::to_string(&kept).unwrap()))
            .collect();
        let restored = |stored: &[(PathBuf, String)]| {
            let views = Views::default();
            for (file, kept) in stored {
                views.restore(file, serde_json::from_str(kept).unwrap());
            }
            views
        };
        assert_eq!(restored(&stored).keep(), views.keep());
        assert_eq!(restored(&stored).whole(Path::new("/w/b"), &latin), Whole::Yes);

        let forged: Vec<_> =
            stored.iter().map(|(file, kept)| (file.clone(), kept.replace("a\\nb\\n", "a\\nc\\n"))).collect();
        assert_ne!(forged, stored);
        assert!(restored(&forged).of(Path::new("/w/a")).0.is_empty());
    }
}
