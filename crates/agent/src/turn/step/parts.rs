//! Parts of an answer, while it streams and after its end.

use std::collections::HashMap;

use crate::model::{MessagePart, ResultOf};

/// A part of the answer.
pub(super) enum Part {
    Said(MessagePart),
    /// A call that the model is still writing.
    Writing {
        /// The id that it has in the journal once it begins.
        journal: String,
        tool: String,
        bytes: usize,
    },
    Called {
        call: MessagePart,
        result: Option<ResultOf>,
    },
}

/// The parts of an answer. Each keeps its place while the answer streams.
#[derive(Default)]
pub(super) struct Parts {
    all: Vec<Part>,
    /// The places of the unfinished calls, by their index in the answer.
    writing: HashMap<usize, usize>,
    calls: usize,
    /// The parts before this place are on the disk, or are written together with their own call.
    written: usize,
    /// The place up to which the person's transcript has the text.
    told: usize,
}

impl Parts {
    pub(super) fn push(&mut self, part: Part) -> usize {
        self.all.push(part);
        self.all.len() - 1
    }

    /// Adds text.
    pub(super) fn write(&mut self, text: &str) {
        match self.all.last_mut() {
            Some(Part::Said(MessagePart::Text { text: before })) => before.push_str(text),
            _ => drop(self.push(Part::Said(MessagePart::Text { text: text.to_owned() }))),
        }
    }

    /// Begins a call that the model writes; returns its id in the journal, which `new` makes.
    pub(super) fn begin(&mut self, index: usize, tool: &str, new: impl FnOnce() -> String) -> String {
        self.journal_of(index).unwrap_or_else(|| {
            let journal = new();
            let part = Part::Writing { journal: journal.clone(), tool: tool.to_owned(), bytes: 0 };
            let place = self.push(part);
            self.writing.insert(index, place);
            journal
        })
    }

    /// Returns the id in the journal of a call that the model is writing.
    pub(super) fn journal_of(&self, index: usize) -> Option<String> {
        match self.writing.get(&index).and_then(|at| self.all.get(*at)) {
            Some(Part::Writing { journal, .. }) => Some(journal.clone()),
            _ => None,
        }
    }

    /// Adds bytes to a call's arguments; returns its id in the journal, its tool and their new length.
    pub(super) fn grow(&mut self, index: usize, more: usize) -> Option<(String, String, usize)> {
        match self.writing.get(&index).and_then(|at| self.all.get_mut(*at)) {
            Some(Part::Writing { journal, tool, bytes }) => {
                *bytes += more;
                Some((journal.clone(), tool.clone(), *bytes))
            }
            _ => None,
        }
    }

    /// Completes the call of this index. Returns its place, and the parts before it that are not on the disk
    /// yet.
    pub(super) fn close(&mut self, index: usize, call: MessagePart) -> (usize, Vec<(usize, MessagePart)>) {
        self.calls += 1;
        let called = Part::Called { call, result: None };
        let place =
            match self.writing.remove(&index).and_then(|at| self.all.get_mut(at).map(|part| (at, part))) {
                Some((at, part)) => {
                    *part = called;
                    at
                }
                None => self.push(called),
            };
        let new = self.all.iter().enumerate().take(place).skip(self.written);
        let before =
            new.filter_map(|(at, it)| if let Part::Said(it) = it { Some((at, it.clone())) } else { None });
        let before = before.collect();
        self.written = self.written.max(place);
        (place, before)
    }

    /// Returns the arguments of the call at this place, and the slot for its result.
    pub(super) fn open_call(&mut self, at: usize) -> Option<(&str, &mut Option<ResultOf>)> {
        match self.all.get_mut(at) {
            Some(Part::Called { call: MessagePart::Call { arguments, .. }, result }) if result.is_none() => {
                Some((arguments, result))
            }
            _ => None,
        }
    }

    /// Returns the id and the tool of the call at this place.
    pub(super) fn id_of(&self, at: usize) -> Option<(String, String)> {
        match self.all.get(at) {
            Some(Part::Called { call: MessagePart::Call { id, tool, .. }, .. }) => {
                Some((id.clone(), tool.clone()))
            }
            _ => None,
        }
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the text.
    pub(super) fn text(&self) -> String {
        text_of(&self.all)
    }

    /// Returns the text before this place that the person's transcript does not have yet.
    pub(super) fn untold(&mut self, before: usize) -> String {
        let text = self.all.get(self.told..before).map(text_of).unwrap_or_default();
        self.told = self.told.max(before);
        text
    }

    /// Returns the number of parts.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Removes parts that can't be sent back: incomplete calls, blank text, and parts that belong to a
    /// missing one. Returns the tools of the incomplete calls.
    pub(super) fn tidy(&mut self, whole: bool, opaque_alone: bool) -> Vec<String> {
        let mut unwritten = Vec::new();
        let mut told = 0;
        for (at, part) in std::mem::take(&mut self.all).into_iter().enumerate() {
            match part {
                Part::Writing { tool, .. } => {
                    unwritten.push(tool);
                    continue;
                }
                Part::Said(MessagePart::Text { text }) if text.trim().is_empty() => continue,
                part => self.all.push(part),
            }
            told = if at < self.told { self.all.len() } else { told };
        }
        self.told = told;
        let is_opaque = |it: &Part| matches!(it, Part::Said(MessagePart::Opaque { .. }));
        if !whole {
            while self.all.last().is_some_and(is_opaque) {
                self.all.pop();
            }
        } else if !opaque_alone && self.all.iter().all(is_opaque) {
            // Providers refuse reasoning that nothing follows.
            self.all.clear();
        }
        unwritten
    }

    /// Returns the model's parts, and the results of its calls in its order.
    pub(super) fn into_items(self) -> (Vec<MessagePart>, Vec<ResultOf>) {
        let (mut said, mut results) = (Vec::new(), Vec::new());
        for part in self.all {
            match part {
                Part::Said(it) => said.push(it),
                Part::Writing { .. } => {}
                Part::Called { call, result } => {
                    said.push(call);
                    results.extend(result);
                }
            }
        }
        (said, results)
    }
}

fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|it| {
        if let Part::Said(MessagePart::Text { text }) = it { Some(text.as_str()) } else { None }
    });
    texts.collect::<Vec<_>>().join("\n\n")
}
