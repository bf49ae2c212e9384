//! How is a tool in a Python file called?

use std::sync::Arc;

use kit::{AnyTool, Fault, Kind, Kinds, Mode, Origin, Prepared, Spec};
use serde_json::Value;

use super::{Described, Section, Version};

/// A tool in one version of a Python file.
pub(crate) struct PythonTool {
    spec: Spec,
    version: Arc<Version>,
    described: Described,
    section: Section,
}

impl PythonTool {
    /// What this version says is in it, with what a person granted to it.
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

impl AnyTool for PythonTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn prepare(&self, _arguments: Value) -> Result<Box<dyn Prepared>, Fault> {
        let (entry, net) = (&self.described.entry, &self.section.net);
        Err(Fault::new(Kind::Unavailable, format!("{entry} {net:?} {}", self.version.path.display())))
    }
}
