//! The decoder worker of this program: which decoders it has, and that it is confined.

use std::process::ExitCode;

use kit::decoders::Entry;

/// Runs this process as a decoder worker.
pub(crate) fn decode() -> ExitCode {
    let all = tools::DECODERS.iter().chain(agent::DECODERS).copied();
    #[cfg(target_os = "linux")]
    {
        use sandbox::decoding::{self, Escape};

        let all: Vec<Entry> = all.chain([Entry::of::<Escape>()]).collect();
        // It lives as long as the process.
        decoding::decode(all.leak())
    }
    #[cfg(not(target_os = "linux"))]
    {
        use kit::decoders::{Confinement, serve};

        let missing = || Err("decoders are confined on Linux only".to_owned());
        let all: Vec<Entry> = all.collect();
        serve(all.leak(), &Confinement { files: missing, calls: || Ok(()) })
    }
}
