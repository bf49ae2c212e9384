//! Lists the files of the page, so that each is embedded under its name.

use std::{env, fs, path::Path};

fn main() {
    let from = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("page");
    println!("cargo::rerun-if-changed={}", from.display());
    let mut files = Vec::new();
    list(&from, "", &mut files);
    files.sort();
    let rows: String = files
        .iter()
        .map(|name| format!("    ({name:?}, include_bytes!({:?})),\n", from.join(name).display().to_string()))
        .collect();
    let text = format!("/// The files of the page, by their names.\nstatic FILES: &[(&str, &[u8])] = &[\n{rows}];\n");
    let to = Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("page_files.rs");
    if let Err(error) = fs::write(&to, text) {
        println!("cargo::error=the list of the page's files can't be written to {}: {error}", to.display());
    }
}

/// Adds the files below this folder. Those that the page is only checked with are left out.
fn list(folder: &Path, prefix: &str, files: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if name.starts_with('.') || name == "node_modules" {
            continue;
        }
        if path.is_dir() {
            list(&path, &format!("{prefix}{name}/"), files);
        } else if ["html", "js", "css", "svg", "png", "ico", "woff2", "webmanifest"]
            .iter()
            .any(|it| name.ends_with(&format!(".{it}")))
        {
            files.push(format!("{prefix}{name}"));
        }
    }
}
