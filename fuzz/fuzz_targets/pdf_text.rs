//! The text of PDFs, as `read` shows it.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    haft_fuzz::decode("pdf_text", r#"{"pages": {"start": 0, "end": 5}}"#, data);
});
