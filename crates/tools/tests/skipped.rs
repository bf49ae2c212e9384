//! Summary of the tests that this `cargo test` skipped, as programs are missing; it runs after all other test binaries.
#![expect(clippy::print_stdout, reason = "a summary for people")]

use std::collections::BTreeSet;

use kit::testing::needs::skipped;

fn main() {
    let skipped = skipped();
    if skipped.is_empty() {
        return;
    }
    println!("\n{} tests were skipped, as their programs are missing:", skipped.len());
    for line in &skipped {
        println!("    {}", line.trim_start_matches("skipped: "));
    }
    let packages: BTreeSet<&str> = skipped
        .iter()
        .filter_map(|it| it.split_once("(apt install ")?.1.strip_suffix(')'))
        .flat_map(|it| it.split(' '))
        .collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    println!("\nTo run them: apt install {}", packages.join(" "));
    println!(
        "`./test` installs them and runs everything; with HAFT_TEST_STRICT=1 a missing program fails its tests.\n"
    );
}
