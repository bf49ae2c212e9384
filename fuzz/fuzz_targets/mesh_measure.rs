//! STL files, as `model_3d` measures them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    haft_fuzz::decode("mesh_measure", r#"{"name": "a.stl"}"#, data);
});
