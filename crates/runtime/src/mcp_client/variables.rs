//! Variables of a server, expanded from haft's environment.

use crate::config::Variables;

impl Variables {
    /// Returns the variables that a server gets, where `environment` is haft's own. Leaves out names that are
    /// not set.
    ///
    /// # Errors
    /// When a value refers to a variable that is not set.
    pub(super) fn given(&self, environment: &[(String, String)]) -> Result<Vec<(String, String)>, String> {
        match self {
            Self::Names(names) => {
                Ok(environment.iter().filter(|(name, _)| names.contains(name)).cloned().collect())
            }
            Self::Values(values) => {
                values.iter().map(|(name, value)| Ok((name.clone(), expanded(value, environment)?))).collect()
            }
        }
    }
}

/// Replaces each `${NAME}`, and each `${NAME:-otherwise}`, with the variable's value.
///
/// # Errors
/// When a variable is not set and the text has no default for it.
pub(super) fn expanded(text: &str, environment: &[(String, String)]) -> Result<String, String> {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        whole.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            whole.push_str("${");
            rest = after;
            continue;
        };
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inside, None),
        };
        // As in a shell, `:-` also replaces an empty value.
        let value = environment
            .iter()
            .find(|(it, value)| it == name && (otherwise.is_none() || !value.is_empty()))
            .map(|(_, value)| value.as_str())
            .or(otherwise);
        let Some(value) = value else { return Err(format!("`${{{name}}}` is not set")) };
        whole.push_str(value);
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stand_for_their_values_and_a_missing_one_is_named() {
        let environment = [("A".to_owned(), "1".to_owned()), ("EMPTY".to_owned(), String::new())];
        for (text, value) in [
            ("x", Ok("x")),
            ("${A}/b${A}", Ok("1/b1")),
            ("${NONE:-two}", Ok("two")),
            ("${EMPTY:-two}", Ok("two")),
            ("${EMPTY}", Ok("")),
            ("${A:-two}", Ok("1")),
            ("$A ${", Ok("$A ${")),
            ("${NONE:-}", Ok("")),
            ("${NONE}", Err("`${NONE}` is not set")),
        ] {
            assert_eq!(expanded(text, &environment).as_deref().map_err(String::as_str), value, "{text}");
        }
    }
}
