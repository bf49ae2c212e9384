//! Search queries in the syntax of the full-text index.

use rusqlite::{Connection, Params, Row};

/// More words than these are not looked at.
const WORDS: usize = 32;

/// A longer word is cut.
const LONGEST: usize = 200;

/// What is searched for: any text at all, none of which is taken for an operator of the index.
#[derive(Debug, Clone)]
pub(super) struct Words(Vec<String>);

impl Words {
    /// The words of a query.
    pub(super) fn of(query: &str) -> Self {
        let is_between = |it: char| it.is_whitespace() || it.is_control();
        let words = query.split(is_between).filter(|word| word.contains(char::is_alphanumeric));
        Self(words.take(WORDS).map(|word| word.chars().take(LONGEST).collect()).collect())
    }

    /// Is there nothing to search for?
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the index is asked for, one after the other until something is found: all of the words, and one of them.
    /// The last one may be the beginning of a word.
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

    /// The rows of the first of these searches that finds any, or else of `part`: it is given a piece of text that a
    /// row has to have, as scripts without spaces need it. Both are given their text in place of `?1`.
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

/// All rows that a query gives.
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
