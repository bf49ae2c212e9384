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

    /// How the result comes back.
    const MODE: Mode = Mode::Direct;

    /// Whether only an agent in plan mode has this tool.
    const ONLY_IN_PLAN_MODE: bool = false;

    /// The most that any call of this tool touches. Annotations for clients are
    /// derived from it, and a call whose [`touches`](Self::touches) go beyond it
    /// is refused as a bug of the tool.
    const AT_MOST: Kinds = Kinds::ALL;

    /// Which of haft's own tools it stands for, if it belongs to a toolset with other names: so that texts which name
    /// those name this one.
    const STANDS_FOR: &'static [StandsFor] = &[];

    /// What this call would touch. Approval, locks, sandbox and journal are all
    /// derived from the answer, so err on the side of more. Paths are given as
    /// the model wrote them; the runtime resolves them.
    fn touches(&self) -> Touches;

    /// The same for a tool whose arguments name places by names of the person's own, such as a host of their
    /// `~/.ssh/config`: rules and person decide about where those lead. Asked once, before the call.
    fn touches_with(&self, _preferences: &Preferences) -> Touches {
        self.touches()
    }

    /// Who chose the address at which this call looks, where it touches a [`Touch::Web`](crate::Touch::Web). A model that
    /// was misled can put what it read into an address, so a composed one is asked about.
    fn address(&self) -> Address {
        Address::Composed
    }

    /// How long this call says that it may take, where that is longer than most: a command with
    /// a time of its own, a wait. The runtime's deadline lets it have that long, within its limits.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// What a person calls this call, in a list of jobs: its command, say. At most one line.
    fn title(&self) -> String {
        String::new()
    }

    /// Does the work. The model reads both `Ok` and `Err`.
    ///
    /// # Errors
    /// A [`Fault`] in words the model can act on. A command that ran and failed is
    /// an [`Output`] with its exit code.
    fn run(self, cx: &Cx) -> impl Future<Output = Result<Output, Fault>> + Send;
}
