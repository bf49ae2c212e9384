//! Which tools does the model's provider run itself?
//!
//! They are registered as any tool, so that a list of allowed tools can name them, and `info` knows them. A session
//! shows those that the model in use has, and the wire format declares them in the provider's own words. Nobody runs
//! them here: a model that calls one as if it were a function is told so.

use std::sync::Arc;

use kit::{AnyTool, Fault, Kind, Kinds, Mode, Origin, Prepared, Spec};
use runtime::Session;
use serde_json::{Value, json};

use crate::model::{Abilities, OwnTool};

/// All of them, for a registry.
pub fn all() -> Vec<Arc<dyn AnyTool>> {
    [OwnTool::ImageGen, OwnTool::WebSearch].map(|it| Arc::new(Declared::of(it)) as Arc<dyn AnyTool>).to_vec()
}

/// From now on the session shows those that a model with these abilities has, and no others. Says whether that is new.
pub fn offer(session: &Session, abilities: &Abilities) -> bool {
    session.provider_runs(abilities.own_tools.iter().map(|it| it.name()))
}

/// A tool that is declared, and never run here.
struct Declared {
    spec: Spec,
    instead: &'static str,
}

impl Declared {
    fn of(tool: OwnTool) -> Self {
        let (description, instead) = match tool {
            OwnTool::ImageGen => (
                "Draws a picture, or changes one you were shown. Run by the model's provider.",
                "Say what the picture is to show, and it is drawn while you answer; or draw with another tool, such as a program that writes an SVG file.",
            ),
            OwnTool::WebSearch => (
                "Searches the web. Run by the model's provider.",
                "Say what you want to find out, and it is searched for while you answer; or go on without it.",
            ),
        };
        let spec = Spec {
            name: tool.name().to_owned(),
            description: description.to_owned(),
            schema: json!({"type": "object", "properties": {}}),
            mode: Mode::Direct,
            at_most: Kinds::NONE,
            origin: Origin::Provider,
        };
        Self { spec, instead }
    }
}

impl AnyTool for Declared {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn prepare(&self, _: Value) -> Result<Box<dyn Prepared>, Fault> {
        let what =
            format!("`{}` is run by the model's provider, and can't be called as a function", self.spec.name);
        Err(Fault::new(Kind::Unavailable, what).next(self.instead))
    }
}
