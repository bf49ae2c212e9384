//! Reference of the configuration: the keys of `haft.example.toml`, each with its explanation, an example and its default.
//!
//! The file is made of paragraphs: prose, then the setting that it explains. `# default:` ends a setting's line.

/// The whole file.
pub(super) const TEXT: &str = include_str!("../../../haft.example.toml");

/// What marks a key that a workspace's file can't set before it is trusted.
#[cfg(test)]
pub(super) const NEEDS_TRUST: &str = "(needs trust)";

/// What marks a key that counts only in the user's own file.
#[cfg(test)]
pub(super) const ONLY_OWN: &str = "(only in your own file)";

/// A key, or a section as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The names of its tables, then its own. Where people choose a name, it is the example's: `models.local.url`.
    pub(super) key: Vec<String>,
    /// What it does.
    pub(super) about: String,
    /// An example, as it is written in a file; nothing for a section.
    pub(super) example: Option<String>,
    /// What holds if it is not set.
    pub(super) default: Option<String>,
}

/// All sections and keys, in the order of the file.
pub(super) fn entries() -> Vec<Entry> {
    let mut section: Vec<String> = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    // The head of the file explains the file.
    for paragraph in TEXT.split("\n\n").skip(1) {
        let mut about = Vec::new();
        for line in paragraph.lines().filter_map(|it| it.strip_prefix("# ")) {
            if line.starts_with('[') && line.ends_with(']') {
                section = names(line.trim_matches(['[', ']']));
                let about = take(&mut about);
                entries.push(Entry { key: section.clone(), about, example: None, default: None });
            } else if let Some((key, _)) = setting(line) {
                // What a rule in the long form has belongs to the rule.
                if section != ["command"] {
                    let (example, default) = match line.split_once("# default: ") {
                        Some((example, default)) => (example.trim_end(), Some(default.to_owned())),
                        None => (line, None),
                    };
                    let key = [section.clone(), vec![key.to_owned()]].concat();
                    let example = Some(example.to_owned());
                    entries.push(Entry { key, about: take(&mut about), example, default });
                }
            } else {
                about.push(line);
            }
        }
    }
    entries
}

/// The entry of a key, whatever name was chosen for its section.
pub(super) fn entry(key: &[String]) -> Option<Entry> {
    let is_meant = |it: &Entry| is_same(&it.key, key);
    let all = entries();
    // `[mcp.files]` and `[mcp.tracker]` have different keys.
    all.iter().find(|it| it.key == key).or_else(|| all.iter().find(|it| is_meant(it))).cloned()
}

/// Whether two keys are the same one, in sections that people name as they like.
fn is_same(one: &[String], other: &[String]) -> bool {
    let named = one.first().is_some_and(|it| NAMED.contains(&it.as_str()));
    one.len() == other.len()
        && one.iter().zip(other).enumerate().all(|(at, (one, other))| one == other || (named && at == 1))
}

/// Sections of which there are several, each with a name.
pub(super) const NAMED: [&str; 4] = ["mcp", "models", "secret", "tool"];

/// The key and the value of a line that is a setting.
pub(super) fn setting(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(" = ")?;
    let is_key = !key.is_empty() && key.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
    is_key.then_some((key, value))
}

fn names(section: &str) -> Vec<String> {
    section.split('.').map(str::to_owned).collect()
}

fn take(lines: &mut Vec<&str>) -> String {
    std::mem::take(lines).join("\n")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_key_and_section_is_explained() {
        let entries = entries();
        assert!(entries.len() > 80, "{}", entries.len());
        for it in &entries {
            assert!(it.about.len() > 10 && it.about.ends_with(['.', ')']), "{it:?}");
            assert!(it.example.is_none() || it.default.is_some() || is_required(&it.key), "{it:?}");
        }
    }

    fn is_required(key: &[String]) -> bool {
        matches!(key.last().map(String::as_str), Some("hosts" | "model"))
    }

    #[test]
    fn a_section_may_have_any_name() {
        let key = |text: &str| names(text);
        assert_eq!(entry(&key("models.mine.url")).unwrap().key, key("models.local.url"));
        assert_eq!(entry(&key("mcp.mine.bearer_env")).unwrap().key, key("mcp.tracker.bearer_env"));
        assert_eq!(entry(&key("agent.models")), None);
        assert_eq!(entry(&key("agent.profile")).unwrap().default.unwrap(), "none");
        assert!(entry(&key("command")).unwrap().about.starts_with("A rule in the long form"));
    }

    #[test]
    fn lines_fit_a_terminal() {
        let long: Vec<&str> =
            TEXT.lines().filter(|it| it.chars().count() > 80 && !it.starts_with("# price")).collect();
        assert!(long.is_empty(), "{long:?}");
    }
}
