//! `scratchpad` as KohakuTerrarium has it: keys and values of a session.

use kit::{Pad, prelude::*};

/// Session working memory: keys and values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scratchpad {
    /// set, get, delete, list or clear.
    action: String,
    /// Key, for set, get and delete.
    #[serde(default)]
    key: String,
    /// Value, for set.
    #[serde(default)]
    value: String,
}

impl Tool for Scratchpad {
    const NAME: &str = "scratchpad";
    const AT_MOST: Kinds = Kinds::SESSION;

    fn touches(&self) -> Touches {
        if matches!(self.action.as_str(), "get" | "list") { Touches::none() } else { Pad::touches() }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.act(&Pad(cx)).map(Output::text)).await
    }
}

impl Scratchpad {
    fn act(self, pad: &Pad<'_>) -> Result<String, Fault> {
        let Self { action, key, value } = self;
        if matches!(action.as_str(), "set" | "get" | "delete") {
            if key.is_empty() {
                return Err(Fault::bad_args(format!("Key is required for {action} action")));
            }
            if is_reserved(&key) {
                return Err(Fault::denied("Reserved scratchpad keys are framework-private"));
            }
        }
        match action.as_str() {
            "set" => {
                pad.put(&key, value, false)?;
                Ok(format!("Set '{key}'"))
            }
            "get" => Ok(pad.get(&key)?.unwrap_or_else(|| format!("Key '{key}' not found"))),
            "delete" if pad.clear(&key)? => Ok(format!("Deleted '{key}'")),
            "delete" => Ok(format!("Key '{key}' not found")),
            "list" => {
                let keys = keys(pad)?;
                Ok(if keys.is_empty() { "(empty)".to_owned() } else { keys.join("\n") })
            }
            "clear" => {
                for key in keys(pad)? {
                    pad.clear(&key)?;
                }
                Ok("Scratchpad cleared".to_owned())
            }
            other => {
                Err(Fault::bad_args(format!("Unknown action: {other}. Use: get, set, delete, list, clear")))
            }
        }
    }
}

fn keys(pad: &Pad<'_>) -> Result<Vec<String>, Fault> {
    Ok(pad.sections()?.into_iter().filter(|it| !is_reserved(it)).collect())
}

/// Returns whether the key is reserved for the framework: `__x__`.
fn is_reserved(key: &str) -> bool {
    key.len() > 4 && key.starts_with("__") && key.ends_with("__")
}

#[cfg(test)]
mod tests {
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_equal_the_original_s() {
        let test_ws = TestWorkspace::empty();
        let says = |arguments| test_ws.says::<Scratchpad>(&arguments);
        assert_eq!(says(json!({"action": "list"})), "(empty)");
        assert_eq!(says(json!({"action": "set", "key": "plan", "value": "1. look"})), "Set 'plan'");
        assert_eq!(says(json!({"action": "get", "key": "plan"})), "1. look");
        assert_eq!(says(json!({"action": "get", "key": "x"})), "Key 'x' not found");
        assert_eq!(says(json!({"action": "set", "key": "a", "value": "1"})), "Set 'a'");
        assert_eq!(says(json!({"action": "list"})), "a\nplan");
        assert_eq!(says(json!({"action": "delete", "key": "a"})), "Deleted 'a'");
        assert_eq!(says(json!({"action": "delete", "key": "a"})), "Key 'a' not found");
        assert_eq!(says(json!({"action": "clear"})), "Scratchpad cleared");
        assert_eq!(says(json!({"action": "get", "key": "plan"})), "Key 'plan' not found");
        assert_eq!(says(json!({"action": "set"})), "bad_args: Key is required for set action");
        assert_eq!(
            says(json!({"action": "set", "key": "__native__", "value": "x"})),
            "denied: Reserved scratchpad keys are framework-private"
        );
        assert_eq!(
            says(json!({"action": "drop"})),
            "bad_args: Unknown action: drop. Use: get, set, delete, list, clear"
        );
    }
}
