//! What the fuzz targets share: a decoder is run as its worker runs it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};

use kit::Kind;

/// Decodes with this decoder. A panic is a fault of its worker, so it is none here either: what is looked for is what ends
/// a process, takes its memory, or never ends.
pub fn decode(name: &str, options: &str, data: &[u8]) {
    static QUIET: Once = Once::new();
    // The fuzzer's own hook would end the process.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let entry = tools::DECODERS.iter().chain(agent::DECODERS).find(|it| it.name() == name);
    let Some(entry) = entry else { std::process::abort() };
    let done = catch_unwind(AssertUnwindSafe(|| entry.decode(options.as_bytes(), data.to_vec())));
    // A target whose options are none would test nothing.
    if let Ok(Err(fault)) = done
        && fault.kind == Kind::Bug
    {
        eprintln!("{fault}");
        std::process::abort();
    }
}
