//! Cell references, and the check whether a cell is still as the model saw it.

use std::{
    collections::HashMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use kit::{Cx, Fault, Kind, Output, files::Location, references::call};
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::json;

use super::{Cell, Notebook, show};

/// Maximum number of notebooks whose cells are remembered.
const REMEMBERED: usize = 256;

/// A reference to a cell: by index, by index and hash, by id, or by its position after the edits before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    Index(usize),
    Hashed(usize, String),
    Id(String),
    Now(usize),
}

/// How certain a reference must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The model must have seen the cell as it is.
    Seen,
    /// Another part of the edit proves it, or only the position counts.
    Place,
}

/// The cells of notebooks that a session was shown.
#[derive(Default)]
struct Shown {
    notebooks: Mutex<HashMap<PathBuf, Record>>,
}

/// A session's record of a notebook. It is stored, so that it is valid in another process as well.
#[derive(Default, Serialize, Deserialize)]
struct Record {
    /// For each index, the cell that was last shown under it.
    indexes: HashMap<usize, Was>,
    /// The cells that the model has seen, at any position.
    known: Vec<Was>,
    /// Whether an edit of the session has given cells new indexes since.
    shifted: bool,
    /// The digest of the text that was read or written last.
    #[serde(default)]
    text: u64,
}

/// Whether a session has seen a notebook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Never,
    /// It was a different text when it was read.
    Changed,
    AsItIs,
}

/// A cell as it was shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Was {
    id: Option<String>,
    digest: u64,
}

impl Was {
    fn of(cell: &Cell<'_>) -> Self {
        Self { id: cell.id.clone(), digest: cell.digest() }
    }
}

impl Record {
    fn learn(&mut self, cell: &Cell<'_>) -> Was {
        let was = Was::of(cell);
        self.known.retain(|it| *it != was && (it.id.is_none() || it.id != was.id));
        self.known.push(was.clone());
        was
    }

    /// Loads the stored record.
    fn noted(cx: &Cx, path: &Path) -> Option<Self> {
        let text = cx.services().notes.get(&key(path)).ok()??;
        serde_json::from_str(&text).ok()
    }

    fn note(&self, cx: &Cx, path: &Path) {
        // If it can't be stored, it is still valid in this process.
        if let Ok(text) = serde_json::to_string(self) {
            drop(cx.services().notes.put(&key(path), Some(&text)));
        }
    }
}

/// Returns the key of a notebook's record among the notes of the session.
fn key(path: &Path) -> String {
    format!("notebook {}", path.display())
}

impl Shown {
    /// Passes the record of a notebook to `look`; loads it first if necessary.
    fn record<T>(&self, cx: &Cx, location: &Location, look: impl FnOnce(Option<&mut Record>) -> T) -> T {
        let path = location.absolute();
        let mut notebooks = self.notebooks.lock();
        if notebooks.len() >= REMEMBERED {
            notebooks.clear();
        }
        if !notebooks.contains_key(&path)
            && let Some(noted) = Record::noted(cx, &path)
        {
            notebooks.insert(path.clone(), noted);
        }
        look(notebooks.get_mut(&path))
    }

    /// Changes the record of a notebook.
    fn learn(&self, cx: &Cx, location: &Location, change: impl FnOnce(&mut Record)) {
        self.record(cx, location, |_| ());
        let path = location.absolute();
        let mut notebooks = self.notebooks.lock();
        let record = notebooks.entry(path.clone()).or_default();
        change(record);
        record.note(cx, &path);
    }
}

/// Records that the model was shown these cells of the current notebook, except for those with a secret.
pub(crate) fn remember(
    cx: &Cx,
    location: &Location,
    notebook: &Notebook<'_>,
    cells: impl IntoIterator<Item = usize>,
) {
    cx.shelf().get::<Shown>().learn(cx, location, |record| {
        record.text = digest(notebook.text);
        for index in cells {
            let Some(cell) = notebook.cells.get(index) else { continue };
            if cx.services().mask.find(&cell.source).is_empty() {
                let was = record.learn(cell);
                record.indexes.insert(index, was);
            }
        }
    });
}

/// Returns whether the session has read any of it, as it is now.
pub(crate) fn known(cx: &Cx, location: &Location, text: &str) -> Known {
    cx.shelf().get::<Shown>().record(cx, location, |it| match it {
        None => Known::Never,
        Some(record) if record.text == digest(text) => Known::AsItIs,
        Some(_) => Known::Changed,
    })
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Records a change by the session itself; for each cell, its old index and whether it was changed. The index
/// of a moved cell is invalid until it is shown again: a model that sent it before this answer meant another
/// cell.
pub(crate) fn changed(cx: &Cx, location: &Location, after: &Notebook<'_>, cells: &[(Option<usize>, bool)]) {
    cx.shelf().get::<Shown>().learn(cx, location, |record| {
        record.text = digest(after.text);
        let before = std::mem::take(&mut record.indexes);
        for (index, (cell, (origin, touched))) in after.cells.iter().zip(cells).enumerate() {
            let is_in_place = *origin == Some(index);
            record.shifted |= !is_in_place;
            if *touched && cx.services().mask.find(&cell.source).is_empty() {
                let was = record.learn(cell);
                if is_in_place || origin.is_none() {
                    record.indexes.insert(index, was);
                }
            } else if is_in_place && let Some(was) = before.get(&index) {
                record.indexes.insert(index, was.clone());
            }
        }
    });
}

/// The result of resolving a reference.
pub(crate) struct Found {
    pub(crate) index: usize,
    /// A note that the cell has moved since it was shown.
    pub(crate) note: Option<String>,
}

impl Name {
    /// Resolves a reference.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when there is none, [`Kind::Stale`] when it differs from what the model saw, with
    /// its present content.
    pub(crate) fn find(
        &self,
        need: Need,
        path: &str,
        notebook: &Notebook<'_>,
        location: &Location,
        cx: &Cx,
    ) -> Result<Found, Fault> {
        let finder = Finder { path, notebook, location, cx };
        match self {
            Self::Index(index) | Self::Now(index) => finder.by_index(*index, need),
            Self::Hashed(index, hash) => finder.by_hash(*index, hash),
            Self::Id(id) => finder.by_id(id, need),
        }
    }
}

struct Finder<'a, 't> {
    path: &'a str,
    notebook: &'a Notebook<'t>,
    location: &'a Location,
    cx: &'a Cx,
}

impl Finder<'_, '_> {
    fn cells(&self) -> &[Cell<'_>] {
        &self.notebook.cells
    }

    fn record<T>(&self, look: impl FnOnce(&Record) -> T) -> Option<T> {
        let shown = self.cx.shelf().get::<Shown>();
        shown.record(self.cx, self.location, |it| it.map(|it| look(it)))
    }

    fn by_index(&self, index: usize, need: Need) -> Result<Found, Fault> {
        let Some(was) = self.record(|it| it.indexes.get(&index).cloned()).flatten() else {
            self.must_be(index)?;
            if self.record(|it| it.shifted) == Some(true) {
                return Err(self.shifted(index));
            }
            return if need == Need::Seen {
                Err(self.unseen(index))
            } else {
                Ok(Found { index, note: None })
            };
        };
        let is = self.cells().get(index).map(Was::of);
        if is.as_ref() == Some(&was) {
            return Ok(Found { index, note: None });
        }
        let same_id = was.id.as_ref().and_then(|id| self.only(|it| it.id.as_ref() == Some(id)));
        let there = match same_id {
            Some(at) => at,
            None if was.id.is_some() => return Err(self.gone(index)),
            None => self.only(|it| it.digest() == was.digest).ok_or_else(|| self.gone(index))?,
        };
        let is_same = self.cells().get(there).is_some_and(|it| it.digest() == was.digest);
        if need == Need::Seen && !is_same {
            return Err(self.changed(there));
        }
        let note = (there != index).then(|| format!("cell {index} is cell {there} now"));
        Ok(Found { index: there, note })
    }

    fn by_hash(&self, index: usize, hash: &str) -> Result<Found, Fault> {
        if self.cells().get(index).is_some_and(|it| it.hash() == hash) {
            return Ok(Found { index, note: None });
        }
        match self.only(|it| it.hash() == hash) {
            Some(there) => {
                Ok(Found { index: there, note: Some(format!("cell {index}:{hash} is cell {there} now")) })
            }
            None => Err(self.gone(index)),
        }
    }

    fn by_id(&self, id: &str, need: Need) -> Result<Found, Fault> {
        let Some(index) = self.only(|it| it.id.as_deref() == Some(id)) else {
            let what = format!("`{}` has no cell with the id `{id}`, or more than one", self.path);
            return Err(self.unknown_id(what));
        };
        let was =
            self.record(|it| it.known.iter().find(|was| was.id.as_deref() == Some(id)).cloned()).flatten();
        let is = self.cells().get(index).map(Was::of);
        match (need, was) {
            (Need::Place, _) => Ok(Found { index, note: None }),
            (Need::Seen, None) => Err(self.unseen(index)),
            (Need::Seen, was) if was == is => Ok(Found { index, note: None }),
            (Need::Seen, Some(_)) => Err(self.changed(index)),
        }
    }

    /// Returns the only cell that matches.
    fn only(&self, is_it: impl Fn(&Cell<'_>) -> bool) -> Option<usize> {
        let mut all = self.cells().iter().enumerate().filter(|(_, it)| is_it(it)).map(|(at, _)| at);
        all.next().filter(|_| all.next().is_none())
    }

    fn must_be(&self, index: usize) -> Result<(), Fault> {
        match self.cells().len() {
            count if index < count => Ok(()),
            0 => Err(Fault::not_found(format!("`{}` has no cells, so no cell {index}", self.path))),
            count => {
                let what = format!("`{}` has no cell {index}: its cells are 0 to {}", self.path, count - 1);
                Err(Fault::not_found(what))
            }
        }
    }

    fn unknown_id(&self, what: String) -> Fault {
        let ids: Vec<&str> = self.cells().iter().filter_map(|it| it.id.as_deref()).take(20).collect();
        let fault = Fault::not_found(what);
        match ids.is_empty() {
            true => {
                fault.hint("Its cells have no ids; name them by index, as `tool:notebook_read` shows it.")
            }
            false => fault.next(format!("Its ids are {}.", ids.join(", "))),
        }
    }

    fn unseen(&self, index: usize) -> Fault {
        self.stale(index, &format!("this session has not seen cell {index} of `{}` in full", self.path))
    }

    fn shifted(&self, index: usize) -> Fault {
        let what = format!("cells of `{}` have new indexes since cell {index} was shown", self.path);
        self.stale(index, &what)
    }

    fn changed(&self, index: usize) -> Fault {
        self.stale(index, &format!("cell {index} of `{}` has changed since it was shown", self.path))
    }

    fn gone(&self, index: usize) -> Fault {
        let what = format!("cell {index} of `{}` is not what was shown there any more", self.path);
        match self.cells().get(index) {
            Some(_) => self.stale(index, &what),
            None => Fault::new(Kind::Stale, format!("{what}; nothing was written"))
                .hint(format!("{} shows what there is.", call("notebook_read", &json!({"path": self.path})))),
        }
    }

    /// Returns a fault that shows the present cell, so that the retry needs no reading.
    fn stale(&self, index: usize, what: &str) -> Fault {
        let fault = Fault::new(Kind::Stale, format!("{what}; nothing was written"));
        let Some(cell) = self.cells().get(index) else { return fault };
        let shown = show::cell(cell, index, show::Outputs::Hidden);
        if shown.whole {
            remember(self.cx, self.location, self.notebook, [index]);
        }
        fault.next("This is the cell now; make the call again if it is meant.").seen(Output::text(shown.text))
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}

struct NameVisitor;

impl de::Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a cell: its index, such as 3, or \"3:7f2a\" as it is shown, or its id")
    }

    fn visit_str<E>(self, text: &str) -> Result<Name, E> {
        let text = text.trim().trim_start_matches('[').trim_end_matches(']');
        if let Some((index, hash)) = text.split_once(':')
            && let Ok(index) = index.parse()
        {
            return Ok(Name::Hashed(index, hash.to_owned()));
        }
        // An id may be all digits, but Jupyter's have at least eight characters.
        let is_index = text.len() < 6 && !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        Ok(match text.parse() {
            Ok(index) if is_index => Name::Index(index),
            _ => Name::Id(text.to_owned()),
        })
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Name, E> {
        usize::try_from(number).map(Name::Index).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Name, E> {
        usize::try_from(number)
            .map(Name::Index)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }
}
