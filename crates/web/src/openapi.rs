//! The description of the API, as OpenAPI 3.1, from the table of routes and the types of its bodies.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{role::Role, route::Route};

/// Describes these routes.
pub(crate) fn describe(table: &[Route], version: &str) -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|it| it.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for route in table {
        let operation = operation(route, &mut generator);
        let path = paths.entry(route.path.to_owned()).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.method.as_str().to_ascii_lowercase(), operation);
        }
    }
    let roles: Vec<&str> = Role::ALL.into_iter().map(Role::name).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "haft serve",
            "version": version,
            "description": format!("Each operation names the role that it needs; each role has the rights of those before it: {}.", roles.join(", ")),
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "haft_PORT",
                    "description": "Requests but GET need the header `X-Haft: 1` besides."},
            },
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let named = route.path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
    let in_path =
        named.map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let in_query = route.query.iter().map(|(name, about)| {
        json!({"name": name, "in": "query", "description": about, "schema": {"type": "string"}})
    });
    let problem = json!({"description": "What went wrong, and what to do next.", "content": {"application/json": {"schema": {
        "type": "object", "required": ["error"], "properties": {"error": {
            "type": "object", "required": ["kind", "what"],
            "properties": {"kind": {"type": "string"}, "what": {"type": "string"}, "next": {"type": "string"}, "winner": {"type": "string"}},
        }},
    }}}});
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.about,
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": {"2XX": {"description": "Done."}, "4XX": problem, "5XX": problem},
    });
    let Some(fields) = operation.as_object_mut() else { return operation };
    if let Some(body) = route.body {
        let schema = body(generator);
        fields.insert("requestBody".to_owned(), json!({"content": {"application/json": {"schema": schema}}}));
    }
    match route.needs {
        Some(role) => {
            fields.insert("x-role".to_owned(), role.name().into());
            fields.insert("security".to_owned(), json!([{"token": []}, {"cookie": []}]));
        }
        None => drop(fields.insert("security".to_owned(), json!([]))),
    }
    operation
}

fn operation_id(route: &Route) -> String {
    let path = route.path.trim_start_matches("/api/v1").replace(['{', '}'], "");
    let words = path.split(['/', '-', '.']).filter(|it| !it.is_empty());
    let words: Vec<&str> = words.collect();
    format!(
        "{}_{}",
        route.method.as_str().to_ascii_lowercase(),
        if words.is_empty() { "page".to_owned() } else { words.join("_") }
    )
}
