//! Recovery of an answer that broke off: gives every call a result.

use std::collections::{BTreeMap, HashMap, HashSet};

use kit::{Fault, Touch};
use runtime::Session;
use store::journal::Filter;

use crate::model::{Item, MessagePart, Piece, ResultOf};

/// The newest answer, until all its calls have their results.
#[derive(Default)]
pub(super) struct Open {
    said: BTreeMap<usize, MessagePart>,
    /// The journal ids of its calls.
    journal: HashMap<String, String>,
    results: HashMap<String, ResultOf>,
    /// Whether the answer is already an item of the conversation.
    complete: bool,
}

/// The answer, unless it is already an item of the conversation, and the results of its calls.
type Closed = (Option<Vec<MessagePart>>, Vec<ResultOf>);

impl Open {
    pub(super) fn begin(
        &mut self,
        before: Vec<(usize, MessagePart)>,
        place: usize,
        call: MessagePart,
        journal: String,
    ) {
        if self.complete {
            *self = Self::default();
        }
        if let MessagePart::Call { id, .. } = &call {
            self.journal.insert(id.clone(), journal);
        }
        self.said.extend(before);
        self.said.insert(place, call);
    }

    pub(super) fn end(&mut self, result: ResultOf) {
        self.results.insert(result.id.clone(), result);
    }

    pub(super) fn complete(&mut self, said: &[MessagePart]) {
        self.said = said.iter().cloned().enumerate().collect();
        self.complete = true;
    }

    /// Closes the answer: returns it, unless it is already an item of the conversation, with a result for
    /// each of its calls; `None` if it has no calls.
    pub(super) fn close(&mut self, session: &Session) -> Result<Option<Closed>, Fault> {
        let mut results = Vec::new();
        for said in self.said.values() {
            let MessagePart::Call { id, tool, .. } = said else { continue };
            results.push(match self.results.get(id) {
                Some(result) => result.clone(),
                None => lost(id, tool, what_is_known(session, self.journal.get(id))?),
            });
        }
        let Self { said, complete, .. } = std::mem::take(self);
        if results.is_empty() {
            return Ok(None);
        }
        Ok(Some(((!complete).then(|| said.into_values().collect()), results)))
    }
}

/// Repairs a conversation in which a call has no result right behind it, as a row may have been lost with a
/// disk. Returns `None` if nothing is to repair.
pub(super) fn made_whole(items: &[Item]) -> Option<Vec<Item>> {
    if is_whole(items) {
        return None;
    }
    let mut whole = Vec::with_capacity(items.len() + 1);
    let mut ids = HashSet::new();
    let mut rest = items.iter().peekable();
    while let Some(item) = rest.next() {
        let said = match item {
            Item::Person { .. } => {
                whole.push(item.clone());
                continue;
            }
            // Results of unknown calls.
            Item::Results { .. } => continue,
            Item::Model { said } => said,
        };
        let mut results = match rest.next_if(|it| matches!(it, Item::Results { .. })) {
            Some(Item::Results { results }) => results.clone(),
            _ => Vec::new(),
        };
        let mut kept = Vec::new();
        let mut in_order = Vec::new();
        for it in said {
            if let MessagePart::Call { id, tool, .. } = it {
                if !ids.insert(id.clone()) {
                    continue;
                }
                let found = results.iter().position(|it| it.id == *id).map(|at| results.swap_remove(at));
                let gone = || {
                    lost(id, tool, "the result of this call was lost; look before you repeat it.".to_owned())
                };
                in_order.push(found.unwrap_or_else(gone));
            }
            kept.push(it.clone());
        }
        if !kept.is_empty() {
            whole.push(Item::Model { said: kept });
        }
        if !in_order.is_empty() {
            whole.push(Item::Results { results: in_order });
        }
    }
    Some(whole)
}

/// Returns whether every call has exactly one result, right behind the answer that made it.
pub(crate) fn is_whole(items: &[Item]) -> bool {
    let mut ids = HashSet::new();
    let mut awaited: Vec<&str> = Vec::new();
    for item in items {
        match item {
            Item::Results { results } => {
                if awaited.is_empty() || !results.iter().map(|it| it.id.as_str()).eq(awaited.drain(..)) {
                    return false;
                }
            }
            _ if !awaited.is_empty() => return false,
            Item::Person { .. } => {}
            Item::Model { said } => {
                awaited = said
                    .iter()
                    .filter_map(
                        |it| if let MessagePart::Call { id, .. } = it { Some(id.as_str()) } else { None },
                    )
                    .collect();
                if said.is_empty() || !awaited.iter().all(|it| ids.insert(*it)) {
                    return false;
                }
            }
        }
    }
    awaited.is_empty()
}

fn lost(id: &str, tool: &str, what: String) -> ResultOf {
    ResultOf { id: id.to_owned(), tool: tool.to_owned(), ok: false, pieces: vec![Piece::text(what)] }
}

/// Returns the text for the model on a call whose result is lost.
fn what_is_known(session: &Session, call: Option<&String>) -> Result<String, Fault> {
    let not_begun =
        "haft ended before this call began: nothing was done. Call again if it is still wanted.".to_owned();
    let Some(call) = call else { return Ok(not_begun) };
    let filter = Filter { call: Some(call.clone()), ..Filter::default() };
    let Some(record) = session.runtime().store().journal().log(filter)?.pop() else { return Ok(not_begun) };
    let touched: Vec<String> = record.touches.iter().filter_map(touch).collect();
    let touched =
        if touched.is_empty() { String::new() } else { format!(" It was to {}.", touched.join(", ")) };
    Ok(match record.outcome.as_deref() {
        Some("ok") => format!(
            "this call was done, but haft ended before its result was kept.{touched} Look before you repeat it."
        ),
        None | Some("interrupted") => format!(
            "haft ended in the middle of this call: it may or may not have finished.{touched} Look before you repeat it."
        ),
        Some(kind) => format!("this call failed ({kind}): {}", record.said.unwrap_or_default()),
    })
}

/// Returns what a call would have changed, if anything.
fn touch(touch: &Touch) -> Option<String> {
    match touch {
        Touch::Write(path) | Touch::WriteTree { path, .. } => Some(format!("write {path}")),
        Touch::Run(command) => Some(format!("run `{command}`")),
        Touch::Net(host) => Some(format!("reach {host}")),
        Touch::Tool(name) => Some(format!("write the tool {name}")),
        Touch::Trigger(about) => about.lines().next().map(str::to_owned),
        Touch::Server { name, reads: false } => Some(format!("ask the server {name}")),
        Touch::Server { reads: true, .. } => None,
        Touch::Read(_) | Touch::Web(_) | Touch::Unconfined | Touch::Session(_) | Touch::Exclusive => None,
    }
}
