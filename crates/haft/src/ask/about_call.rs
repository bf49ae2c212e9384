//! A call that a person is asked about, wherever it runs.

use agent::Change;
use kit::effect::Effect;
use policy::grants;
use runtime::Request;
use sessions::Approval;

/// What a question about a call shows.
#[derive(Debug, Clone)]
pub(crate) struct AboutCall {
    /// The call's id, where it is known.
    pub(crate) call: Option<String>,
    /// The sub-agent that asks.
    pub(crate) agent: Option<String>,
    pub(crate) tool: String,
    /// The name of the rule by which it is asked about.
    pub(crate) rule: String,
    /// What the rule is about: a path, a command.
    pub(crate) about: String,
    /// What the rule says.
    pub(crate) says: String,
    /// The arguments, as they came.
    pub(crate) arguments: String,
    /// What the call would touch, one line each.
    pub(crate) effects: Vec<String>,
    /// The changes of files that would land.
    pub(crate) changes: Vec<Change>,
    /// What would be kept if it is allowed for longer.
    pub(crate) offers: Vec<Effect>,
}

impl From<Request> for AboutCall {
    fn from(request: Request) -> Self {
        let Request { call, agent, tool, rule, arguments, effects, changes, offers } = request;
        let (name, about, says) = (rule.name.to_owned(), rule.about, rule.says);
        Self { call, agent, tool, rule: name, about, says, arguments, effects, changes, offers }
    }
}

impl From<Approval> for AboutCall {
    fn from(approval: Approval) -> Self {
        let Approval { call, agent, tool, rule, about, says, arguments, effects, changes, offers, .. } =
            approval;
        // What this version can't read is not offered: the call can still be allowed once.
        let offers = offers.iter().map(|it| grants::parse(it)).collect::<Result<_, _>>().unwrap_or_default();
        Self { call, agent, tool, rule, about, says, arguments, effects, changes, offers }
    }
}
