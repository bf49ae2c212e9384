//! The tool contract.

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{Address, Cx, Fault, Kinds, Mode, Output, Preferences, Touches, references::StandsFor};

/// A tool is a struct the model fills in.
///
/// The struct's doc comment is the description the model reads, its fields are
/// the arguments, and their doc comments are the argument descriptions.
///
/// Deadlines, cancellation, bounds on output, panics and the journal are not
/// here: the runtime owns them for every tool alike.
pub trait Tool: DeserializeOwned + JsonSchema + Send + 'static {
    /// The name the model calls: `snake_case`, a verb where one exists.
    const NAME: &'static str;

    /// Whether its result comes within the turn or later.
    const MODE: Mode = Mode::Direct;

    /// Whether only an agent in plan mode has this tool.
    const ONLY_IN_PLAN_MODE: bool = false;

    /// Whether only an agent has this tool that can send to others: a member of a group, an agent that another one started, or
    /// one that may start some.
    const ONLY_AMONG_AGENTS: bool = false;

    /// The most that any call of this tool may touch. Annotations for clients are derived from it, and a call
    /// whose [`touches`](Self::touches) go beyond it is refused as a bug of the tool.
    const AT_MOST: Kinds = Kinds::ALL;

    /// The built-in tools whose place it takes, if it belongs to a toolset with other names: texts that refer
    /// to those then name this one.
    const STANDS_FOR: &'static [StandsFor] = &[];

    /// Returns what this call would touch. Approval, locks, sandbox and journal are all derived from it, so
    /// err on the side of more. Paths are given as the model wrote them; the runtime resolves them.
    fn touches(&self) -> Touches;

    /// Like [`touches`](Self::touches), for a tool whose arguments contain names that the person configured,
    /// such as a host of their `~/.ssh/config`: rules and person decide about the resolved target. Called
    /// once, before the call.
    fn touches_with(&self, _preferences: &Preferences) -> Touches {
        self.touches()
    }

    /// Returns who chose the address that this call reads, if it touches a [`Touch::Web`](crate::Touch::Web).
    /// After a prompt injection a model can put what it read into an address, so a composed one needs
    /// approval.
    fn address(&self) -> Address {
        Address::Composed
    }

    /// Returns the time limit of this call, if it is longer than most: a command with a time of its own, a
    /// wait. The runtime's deadline allows that, within its limits.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns the name of a process of the session in which calls with this name run: it is not known which of two
    /// calls at once made a change there, so they take turns.
    fn shared_process(&self) -> Option<&'static str> {
        None
    }

    /// Returns the call's title for people, in a list of jobs: its command, say. At most one line.
    fn title(&self) -> String {
        String::new()
    }

    /// Runs the call. The model reads both `Ok` and `Err`.
    ///
    /// # Errors
    /// A [`Fault`] in words the model can act on. A command that ran and failed is an [`Output`] with its exit code.
    fn run(self, cx: &Cx) -> impl Future<Output = Result<Output, Fault>> + Send;
}
