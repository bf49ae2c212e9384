//! Limits of tool lists: their token budget, and which tools come first.

use kit::Spec;
use runtime::Listing;

use crate::Opened;

/// The default token budget of a tool list over MCP. The client has tools of its own beside these, and prompts that
/// were written for them.
pub(crate) const MCP: usize = 3_000;

/// The bytes of it that haft's own tools take, as a model sees them. The rest is for the person's tools.
const BUILT_IN_MCP: usize = 8_000;

/// The same for haft's own agents. Their tools stand in for those that a client has beside haft's: tools for the web,
/// for questions and for sub-agents.
pub(crate) const AGENT: usize = 4_000;
const BUILT_IN_AGENT: usize = 12_000;

/// The minimum token budget of a person's own tools beside those of another ecosystem.
const BESIDE: usize = 1_000;

/// The number of bytes that count as one token.
pub(crate) const TOKEN: usize = 4;

/// Tools that a client's agent has under its own names: listed last, else found by search.
const AT_HOME: [&str; 2] = ["ask_user", "subagent"];

/// The bytes around a tool in its declaration to a model.
pub(crate) const AROUND: usize = 60;

/// A person's configuration of tool lists.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// The token budget of a list; 0 for no limit.
    pub tokens: Option<usize>,
    /// Tools that are always listed.
    pub pinned: Vec<String>,
}

impl Opened {
    /// Returns the limits of a list for an MCP client.
    pub(crate) fn listing_of_mcp(&self) -> Listing {
        let mut listing = self.listing(MCP, BUILT_IN_MCP, serve::tool_bytes);
        listing.first.retain(|it| !AT_HOME.contains(&it.as_str()));
        listing.last.extend(AT_HOME.map(str::to_owned));
        listing
    }

    /// Returns the limits of a list for a model of haft's own agents.
    pub(crate) fn listing_of_agent(&self) -> Listing {
        self.listing(AGENT, BUILT_IN_AGENT, |spec, schema| spec.bytes_with(schema) + AROUND)
    }

    fn listing(&self, otherwise: usize, built_in: usize, cost: fn(&Spec, usize) -> usize) -> Listing {
        let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let mut pinned = self.listed.pinned.clone();
        let mut least = 0;
        if self.toolset != tools::HAFT {
            // The prompts of another ecosystem count on each of its tools.
            let all = tools::toolset(&self.toolset).into_iter().flatten();
            let is_listed = |it: &std::sync::Arc<dyn kit::AnyTool>| !tools::UNLISTED.contains(&it.name());
            for tool in all.chain(tools::of_agents(&self.toolset)).filter(is_listed) {
                least += cost(tool.spec(), tool.spec().schema_bytes());
                pinned.push(tool.name().to_owned());
            }
            least += BESIDE * TOKEN;
        }
        let bytes = match self.listed.tokens {
            None => Some(least.max(otherwise * TOKEN)),
            Some(0) => None,
            Some(tokens) => Some(tokens.saturating_mul(TOKEN)),
        };
        // A toolset of another ecosystem is listed whole, and a person's own budget is for all tools alike.
        let is_default = self.listed.tokens.is_none() && self.toolset == tools::HAFT;
        Listing {
            bytes,
            built_in: is_default.then_some(built_in),
            pinned,
            first: owned(tools::DAILY),
            last: owned(tools::SELDOM),
            unlisted: owned(tools::UNLISTED),
            cost,
        }
    }
}
