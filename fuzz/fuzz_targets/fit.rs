//! Pictures for a model: attached ones, and those of MCP servers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    haft_fuzz::decode("fit", r#"{"claimed": "image/png"}"#, data);
});
