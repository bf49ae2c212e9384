//! STL files, as `render_3d` draws them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    haft_fuzz::decode("mesh_draw", r#"{"name": "a.stl", "views": ["iso"], "size": [64, 64]}"#, data);
});
