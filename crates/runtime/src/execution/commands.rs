//! Settings that all commands of a runtime are started with.

use std::path::PathBuf;

use kit::decoders::Decoders;
use sandbox::limits::Limits;

use crate::config::LimitsSection;

/// What commands are started with.
#[derive(Debug, Clone)]
pub struct Commands {
    /// Our own binary, which is started as the keeper with [`KEEPER`](sandbox::KEEPER) as its first argument; the program that
    /// runs, if this is not given. It has to call [`keep`](sandbox::keep) then.
    pub keeper: Option<PathBuf>,
    /// Whether foreign bytes are decoded in this process, without isolation: for tests, whose program is not a worker.
    pub decodes_here: bool,
    /// haft's own environment.
    pub variables: Vec<(String, String)>,
    /// The names of variables that commands get besides the short list.
    pub env: Vec<String>,
    /// The parts of the sandbox that a person agreed to do without, where the machine does not have them.
    pub accept_weaker: Vec<String>,
    /// Whether commands may make sockets that are named by a path.
    pub unix_sockets: bool,
    /// What commands may use of the machine.
    pub limits: Limits,
    /// How many bytes of outputs a session keeps that were too long to show.
    pub kept_outputs: u64,
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
        }
    }
}

impl Commands {
    /// The program that is started as keeper and as decoder.
    pub(super) fn program(&self) -> PathBuf {
        // What the link leads to may be deleted or replaced by an update; the link still is this very program.
        self.keeper.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
    }

    /// Where foreign bytes are decoded.
    pub(crate) fn decoders(&self) -> Decoders {
        if self.decodes_here { Decoders::here() } else { Decoders::apart(&self.program()) }
    }
}
