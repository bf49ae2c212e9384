//! Ranking of tools by the words of a search.

use std::collections::{BTreeSet, HashSet};

use kit::Spec;
use serde_json::Value;

/// Words without meaning for the search.
const EMPTY: [&str; 20] = [
    "a", "an", "and", "by", "do", "for", "from", "how", "in", "is", "it", "of", "on", "or", "that", "the",
    "to", "tool", "tools", "with",
];

/// Limits: words of a query, and length of a word that is compared for misspellings. Both are compared with
/// all words.
const WORDS: usize = 50;
const LONGEST: usize = 50;

/// The weight of a misspelt word.
const NEARLY: f64 = 0.5;

/// Returns the tools that match `query`, the best first; equal ones in their own order.
pub(super) fn rank<'t>(tools: &'t [Spec], query: &str) -> Vec<&'t Spec> {
    let texts: Vec<Texts> = tools.iter().map(Texts::of).collect();
    let asked: Vec<Asked> = asked(query).into_iter().map(|word| Asked::of(word, &texts)).collect();
    let joined = split(query).concat();
    let mut scored: Vec<(f64, &Spec)> = tools
        .iter()
        .zip(&texts)
        .map(|(spec, texts)| {
            let exact = if texts.joined == joined { 1_000.0 } else { 0.0 };
            (exact + asked.iter().map(|it| it.score(texts)).sum::<f64>(), spec)
        })
        .filter(|(score, _)| *score > 0.0)
        .collect();
    // Stable: ties stay in the order of the catalog.
    scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    scored.into_iter().map(|(_, spec)| spec).collect()
}

/// A word of a query: the words it may stand for, and its weight.
struct Asked {
    words: Vec<String>,
    weight: f64,
}

impl Asked {
    fn of(word: String, texts: &[Texts]) -> Self {
        let with = texts.iter().filter(|it| it.score(&word) > 0.0).count();
        // A rare word has more weight.
        let weight = (1.0 + texts.len() as f64 / (1.0 + with as f64)).ln();
        if with > 0 {
            return Self { words: vec![word], weight };
        }
        Self { words: nearest(&word, texts), weight: weight * NEARLY }
    }

    fn score(&self, texts: &Texts) -> f64 {
        self.weight * self.words.iter().map(|word| texts.score(word)).fold(0.0, f64::max)
    }
}

/// Returns words of the tools that are similar to an unknown word, which may be misspelt.
fn nearest(word: &str, texts: &[Texts]) -> Vec<String> {
    let most = match word.chars().count() {
        0..4 | LONGEST.. => return Vec::new(),
        4..8 => 1,
        _ => 2,
    };
    let known: BTreeSet<&String> =
        texts.iter().flat_map(|it| it.name.iter().chain(&it.description).chain(&it.arguments)).collect();
    let distances = known.into_iter().map(|it| (edits(word, it), it)).filter(|(edits, _)| *edits <= most);
    let near: Vec<(usize, &String)> = distances.collect();
    let least = near.iter().map(|(edits, _)| *edits).min();
    near.into_iter().filter(|(edits, _)| Some(*edits) == least).map(|(_, it)| it.clone()).collect()
}

/// Returns the edit distance with transpositions.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    let mut last = None;
    for (at, letter) in one.chars().enumerate() {
        let mut next = vec![at + 1];
        let mut left = at + 1;
        for (column, its) in other.iter().enumerate() {
            let of = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX / 2);
            let mut least = (left + 1).min(of(&row, column + 1) + 1);
            least = least.min(of(&row, column) + usize::from(letter != *its));
            if let Some(earlier) = column.checked_sub(1)
                && last == Some(*its)
                && other.get(earlier) == Some(&letter)
            {
                least = least.min(of(&before, earlier) + 1);
            }
            next.push(least);
            left = least;
        }
        before = std::mem::replace(&mut row, next);
        last = Some(letter);
    }
    row.last().copied().unwrap_or_default()
}

/// The words of a tool, by their source.
struct Texts {
    /// The name in one word: `searchmemory` finds `search_memory`.
    joined: String,
    name: Vec<String>,
    description: HashSet<String>,
    arguments: HashSet<String>,
    about_arguments: HashSet<String>,
}

impl Texts {
    fn of(spec: &Spec) -> Self {
        let mut arguments = HashSet::new();
        let mut about_arguments = HashSet::new();
        let properties = spec.schema.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            arguments.extend(words(name));
            let says = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            about_arguments.extend(words(says));
        }
        let description = words(&spec.description).into_iter().collect();
        let (joined, name) = (split(&spec.name).concat(), words(&spec.name));
        Self { joined, name, description, arguments, about_arguments }
    }

    fn score(&self, word: &str) -> f64 {
        let mut score = 0.0;
        if self.name.iter().any(|it| it == word) || (self.name.len() > 1 && stem(&self.joined) == word) {
            score += 10.0;
        } else if word.len() >= 3 && self.name.iter().any(|it| it.starts_with(word)) {
            score += 5.0;
        }
        for (texts, worth) in [(&self.description, 3.0), (&self.arguments, 2.0), (&self.about_arguments, 1.0)]
        {
            if texts.contains(word) {
                score += worth;
            }
        }
        score
    }
}

/// Returns the meaningful words of a query; all of them if none is.
fn asked(query: &str) -> Vec<String> {
    let split = split(query);
    let telling: Vec<&String> = split.iter().filter(|it| !EMPTY.contains(&it.as_str())).collect();
    let mut seen = HashSet::new();
    let stems = if telling.is_empty() { split.iter().collect() } else { telling };
    stems.into_iter().map(|it| stem(it)).filter(|it| seen.insert(it.clone())).take(WORDS).collect()
}

/// Returns the stems of the words of a text.
fn words(text: &str) -> Vec<String> {
    split(text).iter().map(|it| stem(it)).collect()
}

/// Splits into words in lower case: `get_weather`, `getWeather` and `get weather` are the same two,
/// `HTTPServer` is `http server`.
fn split(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was = ' ';
    let mut letters = text.chars().peekable();
    while let Some(it) = letters.next() {
        let begins_word = was.is_uppercase() && letters.peek().is_some_and(|next| next.is_lowercase());
        if !it.is_alphanumeric() || (it.is_uppercase() && (was.is_lowercase() || begins_word)) {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut().filter(|_| it.is_alphanumeric()) {
            last.extend(it.to_lowercase());
        }
        was = it;
    }
    words.retain(|it| !it.is_empty());
    words
}

/// Returns the stem that `file`, `files` and `filing` share; simple on purpose, and for English.
fn stem(word: &str) -> String {
    let cut = |word: &str, end: &str, least: usize| {
        word.strip_suffix(end).filter(|it| it.chars().count() >= least).map(str::to_owned)
    };
    let mut stem = word.to_owned();
    if !stem.ends_with("ss") {
        stem = cut(&stem, "s", 3).unwrap_or(stem);
    }
    if let Some(shorter) = cut(&stem, "ing", 3).or_else(|| cut(&stem, "ed", 3)) {
        let twice = ["bb", "dd", "gg", "mm", "nn", "pp", "rr", "tt"].iter().any(|it| shorter.ends_with(it));
        stem = shorter;
        if twice {
            stem.pop();
        }
    }
    if let Some(shorter) = cut(&stem, "ie", 3).or_else(|| cut(&stem, "y", 3)) {
        return shorter + "i";
    }
    cut(&stem, "e", 3).unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use kit::{Kinds, Mode, Origin};
    use serde_json::json;

    use super::*;

    fn spec(name: &str, description: &str, arguments: &[&str]) -> Spec {
        let properties: serde_json::Map<String, Value> =
            arguments.iter().map(|it| ((*it).to_owned(), json!({"type": "string"}))).collect();
        Spec {
            name: name.to_owned(),
            description: description.to_owned(),
            schema: json!({"type": "object", "properties": properties}),
            mode: Mode::Direct,
            at_most: Kinds::ALL,
            output: None,
            origin: Origin::Program,
        }
    }

    fn found(tools: &[Spec], query: &str) -> Vec<String> {
        rank(tools, query).into_iter().map(|it| it.name.clone()).collect()
    }

    #[test]
    fn the_forms_of_a_word_are_one() {
        for forms in [
            &["file", "files", "filing"][..],
            &["edit", "edits", "editing", "edited"],
            &["run", "runs", "running"],
            &["query", "queries"],
            &["write", "writes", "writing"],
            &["search", "searches", "searched"],
            &["call", "calling"],
        ] {
            let stems: HashSet<String> = forms.iter().map(|it| stem(it)).collect();
            assert_eq!(stems.len(), 1, "{stems:?}");
        }
        assert_ne!(stem("class"), stem("clas"));
        assert_eq!(split("getWeather_now v2"), ["get", "weather", "now", "v2"]);
        assert_eq!(
            split("parseHTTPRequest server__doIt"),
            ["parse", "http", "request", "server", "do", "it"]
        );
    }

    #[test]
    fn a_misspelt_word_finds_what_was_meant_and_a_known_word_is_taken_as_it_is() {
        let tools = [
            spec("github__create_issue", "Open an issue.", &["title"]),
            spec("search_memory", "What was noted before.", &[]),
            spec("weather", "Rain or sun.", &["city"]),
            spec("whether", "One or the other.", &[]),
        ];
        for (query, expected) in [
            ("wether", "weather"),
            ("waether", "weather"),
            ("serach memroy", "search_memory"),
            ("searchmemory", "search_memory"),
            ("create isues on gihub", "github__create_issue"),
            ("GitHub createIssue", "github__create_issue"),
            ("cities", "weather"),
        ] {
            assert_eq!(found(&tools, query).first().map(String::as_str), Some(expected), "{query}");
        }
        assert_eq!(found(&tools, "whether"), ["whether"]);
        assert_eq!(found(&tools, "cty sn"), [""; 0], "what is short is not guessed at");
        for (one, other, expected) in
            [("", "abc", 3), ("abc", "abc", 0), ("abc", "acb", 1), ("kitten", "sitting", 3), ("ab", "", 2)]
        {
            assert_eq!(edits(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn a_query_without_end_is_ranked_by_how_it_begins() {
        let tools = [spec("weather", "Rain or sun.", &["city"])];
        let many: Vec<String> = (0..20_000).map(|it| format!("unknown{it}")).collect();
        assert_eq!(found(&tools, &format!("weather {}", many.join(" "))), ["weather"]);
        assert_eq!(found(&tools, &"weather".repeat(10_000)), [""; 0]);
    }

    #[test]
    fn a_name_counts_more_than_a_part_and_that_more_than_the_description() {
        let tools = [
            spec("shout", "Say it loudly, as a note would not.", &["text"]),
            spec("note_list", "Everything there is.", &[]),
            spec("note", "Keep a line.", &["line"]),
            spec("other", "Nothing.", &["note"]),
        ];
        assert_eq!(found(&tools, "note"), ["note", "note_list", "shout", "other"]);
        assert_eq!(found(&tools, "list the notes"), ["note_list", "note", "shout", "other"]);
        assert_eq!(found(&tools, "weather"), [""; 0]);
    }

    #[test]
    fn a_rare_word_outweighs_a_common_one_and_ties_keep_their_order() {
        let tools = [
            spec("a", "Read a file.", &[]),
            spec("b", "Read a file.", &[]),
            spec("c", "Send mail.", &[]),
            spec("d", "Read a file.", &[]),
        ];
        assert_eq!(found(&tools, "files mails"), ["c", "a", "b", "d"]);
        assert_eq!(found(&tools, "the tools"), [""; 0]);
    }
}
