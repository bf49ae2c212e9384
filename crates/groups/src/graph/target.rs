//! Targets: an id, or a name that is unique in the caller's graph.

use super::Topology;

/// Why a target is not a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// The caller is not in the group.
    #[error("you are not in a group")]
    Caller,
    /// There is no such member in the caller's graph.
    #[error("target '{target}' is not an agent of your graph '{graph}'; there are: {there}")]
    Unknown {
        /// The target.
        target: String,
        /// The caller's graph.
        graph: String,
        /// The members of the graph.
        there: String,
    },
    /// Several members have that name.
    #[error("target '{target}' is ambiguous in your graph '{graph}'; candidates: {there}")]
    Ambiguous {
        /// The target.
        target: String,
        /// The caller's graph.
        graph: String,
        /// Their ids.
        there: String,
    },
}

impl Topology {
    /// Returns the id of a target: an exact id first, else a name that is unique in the caller's graph.
    ///
    /// # Errors
    /// When it is unknown there, or ambiguous.
    pub fn resolve(&self, caller: &str, target: &str) -> Result<String, Unresolved> {
        let (id, graph) = self.graph_of(caller).ok_or(Unresolved::Caller)?;
        if graph.members.contains(target) {
            return Ok(target.to_owned());
        }
        let found: Vec<&String> = graph.members.iter().filter(|it| self.name(it) == target).collect();
        let (target, graph_id) = (target.to_owned(), id.clone());
        match found.as_slice() {
            [one] => Ok((*one).clone()),
            [] => {
                let there: Vec<&str> = graph.members.iter().map(|it| self.name(it)).collect();
                Err(Unresolved::Unknown { target, graph: graph_id, there: there.join(", ") })
            }
            several => {
                let there: Vec<&str> = several.iter().map(|it| it.as_str()).collect();
                Err(Unresolved::Ambiguous { target, graph: graph_id, there: there.join(", ") })
            }
        }
    }
}
