//! Fuzzy matching of paths: whether the letters of a query occur in a path in their order, and how well.
//!
//! The alignment is fzf's first algorithm: the first match from the left, shortened from the right. Letters at the beginning
//! of a word, in a row, and in the file's name count more.

/// The score of a letter, and the bonuses for its place.
const LETTER: i32 = 16;
const BEGINS: i32 = 12;
const IN_A_ROW: i32 = 10;
const IN_THE_NAME: i32 = 6;
const WHOLE_NAME: i32 = 60;
const NAME_BEGINS: i32 = 30;

/// Returns how well `path` matches `query`; higher is better. `None`: no match. Matching is case-sensitive only if the query
/// has capitals.
pub(crate) fn score(path: &str, query: &str) -> Option<i32> {
    if query.is_empty() {
        return Some(0);
    }
    let exact = query.chars().any(char::is_uppercase);
    let fold = |letter: char| if exact { letter } else { letter.to_ascii_lowercase() };
    let path: Vec<char> = path.chars().collect();
    let wanted: Vec<char> = query.chars().map(fold).collect();
    let end_of_path = path.len() - usize::from(path.last() == Some(&'/'));
    let name = path.iter().take(end_of_path).rposition(|it| *it == '/').map_or(0, |at| at + 1);
    // Prefer a match within the file name: people usually type that.
    let found = align(&path, name, &wanted, fold).or_else(|| align(&path, 0, &wanted, fold))?;
    let mut score = 0;
    let mut before: Option<usize> = None;
    for at in &found {
        score += LETTER;
        if *at == 0 || path.get(at - 1).is_some_and(|it| begins_after(*it, path.get(*at).copied())) {
            score += BEGINS;
        }
        if before.is_some_and(|it| it + 1 == *at) {
            score += IN_A_ROW;
        }
        if *at >= name {
            score += IN_THE_NAME;
        }
        before = Some(*at);
    }
    let length = end_of_path - name;
    if found.first() == Some(&name) && found.len() > 1 && before == Some(name + found.len() - 1) {
        score += if found.len() == length { WHOLE_NAME } else { NAME_BEGINS };
    }
    let spread = before.zip(found.first()).map_or(0, |(last, first)| last + 1 - first - found.len());
    // Among equal matches the shorter path wins.
    Some(score - i32::try_from(spread.min(40) + path.len().min(200) / 8).unwrap_or(0))
}

/// Aligns the wanted letters from `from` on: takes the first match, and shortens it from its start.
fn align(path: &[char], from: usize, wanted: &[char], fold: impl Fn(char) -> char) -> Option<Vec<usize>> {
    let mut next = wanted.iter().peekable();
    let mut end = None;
    for (at, letter) in path.iter().enumerate().skip(from) {
        if next.next_if(|it| **it == fold(*letter)).is_some() && next.peek().is_none() {
            end = Some(at);
            break;
        }
    }
    let end = end?;
    let mut found = Vec::with_capacity(wanted.len());
    let mut left = wanted.iter().rev().peekable();
    for (at, letter) in path.iter().enumerate().take(end + 1).skip(from).rev() {
        if left.next_if(|it| **it == fold(*letter)).is_some() {
            found.push(at);
        }
    }
    found.reverse();
    Some(found)
}

/// Returns whether a word begins at the letter after `before`.
fn begins_after(before: char, letter: Option<char>) -> bool {
    matches!(before, '/' | '_' | '-' | '.' | ' ')
        || before.is_lowercase() && letter.is_some_and(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[track_caller]
    fn best(query: &str, paths: &[&'static str]) -> Vec<&'static str> {
        let mut found: Vec<(i32, &str)> =
            paths.iter().filter_map(|path| Some((score(path, query)?, *path))).collect();
        found.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
        found.into_iter().map(|it| it.1).collect()
    }

    #[test]
    fn the_letters_must_occur_in_their_order() {
        assert!(score("src/main.rs", "mrs").is_some());
        assert_eq!(score("src/main.rs", "msr"), None);
        assert_eq!(score("src/main.rs", "x"), None);
        assert!(score("a", "").is_some());
        assert_eq!(score("", "a"), None);
    }

    #[test]
    fn a_file_s_name_counts_more_than_its_folders() {
        assert_eq!(best("shop", &["src/shop/cart.py", "shop.py", "tests/workshop.py"])[..1], ["shop.py"]);
        assert_eq!(best("shop", &["src/shop/", "src/shop/cart.py"])[..1], ["src/shop/"]);
        assert_eq!(best("main", &["domain/a.rs", "src/main.rs", "src/remains.rs"])[..1], ["src/main.rs"]);
        assert_eq!(best("fr", &["terminal/front.rs", "terminal/afar.rs"])[..1], ["terminal/front.rs"]);
        assert_eq!(best("src/m", &["src/main.rs", "assrc/xm"])[..1], ["src/main.rs"]);
    }

    #[test]
    fn of_what_matches_alike_the_shorter_path_comes_first() {
        assert_eq!(best("mod.rs", &["a/very/long/path/that/goes/on/mod.rs", "a/mod.rs"])[..1], ["a/mod.rs"]);
    }

    #[test]
    fn capitals_are_meant() {
        assert_eq!(best("README", &["readme.txt", "README.md"]), ["README.md"]);
        assert_eq!(best("readme", &["README.md"]), ["README.md"]);
    }
}
