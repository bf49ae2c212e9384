//! Growth: how a cost grows with the number of things, with the exponent that fits best.
//!
//! An exponent of 0 is a cost that does not grow, 1 one that grows with the number.

pub mod files;
pub mod jobs;
mod place;
pub mod sessions;
pub mod tools;

use std::{io::Write, time::Duration};

pub use crate::batch::Outcome;

/// One column of a table: what it is, and its value for each number.
pub(crate) struct Column {
    name: String,
    values: Vec<(usize, f64)>,
}

impl Column {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), values: Vec::new() }
    }

    pub(crate) fn put(&mut self, number: usize, value: f64) {
        self.values.push((number, value));
    }
}

/// Prints the columns, each with its exponent.
pub(crate) fn print(out: &mut impl Write, columns: &[Column]) -> Outcome<()> {
    for column in columns {
        write!(out, "{:<54}", column.name)?;
        for (number, value) in &column.values {
            write!(out, "  {number}: {value:>9.3}")?;
        }
        match exponent(&column.values) {
            Some(exponent) => writeln!(out, "  grows as n^{exponent:.2}")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

/// Returns the slope of the line that fits best in a diagram with two logarithmic axes.
fn exponent(values: &[(usize, f64)]) -> Option<f64> {
    let points: Vec<(f64, f64)> =
        values.iter().filter(|it| it.0 > 0 && it.1 > 0.0).map(|it| ((it.0 as f64).ln(), it.1.ln())).collect();
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|it| it.0), mean(|it| it.1));
    let spread: f64 = points.iter().map(|it| (it.0 - x).powi(2)).sum();
    let both: f64 = points.iter().map(|it| (it.0 - x) * (it.1 - y)).sum();
    (points.len() > 1 && spread > 0.0).then(|| both / spread)
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}
