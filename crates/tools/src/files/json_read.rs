//! `json_read`: what stands at this place of a JSON file?

use kit::prelude::*;
use serde_json::Value;
use serde_json_path::JsonPath;

use super::{json::Document, open};

/// A value longer than this is outlined, if it has parts to point at.
const WHOLE: usize = 24 * 1024;

/// Matches of a query that are shown, if no other number is asked for.
const MATCHES: usize = 100;

/// Members of a large value that are outlined.
const OUTLINED: usize = 200;

/// Read a part of a JSON file (comments allowed), by pointer or by query. A large value is outlined.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonRead {
    /// File, relative to the workspace or absolute.
    path: String,
    /// JSON Pointer, such as `/scripts/test` or `/items/0`. Default: the whole.
    #[serde(default)]
    pointer: Option<String>,
    /// JSONPath, such as `$..name` or `$.items[?@.price < 10]`, from where `pointer` leads.
    #[serde(default)]
    query: Option<String>,
    /// Matches of the query to skip; a longer result names the value to pass.
    #[serde(default)]
    offset: usize,
    /// Matches of the query to show. Default 100.
    #[serde(default)]
    limit: Option<usize>,
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
        let opened = open::text(cx, &self.path)?;
        let document = Document::parse(&self.path, &opened.text.decoded())?;
        let whole = document.value()?;
        let pointer = self.pointer.as_deref().unwrap_or_default();
        let value = find(&whole, pointer, &self.path)?;
        match &self.query {
            Some(query) => self.matches(value, query),
            None => Ok(show(value, pointer)),
        }
    }

    fn matches(&self, value: &Value, query: &str) -> Result<Output, Fault> {
        let path = JsonPath::parse(query).map_err(|error| {
            Fault::bad_args(format!("`{query}` is not a JSONPath: {error}"))
                .next("For example `$..name`, `$.items[0].id`, `$.items[?@.price < 10]`.".to_owned())
        })?;
        let found = path.query_located(value);
        let count = found.len();
        if count == 0 {
            return Ok(Output::text(format!("No matches for `{query}` in {}", self.path)));
        }
        if self.offset >= count {
            return Err(Fault::bad_args(format!(
                "`offset` is {}, and there are {count} matches",
                self.offset
            )));
        }
        let limit = self.limit.unwrap_or(MATCHES);
        let mut lines: Vec<String> = found
            .iter()
            .skip(self.offset)
            .take(limit)
            .map(|node| format!("{}: {}", node.location().to_json_pointer(), node.node()))
            .collect();
        if count > self.offset + limit {
            lines.push(format!(
                "[{} more of {count}; next: offset {}]",
                count - self.offset - limit,
                self.offset + limit
            ));
        }
        Ok(Output::text(lines.join("\n")))
    }
}

/// The value that a pointer leads to.
///
/// # Errors
/// [`Kind::NotFound`], with how far it leads and what is there.
fn find<'a>(whole: &'a Value, pointer: &str, path: &str) -> Result<&'a Value, Fault> {
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
        Value::Object(members) => {
            let names: Vec<String> = members.keys().take(30).map(|name| format!("`{name}`")).collect();
            format!("has the members {}", names.join(", "))
        }
        Value::Array(items) => format!("is a list of {} items", items.len()),
        other => format!("is {}", kind(other)),
    };
    let at = if reached.is_empty() { "The whole".to_owned() } else { format!("`{reached}`") };
    Err(Fault::not_found(format!("`{path}` has nothing at `{pointer}`")).next(format!("{at} {there}.")))
}

fn show(value: &Value, pointer: &str) -> Output {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    if text.len() <= WHOLE {
        return Output::text(text);
    }
    let line = |name: String, value: &Value| format!("{pointer}/{name}: {}", kind(value));
    let (what, lines, count): (_, Vec<String>, _) = match value {
        Value::Object(members) => {
            let escape = |name: &String| name.replace('~', "~0").replace('/', "~1");
            let lines =
                members.iter().take(OUTLINED).map(|(name, value)| line(escape(name), value)).collect();
            ("an object", lines, members.len())
        }
        Value::Array(items) => {
            let lines = items
                .iter()
                .take(OUTLINED)
                .enumerate()
                .map(|(index, it)| line(index.to_string(), it))
                .collect();
            ("a list", lines, items.len())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Output::text(text),
    };
    let more = match count.saturating_sub(OUTLINED) {
        0 => String::new(),
        more => format!("\n[{more} more]"),
    };
    Output::page(format!(
        "{what} with {count} members, {} bytes; pass a pointer to see one:\n{}{more}",
        text.len(),
        lines.join("\n")
    ))
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::Number(it) => it.to_string(),
        Value::String(it) if it.chars().count() <= 60 => value.to_string(),
        Value::String(it) => format!("a string of {} characters", it.chars().count()),
        Value::Array(items) => format!("a list of {} items", items.len()),
        Value::Object(members) => format!("an object with {} members", members.len()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use kit::testing::Room;
    use serde_json::json;

    use super::*;

    fn room() -> Room {
        Room::new(
            "//- a.json\n{\n  // a comment\n  \"name\": \"x\",\n  \"items\": [{\"id\": 1}, {\"id\": 2}],\n}\n",
        )
    }

    #[test]
    fn reads_by_pointer_and_by_query() {
        let room = room();
        expect![[r#"
            {
              "id": 2
            }"#]]
        .assert_eq(&room.says::<JsonRead>(&json!({"path": "a.json", "pointer": "/items/1"})));
        expect![[r#"
            /items/0/id: 1
            [1 more of 2; next: offset 1]"#]]
        .assert_eq(&room.says::<JsonRead>(&json!({"path": "a.json", "query": "$..id", "limit": 1})));
    }

    #[test]
    fn a_miss_says_what_is_there_instead() {
        let room = room();
        expect![[r#"
            not_found: `a.json` has nothing at `/items/7/id`
            `/items` is a list of 2 items."#]]
        .assert_eq(&room.says::<JsonRead>(&json!({"path": "a.json", "pointer": "/items/7/id"})));
        expect![[r#"
            not_found: `a.json` has nothing at `/nam`
            The whole has the members `name`, `items`."#]]
        .assert_eq(&room.says::<JsonRead>(&json!({"path": "a.json", "pointer": "/nam"})));
        let bad = room.says::<JsonRead>(&json!({"path": "a.json", "query": "items["}));
        assert!(bad.starts_with("bad_args: `items[` is not a JSONPath"), "{bad}");
    }

    #[test]
    fn a_large_value_is_outlined() {
        let long = "x".repeat(30_000);
        let room = Room::new(&format!("//- a.json\n{{\"a/b\": \"{long}\", \"c\": [1, 2]}}"));
        expect![[r#"
            an object with 2 members, 30042 bytes; pass a pointer to see one:
            /a~1b: a string of 30000 characters
            /c: a list of 2 items"#]]
        .assert_eq(&room.says::<JsonRead>(&json!({"path": "a.json"})));
    }

    #[test]
    fn what_is_no_json_and_what_is_nested_too_deep_is_refused() {
        let room = Room::new(&format!("//- a.json\n{{\"a\": }}\n//- deep.json\n{}", "[".repeat(100_000)));
        let broken = room.says::<JsonRead>(&json!({"path": "a.json"}));
        assert!(broken.starts_with("bad_args: `a.json` is not JSON: "), "{broken}");
        expect!["too_big: `deep.json` is nested more than 128 levels deep"]
            .assert_eq(&room.says::<JsonRead>(&json!({"path": "deep.json"})));
    }
}
