//! Spelling suggestions: finds the known name that a misspelt one most likely means.

/// Returns the known name nearest to `name`: one edit away for names of 3 to 5 bytes, at most two for longer ones. Shorter
/// names and exact matches get no suggestion.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let most = match name.len() {
        0..=2 => return None,
        3..=5 => 1,
        _ => 2,
    };
    known
        .filter(|it| it.len().abs_diff(name.len()) <= most && it.len() <= 80)
        .map(|it| (distance(name, it), it))
        .filter(|it| (1..=most).contains(&it.0))
        .min()
        .map(|it| it.1.to_owned())
}

/// Edit distance with transpositions, ignoring ASCII case; names that differ in case alone are 1 apart.
fn distance(a: &str, b: &str) -> usize {
    let (lower_a, lower_b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    if lower_a == lower_b {
        return usize::from(a != b);
    }
    let (a, b) = (lower_a.as_bytes(), lower_b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&row, j) + usize::from(x != y)).min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn suggests_the_name_of_a_typo_and_none_for_another_word() {
        let known = ["cube", "cylinder", "translate", "center", "size"];
        let near = |name: &str| nearest(name, known.into_iter());
        assert_eq!(near("cubee").as_deref(), Some("cube"));
        assert_eq!(near("cylidner").as_deref(), Some("cylinder"));
        assert_eq!(near("centre").as_deref(), Some("center"));
        assert_eq!(near("Translate").as_deref(), Some("translate"));
        assert_eq!(near("bolt"), None);
    }
}
