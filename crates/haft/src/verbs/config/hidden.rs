//! Secrets in configuration values: hides what may be one wherever values are printed.
//!
//! A configuration names secrets by variable or by file, but people also write them into headers, addresses and
//! arguments. Literal values of headers and variables are hidden, passwords and queries of addresses, arguments after an
//! option that is named like a secret, words that begin as well-known tokens do, and every value that haft's own
//! environment has under a secret's name.

use kit::redact::Secrets;
use serde_json::Value;

/// The text that is printed in place of a secret.
pub(super) const HIDDEN: &str = "(hidden)";

/// Prefixes of the tokens of well-known services.
const TOKENS: [&str; 12] =
    ["sk-", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "AIza", "npm_", "hf_"];

/// Words in the name of an option whose value is a secret.
const WORDS: [&str; 6] = ["key", "token", "secret", "passw", "auth", "credential"];

/// Returns the value with its secrets redacted.
pub(super) fn hide(key: &[String], value: Value, secrets: &Secrets) -> Value {
    // `[mcp.NAME] env` as a table, and `headers` of any section.
    let is_given = key.iter().rev().nth(1).is_some_and(|it| it == "headers" || it == "env");
    match value {
        Value::String(text) if is_given && !only_names_variables(&text) => HIDDEN.into(),
        Value::String(text) => string(&text, secrets).into(),
        Value::Array(items) => array(items, secrets).into(),
        other => other,
    }
}

fn array(items: Vec<Value>, secrets: &Secrets) -> Vec<Value> {
    let mut after_option = false;
    items
        .into_iter()
        .map(|item| match item {
            Value::String(text) => {
                let is_value = std::mem::replace(&mut after_option, false) && !text.starts_with('-');
                match text.split_once('=') {
                    _ if is_value => HIDDEN.to_owned(),
                    Some((option, _)) if is_secret_option(option) => format!("{option}={HIDDEN}"),
                    None if is_secret_option(&text) => {
                        after_option = true;
                        text
                    }
                    _ => string(&text, secrets),
                }
                .into()
            }
            // A rule about commands.
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .map(|(key, value)| {
                        let value = hide(std::slice::from_ref(&key), value, secrets);
                        (key, value)
                    })
                    .collect(),
            ),
            other => other,
        })
        .collect()
}

fn is_secret_option(word: &str) -> bool {
    let name = word.to_ascii_lowercase();
    name.starts_with('-') && WORDS.iter().any(|it| name.contains(it))
}

fn string(text: &str, secrets: &Secrets) -> String {
    let masked = secrets.mask(&without_password(text)).into_owned();
    let hidden = |word: &str| {
        let bare = word.trim_start_matches(['"', '\'', '=', ':', '(']);
        let is_token = bare.len() >= 16 && TOKENS.iter().any(|it| bare.starts_with(it));
        if is_token { HIDDEN.to_owned() } else { word.to_owned() }
    };
    masked.split(' ').map(hidden).collect::<Vec<_>>().join(" ")
}

/// Returns an address without its password and its query.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => authority.to_owned(),
    };
    let path = match path.split_once('?') {
        Some((path, _)) => format!("{path}?{HIDDEN}"),
        None => path.to_owned(),
    };
    format!("{scheme}://{authority}{path}")
}

/// Returns whether a value consists of variables only, as in `Bearer ${TOKEN}`: then it contains no secret.
fn only_names_variables(text: &str) -> bool {
    let mut left = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { return false };
        if name.contains(":-") {
            return false;
        }
        left.push_str(before);
        rest = after;
    }
    left.push_str(rest);
    text.contains("${")
        && matches!(left.trim().to_ascii_lowercase().as_str(), "" | "bearer" | "basic" | "token")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(key: &str, value: Value) -> String {
        let key: Vec<String> = key.split('.').map(str::to_owned).collect();
        let secrets = Secrets::collect([("MY_TOKEN", "Zx81-spectrum-4711")], []);
        hide(&key, value, &secrets).to_string()
    }

    #[test]
    fn no_secret_is_printed_wherever_it_was_written() {
        for (key, value) in [
            ("models.a.headers.x-key", json!("s3cret")),
            ("mcp.a.env.PASSWORD", json!("s3cret")),
            ("mcp.a.env.KEY", json!("${KEY:-s3cret}")),
            ("mcp.a.url", json!("https://u:s3cret@host/mcp")),
            ("mcp.a.url", json!("https://host/mcp?key=s3cret")),
            ("net.proxy", json!("http://u:s3cret@proxy:3128")),
            ("mcp.a.args", json!(["--api-key", "s3cret"])),
            ("mcp.a.args", json!(["--token=s3cret"])),
            ("commands.ask", json!(["curl -H sk-s3cret-0123456789abc"])),
            ("command", json!([{"prefix": ["curl", "--token=s3cret"], "then": "ask"}])),
            ("models.a.model", json!("m-Zx81-spectrum-4711")),
        ] {
            let shown = shown(key, value);
            assert!(!shown.contains("s3cret") && !shown.contains("spectrum"), "{key}: {shown}");
        }
    }

    #[test]
    fn names_of_variables_and_plain_values_stay() {
        for (key, value) in [
            ("mcp.a.headers.authorization", json!("Bearer ${TOKEN}")),
            ("mcp.a.env", json!(["FILES_KEY"])),
            ("mcp.a.args", json!(["-y", "@scope/server", "."])),
            ("models.a.url", json!("http://127.0.0.1:8080/v1")),
            ("models.a.key_env", json!("LOCAL_KEY")),
            ("commands.deny", json!(["sudo", "git push --force"])),
            ("agent.max_steps", json!(50)),
        ] {
            assert_eq!(shown(key, value.clone()), value.to_string(), "{key}");
        }
    }
}
