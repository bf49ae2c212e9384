//! Masking of the texts in a JSON value before it is stored.

use std::borrow::Cow;

use kit::redact::Secrets;
use serde_json::Value;

use super::credentials;

/// Masks the texts in a row; what makes it a row, under the names in `kinds`, stays, whatever a secret is called.
pub(super) fn mask(value: &mut Value, secrets: &Secrets, kinds: &[&str]) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = secrets.mask(text) {
                *text = masked;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|it| mask(it, secrets, kinds)),
        Value::Object(all) => {
            if all.get("said").is_some_and(|it| it == "call")
                && let Some(Value::String(arguments)) = all.get_mut("arguments")
                && let Cow::Owned(hidden) = credentials::hide(arguments)
            {
                *arguments = hidden;
            }
            let texts =
                all.iter_mut().filter(|(name, it)| !(it.is_string() && kinds.contains(&name.as_str())));
            texts.for_each(|(_, it)| mask(it, secrets, kinds));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
