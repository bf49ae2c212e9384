//! `json_write`: changes one value of a JSON file, and nothing around it.

use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp};
use kit::{files::Before, prelude::*, text::Text};
use serde_json::Value;

use super::{
    json::{self, Document},
    json_tree::index,
};

/// Maximum size of a file; in memory it takes up to 180 times that.
const LARGEST: u64 = 3 << 20;

/// Set, add or remove one value of a JSON file; all other text, comments too, stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonWrite {
    /// File, relative to the workspace or absolute. It is created if `pointer` is empty and it does not exist.
    pub(crate) path: String,
    /// JSON Pointer to the value, such as `/scripts/test`; `/items/-` adds to a list; empty is the whole.
    pub(crate) pointer: String,
    /// The new value: any JSON.
    #[serde(default, deserialize_with = "given")]
    pub(crate) value: Option<Value>,
    /// Remove the value instead.
    #[serde(default)]
    pub(crate) remove: bool,
}

/// Accepts `null` as a value, unlike a missing field.
pub(crate) fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Tool for JsonWrite {
    const NAME: &str = "json_write";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::write(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.write(cx)).await
    }
}

impl JsonWrite {
    fn write(&self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, pointer, value, remove } = self;
        if value.is_some() == *remove {
            return Err(Fault::bad_args("give either `value`, or `remove`: true"));
        }
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(Fault::bad_args(format!(
                "`{pointer}` is not a JSON Pointer: it begins with `/`, or is empty for the whole"
            )));
        }
        if let (true, Some(value)) = (pointer.is_empty(), value)
            && !cx.files().exists(path)?
        {
            let text = serde_json::to_string_pretty(value)
                .or_fault(Kind::BadArgs, "the value can't be written")?
                + "\n";
            let saved = cx.files().save(path, Before::Absent, text.as_bytes())?;
            if let Ok(text) = Text::parse(text) {
                cx.views().wrote(&saved.location.absolute(), &text);
            }
            return Ok(Output::text(format!("Created {path}")));
        }
        let opened = json::load(
            cx,
            path,
            LARGEST,
            Some(
                "Change lines of it with `tool:edit`[?; `tool:filegrep` finds them, ready for that|; `tool:grep` finds them?].",
            ),
        )?;
        let document = Document::parse(path, &opened.text.decoded())?;
        let did = match value {
            Some(value) => self.set(&document, value)?,
            None => self.remove(&document)?,
        };
        let mut bytes = Vec::new();
        if opened.text.has_bom() {
            bytes.extend_from_slice(&opened.text.encoding().encode("\u{feff}").unwrap_or_default());
        }
        let text = document.root.to_string();
        bytes.extend_from_slice(
            &opened.text.encoding().encode(&text).or_fault(Kind::BadArgs, "nothing was written")?,
        );
        if bytes == *opened.loaded.bytes {
            return Ok(Output::text(format!(
                "{path} has this value at `{pointer}` already; nothing was written"
            )));
        }
        cx.files().save(path, opened.before(), bytes)?;
        Ok(Output::text(format!("{did} `{pointer}` in {path}")))
    }

    fn set(&self, document: &Document, value: &Value) -> Result<&'static str, Fault> {
        let input = input_of(value);
        let Some((above, name)) = self.pointer.rsplit_once('/') else {
            document.root.set_value(input);
            return Ok("Set");
        };
        let name = unescape(name);
        let holder = self.find(document, above)?;
        if let Some(object) = holder.as_object() {
            self.once(&object, &name)?;
            return Ok(match object.get(&name) {
                Some(member) => {
                    member.set_value(input);
                    "Set"
                }
                None => {
                    object.append(&name, input);
                    "Added"
                }
            });
        }
        let Some(list) = holder.as_array() else { return Err(self.no_holder(above)) };
        let items = list.elements();
        if name == "-" || name == items.len().to_string() {
            list.append(input);
            return Ok("Added");
        }
        let Some(item) = index(&name).and_then(|at| items.into_iter().nth(at)) else {
            return Err(self.no_item(above, list.elements().len()));
        };
        replace(&item, input);
        Ok("Set")
    }

    fn remove(&self, document: &Document) -> Result<&'static str, Fault> {
        let Some((above, name)) = self.pointer.rsplit_once('/') else {
            return Err(Fault::bad_args("the whole of a JSON file can't be removed: `pointer` is empty"));
        };
        let name = unescape(name);
        let holder = self.find(document, above)?;
        if let Some(object) = holder.as_object() {
            self.once(&object, &name)?;
            let Some(member) = object.get(&name) else { return Err(self.nothing(&self.pointer)) };
            member.remove();
        } else if let Some(list) = holder.as_array() {
            let item = index(&name).and_then(|at| list.elements().into_iter().nth(at));
            let Some(item) = item else { return Err(self.no_item(above, list.elements().len())) };
            item.remove();
        } else {
            return Err(self.no_holder(above));
        }
        Ok("Removed")
    }

    /// Returns the node that a pointer refers to.
    fn find(&self, document: &Document, pointer: &str) -> Result<CstNode, Fault> {
        let mut node = document.root.value().ok_or_else(|| self.nothing(pointer))?;
        for name in pointer.split('/').skip(1).map(unescape) {
            let below = if let Some(object) = node.as_object() {
                self.once(&object, &name)?;
                object.get(&name).and_then(|member| member.value())
            } else {
                node.as_array().and_then(|list| list.elements().into_iter().nth(index(&name)?))
            };
            node = below.ok_or_else(|| self.nothing(pointer))?;
        }
        Ok(node)
    }

    /// Refuses a name that an object has more than once: readers differ on which counts.
    fn once(&self, object: &CstObject, name: &str) -> Result<(), Fault> {
        let is_it = |it: &CstObjectProp| {
            it.name().and_then(|it| it.decoded_value().ok()).is_some_and(|it| it == name)
        };
        match object.properties().iter().filter(|it| is_it(it)).count() {
            0 | 1 => Ok(()),
            times => Err(Fault::new(
                Kind::Ambiguous,
                format!("`{}` has `{name}` {times} times in one object; nothing was written", self.path),
            )
            .hint("Remove all but one with `tool:edit`; readers take the last.".to_owned())),
        }
    }

    fn nothing(&self, pointer: &str) -> Fault {
        Fault::not_found(format!("`{}` has nothing at `{pointer}`; nothing was written", self.path))
            .hint("`tool:json_read` shows what is there.".to_owned())
    }

    fn no_item(&self, above: &str, items: usize) -> Fault {
        Fault::not_found(format!(
            "the list at `{above}` has {items} items, and `{}` names none",
            self.pointer
        ))
        .next(format!("`{above}/-` adds one."))
    }

    fn no_holder(&self, above: &str) -> Fault {
        Fault::bad_args(format!(
            "`{above}` is neither an object nor a list, so there is no `{}`",
            self.pointer
        ))
    }
}

fn unescape(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

fn replace(node: &CstNode, input: CstInputValue) {
    if let Some(it) = node.as_object() {
        it.replace_with(input);
    } else if let Some(it) = node.as_array() {
        it.replace_with(input);
    } else if let Some(it) = node.as_string_lit() {
        it.replace_with(input);
    } else if let Some(it) = node.as_number_lit() {
        it.replace_with(input);
    } else if let Some(it) = node.as_boolean_lit() {
        it.replace_with(input);
    } else if let Some(it) = node.as_null_keyword() {
        it.replace_with(input);
    }
}

fn input_of(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(it) => CstInputValue::Bool(*it),
        Value::Number(it) => CstInputValue::Number(it.to_string()),
        Value::String(it) => CstInputValue::String(it.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input_of).collect()),
        Value::Object(members) => CstInputValue::Object(
            members.iter().map(|(name, value)| (name.clone(), input_of(value))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use expect_test::expect;
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;

    const FILE: &str = "//- a.json\n{\n    // why\n    \"name\": \"x\",   // here\n    \"big\": 12345678901234567890123,\n    \"items\": [1, 2]\n}\n";

    fn after(arguments: &Value) -> String {
        let test_ws = TestWorkspace::new(FILE);
        let said = test_ws.says::<JsonWrite>(arguments);
        format!("{said}\n{}", String::from_utf8(test_ws.bytes("a.json")).unwrap())
    }

    #[test]
    fn sets_one_value_and_leaves_all_other_text() {
        expect![[r#"
            Set `/name` in a.json
            {
                // why
                "name": {
                    "first": "y"
                },   // here
                "big": 12345678901234567890123,
                "items": [1, 2]
            }
        "#]]
        .assert_eq(&after(&json!({"path": "a.json", "pointer": "/name", "value": {"first": "y"}})));
    }

    #[test]
    fn adds_and_removes() {
        let text = after(&json!({"path": "a.json", "pointer": "/items/-", "value": null}));
        assert!(text.contains("\"items\": [1, 2, null]"), "{text}");
        let text = after(&json!({"path": "a.json", "pointer": "/new~1key", "value": true}));
        assert!(text.contains("\"items\": [1, 2],\n    \"new/key\": true\n}"), "{text}");
        let text = after(&json!({"path": "a.json", "pointer": "/items/0", "remove": true}));
        assert!(text.contains("\"items\": [ 2]"), "{text}");
    }

    #[test]
    fn invalid_targets_change_nothing() {
        for (arguments, says) in [
            (
                json!({"path": "a.json", "pointer": "/no/such", "value": 1}),
                "not_found: `a.json` has nothing at `/no`",
            ),
            (
                json!({"path": "a.json", "pointer": "/items/7", "value": 1}),
                "not_found: the list at `/items` has 2 items",
            ),
            (
                json!({"path": "a.json", "pointer": "/items/01", "value": 1}),
                "not_found: the list at `/items`",
            ),
            (json!({"path": "a.json", "pointer": "/name/x", "value": 1}), "bad_args: `/name` is neither"),
            (
                json!({"path": "a.json", "pointer": "name", "value": 1}),
                "bad_args: `name` is not a JSON Pointer",
            ),
            (json!({"path": "a.json", "pointer": "/name"}), "bad_args: give either"),
            (json!({"path": "a.json", "pointer": "", "remove": true}), "bad_args: the whole"),
        ] {
            let text = after(&arguments);
            assert!(text.starts_with(says), "{text}");
            assert!(text.ends_with(FILE.trim_start_matches("//- a.json\n")), "{text}");
        }
    }

    #[test]
    fn makes_a_file_and_keeps_line_endings() {
        let test_ws = TestWorkspace::empty();
        expect!["Created new.json"].assert_eq(
            &test_ws.says::<JsonWrite>(&json!({"path": "new.json", "pointer": "", "value": {"a": 1}})),
        );
        assert_eq!(test_ws.bytes("new.json"), b"{\n  \"a\": 1\n}\n");
        std::fs::write(test_ws.path().join("crlf.json"), "\u{feff}{\r\n  \"a\": 1\r\n}\r\n").unwrap();
        test_ws.says::<JsonWrite>(&json!({"path": "crlf.json", "pointer": "/b", "value": 2}));
        assert_eq!(test_ws.bytes("crlf.json"), "\u{feff}{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}\r\n".as_bytes());
    }

    #[test]
    fn a_name_that_stands_twice_is_refused() {
        let text = "{\"a\": {\"b\": 1}, \"\\u0061\": 2, \"c\": 3}\n";
        let test_ws = TestWorkspace::new(&format!("//- a.json\n{text}"));
        for pointer in ["/a", "/a/b"] {
            let says = test_ws.says::<JsonWrite>(&json!({"path": "a.json", "pointer": pointer, "value": 5}));
            assert!(says.contains("`a.json` has `a` 2 times in one object"), "{says}");
        }
        let says = test_ws.says::<JsonWrite>(&json!({"path": "a.json", "pointer": "/a", "remove": true}));
        assert!(says.contains("2 times"), "{says}");
        assert_eq!(test_ws.bytes("a.json"), text.as_bytes());
        let most = u64::MAX;
        let says = test_ws.says::<JsonWrite>(&json!({"path": "a.json", "pointer": "/c", "value": most}));
        assert!(says.starts_with("Set"), "{says}");
        assert!(String::from_utf8(test_ws.bytes("a.json")).unwrap().contains("\"c\": 18446744073709551615"));
    }
}
