//! Link options of the `haft` program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    // A position-independent program has 250,000 relocations: 4 ms and 2.5 MB at each start, and haft starts
    // itself once more for each sandbox. Stack, heap and libraries are at random addresses all the same.
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bin=haft=-no-pie");
    }
}
