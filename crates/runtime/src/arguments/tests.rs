#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use kit::Kind;
use serde_json::json;

use super::*;

/// Returns the fault's text for these arguments; empty if they match.
#[track_caller]
fn said(schema: &Value, arguments: &Value) -> String {
    let checked = Check::default().check(schema, arguments);
    checked.err().map_or_else(String::new, |fault| {
        assert_eq!(fault.kind, Kind::BadArgs);
        fault.what
    })
}

/// Returns the fault's text for an argument `x` with this schema.
#[track_caller]
fn of(schema: &Value, value: &Value) -> String {
    said(&json!({"type": "object", "properties": {"x": schema}}), &json!({"x": value}))
}

#[test]
fn every_problem_names_the_value_and_the_requirement() {
    let schema = json!({
        "type": "object",
        "required": ["path", "mode"],
        "additionalProperties": false,
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1},
            "mode": {"enum": ["fast", "slow"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    });
    assert_eq!(said(&schema, &json!({"path": "a", "mode": "fast", "limit": 3.0, "tags": []})), "");
    let wrong = json!({"limit": "ten", "mode": "quick", "tags": ["a", 7], "paht": "a"});
    assert_eq!(
        said(&schema, &wrong),
        "`path` is missing; it must be a string; is `paht` meant to be it?\n\
         `limit` is the string \"ten\" and must be an integer\n\
         `mode` is the string \"quick\" and must be one of \"fast\", \"slow\"\n\
         `tags[1]` is the number 7 and must be a string\n\
         `paht` is not an argument; did you mean `path`?"
    );
    assert_eq!(
        said(&schema, &json!({"path": "a", "mode": "fast", "zzz": 1})),
        "`zzz` is not an argument; there are: path, limit, mode, tags"
    );
    assert_eq!(
        said(&json!({"properties": {}, "additionalProperties": false}), &json!({"a": 1})),
        "`a` is not an argument; there are none"
    );
    assert_eq!(said(&schema, &json!([1])), "the arguments are a list and must be an object");
}

#[test]
fn at_most_five_problems_are_reported() {
    let schema = json!({"additionalProperties": {"type": "string"}});
    let many: Map<String, Value> = (0..50).map(|it| (format!("a{it}"), json!(it))).collect();
    assert_eq!(said(&schema, &Value::Object(many)).lines().count(), 5);
}

#[test]
fn bounds_of_each_type_are_enforced() {
    for (schema, good, bad, says) in [
        (
            json!({"minLength": 2}),
            json!("äö"),
            json!("ä"),
            "`x` has 1 characters and must have at least 2 characters",
        ),
        (
            json!({"maxLength": 1}),
            json!("ä"),
            json!("äö"),
            "`x` has 2 characters and must have at most 1 character",
        ),
        (
            json!({"pattern": "^a+$"}),
            json!("aa"),
            json!("ab"),
            "`x` is the string \"ab\" and must match `^a+$`",
        ),
        (json!({"minimum": 1}), json!(1), json!(0.5), "`x` is the number 0.5 and must be at least 1"),
        (json!({"exclusiveMinimum": 1}), json!(1.5), json!(1), "`x` is the number 1 and must be more than 1"),
        (
            json!({"minimum": 1, "exclusiveMinimum": true}),
            json!(2),
            json!(1),
            "`x` is the number 1 and must be more than 1",
        ),
        (json!({"maximum": 9}), json!(9), json!(10), "`x` is the number 10 and must be at most 9"),
        (json!({"exclusiveMaximum": 9}), json!(8), json!(9), "`x` is the number 9 and must be less than 9"),
        (
            json!({"multipleOf": 0.1}),
            json!(0.3),
            json!(0.35),
            "`x` is the number 0.35 and must be a multiple of 0.1",
        ),
        (json!({"minItems": 1}), json!([1]), json!([]), "`x` has 0 items and must have at least 1 item"),
        (json!({"maxItems": 1}), json!([1]), json!([1, 2]), "`x` has 2 items and must have at most 1 item"),
        (
            json!({"uniqueItems": true}),
            json!([1, 2]),
            json!([1, 1.0]),
            "`x` has the same item twice and must not",
        ),
        (
            json!({"contains": {"type": "string"}}),
            json!([1, "a"]),
            json!([1]),
            "`x` has 0 items of the kind that it must have at least 1 item of",
        ),
        (
            json!({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}),
            json!(["a", 1]),
            json!(["a", "b"]),
            "`x[1]` is the string \"b\" and must be an integer",
        ),
        (
            json!({"items": [{"type": "string"}], "additionalItems": false}),
            json!(["a"]),
            json!(["a", 1]),
            "`x[1]` is not allowed",
        ),
        (
            json!({"minProperties": 1}),
            json!({"a": 1}),
            json!({}),
            "`x` has 0 fields and must have at least 1 field",
        ),
        (
            json!({"patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": false}),
            json!({"n_a": 1}),
            json!({"n_a": "1"}),
            "`x.n_a` is the string \"1\" and must be an integer",
        ),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"a": 1}),
            json!({"ab": 1}),
            "`x.ab` has a name that is not allowed",
        ),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({"b": 1}),
            json!({"a": 1}),
            "`x.b` is missing; `a` needs it",
        ),
        (json!({"const": 5}), json!(5), json!(6), "`x` is the number 6 and must be 5"),
        (
            json!({"not": {"required": ["a", "b"]}}),
            json!({"a": 1}),
            json!({"a": 1, "b": 1}),
            "`x` must not have `a` together with `b`",
        ),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
            json!({}),
            json!({"a": 1}),
            "`x.b` is missing",
        ),
        (
            json!({"type": ["string", "null"]}),
            json!(null),
            json!(1),
            "`x` is the number 1 and must be a string or null",
        ),
        (
            json!({"type": "string", "nullable": true}),
            json!(null),
            json!(1),
            "`x` is the number 1 and must be a string or null",
        ),
        (json!(false), json!({}), json!(1), "`x` is not allowed"),
    ] {
        if schema != json!(false) {
            assert_eq!(of(&schema, &good), "", "{schema} allows {good}");
        }
        assert_eq!(of(&schema, &bad), says, "{schema}");
    }
}

#[test]
fn nearest_of_several_alternatives_is_reported() {
    let either = json!({"anyOf": [{"type": "integer"}, {"type": "array"}, {"const": "all"}]});
    assert_eq!(of(&either, &json!("all")), "");
    assert_eq!(
        of(&either, &json!("some")),
        "`x` is the string \"some\" and must be an integer or a list or one of \"all\""
    );
    let kinds = json!({"oneOf": [
        {"properties": {"kind": {"const": "move"}, "to": {"type": "string"}}, "required": ["kind", "to"]},
        {"properties": {"kind": {"const": "wait"}, "seconds": {"type": "number"}}, "required": ["kind", "seconds"]},
    ]});
    assert_eq!(
        of(&kinds, &json!({"kind": "wait"})),
        "`x` fits none of 2 forms; for the nearest:\n`x.seconds` is missing; it must be a number"
    );
    let one = json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(of(&one, &json!({"a": 1})), "");
    assert_eq!(
        said(&one, &json!({"a": 1, "b": 1})),
        "the arguments fit 2 forms and must fit just one: give only `a` or only `b`"
    );
}

#[test]
fn references_within_the_schema_are_followed() {
    let tree = json!({
        "$defs": {"node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "of": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        }},
        "properties": {"tree": {"$ref": "#/$defs/node"}, "odd": {"$ref": "#/definitions/a%20b~1c"}},
        "definitions": {"a b/c": {"type": "integer"}},
    });
    assert_eq!(said(&tree, &json!({"tree": {"of": [{"of": [{"name": "x"}]}]}})), "");
    assert_eq!(
        said(&tree, &json!({"tree": {"of": [{"of": [{"name": 5}]}]}, "odd": "1"})),
        "`tree.of[0].of[0].name` is the number 5 and must be a string\n\
         `odd` is the string \"1\" and must be an integer"
    );
}

#[test]
fn broken_schema_is_checked_as_far_as_it_is_valid() {
    let broken = json!({
        "type": "object",
        "required": "path",
        "properties": {
            "path": {"type": "str"},
            "name": {"type": "string", "pattern": "(?=a)b"},
            "limit": {"type": "integer", "maximum": "9"},
            "other": {"$ref": "https://example.org/schema.json"},
        },
    });
    assert_eq!(said(&broken, &json!({"path": 5, "name": "x", "limit": 99, "other": 1})), "");
    assert_eq!(said(&broken, &json!({"limit": "x"})), "`limit` is the string \"x\" and must be an integer");
}

#[test]
fn invalid_object_schema_is_named_with_its_position() {
    let wrong = |schema: Value| fitted(&mut schema.clone()).unwrap_err();
    for (schema, why) in [
        (
            json!({"properties": {"a": {"type": "str"}}}),
            "`parameters.properties.a.type` is \"str\"; it must be one of string, ",
        ),
        (
            json!({"properties": {"a": {"type": ["string", "nulll"]}}}),
            "`parameters.properties.a.type` is [\"string\",\"nulll\"]",
        ),
        (
            json!({"required": "t", "properties": {}}),
            "`parameters.required` is \"t\"; it must be a list of names",
        ),
        (
            json!({"properties": {"a": {"type": "string", "required": true}}}),
            "`parameters.properties.a.required` is true",
        ),
        (json!({"properties": ["a"]}), "`parameters.properties` is [\"a\"]; it must be an object of schemas"),
        (json!({"properties": true}), "`parameters.properties` is true"),
        (
            json!({"properties": {"a": "string"}}),
            "`parameters.properties.a` is \"string\"; it must be a schema",
        ),
        (
            json!({"properties": {"a": {"items": [{"anyOf": {}}]}}}),
            "`parameters.properties.a.items[0].anyOf` is {}",
        ),
        (
            json!({"properties": {"a": {"description": null}}}),
            "`parameters.properties.a.description` is null",
        ),
        (
            json!({"properties": {"a": {"maximum": "9"}}}),
            "`parameters.properties.a.maximum` is \"9\"; it must be a number",
        ),
        (json!({"t": {"type": "string"}}), "arguments belong into `parameters.properties`"),
        (json!({"type": "array"}), "`parameters.type` is \"array\"; it must be \"object\""),
        (json!(null), "`parameters` is null"),
    ] {
        let said = wrong(schema);
        assert!(said.starts_with(why) || said.ends_with(why), "{why}: {said}");
    }
    let two = wrong(json!({"properties": {"a": {"type": "str"}, "b": 5}}));
    assert_eq!(two.lines().count(), 2, "{two}");
}

#[test]
fn omitted_type_is_added_and_unchecked_parts_are_noted() {
    for bare in [json!({}), json!({"type": "object"}), json!({"properties": {}})] {
        let mut schema = bare;
        assert_eq!(fitted(&mut schema), Ok(Vec::new()));
        assert_eq!(schema, json!({"type": "object", "properties": {}}));
    }
    let notes = fitted(&mut json!({
        "properties": {
            "name": {"type": "string", "pattern": "(?=a)b"},
            "other": {"$ref": "https://example.org/schema.json"},
        },
        "unevaluatedProperties": false,
    }));
    let notes = notes.unwrap();
    assert_eq!(notes.len(), 3, "{notes:#?}");
    let first = notes.first().unwrap();
    assert!(
        first.starts_with(
            "schema: `parameters.properties.name.pattern` is \"(?=a)b\", which can't be followed (look-around"
        ),
        "{first}"
    );
}

#[test]
fn valid_schema_has_no_errors() {
    let right = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "title": "x",
        "properties": {"type": {"type": ["string", "null"], "default": null}, "items": {"items": {"$ref": "#"}}},
        "required": ["type"],
        "additionalProperties": false,
        "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
    });
    assert_eq!(fitted(&mut right.clone()), Ok(Vec::new()));
}

#[test]
fn hostile_schema_is_checked_in_bounded_time() {
    let began = Instant::now();
    assert_eq!(said(&json!({"$ref": "#"}), &json!({})), "");
    let ring = json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a", "required": ["q"]}}, "$ref": "#/$defs/a"});
    assert_eq!(said(&ring, &json!({})), "`q` is missing");
    let mut doubled = Map::new();
    for index in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
        doubled.insert(format!("d{index}"), json!({"allOf": [next.clone(), next]}));
    }
    assert_eq!(said(&json!({"$defs": doubled, "$ref": "#/$defs/d0"}), &json!({})), "");
    let child = json!({"properties": {"c": {"$ref": "#"}}});
    let deep = (0..100).fold(json!(1), |below, _| json!({ "c": below }));
    assert_eq!(said(&json!({"allOf": [child.clone(), child]}), &deep), "");
    let slow =
        json!({"properties": {"x": {"pattern": "^(a+)+$"}, "y": {"pattern": "(((a{500}){500}){500})"}}});
    let text = "a".repeat(100_000) + "!";
    assert!(said(&slow, &json!({"x": text, "y": "a"})).starts_with("`x` is the string \"aaaa"));
    let notes = fitted(&mut slow.clone()).unwrap();
    assert!(notes.first().unwrap().contains("`parameters.properties.y.pattern`"));
    // Far above the time that it takes, and far below endless.
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn pattern_is_compiled_once() {
    let check = Check::default();
    let schema = json!({"properties": {"x": {"pattern": "^a"}}});
    for _ in 0..3 {
        assert!(check.check(&schema, &json!({"x": "a"})).is_ok());
    }
    assert_eq!(check.patterns.lock().len(), 1);
}
