//! ARCHITECTURE.md and the source: every module it names is there, and every top-level module of a crate is named.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::page::REPOSITORY;

/// The crates that the page explains, in which it explains every module.
const CRATES: [&str; 11] =
    ["kit", "sandbox", "store", "policy", "runtime", "tools", "agent", "sessions", "haft", "serve", "web"];

#[test]
fn the_architecture_names_the_modules_that_are_there() {
    let page = fs::read_to_string(Path::new(REPOSITORY).join("ARCHITECTURE.md")).unwrap();
    let source = |name: &str| Path::new(REPOSITORY).join("crates").join(name).join("src");
    // A section may mention a module of another crate.
    let there: Vec<PathBuf> = CRATES.iter().flat_map(|name| files(&source(name))).collect();
    for name in CRATES {
        let (source, named) = (source(name), named(&page, name));
        for module in &named {
            let is_there = there.iter().any(|it| it.ends_with(module.trim_end_matches('/')));
            assert!(is_there, "ARCHITECTURE.md names `{module}` beside {name}, which is not there");
        }
        for entry in fs::read_dir(&source).unwrap() {
            let entry = entry.unwrap();
            let module = entry.file_name().into_string().unwrap();
            // Data is beside the module that reads it.
            if !module.ends_with(".rs") && !entry.file_type().unwrap().is_dir() {
                continue;
            }
            let stem = module.trim_end_matches(".rs");
            let is_named = ["lib", "main", "bin"].contains(&stem)
                || named.iter().any(|it| it.trim_end_matches('/').trim_end_matches(".rs") == stem);
            assert!(is_named, "ARCHITECTURE.md does not name `{module}` of {name}");
        }
    }
}

/// Returns the modules that the sections of a crate name: `` `files/` ``, `` `tool.rs` ``, `` `http.rs sse.rs` ``.
fn named(page: &str, name: &str) -> BTreeSet<String> {
    let mut is_its = false;
    let mut named = BTreeSet::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            is_its = heading.split([':', ' ']).next() == Some(name);
        }
        let spans = line.split('`').skip(1).step_by(2).filter(|_| is_its);
        let modules = spans.flat_map(str::split_whitespace);
        named.extend(modules.filter(|it| it.ends_with(".rs") || it.ends_with('/')).map(str::to_owned));
    }
    named
}

/// Returns every file and folder below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { [files(&path), vec![path]].concat() } else { vec![path] })
        .collect()
}
