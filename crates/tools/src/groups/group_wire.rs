//! `group_wire`: adds and removes output wires of the group.

use kit::{
    prelude::*,
    services::{GroupAct, WireChange},
};

use super::{GROUP, answer, optional, required};

/// Add or remove an output wire: at the end of each of its turns, an agent's text goes to another one. Not for channels
/// [?: that is `tool:group_channel`?].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupWire {
    /// The action.
    action: Action,
    /// Agent that gets the text.
    to: Option<String>,
    /// Agent whose text it is. Default: you.
    from: Option<String>,
    /// Whether the text goes along, or only a signal.
    #[serde(default = "yes")]
    with_content: bool,
    /// Template of the message; variables are source, target, content, turn_index, source_event_type and with_content.
    prompt: Option<String>,
    /// Whether the template has `{content}` (simple) or is jinja.
    #[serde(default)]
    prompt_format: Format,
    /// Whether a wire of an agent to itself counts.
    #[serde(default)]
    allow_self_trigger: bool,
    /// Id of the wire to remove.
    edge_id: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Add,
    Remove,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    #[default]
    Simple,
    Jinja,
}

fn yes() -> bool {
    true
}

impl Tool for GroupWire {
    const NAME: &str = "group_wire";
    const AT_MOST: Kinds = Kinds::SESSION;
    const ONLY_AMONG_AGENTS: bool = true;

    fn touches(&self) -> Touches {
        Touches::session(GROUP)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let change = match self.action {
            Action::Add => WireChange::Add {
                to: required("to", self.to.as_deref().unwrap_or_default())?,
                with_content: self.with_content,
                prompt: optional(self.prompt),
                is_jinja: self.prompt_format == Format::Jinja,
                allow_self_trigger: self.allow_self_trigger,
            },
            Action::Remove => {
                WireChange::Remove { edge: required("edge_id", self.edge_id.as_deref().unwrap_or_default())? }
            }
        };
        answer(cx, GroupAct::Wire { from: optional(self.from), change }).await
    }
}
