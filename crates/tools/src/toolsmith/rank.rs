//! Which tools are most likely meant by these words?

use std::collections::HashSet;

use kit::Spec;
use serde_json::Value;

/// Words that say nothing about a tool.
const EMPTY: [&str; 20] = [
    "a", "an", "and", "by", "do", "for", "from", "how", "in", "is", "it", "of", "on", "or", "that", "the",
    "to", "tool", "tools", "with",
];

/// The tools that have to do with `query`, the likeliest first; of those that are as likely, in their order.
pub(super) fn rank<'t>(tools: &'t [Spec], query: &str) -> Vec<&'t Spec> {
    let asked = asked(query);
    let texts: Vec<Texts> = tools.iter().map(Texts::of).collect();
    let weights: Vec<f64> = asked
        .iter()
        .map(|word| {
            let with = texts.iter().filter(|it| it.has(word)).count();
            // A word that few tools have says more.
            (1.0 + tools.len() as f64 / (1.0 + with as f64)).ln()
        })
        .collect();
    let plain = words(query).join(" ");
    let mut scored: Vec<(f64, &Spec)> = tools
        .iter()
        .zip(&texts)
        .map(|(spec, texts)| {
            let exact = if texts.name.join(" ") == plain { 1_000.0 } else { 0.0 };
            let each = asked.iter().zip(&weights).map(|(word, weight)| weight * texts.score(word));
            (exact + each.sum::<f64>(), spec)
        })
        .filter(|(score, _)| *score > 0.0)
        .collect();
    // Stable: ties stay in the order of the catalog.
    scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    scored.into_iter().map(|(_, spec)| spec).collect()
}

/// The words of a tool, by where they stand.
struct Texts {
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
        Self { name: words(&spec.name), description, arguments, about_arguments }
    }

    fn has(&self, word: &str) -> bool {
        self.score(word) > 0.0
    }

    fn score(&self, word: &str) -> f64 {
        let mut score = 0.0;
        if self.name.iter().any(|it| it == word) {
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

/// The words of a query that say something; all of them where none does.
fn asked(query: &str) -> Vec<String> {
    let split = split(query);
    let telling: Vec<&String> = split.iter().filter(|it| !EMPTY.contains(&it.as_str())).collect();
    let mut seen = HashSet::new();
    let stems = if telling.is_empty() { split.iter().collect() } else { telling };
    stems.into_iter().map(|it| stem(it)).filter(|it| seen.insert(it.clone())).collect()
}

/// The stems of the words of a text.
fn words(text: &str) -> Vec<String> {
    split(text).iter().map(|it| stem(it)).collect()
}

/// Words in lower case: `get_weather`, `getWeather` and `get weather` are the same two.
fn split(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for it in text.chars() {
        if !it.is_alphanumeric() || (it.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut().filter(|_| it.is_alphanumeric()) {
            last.extend(it.to_lowercase());
        }
        was_lower = it.is_lowercase();
    }
    words.retain(|it| !it.is_empty());
    words
}

/// What `file`, `files` and `filing` have in common; simple on purpose, and for English.
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
