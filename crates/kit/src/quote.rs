//! Shell quoting: words that a POSIX shell reads back as they are.

/// Returns the word quoted for a POSIX shell, where it needs quotes.
pub fn quote(word: &str) -> String {
    let bare = |letter: char| letter.is_alphanumeric() || "_-./:=@%+,^".contains(letter);
    if !word.is_empty() && word.chars().all(bare) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns these words as one command line.
pub(crate) fn line(words: &[String]) -> String {
    words.iter().map(|it| quote(it)).collect::<Vec<_>>().join(" ")
}
