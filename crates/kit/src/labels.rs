//! Labels of workers: `gpu,linux` names the machines that may do a piece of work.

use std::collections::BTreeSet;

/// The longest label, in bytes.
const LONGEST: usize = 60;

/// Parses labels: `gpu,linux`. `any` alone is every worker.
///
/// # Errors
/// When a label is empty, too long, or has other characters than letters, digits, `-`, `_`, `.` and `:`.
pub fn parse(text: &str) -> Result<BTreeSet<String>, String> {
    let good = |it: char| it.is_ascii_alphanumeric() || "-_.:".contains(it);
    let mut labels = BTreeSet::new();
    for label in text.split(',').map(str::trim) {
        if label.is_empty() || label.len() > LONGEST || !label.chars().all(good) {
            return Err(format!(
                "`{label}` is not a label: 1 to {LONGEST} letters, digits, `-`, `_`, `.` or `:`; a comma between two"
            ));
        }
        labels.insert(label.to_owned());
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_separated_by_commas_and_checked() {
        let shown = |text| parse(text).map(|it| it.into_iter().collect::<Vec<_>>().join(","));
        assert_eq!(shown("linux, gpu,gpu").as_deref(), Ok("gpu,linux"));
        for wrong in ["", "a,,b", "a b", "a/b", &"x".repeat(61)] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}
