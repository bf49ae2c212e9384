//! Stored outputs: the answers of calls and the model's thoughts, kept whole for a person who wants to read them.

use std::collections::{HashMap, VecDeque};

use agent::{Change, Event, Shown};

use super::{abbreviate, view::title};

/// Maximum number of stored outputs.
const KEPT: usize = 200;

/// Maximum size of all stored outputs, in bytes; the newest one is stored whatever its size.
const BYTES: usize = 8 << 20;

/// The outputs of a conversation since this process began, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    all: VecDeque<Output>,
    bytes: usize,
    /// The titles of the running calls.
    titles: HashMap<String, String>,
    /// The thought in progress.
    thought: String,
}

/// The answer of a call, or a thought.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Output {
    /// The call, and how it ended.
    pub(crate) title: String,
    /// The text of the answer. If it was too long for the model, its middle is missing and the whole is stored as a spill.
    pub(crate) text: String,
    pub(crate) pictures: Vec<Shown>,
    /// The files that it changed.
    pub(crate) changes: Vec<Change>,
    /// The path of the subagent that called it, as its session is named after this one: `explore_1`, or empty.
    pub(crate) below: String,
}

impl Outputs {
    /// Applies an event of the agent.
    pub(crate) fn observe(&mut self, event: &Event) {
        self.take(event, &[]);
    }

    /// Returns the output at this distance from the newest.
    pub(crate) fn newest(&self, before: usize) -> Option<&Output> {
        self.all.iter().rev().nth(before)
    }

    /// Returns how many outputs are stored.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    fn take(&mut self, event: &Event, above: &[&str]) {
        let under: String = above.iter().map(|it| format!("{it}: ")).collect();
        let below = above.join("/");
        match event {
            Event::Under { agent, inner } => return self.take(inner, &[above, &[agent.as_str()]].concat()),
            Event::Reasoning { text } if above.is_empty() => return self.thought.push_str(text),
            Event::Called { call, tool, arguments } => {
                self.titles.insert(call.clone(), format!("{under}{}", title(tool, arguments)));
            }
            Event::Answered { call, tool, ok, fault, exit, ms, text, pictures, changes, .. } => {
                let title = self.titles.remove(call).unwrap_or_else(|| format!("{under}{tool}"));
                let title =
                    format!("{title}: {}, {}", abbreviate::how(*ok, *exit, *fault), abbreviate::ms(*ms));
                let (text, pictures, changes) = (text.clone(), pictures.clone(), changes.clone());
                self.add(Output { title, text, pictures, changes, below });
            }
            Event::Picture { tool, picture } => {
                let (title, pictures) = (format!("{under}{tool}: picture"), vec![picture.clone()]);
                self.add(Output { title, pictures, below, ..Output::default() });
            }
            _ => {}
        }
        if above.is_empty() {
            self.end_thought();
        }
    }

    fn end_thought(&mut self) {
        let text = std::mem::take(&mut self.thought);
        if !text.trim().is_empty() {
            self.add(Output { title: "what the model thought".to_owned(), text, ..Output::default() });
        }
    }

    fn add(&mut self, output: Output) {
        self.bytes += output.text.len();
        self.all.push_back(output);
        while self.all.len() > KEPT || self.bytes > BYTES && self.all.len() > 1 {
            if let Some(oldest) = self.all.pop_front() {
                self.bytes -= oldest.text.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str, text: &str) -> [Event; 2] {
        let called =
            Event::Called { call: id.into(), tool: "shell".into(), arguments: json!({"command": id}) };
        let (ok, fault, exit, ms, text) = (true, None, Some(1), 1200.0, text.to_owned());
        let (pictures, changes) = (Vec::new(), Vec::new());
        [
            called,
            Event::Answered {
                call: id.into(),
                tool: "shell".into(),
                ok,
                fault,
                exit,
                ms,
                text,
                pictures,
                changes,
                links: Vec::new(),
            },
        ]
    }

    #[test]
    fn the_newest_come_first_and_thoughts_are_among_them() {
        let mut outputs = Outputs::default();
        let thought = [Event::Reasoning { text: "one ".into() }, Event::Reasoning { text: "two".into() }];
        call("make", "a\nb").iter().chain(&thought).for_each(|it| outputs.observe(it));
        for event in call("x", "below") {
            outputs.observe(&Event::Under { agent: "explore_1".into(), inner: Box::new(event) });
        }
        outputs.observe(&Event::Text { text: "said".into() });
        let titles: Vec<&str> =
            (0..outputs.count()).filter_map(|at| Some(outputs.newest(at)?.title.as_str())).collect();
        assert_eq!(
            titles,
            ["what the model thought", "explore_1: shell x: exit 1, 1.2 s", "shell make: exit 1, 1.2 s"]
        );
        assert_eq!(outputs.newest(0).map(|it| it.text.as_str()), Some("one two"));
        assert_eq!(outputs.newest(3), None);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut outputs = Outputs::default();
        for at in 0..KEPT + 5 {
            call(&at.to_string(), "x").iter().for_each(|it| outputs.observe(it));
        }
        assert_eq!(outputs.count(), KEPT);
        call("big", &"x".repeat(BYTES)).iter().for_each(|it| outputs.observe(it));
        assert_eq!((outputs.count(), outputs.bytes), (1, BYTES));
    }
}
