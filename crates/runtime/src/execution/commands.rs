//! Settings for all commands of a runtime.

use std::path::PathBuf;

use kit::decoders::Decoders;
use sandbox::{limits::Limits, tracker::Bounds};

use crate::config::{AskLimits, LimitsSection};

/// The settings with which commands are started.
#[derive(Debug, Clone)]
pub struct Commands {
    /// haft's own binary, which is started as the keeper with [`KEEPER`](sandbox::KEEPER) as its first
    /// argument; the running program, if it is not set. That program has to call [`keep`](sandbox::keep)
    /// then.
    pub keeper: Option<PathBuf>,
    /// Whether untrusted bytes are decoded in this process, without isolation: for tests, whose program is
    /// not a worker.
    pub decodes_here: bool,
    /// haft's own environment.
    pub variables: Vec<(String, String)>,
    /// The names of variables that commands get besides the short list.
    pub env: Vec<String>,
    /// The parts of the sandbox that a person agreed to do without on machines that lack them.
    pub accept_weaker: Vec<String>,
    /// Whether commands may create Unix sockets that have a path.
    pub unix_sockets: bool,
    /// The resource limits of commands.
    pub limits: Limits,
    /// Limit of a session's outputs that were too long to show, in bytes.
    pub kept_outputs: u64,
    /// The limits above which a person is asked about what a command deleted.
    pub ask: AskLimits,
    /// The limits of what is kept of the files that commands change.
    pub kept_for_undo: Bounds,
    /// Files that commands may overwrite unasked though no copy can be kept, as patterns of `.gitignore`.
    pub overwrite: Vec<String>,
}

impl Default for Commands {
    fn default() -> Self {
        Self {
            keeper: None,
            decodes_here: false,
            variables: Vec::new(),
            env: Vec::new(),
            accept_weaker: Vec::new(),
            unix_sockets: false,
            limits: Limits::default(),
            kept_outputs: LimitsSection::default().outputs(),
            ask: AskLimits::default(),
            kept_for_undo: Bounds::default(),
            overwrite: Vec::new(),
        }
    }
}

impl Commands {
    /// Returns the program that is started as keeper and as decoder.
    pub(super) fn program(&self) -> PathBuf {
        // An update may delete or replace the link's target; the link itself still leads to the running
        // program.
        self.keeper.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
    }

    /// Returns the decoders of untrusted bytes.
    pub(crate) fn decoders(&self) -> Decoders {
        if self.decodes_here { Decoders::here() } else { Decoders::apart(&self.program()) }
    }
}
