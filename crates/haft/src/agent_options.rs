//! Agent options: the options of every verb that is an agent.

use clap::Args;

/// The heading of these options in the help of a verb.
const MODEL_AND_LIMITS: &str = "Model and limits";

/// Options of every verb that is an agent.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AgentOptions {
    /// Model: `PROVIDER:MODEL`, `URL#MODEL`, `script:FILE`, or the NAME of a section `[models.NAME]` [default: `model` of
    /// `[agent]` in haft.toml, else $HAFT_MODEL]
    #[arg(help_heading = MODEL_AND_LIMITS, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Profile to start with: `.haft/agents/NAME.md`, or one of haft's own
    #[arg(help_heading = MODEL_AND_LIMITS, long, value_name = "NAME", conflicts_with = "plan")]
    pub(crate) profile: Option<String>,
    /// Plan only: the model reads and asks, and changes nothing
    #[arg(help_heading = MODEL_AND_LIMITS, long)]
    pub(crate) plan: bool,
    /// How the model writes tool calls: native, json, bracket, xml, hermes, tool_use [default: what is known of the model]
    #[arg(help_heading = MODEL_AND_LIMITS, long, value_name = "NAME")]
    pub(crate) dialect: Option<String>,
    /// Maximum model responses per turn
    #[arg(help_heading = MODEL_AND_LIMITS, long, value_name = "N", value_parser = one_or_more::<usize>)]
    pub(crate) max_steps: Option<usize>,
    /// Time limit of a turn, in seconds
    #[arg(help_heading = MODEL_AND_LIMITS, long, value_name = "N", value_parser = one_or_more::<u64>)]
    pub(crate) max_seconds: Option<u64>,
    /// Token limit of a turn, requests and responses together
    #[arg(help_heading = MODEL_AND_LIMITS, long, value_name = "N", value_parser = one_or_more::<u64>)]
    pub(crate) max_tokens: Option<u64>,
}

/// Parses a limit. clap's own range would print the greatest number that fits.
fn one_or_more<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let number = text.parse::<u64>().ok().filter(|it| *it > 0).and_then(|it| N::try_from(it).ok());
    number.ok_or_else(|| "it must be a whole number, 1 or more".to_owned())
}

impl AgentOptions {
    /// Returns these options as command-line arguments.
    pub(crate) fn as_arguments(&self) -> Vec<String> {
        let pairs = [
            ("--model", self.model.clone()),
            ("--profile", self.profile.clone()),
            ("--dialect", self.dialect.clone()),
            ("--max-steps", self.max_steps.map(|it| it.to_string())),
            ("--max-seconds", self.max_seconds.map(|it| it.to_string())),
            ("--max-tokens", self.max_tokens.map(|it| it.to_string())),
        ];
        let named = pairs.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        named.flatten().chain(self.plan.then(|| "--plan".to_owned())).collect()
    }
}
