//! Which tools is a model shown?

use kit::Spec;

/// The tools that one session shows, in a stable order.
#[derive(Clone, Default)]
pub struct Catalog {
    specs: Vec<Spec>,
}

impl Catalog {
    /// The tools' specs, in the order in which they are shown.
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.specs.iter()
    }

    /// Is there a tool of this name?
    pub fn has(&self, name: &str) -> bool {
        self.specs.iter().any(|spec| spec.name == name)
    }
}
