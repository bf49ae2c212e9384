//! Limits of tool lists: their token budget, and what comes first.

use kit::Spec;
use runtime::Listing;

use crate::Opened;

/// What a list of tools costs at most over MCP, in tokens, where the person says nothing else. The client has tools of
/// its own beside these, and prompts that were written for them.
pub(crate) const MCP: usize = 3_000;

/// The same for haft's own agents: all of haft's tools, and some more.
pub(crate) const AGENT: usize = 8_000;

/// What a person's own tools may cost beside those of another ecosystem, at least, in tokens.
const BESIDE: usize = 1_000;

/// So many bytes are about a token.
pub(crate) const TOKEN: usize = 4;

/// What a client's agent has of its own, and lists itself: these are found.
const AT_HOME: [&str; 2] = ["ask_user", "subagent"];

/// What is around a tool where it is declared to a model.
const AROUND: usize = 60;

/// What a person decided about lists of tools.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// What one costs at most, in tokens; 0 for no bound.
    pub tokens: Option<usize>,
    /// Tools that are always listed.
    pub pinned: Vec<String>,
}

impl Opened {
    /// How tools are listed to an MCP client.
    pub(crate) fn listing_of_mcp(&self) -> Listing {
        let mut listing = self.listing(MCP, serve::tool_bytes);
        listing.first.retain(|it| !AT_HOME.contains(&it.as_str()));
        listing.last.extend(AT_HOME.map(str::to_owned));
        listing
    }

    /// How tools are listed to a model of haft's own agents.
    pub(crate) fn listing_of_agent(&self) -> Listing {
        self.listing(AGENT, |spec| spec.bytes() + AROUND)
    }

    fn listing(&self, otherwise: usize, cost: fn(&Spec) -> usize) -> Listing {
        let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let mut pinned = self.listed.pinned.clone();
        let mut least = 0;
        if self.toolset != tools::HAFT {
            // Whoever asks for the tools of another ecosystem has prompts that count on each of them.
            let all = tools::toolset(&self.toolset).into_iter().flatten();
            for tool in all.chain(tools::of_agents(&self.toolset)) {
                least += cost(tool.spec());
                pinned.push(tool.spec().name.clone());
            }
            least += BESIDE * TOKEN;
        }
        let bytes = match self.listed.tokens {
            None => Some(least.max(otherwise * TOKEN)),
            Some(0) => None,
            Some(tokens) => Some(tokens.saturating_mul(TOKEN)),
        };
        Listing { bytes, pinned, first: owned(tools::DAILY), last: owned(tools::SELDOM), cost }
    }
}
