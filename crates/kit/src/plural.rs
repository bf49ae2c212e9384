//! Numbers of things in sentences.

/// Returns the number with its noun, in the plural unless it is one: `1 line`, `3 lines`.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_one_is_in_the_singular() {
        assert_eq!([0, 1, 2].map(|it| counted(it, "line")), ["0 lines", "1 line", "2 lines"]);
    }
}
