//! Bearer tokens, and the principal of each, compared in constant time.

use std::hint::black_box;

/// A user of the server, with a token of their own.
#[derive(Clone)]
pub struct Principal {
    name: String,
    token: String,
}

/// Minimum length; a shorter token can be guessed.
const SHORTEST: usize = 16;

/// Maximum length; a longer one fits into no header.
const LONGEST: usize = 4096;

impl Principal {
    /// Creates a principal with this token.
    ///
    /// # Errors
    /// A message, when no client could send the token or it is too weak.
    pub fn new(name: impl Into<String>, token: impl Into<String>) -> Result<Self, String> {
        let (name, token) = (name.into(), token.into());
        if !(SHORTEST..=LONGEST).contains(&token.len()) {
            return Err(format!(
                "the token of `{name}` has {} characters; it must have {SHORTEST} to {LONGEST}",
                token.len()
            ));
        }
        if !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)) {
            return Err(format!("the token of `{name}` may have letters, digits and - . _ ~ + / = only"));
        }
        Ok(Self { name, token })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether both have the same token.
    pub fn has_token_of(&self, other: &Self) -> bool {
        is_same(self.token.as_bytes(), other.token.as_bytes())
    }
}

impl std::fmt::Debug for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Principal").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the index of the principal with this token, in constant time.
pub fn whose(principals: &[Principal], token: &[u8]) -> Option<usize> {
    let mut found = None;
    for (number, principal) in principals.iter().enumerate() {
        if is_same(principal.token.as_bytes(), token) {
            found = Some(number);
        }
    }
    found
}

/// Compares in constant time.
pub fn is_same(known: &[u8], given: &[u8]) -> bool {
    let differs = known.iter().zip(given).fold(0, |differs, (a, b)| black_box(differs | (a ^ b)));
    known.len() == given.len() && differs == 0
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_a_whole_token_is_accepted() {
        let principals =
            [Principal::new("a", "a".repeat(20)).unwrap(), Principal::new("b", "b".repeat(20)).unwrap()];
        assert_eq!(whose(&principals, "b".repeat(20).as_bytes()), Some(1));
        for wrong in ["", "b", &"b".repeat(19), &"b".repeat(21), &format!("{}a", "b".repeat(19))] {
            assert_eq!(whose(&principals, wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn weak_and_malformed_tokens_are_refused() {
        for token in ["", "short", &"a b".repeat(20), &"é".repeat(20), &"x".repeat(5000)] {
            assert!(Principal::new("a", token).is_err(), "{token}");
        }
        let shown = format!("{:?}", Principal::new("a", "0123456789abcdef").unwrap());
        assert!(!shown.contains("0123456789abcdef"), "{shown}");
    }
}
