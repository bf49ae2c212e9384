//! A search engine's page of results.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    haft_fuzz::decode("web_results", r#"{"status": 200}"#, data);
});
