//! A call that needs a person's approval, in this process or in another.

use agent::Change;
use kit::effect::Effect;
use policy::grants;
use runtime::Request;
use sessions::Approval;

/// The content of a question about a call.
#[derive(Debug, Clone)]
pub(crate) struct AboutCall {
    /// The call's id, if known.
    pub(crate) call: Option<String>,
    /// The sub-agent that asks.
    pub(crate) agent: Option<String>,
    pub(crate) tool: String,
    /// The name of the rule that requires approval.
    pub(crate) rule: String,
    /// The subject of the rule: a path, a command.
    pub(crate) about: String,
    /// The text of the rule.
    pub(crate) says: String,
    /// The arguments, as received.
    pub(crate) arguments: String,
    /// The effects that the call would have, one line each.
    pub(crate) effects: Vec<String>,
    /// The file changes that would be applied.
    pub(crate) changes: Vec<Change>,
    /// The grants that would be saved if the person allows it for longer.
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
        // A grant that this version can't parse is not offered: the call can still be allowed once.
        let offers = offers.iter().map(|it| grants::parse(it)).collect::<Result<_, _>>().unwrap_or_default();
        Self { call, agent, tool, rule, about, says, arguments, effects, changes, offers }
    }
}
