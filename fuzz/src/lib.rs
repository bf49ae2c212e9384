//! A run of one decoder, as its worker runs it: shared by all fuzz targets.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};

use kit::Kind;

/// Decodes `data` with the decoder `name`. A panic is caught, as the worker does; targets search for input that aborts the
/// process, exhausts its memory or never ends.
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
