//! The cost of a prompt: estimates the tokens of each section and tool.

use kit::Spec;
use serde::Serialize;

use super::Prompt;

/// The estimated cost of a prompt and its tools: four bytes are about a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bill {
    /// The sections of the prompt.
    pub sections: Vec<Cost>,
    /// The tools, each with its description and schema, as they are declared beside the prompt.
    pub tools: Vec<Cost>,
    /// The total.
    pub total: Cost,
}

/// The cost of one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// The part.
    pub name: String,
    /// Its size in bytes.
    pub bytes: usize,
    /// Its approximate number of tokens.
    pub tokens: usize,
}

impl Bill {
    pub(super) fn of<'a>(prompt: &Prompt, tools: impl IntoIterator<Item = &'a Spec>) -> Self {
        let sections: Vec<Cost> = prompt.sections.iter().map(|it| Cost::of(it.name, it.text.len())).collect();
        let tools: Vec<Cost> = tools.into_iter().map(|it| Cost::of(&it.name, it.bytes())).collect();
        let between = 2 * sections.len().saturating_sub(1);
        let bytes = sections.iter().chain(&tools).map(|it| it.bytes).sum::<usize>() + between;
        Self { sections, tools, total: Cost::of("total", bytes) }
    }

    /// Returns a table with one line for each part, the most expensive tools first.
    pub fn as_text(&self) -> String {
        let mut tools: Vec<&Cost> = self.tools.iter().collect();
        tools.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.name.cmp(&other.name)));
        let of_tools = Cost::of("tools, as they are declared", self.tools.iter().map(|it| it.bytes).sum());
        let mut text = " bytes  tokens\n".to_owned();
        let mut add = |it: &Cost, indent: &str| {
            text.push_str(&format!("{:>6}  {:>6}  {indent}{}\n", it.bytes, it.tokens, it.name));
        };
        self.sections.iter().for_each(|it| add(it, ""));
        if !tools.is_empty() {
            add(&of_tools, "");
            tools.iter().for_each(|it| add(it, "  "));
        }
        add(&self.total, "");
        text
    }
}

impl Cost {
    fn of(name: &str, bytes: usize) -> Self {
        Self { name: name.to_owned(), bytes, tokens: bytes.div_ceil(4) }
    }
}
