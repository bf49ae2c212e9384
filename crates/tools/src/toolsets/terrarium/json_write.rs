//! `json_write` with KohakuTerrarium's dot paths: `a.b[0].c`.

use kit::prelude::*;
use serde_json::{Value, json};

use super::json_read::steps;
use crate::files::{
    json_tree::{Step, pointer_of},
    json_write,
};

/// Set, add or remove one value of a JSON file; all other text, comments too, stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonWrite {
    /// File, relative to the workspace or absolute.
    path: String,
    /// JSON Pointer to the value, such as `/scripts/test`; `/items/-` adds to a list; empty is the whole.
    pointer: Option<String>,
    /// Instead of `pointer`: a dot path, such as `items[0].name`; `.` is the whole. Objects on the way are made.
    query: Option<String>,
    /// The new value: any JSON. With `query` a text that is JSON is read as that.
    #[serde(default, alias = "content", deserialize_with = "json_write::given")]
    value: Option<Value>,
    /// Remove the value instead.
    #[serde(default)]
    remove: bool,
}

impl Tool for JsonWrite {
    const NAME: &str = "json_write";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::write(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, pointer, query, value, remove } = self;
        match (pointer, query) {
            (Some(_), Some(_)) => Err(Fault::bad_args("give either `pointer` or `query`")),
            (Some(pointer), None) => json_write::JsonWrite { path, pointer, value, remove }.run(cx).await,
            (None, query) => {
                let query = query.unwrap_or_else(|| ".".to_owned());
                let steps = steps(&query)?;
                if remove {
                    let pointer = pointer_of(&steps);
                    return json_write::JsonWrite { path, pointer, value, remove }.run(cx).await;
                }
                let value = match value {
                    None => return Err(Fault::bad_args("Value is required")),
                    Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
                    Some(value) => value,
                };
                set(&path, steps, value, cx).await?;
                Ok(Output::text(format!("Updated {path} at '{query}'")))
            }
        }
    }
}

/// Sets a value, and creates the missing objects on the path.
async fn set(path: &str, mut steps: Vec<Step<'_>>, mut value: Value, cx: &Cx) -> Result<(), Fault> {
    let is_new = !cx.files().exists(path)?;
    loop {
        let (path, pointer) = (path.to_owned(), pointer_of(&steps));
        let to_set = json_write::JsonWrite { path, pointer, value: Some(value.clone()), remove: false };
        let Err(fault) = to_set.run(cx).await else { return Ok(()) };
        // An existing root value is not replaced for the sake of a value inside it.
        let goes_up = fault.kind == Kind::NotFound && (is_new || steps.len() > 1);
        match steps.pop() {
            Some(Step::Name(name)) if goes_up => value = json!({ name: value }),
            _ => return Err(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::testing::TestWorkspace;

    use super::*;

    #[test]
    fn a_dot_path_sets_a_value_and_makes_the_objects_on_the_way() {
        let test_ws =
            TestWorkspace::new("//- a.json\n{\n  // why\n  \"a\": {\"b\": [1, 2]}\n}\n//- list.json\n[1]\n");
        let text = |name: &str| String::from_utf8(test_ws.bytes(name)).unwrap();
        let says = |path: &str, query: &str, value: &str| {
            test_ws.says::<JsonWrite>(&json!({"path": path, "query": query, "value": value}))
        };
        assert_eq!(says("a.json", "a.b[1]", "{\"x\": 3}"), "Updated a.json at 'a.b[1]'");
        assert_eq!(says("a.json", ".a.c.d", "plain words"), "Updated a.json at '.a.c.d'");
        let read: Value = serde_json::from_str(&text("a.json").replace("// why", "")).unwrap();
        assert_eq!(read, json!({"a": {"b": [1, {"x": 3}], "c": {"d": "plain words"}}}));
        assert!(text("a.json").contains("// why"), "{}", text("a.json"));
        assert_eq!(says("new/b.json", "k.l", "true"), "Updated new/b.json at 'k.l'");
        assert_eq!(serde_json::from_str::<Value>(&text("new/b.json")).unwrap(), json!({"k": {"l": true}}));
        assert!(says("list.json", "a", "1").starts_with("not_found: "), "{}", says("list.json", "a", "1"));
        assert_eq!(text("list.json"), "[1]\n");
        assert_eq!(
            test_ws.says::<JsonWrite>(&json!({"path": "a.json", "query": "a"})),
            "bad_args: Value is required"
        );
    }
}
