//! Layers inside a crate: the order of its top modules, and the paths that name a module above their own.
//!
//! `layers.toml` lists the modules of each crate, lowest first, and the back edges that are left. A module may use those that
//! stand before it. [`check`] reports every path that does not keep to that, every module that is not listed, and every
//! listed back edge that is gone, so the list only shrinks.

mod paths;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use serde::Deserialize;

/// The order of the modules of one crate.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The top modules, lowest first. The crate's root file is above them all.
    pub modules: Vec<String>,
    /// The paths upwards that are left, as `lower -> higher`.
    #[serde(default)]
    pub back_edges: BTreeSet<String>,
}

/// The modules of one crate that use each other.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// All top modules.
    pub modules: BTreeSet<String>,
    /// The uses: the user and the used module, and a file that contains the use.
    pub edges: BTreeMap<(String, String), String>,
}

/// The name of the root file in edges.
pub const ROOT: &str = "lib";

/// Reads the order of all crates.
///
/// # Errors
/// If the text is not a table of crates.
pub fn orders(text: &str) -> Result<BTreeMap<String, Order>, toml::de::Error> {
    toml::from_str(text)
}

/// Reads the modules of a crate's library and the paths in them, without those of its tests.
///
/// # Errors
/// If a file can't be read, or is not Rust.
pub fn graph(sources: &Path) -> io::Result<Graph> {
    let mut graph = Graph::default();
    let mut files = Vec::new();
    let mut folders = vec![sources.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !["bin", "tests"].contains(&name.as_str()) {
                folders.push(path);
            } else if name.ends_with(".rs") && !["main.rs", "tests.rs"].contains(&name.as_str()) {
                files.push(path);
            }
        }
    }
    let root = fs::read_to_string(sources.join("lib.rs"))?;
    let exported = paths::exported(&root)?;
    for file in files {
        let inside = file.strip_prefix(sources).map_err(io::Error::other)?;
        let module = module_of(inside);
        let Some(top) = module.first().cloned() else { continue };
        graph.modules.insert(top.clone());
        let text = fs::read_to_string(&file)?;
        for name in paths::named(&text, &module)? {
            // A name that the root re-exports belongs to the module that it comes from.
            let used = exported.get(&name).cloned().unwrap_or(name);
            if used != top {
                graph.edges.entry((top.clone(), used)).or_insert_with(|| inside.display().to_string());
            }
        }
    }
    // A name that is neither a module nor exported from one is an item of the root.
    let edges = std::mem::take(&mut graph.edges);
    for ((from, to), file) in edges {
        let to = if graph.modules.contains(&to) { to } else { ROOT.to_owned() };
        graph.edges.entry((from, to)).or_insert(file);
    }
    Ok(graph)
}

/// Returns the module path of a file, without the crate.
fn module_of(file: &Path) -> Vec<String> {
    let mut parts: Vec<String> =
        file.with_extension("").iter().map(|it| it.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|it| it == "mod") || parts == ["lib"] {
        parts.pop();
    }
    parts
}

impl Graph {
    /// Returns the paths that name a module above their own, as `lower -> higher`, with a file of each.
    pub fn upward(&self, order: &Order) -> BTreeMap<String, String> {
        let place = |module: &str| order.modules.iter().position(|it| it == module).unwrap_or(usize::MAX);
        let up = self.edges.iter().filter(|((from, to), _)| place(to) > place(from));
        up.map(|((from, to), file)| (format!("{from} -> {to}"), file.clone())).collect()
    }
}

/// Returns the errors in the layers of a crate, a line each.
pub fn check(graph: &Graph, order: &Order) -> Vec<String> {
    let mut wrong = Vec::new();
    let listed: BTreeSet<&String> = order.modules.iter().collect();
    if listed.len() < order.modules.len() {
        wrong.push("a module is listed twice".to_owned());
    }
    for module in &graph.modules {
        if !listed.contains(module) {
            wrong.push(format!("`{module}` is not listed: put it above all that it uses"));
        }
    }
    for module in listed {
        if !graph.modules.contains(module) {
            wrong.push(format!("`{module}` is listed, and there is no such module"));
        }
    }
    let upward = graph.upward(order);
    for (edge, file) in &upward {
        if !order.back_edges.contains(edge) {
            wrong.push(format!("{edge}: {file} names a module above its own"));
        }
    }
    for edge in &order.back_edges {
        if !upward.contains_key(edge) {
            wrong.push(format!("{edge} is gone: take it off the list"));
        }
    }
    wrong
}
