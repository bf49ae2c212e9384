//! Hints: what a prompt says of each tool, in a stable order.

/// A short paragraph on a tool, for the system prompt. It names no other tool, since that one may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    /// Its position among the others.
    pub bucket: Bucket,
    /// A sentence that it shares with other tools and that is shown once; may be empty.
    pub shared: &'static str,
    /// Its text; may be empty.
    pub text: &'static str,
}

/// The position of a hint among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bucket {
    /// Before the others, which build on it.
    First,
    /// Between these two.
    Normal,
    /// After the others.
    Last,
}

/// Returns the hints of these tools, in an order that does not depend on theirs: shared sentences first, then
/// by bucket and name.
pub fn hints<'a>(
    tools: impl IntoIterator<Item = &'a str>,
    hint: impl Fn(&str) -> Option<Hint>,
) -> Vec<&'static str> {
    let mut found: Vec<(Bucket, &str, Hint)> =
        tools.into_iter().filter_map(|name| hint(name).map(|it| (it.bucket, name, it))).collect();
    found.sort_by_key(|(bucket, name, _)| (*bucket, *name));
    let mut texts: Vec<&'static str> = Vec::new();
    for text in found.iter().map(|it| it.2.shared).chain(found.iter().map(|it| it.2.text)) {
        let text = text.trim();
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_ordered_by_bucket_and_name() {
        let hint = |name: &str| {
            let (bucket, shared, text) = match name {
                "z" => (Bucket::First, "", "zed\n"),
                "b" => (Bucket::Normal, "letters\n", "bee"),
                "c" => (Bucket::Normal, "letters\n", "sea"),
                "a" => (Bucket::Last, "", "ay"),
                _ => return None,
            };
            Some(Hint { bucket, shared, text })
        };
        assert_eq!(hints(["a", "c", "other", "b", "z"], hint), ["letters", "zed", "bee", "sea", "ay"]);
    }
}
