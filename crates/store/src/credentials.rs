//! Credentials in the arguments of a call: masked before the arguments are stored.
//!
//! A named secret (`{{secret:NAME}}`) never is in the arguments. A literal one is recognized by its position:
//! the value of a header such as `Authorization`, a password in an address, a token in a query.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The placeholder.
const HIDDEN: &str = "[masked]";

/// Headers and parameters whose value is a credential; so is each that ends like the last four.
const NAMES: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "authentication",
    "cookie",
    "set-cookie",
    "api-key",
    "apikey",
    "x-api-key",
    "auth",
    "key",
    "sig",
    "signature",
    "passwd",
    "password",
    "token",
    "secret",
];
const ENDINGS: &[&str] = &["-key", "-token", "-secret", "-password"];

/// Arguments whose members have such names.
const MAPS: &[&str] = &["headers", "query", "form", "env"];

/// Returns the arguments, JSON or not, with every literal credential replaced by `[masked]`: values of headers such as
/// `Authorization`, passwords in addresses, tokens in queries.
pub fn hide(arguments: &str) -> Cow<'_, str> {
    match serde_json::from_str::<Value>(arguments) {
        Ok(mut value) => {
            if walk(&mut value) {
                Cow::Owned(value.to_string())
            } else {
                Cow::Borrowed(arguments)
            }
        }
        Err(_) => hide_in_text(arguments),
    }
}

/// Returns the arguments as JSON, or else as a text, with credentials masked.
pub fn shown(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(mut value) => {
            walk(&mut value);
            value
        }
        Err(_) => Value::String(hide_in_text(arguments).into_owned()),
    }
}

/// Masks credentials in all of a value; returns whether there were any.
fn walk(value: &mut Value) -> bool {
    match value {
        Value::String(text) => match hide_in_text(text) {
            Cow::Owned(hidden) => {
                *text = hidden;
                true
            }
            Cow::Borrowed(_) => false,
        },
        Value::Array(items) => items.iter_mut().fold(false, |any, it| walk(it) | any),
        Value::Object(object) => object.iter_mut().fold(false, |any, (name, value)| {
            let named = match value {
                Value::Object(members) if MAPS.contains(&name.as_str()) => hide_members(members),
                _ => false,
            };
            walk(value) | named | any
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn hide_members(members: &mut Map<String, Value>) -> bool {
    let mut any = false;
    for (_, value) in members.iter_mut().filter(|(name, _)| lets_in(name)) {
        let is_named = value.as_str().is_some_and(|it| it.contains("{{secret:"));
        if !is_named && !value.is_null() {
            *value = Value::from(HIDDEN);
            any = true;
        }
    }
    any
}

fn lets_in(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase().replace('_', "-");
    NAMES.contains(&name.as_str()) || ENDINGS.iter().any(|it| name.ends_with(it))
}

/// Masks credentials in a text: `://NAME:PASSWORD@`, `?token=…`, `Authorization: …`, as they occur in
/// commands and addresses.
pub fn hide_in_text(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut from = 0;
    for (start, end) in spans(text) {
        // If two overlap, the first has masked their common part.
        if start < from || text.get(start..end).is_none_or(|it| it.is_empty() || it.contains("{{secret:")) {
            continue;
        }
        out.push_str(text.get(from..start).unwrap_or_default());
        out.push_str(HIDDEN);
        from = end;
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(out)
}

/// Returns the ranges of the values, in order.
fn spans(text: &str) -> Vec<(usize, usize)> {
    let upto = |from: usize, end: &dyn Fn(char) -> bool| {
        let rest = text.get(from..).unwrap_or_default();
        (from, from + rest.find(end).unwrap_or(rest.len()))
    };
    let mut spans = Vec::new();
    for (at, _) in text.match_indices("://") {
        let (start, end) = upto(at + 3, &|it| it.is_whitespace() || "/?#\"'<>".contains(it));
        if let Some(user) = text.get(start..end).and_then(|it| it.rfind('@')) {
            spans.push((start, start + user));
        }
    }
    for (at, sign) in text.match_indices(['=', ':']) {
        let before = text.get(..at).unwrap_or_default();
        let name = before.rsplit(|it: char| !it.is_ascii_alphanumeric() && it != '-' && it != '_').next();
        let name = name.unwrap_or_default();
        let mark = before.get(..before.len() - name.len()).and_then(|it| it.chars().next_back());
        if sign == "=" && matches!(mark, Some('?' | '&')) && lets_in(name) {
            spans.push(upto(at + 1, &|it| it.is_whitespace() || "&#\"'<>".contains(it)));
        }
        // A header's name contains a dash, or is one of the few without that have no other meaning.
        let is_header =
            name.contains('-') || ["authorization", "cookie"].contains(&name.to_ascii_lowercase().as_str());
        if sign == ":" && is_header && lets_in(name) {
            let rest = text.get(at + 1..).unwrap_or_default();
            let blank = rest.len() - rest.trim_start_matches(' ').len();
            spans.push(upto(at + 1 + blank, &|it| "\r\n\"'".contains(it)));
        }
    }
    spans.sort_unstable();
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_redacted_by_their_context() {
        for (arguments, kept) in [
            (
                r#"{"url":"https://a.org/","headers":{"Authorization":"Bearer c4n4ry","Accept":"text/html"}}"#,
                r#"{"url":"https://a.org/","headers":{"Authorization":"[masked]","Accept":"text/html"}}"#,
            ),
            (
                r#"{"headers":{"x_api_key":"c4n4ry","COOKIE":["c4n4ry"]}}"#,
                r#"{"headers":{"x_api_key":"[masked]","COOKIE":"[masked]"}}"#,
            ),
            (r#"{"url":"https://me:c4n4ry@a.org/x"}"#, r#"{"url":"https://[masked]@a.org/x"}"#),
            (
                r#"{"url":"https://a.org/x?q=1&access_token=c4n4ry&r=2#f","query":{"api_key":"c4n4ry","q":"x"}}"#,
                r#"{"url":"https://a.org/x?q=1&access_token=[masked]&r=2#f","query":{"api_key":"[masked]","q":"x"}}"#,
            ),
            (
                r#"{"command":"curl -H 'Authorization: Bearer c4n4ry' -H \"X-Api-Key: c4n4ry\" https://a.org"}"#,
                r#"{"command":"curl -H 'Authorization: [masked]' -H \"X-Api-Key: [masked]\" https://a.org"}"#,
            ),
            ("{broken Cookie: c4n4ry", "{broken Cookie: [masked]"),
        ] {
            assert_eq!(hide(arguments), kept);
        }
    }

    #[test]
    fn all_else_stays_as_it_is() {
        for arguments in [
            r#"{"headers":{"Authorization":"Bearer {{secret:github}}"}}"#,
            r#"{"url":"https://a.org/?key={{secret:maps}}"}"#,
            r#"{"pattern":"token: x; password = 1","path":"a@b"}"#,
            r#"{"command":"echo key: value; ls --sort=key"}"#,
            r#"{"headers":{"Accept":"a"},"query":{"q":"token"}}"#,
        ] {
            assert!(matches!(hide(arguments), Cow::Borrowed(_)), "{arguments} became {}", hide(arguments));
        }
    }
}
