//! Big files: `cargo run --release -p bench --bin big_files [-- GIGABYTES]`
//!
//! Times of `read`, `filegrep`, `grep` and `glob`, each with the ratio to a program that does the same, measured in
//! turn. A new session has no line index; the file is in the page cache.
#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::error::Error;

use bench::speed;

fn main() -> Result<(), Box<dyn Error>> {
    let gigabytes = std::env::args().nth(1).map_or(Ok(2), |it| it.parse())?;
    println!("{}", speed::HEADING);
    let scratch = speed::Scratch::new()?;
    for row in speed::big_files(&scratch, gigabytes)? {
        println!("{row}");
    }
    Ok(())
}
