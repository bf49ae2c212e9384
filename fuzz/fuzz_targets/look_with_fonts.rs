//! SVG with text, drawn with the fonts of this machine.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    haft_fuzz::decode("look_with_fonts", r#"{"name": "a", "wish": {"page": null, "region": null}}"#, data);
});
