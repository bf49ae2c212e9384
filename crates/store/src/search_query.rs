//! Search queries in the syntax of the full-text index.

use rusqlite::{Connection, Params, Row};

/// Maximum number of words.
const WORDS: usize = 32;

/// Maximum length of a word.
const LONGEST: usize = 200;

/// A search query: any text, in which nothing is an operator of the index.
#[derive(Debug, Clone)]
pub(super) struct Words(Vec<String>);

impl Words {
    /// Parses the words of a query.
    pub(super) fn of(query: &str) -> Self {
        let is_between = |it: char| it.is_whitespace() || it.is_control();
        let words = query.split(is_between).filter(|word| word.contains(char::is_alphanumeric));
        Self(words.take(WORDS).map(|word| word.chars().take(LONGEST).collect()).collect())
    }

    /// Returns whether there is nothing to search for.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the queries of the index, to be tried in order until one finds a row: all of the words, then
    /// any of them. The last word may be a prefix.
    fn asked(&self) -> Vec<String> {
        let last = self.0.len().saturating_sub(1);
        let quote = |(at, word): (usize, &String)| {
            let quoted = format!("\"{}\"", word.replace('"', "\"\""));
            if at == last { quoted + "*" } else { quoted }
        };
        let quoted: Vec<String> = self.0.iter().enumerate().map(quote).collect();
        match quoted.as_slice() {
            [] => Vec::new(),
            [only] => vec![only.clone()],
            several => vec![several.join(" AND "), several.join(" OR ")],
        }
    }

    /// Returns the rows of the first search that finds any, or else of `part`: a substring search, which
    /// scripts without spaces need. Both get their text as `?1`.
    pub(super) fn find<T>(
        &self,
        database: &Connection,
        (whole, part): (&str, &str),
        params: impl Fn(String) -> Vec<rusqlite::types::Value>,
        row: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let ask =
            |sql: &str, text: String| rows(database, sql, rusqlite::params_from_iter(params(text)), &row);
        for asked in self.asked() {
            let found = ask(whole, asked)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        ask(part, self.0.join(" "))
    }
}

/// Returns all rows of a query.
pub(super) fn rows<T>(
    database: &Connection,
    sql: &str,
    params: impl Params,
    row: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    database.prepare_cached(sql)?.query_map(params, row)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_the_index_are_words_like_all_others() {
        let asked = |query: &str| Words::of(query).asked();
        assert_eq!(
            asked("a\"b NOT c*"),
            ["\"a\"\"b\" AND \"NOT\" AND \"c*\"*", "\"a\"\"b\" OR \"NOT\" OR \"c*\"*"]
        );
        assert_eq!(asked("NEAR(x)"), ["\"NEAR(x)\"*"]);
        assert!(asked("*** \0 \" -").is_empty());
        assert_eq!(asked("a\0b").len(), 2, "nothing of it ends the text early");
    }
}
