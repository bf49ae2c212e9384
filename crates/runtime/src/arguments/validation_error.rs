//! Validation errors, in words for the model.

use std::fmt;

use serde_json::Value;

/// Characters shown of allowed values.
const VALUES: usize = 300;
/// Characters shown of a given value.
const SHOWN: usize = 60;

/// The position of a value in the arguments.
pub(super) enum At<'a> {
    Top,
    Field(&'a Self, &'a str),
    Item(&'a Self, usize),
}

/// The names of the checked value and its fields in messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Called {
    whole: &'static str,
    plural: bool,
    field: &'static str,
}

/// The arguments of a call.
pub(super) const ARGUMENTS: Called = Called { whole: "the arguments", plural: true, field: "an argument" };

/// The answer of a model.
pub(super) const ANSWER: Called =
    Called { whole: "the answer", plural: false, field: "a field of the schema" };

/// One error.
#[derive(Debug)]
pub(super) struct Problem {
    at: String,
    is: String,
    wrong: Wrong,
}

/// The kind of an error.
#[derive(Debug)]
pub(super) enum Wrong {
    /// The value has none of these types.
    Type(Vec<String>),
    /// The value is none of these.
    Value(Vec<Value>),
    /// A requirement, after "must".
    Must(String),
    /// The field is missing.
    Missing { wanted: Vec<String>, near: Option<String> },
    /// There is no field of this name.
    Unknown { near: Option<String>, known: Vec<String> },
    /// The rest of the sentence.
    Other(String),
}

impl Problem {
    pub(super) fn new(at: &At<'_>, value: &Value, wrong: Wrong) -> Self {
        Self { at: at.to_string(), is: shown(value), wrong }
    }
}

/// Returns the errors of a value that matches none of several alternatives: the requirements that all share
/// here, or else the errors for the nearest alternative.
pub(super) fn of_forms(at: &At<'_>, value: &Value, forms: Vec<Vec<Problem>>) -> Vec<Problem> {
    let place = at.to_string();
    let (mut types, mut values) = (Vec::new(), Vec::new());
    let mut others: Vec<Vec<Problem>> = Vec::new();
    for form in forms {
        match form.as_slice() {
            [Problem { at, wrong: Wrong::Type(some), .. }] if *at == place => {
                types.extend(some.iter().filter(|it| !types.contains(*it)).cloned().collect::<Vec<_>>());
            }
            [Problem { at, wrong: Wrong::Value(some), .. }] if *at == place => {
                values.extend(some.iter().cloned());
            }
            _ => others.push(form),
        }
    }
    // An alternative that requires another constant in a field is of another kind, and not meant.
    let distance = |form: &Vec<Problem>| {
        let named = form.iter().filter(|it| matches!(it.wrong, Wrong::Value(_))).count();
        (named, form.len())
    };
    if let Some(index) = (0..others.len()).min_by_key(|it| others.get(*it).map(distance)) {
        let count = others.len();
        let mut nearest = others.swap_remove(index);
        if count > 1 {
            let text = format!("fits none of {count} forms; for the nearest:");
            nearest.insert(0, Problem::new(at, value, Wrong::Other(text)));
        }
        return nearest;
    }
    let wrong = match (types.is_empty(), values.is_empty()) {
        (_, true) => Wrong::Type(types),
        (true, false) => Wrong::Value(values),
        (false, false) => Wrong::Must(format!("be {} or one of {}", in_words(&types), listed(&values))),
    };
    vec![Problem::new(at, value, wrong)]
}

/// Names the alternatives by their required fields, if they have any.
pub(super) fn forms_by_name(forms: &[Value]) -> String {
    let names: Vec<String> = forms
        .iter()
        .filter_map(|form| {
            let names: Vec<&str> = super::strings(form.get("required")).collect();
            (!names.is_empty()).then(|| format!("`{}`", names.join("` and `")))
        })
        .collect();
    if names.len() == forms.len() {
        format!(": give only {}", names.join(" or only "))
    } else {
        String::new()
    }
}

/// Returns the most similar of these names, if one is similar.
pub(super) fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    // A text that is not a name is not compared, as that takes long.
    let names = names.iter().take(100).filter(|it| it.len() <= 100 && name.len() <= 100);
    names
        .map(|it| (similar::TextDiff::from_chars(name, *it).ratio(), *it))
        .filter(|(ratio, _)| *ratio >= 0.6)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, name)| name)
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => Ok(()),
            Self::Field(Self::Top, name) => f.write_str(name),
            Self::Field(above, name) => write!(f, "{above}.{name}"),
            Self::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

impl Problem {
    /// Renders the error in one line.
    pub(super) fn line(&self, called: Called) -> String {
        let mut line = String::new();
        // Writing to a string can't fail.
        let _ = self.write(&mut line, called);
        line
    }

    fn write(&self, f: &mut impl fmt::Write, called: Called) -> fmt::Result {
        let (at, is) = (self.at.as_str(), self.is.as_str());
        let (at, is) = match (at, is) {
            ("", is) if called.plural => (called.whole.to_owned(), format!("are {is}")),
            ("", is) => (called.whole.to_owned(), format!("is {is}")),
            (at, is) => (format!("`{at}`"), format!("is {is}")),
        };
        let field = called.field;
        match &self.wrong {
            Wrong::Type(types) => write!(f, "{at} {is} and must be {}", in_words(types)),
            Wrong::Value(values) => match values.as_slice() {
                [one] => write!(f, "{at} {is} and must be {one}"),
                values => write!(f, "{at} {is} and must be one of {}", listed(values)),
            },
            Wrong::Must(what) => write!(f, "{at} {is} and must {what}"),
            Wrong::Missing { wanted, near } => {
                write!(f, "{at} is missing")?;
                if !wanted.is_empty() {
                    write!(f, "; it must be {}", in_words(wanted))?;
                }
                match near {
                    Some(near) => write!(f, "; is `{near}` meant to be it?"),
                    None => Ok(()),
                }
            }
            Wrong::Unknown { near: Some(near), .. } => {
                write!(f, "{at} is not {field}; did you mean `{near}`?")
            }
            Wrong::Unknown { known, .. } if known.is_empty() => {
                write!(f, "{at} is not {field}; there are none")
            }
            Wrong::Unknown { known, .. } => {
                let names: Vec<Value> = known.iter().map(|it| Value::String(it.clone())).collect();
                write!(f, "{at} is not {field}; there are: {}", listed(&names).replace('"', ""))
            }
            Wrong::Other(text) if self.at.is_empty() && called.plural => {
                // The verb of one value becomes the plural.
                let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
                let verb = match verb {
                    "is" => "are",
                    "has" => "have",
                    "fits" => "fit",
                    verb => verb,
                };
                write!(f, "{at} {verb} {rest}")
            }
            Wrong::Other(text) => write!(f, "{at} {text}"),
        }
    }
}

fn in_words(types: &[String]) -> String {
    let words: Vec<&str> = types
        .iter()
        .map(|it| match it.as_str() {
            "string" => "a string",
            "integer" => "an integer",
            "number" => "a number",
            "boolean" => "true or false",
            "array" => "a list",
            "object" => "an object",
            other => other,
        })
        .collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

fn listed(values: &[Value]) -> String {
    let mut text = String::new();
    for (index, value) in values.iter().enumerate() {
        let value = value.to_string();
        if index > 0 && text.len() + value.len() > VALUES {
            text.push_str(&format!(" and {} more", values.len() - index));
            break;
        }
        text.push_str(if index == 0 { "" } else { ", " });
        text.push_str(&value);
    }
    text
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(yes) => yes.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => {
            let mut head: String = text.chars().take(SHOWN).collect();
            if head.len() < text.len() {
                head.push('…');
            }
            format!("the string {}", Value::String(head))
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
