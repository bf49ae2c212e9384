//! `json_read`: shows a part of a JSON file.

use std::ops::ControlFlow;

use kit::prelude::*;

use super::{
    json,
    json_path::Path,
    json_tree::{Node, pointer_of},
};

/// Maximum size of a file. In memory it takes about twenty times that at worst.
const LARGEST: u64 = 8 << 20;

/// A longer value is outlined, if it has parts.
const WHOLE: usize = 24 * 1024;

/// Default number of matches of a query.
const MATCHES: usize = 100;

/// Maximum bytes of matches that are shown.
const SHOWN: usize = 1 << 20;

/// Maximum members of a large value that are outlined.
const OUTLINED: usize = 200;

/// Read a part of a JSON file (comments allowed), by pointer or by query. A large value is outlined.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonRead {
    /// File, relative to the workspace or absolute.
    pub(crate) path: String,
    /// JSON Pointer, such as `/scripts/test` or `/items/0`. Default: the whole.
    #[serde(default)]
    pub(crate) pointer: Option<String>,
    /// JSONPath, such as `$..name` or `$.items[?@.price < 10]`, from where `pointer` leads.
    #[serde(default)]
    pub(crate) query: Option<String>,
    /// Matches to skip; a longer result names the value to pass.
    #[serde(default)]
    pub(crate) offset: usize,
    /// Maximum matches. Default 100.
    #[serde(default)]
    pub(crate) limit: Option<usize>,
}

impl Tool for JsonRead {
    const NAME: &str = "json_read";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.read(cx)).await
    }
}

impl JsonRead {
    fn read(&self, cx: &Cx) -> Result<Output, Fault> {
        let opened = json::load(cx, &self.path, LARGEST, None)?;
        let text = opened.text.decoded();
        let whole = Node::parse(&self.path, &text)?;
        let pointer = self.pointer.as_deref().unwrap_or_default();
        let value = find(&whole, pointer, &self.path)?;
        match &self.query {
            Some(query) => self.matches(cx, value, query),
            None => Ok(show(value, pointer)),
        }
    }

    fn matches(&self, cx: &Cx, value: &Node<'_>, query: &str) -> Result<Output, Fault> {
        let limit = self.limit.unwrap_or(MATCHES);
        let (mut lines, mut bytes, mut count) = (Vec::new(), 0, 0);
        Path::parse(query)?.walk(cx, value, &mut |way, node| {
            if count >= self.offset && lines.len() < limit && bytes < SHOWN {
                let line = format!("{}: {}", pointer_of(way), node.compact());
                bytes += line.len();
                lines.push(line);
            }
            count += 1;
            ControlFlow::Continue(())
        })?;
        if count == 0 {
            return Ok(Output::text(format!("No matches for `{query}` in {}", self.path)));
        }
        if self.offset >= count {
            return Err(Fault::bad_args(format!(
                "`offset` is {}, and there are {count} matches",
                self.offset
            )));
        }
        let next = self.offset + lines.len();
        if count > next {
            lines.push(format!("[{} more of {count}; next: offset {next}]", count - next));
        }
        Ok(Output::text(lines.join("\n")))
    }
}

/// Returns the value that a pointer refers to.
///
/// # Errors
/// [`Kind::NotFound`], with the part that exists and its members.
fn find<'a, 't>(whole: &'a Node<'t>, pointer: &str, path: &str) -> Result<&'a Node<'t>, Fault> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(Fault::bad_args(format!(
            "`{pointer}` is not a JSON Pointer: it begins with `/`, or is empty for the whole"
        )));
    }
    if let Some(value) = whole.pointer(pointer) {
        return Ok(value);
    }
    let mut reached = pointer;
    let near = loop {
        reached = reached.rsplit_once('/').map_or("", |(above, _)| above);
        if let Some(value) = whole.pointer(reached) {
            break value;
        }
    };
    let there = match near {
        Node::Object(members) => {
            let names: Vec<String> = members.iter().take(30).map(|(name, _)| format!("`{name}`")).collect();
            format!("has the members {}", names.join(", "))
        }
        Node::List(items) => format!("is a list of {} items", items.len()),
        other => format!("is {}", kind(other)),
    };
    let at = if reached.is_empty() { "The whole".to_owned() } else { format!("`{reached}`") };
    Err(Fault::not_found(format!("`{path}` has nothing at `{pointer}`")).next(format!("{at} {there}.")))
}

fn show(value: &Node<'_>, pointer: &str) -> Output {
    let what = match value {
        Node::Object(_) => "an object",
        Node::List(_) => "a list",
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) => {
            return Output::text(value.compact());
        }
    };
    if let Some(text) = value.spread(WHOLE) {
        return Output::text(text);
    }
    let count = value.len();
    let lines: Vec<String> = value
        .children()
        .take(OUTLINED)
        .map(|(step, value)| format!("{pointer}{}: {}", pointer_of(&[step]), kind(value)))
        .collect();
    let more = match count.saturating_sub(OUTLINED) {
        0 => String::new(),
        more => format!("\n[{more} more]"),
    };
    Output::page(format!(
        "{what} with {count} members, {} bytes; pass a pointer to see one:\n{}{more}",
        value.compact().len(),
        lines.join("\n")
    ))
}

fn kind(value: &Node<'_>) -> String {
    match value {
        Node::Null | Node::Bool(_) => value.compact(),
        Node::Number(it) if it.len() <= 60 => (*it).to_owned(),
        Node::Number(it) => format!("a number of {} digits", it.len()),
        Node::String(it) if it.chars().count() <= 60 => value.compact(),
        Node::String(it) => format!("a string of {} characters", it.chars().count()),
        Node::List(items) => format!("a list of {} items", items.len()),
        Node::Object(members) => format!("an object with {} members", members.len()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use expect_test::expect;
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;

    fn test_ws() -> TestWorkspace {
        TestWorkspace::new(
            "//- a.json\n{\n  // a comment\n  \"name\": \"x\",\n  \"items\": [{\"id\": 1}, {\"id\": 2}],\n}\n",
        )
    }

    #[test]
    fn reads_by_pointer_and_by_query() {
        let test_ws = test_ws();
        expect![[r#"{"id": 2}"#]]
            .assert_eq(&test_ws.says::<JsonRead>(&json!({"path": "a.json", "pointer": "/items/1"})));
        expect![[r#"
            /items/0/id: 1
            [1 more of 2; next: offset 1]"#]]
        .assert_eq(&test_ws.says::<JsonRead>(&json!({"path": "a.json", "query": "$..id", "limit": 1})));
    }

    #[test]
    fn a_miss_says_what_is_there_instead() {
        let test_ws = test_ws();
        expect![[r#"
            not_found: `a.json` has nothing at `/items/7/id`
            `/items` is a list of 2 items."#]]
        .assert_eq(&test_ws.says::<JsonRead>(&json!({"path": "a.json", "pointer": "/items/7/id"})));
        expect![[r#"
            not_found: `a.json` has nothing at `/nam`
            The whole has the members `name`, `items`."#]]
        .assert_eq(&test_ws.says::<JsonRead>(&json!({"path": "a.json", "pointer": "/nam"})));
        let bad = test_ws.says::<JsonRead>(&json!({"path": "a.json", "query": "items["}));
        assert!(bad.starts_with("bad_args: `items[` is not a JSONPath"), "{bad}");
    }

    #[test]
    fn a_large_value_is_outlined() {
        let long = "x".repeat(30_000);
        let test_ws = TestWorkspace::new(&format!("//- a.json\n{{\"a/b\": \"{long}\", \"c\": [1, 2]}}"));
        expect![[r#"
            an object with 2 members, 30020 bytes; pass a pointer to see one:
            /a~1b: a string of 30000 characters
            /c: a list of 2 items"#]]
        .assert_eq(&test_ws.says::<JsonRead>(&json!({"path": "a.json"})));
    }

    #[test]
    fn invalid_and_deeply_nested_json_is_refused() {
        let test_ws =
            TestWorkspace::new(&format!("//- a.json\n{{\"a\": }}\n//- deep.json\n{}", "[".repeat(100_000)));
        let broken = test_ws.says::<JsonRead>(&json!({"path": "a.json"}));
        assert!(broken.starts_with("bad_args: `a.json` is not JSON: "), "{broken}");
        expect!["too_big: `deep.json` is nested more than 128 levels deep"]
            .assert_eq(&test_ws.says::<JsonRead>(&json!({"path": "deep.json"})));
    }

    #[test]
    fn numbers_are_shown_as_the_file_writes_them() {
        let test_ws = TestWorkspace::new(
            "//- a.json\n{\"big\": 12345678901234567890123, \"price\": 1.10, \"huge\": 1e999}\n",
        );
        expect![[r#"{"big": 12345678901234567890123, "price": 1.10, "huge": 1e999}"#]]
            .assert_eq(&test_ws.says::<JsonRead>(&json!({"path": "a.json"})));
        expect![[r#"
            /big: 12345678901234567890123
            /price: 1.10
            /huge: 1e999"#]]
        .assert_eq(&test_ws.says::<JsonRead>(&json!({"path": "a.json", "query": "$[?@ > 1]"})));
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_with_what_to_do() {
        let test_ws = TestWorkspace::empty();
        std::fs::write(test_ws.path().join("big.json"), " ".repeat(8 * 1024 * 1024 + 1)).unwrap();
        expect![[r#"
            too_big: `big.json` has 8388609 bytes; at most 8388608 are handled in one piece
            `read` shows any part of it by `offset` and `limit`. `filegrep` finds lines in it."#]]
        .assert_eq(&test_ws.says::<JsonRead>(&json!({"path": "big.json"})));
    }

    #[test]
    fn query_output_is_bounded() {
        let long = "x".repeat(600_000);
        let test_ws = TestWorkspace::new(&format!("//- a.json\n[\"{long}\", \"{long}\", 1]"));
        let shown = test_ws.says::<JsonRead>(&json!({"path": "a.json", "query": "$.*"}));
        assert!(shown.ends_with("\n[1 more of 3; next: offset 2]"), "{}", shown.len());
    }
}
