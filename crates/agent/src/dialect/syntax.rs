//! Syntax of a dialect: the operations that both ways of writing calls share.

use std::{fmt::Write as _, sync::Arc};

use kit::{Origin, Spec};
use serde_json::{Map, Value};

use super::{
    parse::{Opening, Verdict},
    schema::{self, Fields},
    tagged::Tagged,
    wrapped::{Quotes, Wrapped},
};
use crate::model::{Piece, ResultOf};

/// The syntax of the calls of one request.
pub(super) struct Syntax {
    pub(super) manner: Manner,
    pub(super) tools: Vec<Known>,
}

/// The two ways to write a call.
pub(super) enum Manner {
    /// An object between two fixed tags.
    Wrapped(Wrapped),
    /// A block whose tags are the tool's name.
    Tagged(Tagged),
}

/// A tool that can be called.
pub(super) struct Known {
    pub(super) name: String,
    description: String,
    pub(super) fields: Fields,
    /// The argument that a block's body stands for.
    pub(super) body: Option<String>,
}

impl Syntax {
    pub(super) fn new(manner: Manner, specs: &[Spec]) -> Self {
        let ours = specs.iter().filter(|it| it.origin != Origin::Provider);
        let tools = ours.map(|spec| Known {
            name: spec.name.clone(),
            description: spec.description.clone(),
            fields: Fields::of(&spec.schema),
            body: manner.body_of(spec),
        });
        Self { tools: tools.collect(), manner }
    }

    pub(super) fn tool(&self, name: &str) -> Option<&Known> {
        self.tools.iter().find(|it| it.name == name)
    }

    /// Returns the opening tag that may begin with this character.
    pub(super) fn begins(&self, c: char) -> Option<Opening> {
        match &self.manner {
            Manner::Wrapped(it) => it.begins(c),
            Manner::Tagged(it) => it.begins(c).map(Opening::Named),
        }
    }

    /// Adds the next character to an opening tag.
    pub(super) fn opens(&self, opening: &mut Opening, c: char) -> Verdict {
        match (&self.manner, opening) {
            (Manner::Wrapped(it), Opening::Fixed(seen)) => it.opens(seen, c),
            (Manner::Tagged(it), Opening::Named(tag)) => tag.push(c, it, &self.tools),
            (Manner::Wrapped(_), Opening::Named(_)) | (Manner::Tagged(_), Opening::Fixed(_)) => Verdict::No,
        }
    }

    pub(super) fn close(&self, opening: &Opening) -> String {
        match (&self.manner, opening) {
            (Manner::Tagged(it), Opening::Named(tag)) => it.format.close(&tag.name),
            (Manner::Wrapped(it), _) => it.close.to_owned(),
            (Manner::Tagged(_), Opening::Fixed(_)) => String::new(),
        }
    }

    pub(super) fn quotes(&self) -> Quotes {
        match &self.manner {
            Manner::Wrapped(it) => it.quotes(),
            Manner::Tagged(_) => Quotes::ignored(),
        }
    }

    /// Returns the tool's name, as soon as the beginning of a body contains it.
    pub(super) fn named(&self, body: &str) -> Option<String> {
        match &self.manner {
            Manner::Wrapped(it) => it.named(body).map(str::to_owned),
            Manner::Tagged(_) => None,
        }
    }

    /// Returns the call in a block: the tool, and its arguments as JSON.
    pub(super) fn call(&self, opening: &Opening, body: Option<&str>) -> Option<(String, String)> {
        match (&self.manner, opening) {
            (Manner::Wrapped(it), _) => it.call(body?),
            (Manner::Tagged(it), Opening::Named(tag)) => {
                let tool = self.tool(&tag.name)?;
                Some((tool.name.clone(), it.arguments(tool, tag, body).to_string()))
            }
            (Manner::Tagged(_), Opening::Fixed(_)) => None,
        }
    }

    /// Returns whether a call begins here that the length limit cut off.
    pub(super) fn is_cut(&self, body: &str) -> bool {
        match &self.manner {
            Manner::Wrapped(it) => it.is_cut(body),
            Manner::Tagged(_) => false,
        }
    }

    /// Returns a call as the model would have written it.
    pub(super) fn write(&self, tool: &str, arguments: &str) -> String {
        let read: Option<Map<String, Value>> = serde_json::from_str(arguments).ok();
        match &self.manner {
            Manner::Wrapped(it) => it.write(tool, read, arguments),
            Manner::Tagged(it) => it.write(tool, self.tool(tool), read, arguments),
        }
    }

    /// Returns the result of a call with these arguments, as the model gets it.
    pub(super) fn result(&self, result: &ResultOf, arguments: &str) -> String {
        let text = Piece::lines(&result.pieces);
        match &self.manner {
            Manner::Wrapped(it) => it.result(result, arguments, &text),
            Manner::Tagged(_) => {
                let ResultOf { id, tool, ok, .. } = result;
                let state = if *ok { "OK" } else { "ERROR" };
                format!("## {id} {tool} - {state}\n{text}")
            }
        }
    }

    /// Returns the instructions on calls; the same tools give the same text.
    pub(super) fn words(&self, most: usize) -> String {
        let mut text = "# Tools\n\nYou call a tool by writing in your answer:\n\n".to_owned();
        text.push_str(&self.example());
        text.push_str("\n\n");
        text.push_str(&match &self.manner {
            Manner::Wrapped(it) => it.words(),
            Manner::Tagged(it) => it.words(),
        });
        text.push_str(&match most {
            1 => "- One call per answer: only the first is run. End your answer after it: its result is in the next message.\n"
                .to_owned(),
            most => {
                let many = if most == usize::MAX { "Several".to_owned() } else { format!("Up to {most}") };
                format!(
                    "- {many} calls may stand in one answer; they run at once. End your answer after them: their results are in the next message.\n"
                )
            }
        });
        text.push_str("- A call in a ``` fence or in `code` is only shown, never run.\n\nThe tools:\n");
        for tool in &self.tools {
            let _ = write!(text, "\n## {}\n{}\n", tool.name, tool.description);
            for field in &tool.fields.0 {
                let body = if tool.body.as_ref() == Some(&field.name) { ", body" } else { "" };
                let optional = if field.required { "" } else { ", optional" };
                let about = if field.about.is_empty() { "" } else { ": " };
                let _ = writeln!(
                    text,
                    "- {} ({}{optional}{body}){about}{}",
                    field.name, field.shape, field.about
                );
            }
        }
        text
    }

    /// Returns an example call: of the first tool that requires only texts.
    fn example(&self) -> String {
        let plain = |it: &&Known| {
            let mut needed = it.fields.0.iter().filter(|it| it.required).peekable();
            needed.peek().is_some() && needed.all(|it| it.shape == "string")
        };
        let Some(tool) = self.tools.iter().find(plain).or(self.tools.first()) else { return String::new() };
        let needed = tool.fields.0.iter().filter(|it| it.required);
        let arguments: Map<String, Value> = needed.map(|it| (it.name.clone(), schema::example(it))).collect();
        self.write(&tool.name, &Value::Object(arguments).to_string())
    }
}

impl Manner {
    fn body_of(&self, spec: &Spec) -> Option<String> {
        match self {
            Self::Wrapped(_) => None,
            Self::Tagged(it) => it.body_of(spec),
        }
    }
}

/// Creates the syntax of one request.
pub(super) fn of(manner: Manner, specs: &[Spec]) -> Arc<Syntax> {
    Arc::new(Syntax::new(manner, specs))
}
