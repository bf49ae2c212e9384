//! Edits of a notebook, with every other byte unchanged.

use std::fmt;

use kit::{Cx, Fault, Kind, files::Location};

use super::{
    Cell, Notebook,
    cell_reference::{Found, Name, Need},
    style::indent_at,
};

/// One edit of a notebook. References mean the cells before the call.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    /// Replaces the source, the type, or both; with `clear` removes the outputs, even if the source stays the same.
    Replace {
        cell: Name,
        source: Option<String>,
        kind: Option<Kindred>,
        clear: bool,
    },
    /// Replaces a part of the source.
    Text {
        cell: Name,
        old: String,
        new: String,
        all: bool,
    },
    /// Inserts a cell before or after another; without one at the beginning or the end.
    Insert {
        at: Side,
        cell: Option<Name>,
        source: String,
        kind: Kindred,
    },
    Delete {
        cell: Name,
    },
    /// Moves a cell before another; without one to the end.
    Move {
        cell: Name,
        before: Option<Name>,
    },
    /// Removes its outputs and its execution count.
    Clear {
        cell: Name,
    },
}

/// The side of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

/// The kinds of cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kindred {
    Code,
    Markdown,
    Raw,
}

impl Kindred {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
            Self::Raw => "raw",
        }
    }
}

/// Options for writing changed cells.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Writing {
    /// Whether cells whose source changes lose their outputs.
    pub(crate) clear: bool,
    /// Whether sources are written as one string. Otherwise in their present form: a string, or a list of lines.
    pub(crate) one_string: bool,
}

/// A notebook being changed.
pub(crate) struct Draft<'a, 't> {
    notebook: &'a Notebook<'t>,
    slots: Vec<Slot>,
    writing: Writing,
    /// The ids in use.
    ids: Vec<String>,
}

/// The result of an edit.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) did: Did,
    /// The cell's index before the call; none for a new one.
    cell: Option<usize>,
    /// Its index when the edit was made.
    pub(crate) at: usize,
    pub(crate) id: Option<String>,
    /// A note that the cell has moved since it was shown.
    note: Option<String>,
}

/// The effect of an edit on its cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Did {
    Replaced,
    /// Its outputs were removed, and its source is unchanged.
    Refreshed,
    /// It was already so.
    Nothing,
    /// Replaced text of its source, at this many places.
    Changed(usize),
    Inserted(Kindred),
    Deleted,
    Moved,
    Cleared,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let cell = self.cell.unwrap_or(self.at);
        match self.did {
            Did::Replaced | Did::Refreshed | Did::Nothing => write!(f, "cell {cell} replaced")?,
            Did::Changed(_) => write!(f, "cell {cell} changed")?,
            Did::Inserted(kind) => write!(f, "{} cell inserted", kind.name())?,
            Did::Deleted => write!(f, "cell {cell} deleted")?,
            Did::Moved => write!(f, "cell {cell} moved")?,
            Did::Cleared => write!(f, "cell {cell} cleared of outputs")?,
        }
        if let Some(note) = &self.note {
            write!(f, " ({note})")?;
        }
        match self.did {
            Did::Changed(times) if times > 1 => write!(f, ", {times} places"),
            _ => Ok(()),
        }
    }
}

/// A cell of the draft.
#[derive(Debug, Clone)]
struct Slot {
    /// Its index before the call.
    origin: Option<usize>,
    /// The cell beside which it was inserted.
    beside: Option<(Side, Option<usize>)>,
    id: Option<String>,
    kind: String,
    source: String,
    cleared: bool,
    touched: bool,
}

/// The finished draft.
pub(crate) struct Drafted {
    pub(crate) text: String,
    /// For each cell its index before the call, and whether it was changed.
    pub(crate) cells: Vec<(Option<usize>, bool)>,
}

impl<'a, 't> Draft<'a, 't> {
    pub(crate) fn new(notebook: &'a Notebook<'t>, writing: Writing) -> Self {
        let slots = notebook.cells.iter().enumerate().map(|(index, cell)| Slot {
            origin: Some(index),
            beside: None,
            id: cell.id.clone(),
            kind: cell.kind.clone(),
            source: cell.source.clone(),
            cleared: false,
            touched: false,
        });
        let ids = notebook.cells.iter().filter_map(|it| it.id.clone()).collect();
        Self { notebook, slots: slots.collect(), writing, ids }
    }

    /// Makes one edit, or leaves everything unchanged.
    ///
    /// # Errors
    /// Those of [`Name::find`]; [`Kind::NotFound`] and [`Kind::Ambiguous`] for a text that does not occur, or
    /// occurs more than once.
    pub(crate) fn make(
        &mut self,
        edit: &Edit,
        path: &str,
        location: &Location,
        cx: &Cx,
    ) -> Result<Made, Fault> {
        let notebook = self.notebook;
        let find = |name: &Name, need| self.meant(name)?.find(need, path, notebook, location, cx);
        match edit {
            Edit::Replace { cell, source, kind, clear } => {
                let found = find(cell, Need::Seen)?;
                self.replace(&found, source.as_deref(), *kind, *clear)
            }
            Edit::Text { cell, old, new, all } => {
                let found = find(cell, Need::Place)?;
                self.text(&found, old, new, *all)
            }
            Edit::Insert { at, cell, source, kind } => {
                let found = cell.as_ref().map(|it| find(it, Need::Place)).transpose()?;
                self.insert(*at, found.as_ref(), source, *kind)
            }
            Edit::Delete { cell } => {
                let found = find(cell, Need::Seen)?;
                let at = self.slot(found.index)?;
                let made = self.made(Did::Deleted, at, &found);
                self.slots.remove(at);
                Ok(made)
            }
            Edit::Move { cell, before } => {
                let found = find(cell, Need::Place)?;
                let before = before.as_ref().map(|it| find(it, Need::Place)).transpose()?;
                self.to(&found, before.as_ref())
            }
            Edit::Clear { cell } => {
                let found = find(cell, Need::Place)?;
                let at = self.slot(found.index)?;
                if let Some(slot) = self.slots.get_mut(at) {
                    slot.cleared = true;
                    slot.touched = true;
                }
                Ok(self.made(Did::Cleared, at, &found))
            }
        }
    }

    /// Returns a reference to a cell before the call: a position now may hold another cell than before.
    fn meant(&self, name: &Name) -> Result<Name, Fault> {
        let Name::Now(at) = name else { return Ok(name.clone()) };
        match self.slots.get(*at).map(|it| it.origin) {
            Some(Some(origin)) => Ok(Name::Index(origin)),
            Some(None) => Err(Fault::bad_args(format!("an edit before this one inserted cell {at}"))
                .next("Give that edit the source that the cell should have.")),
            None => Err(Fault::not_found(format!("Cell index {at} does not exist"))),
        }
    }

    /// Returns the result for the cell at this position.
    fn made(&self, did: Did, at: usize, found: &Found) -> Made {
        let id = self.slots.get(at).and_then(|it| it.id.clone());
        Made { did, cell: Some(found.index), at, id, note: found.note.clone() }
    }

    /// Returns the present position of a cell before the call.
    fn slot(&self, index: usize) -> Result<usize, Fault> {
        let at = self.slots.iter().position(|it| it.origin == Some(index));
        at.ok_or_else(|| Fault::bad_args(format!("cell {index} was deleted by an edit before this one")))
    }

    fn change(&mut self, index: usize, act: impl FnOnce(&mut Slot)) -> Result<(), Fault> {
        let at = self.slot(index)?;
        let clear = self.writing.clear;
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        let before = (slot.kind.clone(), slot.source.clone());
        act(slot);
        if before != (slot.kind.clone(), slot.source.clone()) {
            slot.touched = true;
            slot.cleared |= clear;
        }
        Ok(())
    }

    fn replace(
        &mut self,
        found: &Found,
        source: Option<&str>,
        kind: Option<Kindred>,
        clear: bool,
    ) -> Result<Made, Fault> {
        let at = self.slot(found.index)?;
        let before = self.slots.get(at).map(|it| (it.kind.clone(), it.source.clone()));
        self.change(found.index, |slot| {
            if let Some(source) = source {
                source.clone_into(&mut slot.source);
            }
            if let Some(kind) = kind {
                kind.name().clone_into(&mut slot.kind);
            }
        })?;
        let was_run = self.notebook.cells.get(found.index).is_some_and(Cell::was_run);
        let Some(slot) = self.slots.get_mut(at) else { return Err(Fault::bug("a cell is gone")) };
        let refreshed = clear && was_run && slot.kind == "code" && !slot.cleared;
        if refreshed {
            (slot.cleared, slot.touched) = (true, true);
        }
        let did = match before == Some((slot.kind.clone(), slot.source.clone())) {
            false => Did::Replaced,
            true if refreshed => Did::Refreshed,
            true => Did::Nothing,
        };
        Ok(self.made(did, at, found))
    }

    fn text(&mut self, found: &Found, old: &str, new: &str, all: bool) -> Result<Made, Fault> {
        if old.is_empty() {
            return Err(Fault::bad_args("`old` is empty").next("Give the text to replace."));
        }
        let index = found.index;
        let slot = self.slot(index)?;
        let source = self.slots.get(slot).map(|it| it.source.clone()).unwrap_or_default();
        let times = source.matches(old).count();
        match times {
            0 => {
                let fault = Fault::not_found(format!("`old` is not in cell {index}"));
                return Err(match source.matches(old.trim()).count() {
                    0 => fault.hint("Copy it from the cell as `tool:notebook_read` shows it."),
                    _ => fault.next("It is there but for white space at its ends."),
                });
            }
            1 => {}
            _ if all => {}
            _ => {
                let what = format!("`old` occurs {times} times in cell {index}");
                return Err(Fault::new(Kind::Ambiguous, what).next("Add a line of context, or set `all`."));
            }
        }
        self.change(index, |slot| slot.source = source.replace(old, new))?;
        Ok(self.made(Did::Changed(times), slot, found))
    }

    fn insert(
        &mut self,
        side: Side,
        found: Option<&Found>,
        source: &str,
        kind: Kindred,
    ) -> Result<Made, Fault> {
        let beside = (side, found.map(|it| it.index));
        let at = match (found, side) {
            (None, Side::Before) => 0,
            (None, Side::After) => self.slots.len(),
            (Some(found), Side::Before) => self.slot(found.index)?,
            (Some(found), Side::After) => self.slot(found.index)? + 1,
        };
        // Cells inserted earlier at the same position come first: in the order of the edits.
        let before = self.slots.iter().skip(at).take_while(|it| it.beside == Some(beside)).count();
        let id = if self.notebook.minor >= 5 { Some(new_id(&self.ids)?) } else { None };
        self.ids.extend(id.clone());
        let slot = Slot {
            origin: None,
            beside: Some(beside),
            id: id.clone(),
            kind: kind.name().to_owned(),
            source: source.to_owned(),
            cleared: false,
            touched: true,
        };
        self.slots.insert(at + before, slot);
        let note = found.and_then(|it| it.note.clone());
        Ok(Made { did: Did::Inserted(kind), cell: None, at: at + before, id, note })
    }

    fn to(&mut self, found: &Found, before: Option<&Found>) -> Result<Made, Fault> {
        if before.is_some_and(|it| it.index == found.index) {
            return Err(Fault::bad_args(format!("cell {} can't stand before itself", found.index)));
        }
        if let Some(before) = before {
            self.slot(before.index)?;
        }
        let from = self.slot(found.index)?;
        let slot = self.slots.remove(from);
        let to = match before {
            Some(before) => self.slot(before.index)?,
            None => self.slots.len(),
        };
        self.slots.insert(to, slot);
        Ok(self.made(Did::Moved, to, found))
    }

    /// Returns the sources of changed cells before and after, to check them for secrets.
    pub(crate) fn sources(&self) -> (String, String) {
        let (mut old, mut new) = (String::new(), String::new());
        for slot in self.slots.iter().filter(|it| it.touched) {
            if let Some(cell) = slot.origin.and_then(|it| self.notebook.cells.get(it)) {
                old.push_str(&cell.source);
                old.push('\n');
            }
            new.push_str(&slot.source);
            new.push('\n');
        }
        (old, new)
    }

    /// Returns the finished notebook.
    pub(crate) fn finish(self) -> Drafted {
        let notebook = self.notebook;
        let gaps = Gaps::of(notebook);
        let mut inner = String::new();
        for (at, slot) in self.slots.iter().enumerate() {
            if at > 0 {
                inner.push_str(gaps.trail(at - 1));
                inner.push(',');
            }
            inner.push_str(gaps.lead(at));
            inner.push_str(&self.cell(slot, gaps.base()));
        }
        if !self.slots.is_empty() {
            inner.push_str(&gaps.close);
        }
        let text = notebook.text;
        let before = text.get(..notebook.inner.start).unwrap_or_default();
        let after = text.get(notebook.inner.end..).unwrap_or_default();
        let cells = self.slots.iter().map(|it| (it.origin, it.touched)).collect();
        Drafted { text: format!("{before}{inner}{after}"), cells }
    }

    fn cell(&self, slot: &Slot, base: &str) -> String {
        let Some(cell) = slot.origin.and_then(|it| self.notebook.cells.get(it)) else {
            return self.new_cell(slot, base);
        };
        match slot.touched {
            false => self.raw(cell.range.clone()).to_owned(),
            true if slot.kind == cell.kind => self.spliced(slot, cell),
            true => self.rebuilt(slot, cell, base),
        }
    }

    fn raw(&self, range: std::ops::Range<usize>) -> &'t str {
        self.notebook.text.get(range).unwrap_or_default()
    }

    fn new_cell(&self, slot: &Slot, base: &str) -> String {
        let style = &self.notebook.style;
        let mut members = vec![("cell_type".to_owned(), style.string(&slot.kind))];
        let is_code = slot.kind == "code";
        if is_code {
            members.push(("execution_count".to_owned(), "null".to_owned()));
        }
        if let Some(id) = &slot.id {
            members.push(("id".to_owned(), style.string(id)));
        }
        members.push(("metadata".to_owned(), "{}".to_owned()));
        if is_code {
            members.push(("outputs".to_owned(), "[]".to_owned()));
        }
        let in_one = !self.notebook.cells.is_empty() && self.notebook.cells.iter().all(|it| it.in_one);
        members.push(("source".to_owned(), self.source(slot, in_one, base)));
        style.object(&members, base)
    }

    /// Formats the source for a cell that begins on a line indented by `base`.
    fn source(&self, slot: &Slot, in_one: bool, base: &str) -> String {
        let style = &self.notebook.style;
        let deep = format!("{base}{}", style.unit.as_deref().unwrap_or_default());
        style.source(&slot.source, in_one || self.writing.one_string, &deep)
    }

    /// Returns the cell with changed values spliced in, and everything else unchanged.
    fn spliced(&self, slot: &Slot, cell: &Cell<'_>) -> String {
        let mut splices = Vec::new();
        if slot.source != cell.source
            && let Some(source) = cell.member("source")
        {
            let base = indent_at(self.notebook.text, source.at.start).unwrap_or_default();
            let in_one = cell.in_one || self.writing.one_string;
            let written = self.notebook.style.source(&slot.source, in_one, base);
            splices.push((source.value.clone(), written));
        }
        if slot.cleared && slot.kind == "code" {
            let empty = [("outputs", "[]"), ("execution_count", "null")];
            for (name, value) in empty {
                splices.extend(cell.member(name).map(|it| (it.value.clone(), value.to_owned())));
            }
        }
        splices.sort_by_key(|(range, _)| range.start);
        let mut written = String::new();
        let mut from = cell.range.start;
        for (range, value) in splices {
            written.push_str(self.raw(from..range.start));
            written.push_str(&value);
            from = range.end;
        }
        written.push_str(self.raw(from..cell.range.end));
        written
    }

    /// Returns the cell as one of another kind: with its required members, and without forbidden ones.
    fn rebuilt(&self, slot: &Slot, cell: &Cell<'_>, base: &str) -> String {
        let style = &self.notebook.style;
        let (is_code, kind) = (slot.kind == "code", style.string(&slot.kind));
        let sorted = cell.members.is_sorted_by(|one, next| one.name <= next.name);
        let mut members = Vec::new();
        for it in &cell.members {
            let value = match it.name.as_str() {
                "cell_type" => kind.clone(),
                "source" => self.source(slot, cell.in_one, base),
                "outputs" | "execution_count" if !is_code => continue,
                "attachments" if is_code => continue,
                _ => self.raw(it.value.clone()).to_owned(),
            };
            members.push((it.name.clone(), value));
        }
        for (name, value) in [("execution_count", "null"), ("outputs", "[]")] {
            if is_code && cell.member(name).is_none() {
                members.push((name.to_owned(), value.to_owned()));
            }
        }
        if sorted {
            members.sort();
        }
        style.object(&members, base)
    }
}

/// Returns a new id in Jupyter's format.
fn new_id(taken: &[String]) -> Result<String, Fault> {
    loop {
        let random = getrandom::u32();
        let random =
            random.map_err(|error| Fault::new(Kind::Unavailable, format!("no random numbers: {error}")))?;
        let id = format!("{random:08x}");
        if !taken.contains(&id) {
            return Ok(id);
        }
    }
}

/// The text between the cells: it belongs to the positions, not to the cells.
struct Gaps<'t> {
    leads: Vec<&'t str>,
    trails: Vec<&'t str>,
    /// The text before a cell in a new position.
    more: String,
    /// The text after the last cell.
    close: String,
}

impl<'t> Gaps<'t> {
    fn of(notebook: &Notebook<'t>) -> Self {
        let text = notebook.text;
        let between = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        let (mut leads, mut trails) = (Vec::new(), Vec::new());
        let mut from = notebook.inner.start;
        for (index, cell) in notebook.cells.iter().enumerate() {
            let gap = between(from, cell.range.start);
            match gap.split_once(',') {
                Some((trail, lead)) if index > 0 => {
                    trails.push(trail);
                    leads.push(lead);
                }
                _ => leads.push(gap),
            }
            from = cell.range.end;
        }
        let style = &notebook.style;
        let (lead, close) = style.around_cells();
        let is_compact = style.unit.is_none();
        let more = match leads.len() {
            0 => lead,
            1 if is_compact => style.gap().to_owned(),
            _ => leads.last().copied().unwrap_or_default().to_owned(),
        };
        let close =
            if notebook.cells.is_empty() { close } else { between(from, notebook.inner.end).to_owned() };
        Self { leads, trails, more, close }
    }

    fn lead(&self, at: usize) -> &str {
        self.leads.get(at).copied().unwrap_or(&self.more)
    }

    fn trail(&self, at: usize) -> &str {
        self.trails.get(at).copied().unwrap_or_default()
    }

    /// Returns the indentation of a cell.
    fn base(&self) -> &str {
        let lead = self.lead(0);
        lead.rsplit_once('\n').map_or("", |(_, indent)| indent)
    }
}
