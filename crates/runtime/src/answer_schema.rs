//! Answer schemas: a JSON Schema that a model's answer has to match, checked by the same code as arguments.

use std::{fmt, sync::Arc};

use kit::Fault;
use serde_json::Value;

use crate::arguments::{Check, troubles};

/// The schema that an answer has to match.
#[derive(Clone)]
pub struct AnswerSchema {
    schema: Arc<Value>,
    check: Arc<Check>,
    unchecked: Vec<String>,
}

impl AnswerSchema {
    /// Parses a schema.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](kit::Kind::BadArgs) when it is not JSON, or not a valid schema; the fault names the
    /// errors.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let schema: Value = serde_json::from_str(text)
            .map_err(|error| Fault::bad_args(format!("the output schema is not JSON: {error}")))?;
        if !schema.is_object() {
            let fault = Fault::bad_args("the output schema must be a JSON object");
            return Err(
                fault.next("A schema is {\"type\": \"object\", \"properties\": {…}, \"required\": […]}.")
            );
        }
        let (wrong, unchecked) = troubles(&schema, "schema");
        if !wrong.is_empty() {
            return Err(Fault::bad_args(format!("the output schema is not valid: {}", wrong.join("; "))));
        }
        Ok(Self { schema: Arc::new(schema), check: Arc::default(), unchecked })
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Arc<Value> {
        &self.schema
    }

    /// Returns the parts of the schema that are not checked, one line each.
    pub fn unchecked(&self) -> &[String] {
        &self.unchecked
    }

    /// Returns the JSON in this answer, if it matches: the whole text, or its only fenced block.
    ///
    /// # Errors
    /// The problems, one line each, for the model.
    pub fn fit(&self, answer: &str) -> Result<Value, String> {
        let answer = answer.trim();
        let value: Value = match serde_json::from_str(answer) {
            Ok(value) => value,
            Err(error) => match fenced(answer).map(serde_json::from_str) {
                Some(Ok(value)) => value,
                Some(Err(error)) => {
                    return Err(format!("the fenced block of the answer is not JSON: {error}"));
                }
                None => return Err(format!("the answer is not JSON: {error}")),
            },
        };
        let problems = self.check.problems_of_answer(&self.schema, &value);
        if problems.is_empty() { Ok(value) } else { Err(problems.join("\n")) }
    }
}

impl fmt::Debug for AnswerSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerSchema").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Returns the text between the only pair of fences.
fn fenced(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("```")?;
    let (_, after) = after.split_once('\n')?;
    let (block, rest) = after.split_once("```")?;
    (!rest.contains("```")).then_some(block)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn schema() -> AnswerSchema {
        let schema = json!({
            "type": "object",
            "properties": {"count": {"type": "integer", "minimum": 1}, "names": {"type": "array", "items": {"type": "string"}}},
            "required": ["count"],
            "additionalProperties": false,
        });
        AnswerSchema::parse(&schema.to_string()).unwrap()
    }

    #[test]
    fn an_answer_fits_alone_or_in_one_fenced_block() {
        for answer in [
            " {\"count\": 1}\n",
            "```json\n{\"count\": 1}\n```",
            "Here it is:\n```\n{\"count\": 1}\n```\nThat's all.",
        ] {
            assert_eq!(schema().fit(answer), Ok(json!({"count": 1})), "{answer}");
        }
    }

    #[test]
    fn mismatch_with_the_schema_is_named() {
        for (answer, says) in [
            ("all done", "the answer is not JSON: "),
            ("", "the answer is not JSON: "),
            ("```\n{\n```", "the fenced block of the answer is not JSON: "),
            ("[1]", "the answer is a list and must be an object"),
            ("{}", "`count` is missing; it must be an integer"),
            ("{\"count\": 0}", "`count` is the number 0 and must be at least 1"),
            ("{\"count\": 1, \"name\": 2}", "`name` is not a field of the schema; did you mean `names`?"),
            ("{\"count\": 1, \"names\": [\"a\", 2]}", "`names[1]` is the number 2 and must be a string"),
        ] {
            let why = schema().fit(answer).unwrap_err();
            assert!(why.starts_with(says), "{answer}: {why}");
        }
    }

    #[test]
    fn invalid_schema_is_refused_and_unchecked_parts_are_reported() {
        for (text, says) in [
            ("{", "is not JSON"),
            ("[]", "must be a JSON object"),
            (r#"{"type": "strnig"}"#, "`schema.type` is \"strnig\"; it must be one of"),
            (
                r#"{"properties": {"a": {"minimum": "1"}}}"#,
                "`schema.properties.a.minimum` is \"1\"; it must be a number",
            ),
        ] {
            let fault = AnswerSchema::parse(text).unwrap_err();
            assert!(fault.what.contains(says), "{}", fault.what);
        }
        let it = AnswerSchema::parse(r##"{"$ref": "#/nowhere"}"##).unwrap();
        assert!(it.unchecked().concat().contains("leads nowhere"), "{:?}", it.unchecked());
    }
}
