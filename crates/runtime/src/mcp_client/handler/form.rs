//! Elicitation forms, filled in question by question.

use kit::{Fault, escape::visible, services::Question};
use serde_json::{Map, Number, Value};

/// How often haft asks for one field.
const TRIES: usize = 3;
/// Limits of a form: characters of each of the server's texts, and fields.
const WORDS: usize = 2000;
const FIELDS: usize = 32;

const DECLINE: &str = "Decline";
const LEAVE_OUT: &str = "Leave it out";
const DEFAULTS: &str = "Take the defaults";

/// The outcome of a form.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Filled {
    /// The values that the person gave.
    In(Value),
    /// The person declined.
    Declined,
    /// No answer was valid, or the form has more than [`FIELDS`] fields.
    GaveUp,
}

/// Asks for the fields of `schema`, one by one.
///
/// # Errors
/// When nobody can be asked.
pub(super) async fn filled<F>(
    server: &str,
    message: &str,
    schema: &Value,
    ask: impl Fn(Question) -> F,
) -> Result<Filled, Fault>
where
    F: Future<Output = Result<String, Fault>>,
{
    let fields = fields(schema);
    if fields.len() > FIELDS {
        return Ok(Filled::GaveUp);
    }
    let message = format!("The MCP server `{server}` asks: {}", words(message));
    let first = match fields.as_slice() {
        // A form with one field needs no question before it.
        [_] => None,
        [] => Some((message.clone(), vec!["Accept"])),
        _ => {
            let list: String = fields.iter().map(|field| format!("\n- {}", field.line())).collect();
            let mut options = vec!["Fill it in"];
            if fields.iter().all(|field| !field.required || field.default().is_some()) {
                options.push(DEFAULTS);
            }
            Some((format!("{message}{list}"), options))
        }
    };
    let single = first.is_none();
    if let Some((text, mut options)) = first {
        options.push(DECLINE);
        let answer = ask(question(text, &options)).await?;
        if is(&answer, DECLINE) {
            return Ok(Filled::Declined);
        }
        if is(&answer, DEFAULTS) {
            return Ok(Filled::In(defaults(&fields)));
        }
        if !options.iter().any(|it| is(&answer, it)) {
            return Ok(Filled::GaveUp);
        }
    }
    let mut content = Map::new();
    for field in &fields {
        let intro = if single { format!("{message}\n") } else { format!("For `{server}`: ") };
        match field.asked(&intro, &ask).await? {
            Answer::Is(value) => drop(content.insert(field.name.to_owned(), value)),
            Answer::LeftOut => {}
            Answer::Declined => return Ok(Filled::Declined),
            Answer::None => return Ok(Filled::GaveUp),
        }
    }
    Ok(Filled::In(Value::Object(content)))
}

enum Answer {
    Is(Value),
    LeftOut,
    Declined,
    None,
}

struct Field<'a> {
    name: &'a str,
    schema: &'a Value,
    required: bool,
}

fn fields(schema: &Value) -> Vec<Field<'_>> {
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_required = |name: &str| required.iter().any(|it| it == name);
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.map(|(name, schema)| Field { name, schema, required: is_required(name) }).collect()
}

fn defaults(fields: &[Field<'_>]) -> Value {
    let given = fields.iter().filter_map(|it| Some((it.name.to_owned(), it.default()?.clone())));
    Value::Object(given.collect())
}

impl Field<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.schema.get(key).and_then(Value::as_str)
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.schema.get(key).and_then(Value::as_f64)
    }

    fn kind(&self) -> &str {
        self.text("type").unwrap_or("string")
    }

    fn default(&self) -> Option<&Value> {
        self.schema.get("default").filter(|it| !it.is_null())
    }

    /// Returns the values to choose from, each with its label.
    fn choices(&self) -> Vec<(String, String)> {
        let of = if self.kind() == "array" {
            self.schema.get("items").unwrap_or(&Value::Null)
        } else {
            self.schema
        };
        let list = |key: &str| of.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let titled = list("oneOf").iter().chain(list("anyOf"));
        let titled = titled.map(|it| (text(it.get("const")), text(it.get("title"))));
        let names = list("enumNames");
        let plain = list("enum").iter().enumerate().map(|(at, it)| (text(Some(it)), text(names.get(at))));
        titled.chain(plain).collect()
    }

    /// Describes the field in one line: name, meaning, accepted values.
    fn line(&self) -> String {
        let about = self.text("description").or(self.text("title")).map(|it| format!(": {}", words(it)));
        let choices = self.choices();
        let mut takes = vec![match (self.kind(), choices.is_empty()) {
            ("array", _) => "several, with commas between them".to_owned(),
            (_, false) => "one of a list".to_owned(),
            ("boolean", _) => "yes or no".to_owned(),
            (kind, _) => words(self.text("format").unwrap_or(kind)),
        }];
        let limits = [("minimum", "at least"), ("maximum", "at most")];
        takes.extend(limits.iter().filter_map(|(key, say)| Some(format!("{say} {}", self.number(key)?))));
        takes.extend((!self.required).then(|| "may be left out".to_owned()));
        takes.extend(self.default().map(|it| format!("default {}", words(&plain(it)))));
        let shown = |(value, title): &(String, String)| match title.is_empty() || title == value {
            true => words(value),
            false => format!("{} ({})", words(value), words(title)),
        };
        let from = match self.kind() == "array" || choices.iter().any(|(_, title)| !title.is_empty()) {
            true if !choices.is_empty() => {
                format!(" of {}", choices.iter().map(shown).collect::<Vec<_>>().join(", "))
            }
            _ => String::new(),
        };
        format!("`{}`{} ({}){from}", words(self.name), about.unwrap_or_default(), takes.join(", "))
    }

    async fn asked<F>(&self, intro: &str, ask: &impl Fn(Question) -> F) -> Result<Answer, Fault>
    where
        F: Future<Output = Result<String, Fault>>,
    {
        let mut options: Vec<String> = self.default().map(plain).into_iter().collect();
        let listed = match self.kind() {
            "array" => Vec::new(),
            "boolean" => vec!["yes".to_owned(), "no".to_owned()],
            _ => self.choices().into_iter().map(|(value, _)| value).collect(),
        };
        options.extend(listed.into_iter().filter(|it| options_lack(self.default(), it)));
        options.extend((!self.required).then(|| LEAVE_OUT.to_owned()));
        options.push(DECLINE.to_owned());
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut text = format!("{intro}{}", self.line());
        for _ in 0..TRIES {
            let answer = ask(question(text, &options)).await?;
            let answer = answer.trim();
            if is(answer, DECLINE) {
                return Ok(Answer::Declined);
            }
            if answer.is_empty()
                && let Some(default) = self.default()
            {
                return Ok(Answer::Is(default.clone()));
            }
            if !self.required && (answer.is_empty() || is(answer, LEAVE_OUT)) {
                return Ok(Answer::LeftOut);
            }
            match self.parsed(answer) {
                Ok(value) => return Ok(Answer::Is(value)),
                Err(why) => text = format!("That won't do: {why}. {}", self.line()),
            }
        }
        Ok(Answer::None)
    }

    /// Parses an answer into a value that the form accepts.
    fn parsed(&self, answer: &str) -> Result<Value, String> {
        let choices = self.choices();
        let chosen = |answer: &str| {
            let found = choices.iter().find(|(value, _)| value == answer);
            let found = found
                .or_else(|| choices.iter().find(|(value, title)| is(answer, value) || is(answer, title)));
            found
                .map(|(value, _)| Value::String(value.clone()))
                .ok_or_else(|| format!("`{answer}` is not in the list"))
        };
        match self.kind() {
            "boolean" => match answer.to_ascii_lowercase().as_str() {
                "yes" | "y" | "true" => Ok(Value::Bool(true)),
                "no" | "n" | "false" => Ok(Value::Bool(false)),
                _ => Err(format!("`{answer}` is neither yes nor no")),
            },
            "integer" => {
                let number =
                    answer.parse::<i64>().map_err(|_| format!("`{answer}` is not a whole number"))?;
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "limits are written as JSON numbers, which are this"
                )]
                self.within(number as f64)?;
                Ok(number.into())
            }
            "number" => {
                let number = answer.parse::<f64>().ok().and_then(|it| Some((it, Number::from_f64(it)?)));
                let (value, number) = number.ok_or_else(|| format!("`{answer}` is not a number"))?;
                self.within(value)?;
                Ok(Value::Number(number))
            }
            "array" => {
                let parts = answer.split(',').map(str::trim).filter(|it| !it.is_empty());
                let values = parts.map(chosen).collect::<Result<Vec<_>, _>>()?;
                #[expect(clippy::cast_precision_loss, reason = "a list that a person wrote")]
                let count = values.len() as f64;
                if self.number("minItems").is_some_and(|it| count < it)
                    || self.number("maxItems").is_some_and(|it| count > it)
                {
                    return Err(format!("{count} of them is not as many as it takes"));
                }
                Ok(Value::Array(values))
            }
            _ if !choices.is_empty() => chosen(answer),
            _ => {
                #[expect(clippy::cast_precision_loss, reason = "a line that a person wrote")]
                let length = answer.chars().count() as f64;
                if self.number("minLength").is_some_and(|it| length < it)
                    || self.number("maxLength").is_some_and(|it| length > it)
                {
                    return Err(format!("{length} characters is not as long as it takes"));
                }
                Ok(Value::String(answer.to_owned()))
            }
        }
    }

    fn within(&self, number: f64) -> Result<(), String> {
        if self.number("minimum").is_some_and(|it| number < it)
            || self.number("maximum").is_some_and(|it| number > it)
        {
            return Err(format!("`{number}` is outside of what it takes"));
        }
        Ok(())
    }
}

fn options_lack(default: Option<&Value>, value: &str) -> bool {
    default.map(plain).as_deref() != Some(value)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn question(text: String, options: &[&str]) -> Question {
    Question { text, options: options.iter().map(|it| words(it)).collect(), within: None }
}

fn is(answer: &str, word: &str) -> bool {
    !word.is_empty() && answer.trim().eq_ignore_ascii_case(word)
}

/// Returns a server's text, escaped and cut, for a person.
fn words(text: &str) -> String {
    visible(text).0.chars().take(WORDS).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use kit::Kind;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    async fn answered(schema: Value, answers: &[&str]) -> (Filled, Vec<Question>) {
        let left = Mutex::new(answers.iter().copied());
        let asked = Mutex::new(Vec::new());
        let filled = filled("mail", "Who are you?", &schema, |question| {
            asked.lock().push(question);
            std::future::ready(
                left.lock().next().map(str::to_owned).ok_or_else(|| Fault::new(Kind::Unavailable, "nobody")),
            )
        });
        let filled = filled.await.unwrap_or(Filled::GaveUp);
        (filled, asked.into_inner())
    }

    fn form() -> Value {
        json!({ "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string", "default": "John Doe", "minLength": 2 },
            "age": { "type": "integer", "default": 30, "minimum": 18 },
            "score": { "type": "number", "default": 95.5 },
            "status": { "type": "string", "enum": ["active", "inactive"], "default": "active" },
            "verified": { "type": "boolean", "default": true },
            "tags": { "type": "array", "items": { "anyOf": [{ "const": "a", "title": "Alpha" }, { "const": "b", "title": "Beta" }] }, "maxItems": 2 },
        }})
    }

    #[tokio::test]
    async fn one_answer_takes_all_defaults() {
        let (filled, asked) = answered(form(), &["take the defaults"]).await;
        let defaults =
            json!({ "name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": true });
        assert_eq!(filled, Filled::In(defaults));
        assert_eq!(asked[0].options, ["Fill it in", DEFAULTS, DECLINE]);
        assert!(
            asked[0].text.starts_with(
                "The MCP server `mail` asks: Who are you?\n- `name` (string, default John Doe)\n"
            )
        );
    }

    #[tokio::test]
    async fn each_field_is_asked_for_and_asked_again_after_an_invalid_answer() {
        let answers = ["Fill it in", "x", "Ann", "17", "forty", "41", "", "Inactive", "no", "alpha, beta"];
        let (filled, asked) = answered(form(), &answers).await;
        let content = json!({ "name": "Ann", "age": 41, "score": 95.5, "status": "inactive", "verified": false, "tags": ["a", "b"] });
        assert_eq!(filled, Filled::In(content));
        assert!(asked[4].text.starts_with("That won't do: `17` is outside"), "{}", asked[4].text);
    }

    #[tokio::test]
    async fn one_field_is_one_question_and_every_form_can_be_declined() {
        let confirm = json!({ "type": "object", "properties": { "ok": { "type": "boolean", "description": "Confirm?" } } });
        let (filled, asked) = answered(confirm.clone(), &["yes"]).await;
        assert_eq!((filled, asked.len()), (Filled::In(json!({ "ok": true })), 1));
        assert_eq!(asked[0].options, ["yes", "no", LEAVE_OUT, DECLINE]);
        assert_eq!(answered(confirm.clone(), &["decline"]).await.0, Filled::Declined);
        assert_eq!(answered(form(), &["Decline"]).await.0, Filled::Declined);
        assert_eq!(answered(json!({}), &["Accept"]).await.0, Filled::In(json!({})));
        assert_eq!(answered(confirm, &["maybe", "maybe", "maybe"]).await.0, Filled::GaveUp);
        assert_eq!(answered(form(), &[]).await.0, Filled::GaveUp);
    }

    #[tokio::test]
    async fn server_text_is_escaped_for_the_terminal() {
        let hostile = json!({ "properties": { "a\u{1b}[2J": { "type": "string", "enum": ["\u{202e}x"] } } });
        let (_, asked) = answered(hostile, &["Decline"]).await;
        assert!(!format!("{} {:?}", asked[0].text, asked[0].options).contains(['\u{1b}', '\u{202e}']));
    }
}
