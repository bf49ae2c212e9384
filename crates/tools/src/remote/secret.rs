//! Named secrets in arguments, without their values.

use std::borrow::Cow;

use kit::{Cx, Fault};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error as _};

/// The name of a secret: `{{secret:NAME}}`. A literal value is refused, and not repeated in the fault.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SecretName(String);

impl SecretName {
    /// Parses a text that is exactly one secret's name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let name = text.trim().strip_prefix("{{secret:")?.strip_suffix("}}")?.trim();
        let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '.');
        (!name.is_empty() && name.chars().all(plain)).then(|| Self(name.to_owned()))
    }

    /// Returns the first such name within a text, as it is written.
    pub(super) fn within(text: &str) -> Option<&str> {
        let mut from = 0;
        while let Some(at) = text.get(from..)?.find("{{").map(|it| it + from) {
            let rest = text.get(at..)?;
            let whole = rest.find("}}").and_then(|end| rest.get(..end + 2));
            let is_one = |it: &&str| {
                let inner = it.trim_start_matches('{').trim_end_matches('}').trim();
                inner
                    .strip_prefix("secret:")
                    .is_some_and(|name| Self::parse(&format!("{{{{secret:{name}}}}}")).is_some())
            };
            if let Some(found) = whole.filter(is_one) {
                return Some(found);
            }
            from = at + 2;
        }
        None
    }

    /// Returns its value, for this host.
    pub(super) fn reveal(&self, cx: &Cx, host: &str, port: u16) -> Result<String, Fault> {
        cx.vault().reveal(&self.0, host, port)
    }
}

/// The message for a literal value in place of a name.
pub(super) const NOT_A_NAME: &str = "not the name of a secret; write {{secret:NAME}}, which a person defines by \
     [secret.NAME] in their haft.toml";

impl<'de> Deserialize<'de> for SecretName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(NOT_A_NAME))
    }
}

impl JsonSchema for SecretName {
    fn schema_name() -> Cow<'static, str> {
        "SecretName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_is_taken_and_a_value_is_not_repeated() {
        assert_eq!(SecretName::parse(" {{secret:db-1}} "), Some(SecretName("db-1".to_owned())));
        for it in
            ["hunter2", "{{secret:}}", "{{secret:a b}}", "x{{secret:a}}", "{{secret:a}}{{secret:b}}", ""]
        {
            assert_eq!(SecretName::parse(it), None, "{it}");
        }
        let refused = serde_json::from_str::<SecretName>("\"hunter2\"").err().map(|it| it.to_string());
        assert!(refused.is_some_and(|it| it.contains("{{secret:NAME}}") && !it.contains("hunter2")));
    }
}
