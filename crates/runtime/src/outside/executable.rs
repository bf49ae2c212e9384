//! How is a program that says what it is called as a tool?

use std::sync::Arc;

use kit::{AnyTool, Fault, Kind, Kinds, Mode, Origin, Prepared, Spec};
use serde_json::Value;

use super::{Described, Section, Version};
use crate::ground::Ground;

/// A program that is a tool.
pub(crate) struct ExecutableTool {
    spec: Spec,
    version: Arc<Version>,
    described: Described,
    section: Section,
}

impl ExecutableTool {
    /// What this program said that it is, with what a person granted to it.
    pub(crate) fn new(version: Arc<Version>, described: Described, section: Section) -> Self {
        let spec = Spec {
            name: described.name.clone(),
            description: described.description.clone(),
            schema: described.schema.clone(),
            mode: Mode::Direct,
            at_most: Kinds::ALL,
            origin: Origin::File(version.path.clone()),
        };
        Self { spec, version, described, section }
    }
}

impl AnyTool for ExecutableTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn prepare(&self, _arguments: Value) -> Result<Box<dyn Prepared>, Fault> {
        let (entry, net) = (&self.described.entry, &self.section.net);
        Err(Fault::new(Kind::Unavailable, format!("{entry} {net:?} {}", self.version.path.display())))
    }
}

/// What a program says that it is, or why it says nothing: by `--tool`, or the `tool.toml` that this version is.
pub(crate) async fn describe(_ground: &Ground, version: &Version) -> Result<Vec<Described>, String> {
    Err(format!("{} can't be asked yet", version.path.display()))
}
