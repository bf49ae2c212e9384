//! The layers of every crate, and that a path upwards is found.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path};

use bench::layers::{Order, check, graph, orders};

const ORDERS: &str = include_str!("../layers.toml");

#[test]
fn modules_use_only_lower_layers() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    let orders = orders(ORDERS).unwrap();
    for (name, order) in &orders {
        let graph = graph(&crates.join(name).join("src")).unwrap();
        assert!(!graph.edges.is_empty(), "{name}");
        wrong.extend(check(&graph, order).into_iter().map(|it| format!("{name}: {it}")));
    }
    for folder in fs::read_dir(&crates).unwrap() {
        let folder = folder.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let has_modules = fs::read_to_string(folder.join("src/lib.rs")).is_ok_and(|it| it.contains("\nmod "));
        assert!(!has_modules || orders.contains_key(name), "layers.toml has no crate `{name}`");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks a crate of three modules whose `low` holds this code.
fn planted(low: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("lib.rs", "mod low;\nmod middle;\nmod high;\npub use high::Thing;\npub struct Runtime;\n");
    put("low.rs", low);
    put("low/inner.rs", "use super::super::low;\n");
    put("middle/mod.rs", "use crate::low::X;\nuse super::low;\n");
    put("high.rs", "use crate::{low, middle::Y};\n");
    let order = Order {
        modules: ["low", "middle", "high"].map(str::to_owned).to_vec(),
        back_edges: Default::default(),
    };
    check(&graph(folder.path()).unwrap(), &order)
}

#[test]
fn planted_path_upwards_is_found_however_it_is_written() {
    assert_eq!(planted("fn x() {}\n"), Vec::<String>::new());
    for (text, to) in [
        ("use crate::high;", "high"),
        ("use crate::{low::A, high::{B, C}};", "high"),
        ("use super::middle::Y;", "middle"),
        ("fn x() { crate::high::y(); }", "high"),
        ("fn x() { let _ = format!(\"{}\", crate::high::Z); }", "high"),
        ("mod inner { use super::super::high; }", "high"),
        ("use crate::Thing;", "high"),
        ("use crate::Runtime;", "lib"),
    ] {
        assert_eq!(planted(text), [format!("low -> {to}: low.rs names a module above its own")], "{text}");
    }
    // Comments, strings, other crates and tests don't use a module.
    for text in [
        "// crate::high\nconst X: &str = \"crate::high\";\n",
        "#[cfg(test)]\nmod tests { use crate::high; }\n",
        "use other::high;\n",
        "mod inner { use super::super::low; }\n",
    ] {
        assert_eq!(planted(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn listed_edge_that_is_gone_and_module_that_is_missing_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("lib.rs", "mod a;\nmod b;\n"), ("a.rs", ""), ("b.rs", "use crate::a;\n")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let order =
        Order { modules: ["a", "c"].map(str::to_owned).to_vec(), back_edges: ["a -> b".to_owned()].into() };
    let wrong = check(&graph(folder.path()).unwrap(), &order);
    assert_eq!(
        wrong,
        [
            "`b` is not listed: put it above all that it uses",
            "`c` is listed, and there is no such module",
            "a -> b is gone: take it off the list",
        ]
    );
}
