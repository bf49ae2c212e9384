//! `continue_job`: gives a job that waits for input its next input.

use std::time::Duration;

use kit::{
    prelude::*,
    procs::keys::{self, Cursor},
};
use serde_json::Value;

use super::Id;

/// Time to wait for the job's answer.
const AT_MOST: Duration = Duration::from_secs(60);

/// Give a job that waits for input its next input; shows what it answers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContinueJob {
    /// Such as job_3.
    #[schemars(with = "String")]
    job: Id,
    /// Input for the job, any JSON.
    input: Value,
}

impl Tool for ContinueJob {
    const NAME: &str = "continue_job";
    // The job's reaction may change anything.
    const AT_MOST: Kinds = Kinds::SESSION.with(Kinds::RUN);

    fn touches(&self) -> Touches {
        // Typed text may be a command to the program that reads it, so it is judged as one.
        let typed = typed(&self.input);
        if typed.is_empty() { Touches::none() } else { Touches::run(typed) }
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(AT_MOST)
    }

    fn title(&self) -> String {
        self.job.0.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.jobs().go_on(&self.job.0, self.input, AT_MOST).await
    }
}

/// Returns the text that an input types: a plain string, or `text` and the printable `keys`.
fn typed(input: &Value) -> String {
    if let Some(text) = input.as_str() {
        return text.to_owned();
    }
    let text = input.get("text").and_then(Value::as_str).unwrap_or_default();
    let keys = input.get("keys").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let written = keys
        .filter_map(|key| String::from_utf8(keys::typed(key, Cursor::Normal)).ok())
        .map(|sent| sent.replace('\r', "\n"))
        .filter(|sent| sent.chars().all(|it| !it.is_control() || matches!(it, '\n' | '\t')));
    [text.to_owned()].into_iter().chain(written).collect::<String>().trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::typed;

    #[test]
    fn typed_text_is_found_in_every_form_of_input() {
        assert_eq!(typed(&json!("rm x")), "rm x");
        assert_eq!(typed(&json!({"text": "rm x", "keys": ["Enter"]})), "rm x");
        assert_eq!(typed(&json!({"keys": ["r", "m", "Space", "x", "Enter", "C-c"]})), "rm x");
        assert_eq!(typed(&json!({"page": 2})), "");
        assert_eq!(typed(&json!(7)), "");
    }
}
