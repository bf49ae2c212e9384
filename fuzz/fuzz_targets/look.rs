//! Pictures, SVG and pages of PDFs, as `image_view` shows them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    haft_fuzz::decode("look", r#"{"name": "a", "wish": {"page": null, "region": null}}"#, data);
});
