//! `json_read` with KohakuTerrarium's dot paths: `a.b[0].c`.

use kit::prelude::*;

use crate::files::{
    json_read,
    json_tree::{Step, pointer_of},
};

/// Read a part of a JSON file (comments allowed). A large value is outlined.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonRead {
    /// File, relative to the workspace or absolute.
    path: String,
    /// JSON Pointer, such as `/scripts/test` or `/items/0`.
    #[serde(default)]
    pointer: Option<String>,
    /// Dot path, such as `items[0].name`, or JSONPath, such as `$..name`. Default: `.`, the whole.
    #[serde(default)]
    query: Option<String>,
    /// Matches of a JSONPath to skip; a longer result names the value to pass.
    #[serde(default)]
    offset: usize,
    /// Maximum matches of a JSONPath. Default 100.
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
        let Self { path, pointer, query, offset, limit } = self;
        let (pointer, query) = match query {
            Some(query) if !is_json_path(&query) => {
                let steps = steps(&query)?;
                (Some(pointer.unwrap_or_default() + &pointer_of(&steps)), None)
            }
            query => (pointer, query),
        };
        json_read::JsonRead { path, pointer, query, offset, limit }.run(cx).await
    }
}

/// Returns whether it is JSONPath: `$` alone, `$.a` and `$[0]`.
fn is_json_path(query: &str) -> bool {
    query.trim().strip_prefix('$').is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Splits a dot path into steps; leading points are ignored.
///
/// # Errors
/// [`Kind::BadArgs`] for brackets without an index.
pub(super) fn steps(query: &str) -> Result<Vec<Step<'_>>, Fault> {
    let no = |index: &str| {
        Fault::bad_args(format!("`query`: `{index}` in `{query}` is not an index"))
            .next("A dot path is such as `a.b[0].c`; `pointer` reaches names with points or brackets.")
    };
    let mut steps = Vec::new();
    for part in query.trim().split('.').filter(|it| !it.is_empty()) {
        let (key, indexes) = part.find('[').map_or((part, ""), |at| part.split_at(at));
        if !key.is_empty() {
            steps.push(Step::Name(key));
        }
        for index in indexes.split('[').skip(1) {
            let number = index.strip_suffix(']').and_then(|it| it.trim().parse().ok());
            steps.push(Step::Index(number.ok_or_else(|| no(index.trim_end_matches(']')))?));
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_is_a_dot_path_or_a_json_path() {
        let test_ws = TestWorkspace::new("//- a.json\n{\"a\": {\"b/c\": [[1, 2], {\"d\": 3}]}, \"$x\": 4}\n");
        let says = |query: &str| test_ws.says::<JsonRead>(&json!({"path": "a.json", "query": query}));
        assert_eq!(says("a.b/c[1].d"), "3");
        assert_eq!(says("..a.b/c[0][1]"), "2");
        assert_eq!(says("$x"), "4");
        assert_eq!(says("$..d"), "/a/b~1c/1/d: 3");
        assert_eq!(says("."), says(""));
        assert!(says(".").contains("\"$x\": 4"), "{}", says("."));
        let below =
            test_ws.says::<JsonRead>(&json!({"path": "a.json", "pointer": "/a", "query": "b/c[0][0]"}));
        assert_eq!(below, "1");
        assert!(
            says("a.none").starts_with("not_found: `a.json` has nothing at `/a/none`"),
            "{}",
            says("a.none")
        );
        assert!(
            says("a[x]").starts_with("bad_args: `query`: `x` in `a[x]` is not an index"),
            "{}",
            says("a[x]")
        );
    }
}
