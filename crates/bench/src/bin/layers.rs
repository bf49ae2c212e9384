//! Module layers: prints, for each crate, its modules in their order and the paths that name a module above
//! their own.
//!
//! `cargo run -p bench --bin layers`; with the name of a crate, all uses of its modules, a line each.

use std::{
    error::Error,
    io::{self, Write as _},
    path::Path,
};

use bench::layers::{check, graph, orders};

fn main() -> Result<(), Box<dyn Error>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut out = io::stdout().lock();
    if let Some(name) = std::env::args().nth(1) {
        for ((from, to), file) in graph(&crates.join(name).join("src"))?.edges {
            writeln!(out, "{from} -> {to} ({file})")?;
        }
        return Ok(());
    }
    writeln!(out, "| crate | modules | uses | upwards |\n|---|---|---|---|")?;
    let orders = orders(include_str!("../../layers.toml"))?;
    let mut left = Vec::new();
    for (name, order) in &orders {
        let graph = graph(&crates.join(name).join("src"))?;
        let upward = graph.upward(order);
        writeln!(out, "| {name} | {} | {} | {} |", graph.modules.len(), graph.edges.len(), upward.len())?;
        left.extend(upward.into_iter().map(|(edge, file)| format!("{name}: {edge} ({file})")));
        left.extend(check(&graph, order).into_iter().map(|it| format!("{name}: WRONG: {it}")));
    }
    writeln!(out)?;
    left.iter().try_for_each(|it| writeln!(out, "{it}"))?;
    Ok(())
}
