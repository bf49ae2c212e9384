//! Secret redaction: finds known values in text and puts placeholders in their place.

use std::{borrow::Cow, ops::Range, path::Path};

use aho_corasick::{AhoCorasick, MatchKind};

/// Hides secret values in text.
pub trait Redact: Send + Sync {
    /// Returns the byte ranges of `text` that must not be shown, in order.
    fn find(&self, text: &str) -> Vec<Range<usize>>;
}

/// The beginning of a placeholder, before the name of the secret.
const OPEN: &str = "[masked:";
/// Minimum length of a secret value; shorter ones occur by accident.
const SHORTEST: usize = 8;
/// Minimum length of a value that a person declared a secret.
pub const SHORTEST_NAMED: usize = 4;
/// A variable whose name contains one of these words holds a secret.
const WORDS: &[&str] = &[
    "APIKEY",
    "AUTH",
    "AUTHORIZATION",
    "COOKIE",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "KEY",
    "KEYS",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PASSWORDS",
    "PAT",
    "PWD",
    "SECRET",
    "SECRETS",
    "TOKEN",
    "TOKENS",
];
/// Common values that hide nothing.
const COMMON: &[&str] = &[
    "anonymous",
    "automatic",
    "changeme",
    "development",
    "disabled",
    "external",
    "gnome-keyring",
    "internal",
    "interactive",
    "keychain",
    "localhost",
    "optional",
    "password",
    "production",
    "required",
    "standard",
    "undefined",
    "username",
];

/// The secret values that this process knows, and their names.
#[derive(Debug, Default)]
pub struct Secrets {
    find: Option<AhoCorasick>,
    /// The name that each pattern of `find` belongs to.
    owners: Vec<String>,
    /// The patterns of `find`.
    patterns: Vec<String>,
}

impl Secrets {
    /// Returns an empty set.
    pub fn none() -> Self {
        Self::default()
    }

    /// Collects the secrets among the variables of an environment, and others by name and value.
    pub fn collect<N: AsRef<str>, V: AsRef<str>>(
        environment: impl IntoIterator<Item = (N, V)>,
        explicit: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let long_enough = |(_, value): &(String, String)| value.trim().len() >= SHORTEST_NAMED;
        let mut known: Vec<(String, String)> = explicit.into_iter().filter(long_enough).collect();
        let named = known.len();
        for (name, value) in environment {
            let (name, value) = (name.as_ref(), value.as_ref().trim());
            if is_secret_name(name) && is_secret_value(value) {
                known.push((name.to_owned(), value.to_owned()));
            } else if let Some(password) = password_of_url(value).filter(|it| is_secret_value(it)) {
                known.push((name.to_owned(), password.to_owned()));
            }
        }
        let mut patterns: Vec<String> = Vec::new();
        let mut owners = Vec::new();
        for (place, (name, value)) in known.iter().enumerate() {
            let shortest = if place < named { SHORTEST_NAMED } else { SHORTEST };
            for form in forms(value.trim(), shortest) {
                if !patterns.contains(&form) {
                    patterns.push(form);
                    owners.push(name.clone());
                }
            }
        }
        if patterns.is_empty() {
            return Self::none();
        }
        match AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns) {
            Ok(find) => Self { find: Some(find), owners, patterns },
            Err(error) => {
                // Only megabytes of patterns can fail here. None of them may be shown in a log.
                tracing::error!(%error, "secrets are not masked");
                Self::none()
            }
        }
    }

    /// Replaces each secret value by `[masked:NAME]`.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(find) = &self.find else { return Cow::Borrowed(text) };
        let mut masked = String::new();
        let mut from = 0;
        for hit in find.find_iter(text) {
            let Some(before) = text.get(from..hit.start()) else { continue };
            masked.push_str(before);
            masked.push_str(OPEN);
            masked.push_str(self.owners.get(hit.pattern().as_usize()).map_or("", String::as_str));
            masked.push(']');
            from = hit.end();
        }
        if from == 0 {
            return Cow::Borrowed(text);
        }
        masked.push_str(text.get(from..).unwrap_or_default());
        Cow::Owned(masked)
    }

    /// How many bytes at the end of `text` may be the beginning of a secret. Whoever masks a text that comes in pieces keeps
    /// these back until the next piece: a secret that is cut in two is found in neither half.
    pub fn unfinished(&self, text: &str) -> usize {
        let mut most = 0;
        for pattern in &self.patterns {
            let longest = pattern.len().saturating_sub(1).min(text.len());
            for length in (most + 1..=longest).rev() {
                let is_cut = |it: &[u8]| pattern.as_bytes().starts_with(it);
                if text.as_bytes().get(text.len() - length..).is_some_and(is_cut) {
                    most = length;
                    break;
                }
            }
        }
        let mut at = text.len() - most;
        // A whole secret may end in what is the beginning of another one.
        let whole = self.find.iter().flat_map(|find| find.find_iter(text));
        if let Some(hit) = whole.map(|hit| hit.range()).find(|hit| hit.start < at && at < hit.end) {
            at = hit.start;
        }
        text.len() - text.floor_char_boundary(at)
    }

    /// Returns the first placeholder in `text` that stands for a known secret. Writing such a text would
    /// replace the secret by its placeholder.
    pub fn placeholder<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.find.as_ref()?;
        text.match_indices(OPEN).find_map(|(start, _)| {
            let rest = text.get(start..)?;
            let end = rest.find(']')?;
            let name = rest.get(OPEN.len()..end)?;
            if self.owners.iter().any(|it| it == name) { rest.get(..=end) } else { None }
        })
    }
}

impl Redact for Secrets {
    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let Some(find) = &self.find else { return Vec::new() };
        find.find_iter(text).map(|hit| hit.range()).collect()
    }
}

fn is_secret_name(name: &str) -> bool {
    let mut words = name.split(['_', '-', '.']);
    words.any(|word| WORDS.iter().any(|it| it.eq_ignore_ascii_case(word)))
}

fn is_secret_value(value: &str) -> bool {
    let same = value.chars().next().is_some_and(|first| value.chars().all(|it| it == first));
    value.len() >= SHORTEST
        && !same
        && value.parse::<f64>().is_err()
        && !is_path(value)
        && !COMMON.iter().any(|it| it.eq_ignore_ascii_case(value))
}

/// Returns whether the value is a path. A key may begin with a slash too, so an absolute path must begin with
/// a folder that exists.
fn is_path(value: &str) -> bool {
    if ["./", "../", "~/"].iter().any(|it| value.starts_with(it)) {
        return true;
    }
    let first = value.strip_prefix('/').map(|it| it.split('/').next().unwrap_or_default());
    first.is_some_and(|it| !it.is_empty() && Path::new("/").join(it).is_dir())
}

/// Returns `pass` of `scheme://user:pass@host`.
fn password_of_url(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    Some(user.split_once(':')?.1)
}

/// Returns the forms in which a value may occur in text.
fn forms(value: &str, shortest: usize) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    // A multi-line key is often shown or copied in part.
    let lines = value.lines().map(str::trim).filter(|it| it.len() >= 16 && !it.starts_with("-----"));
    forms.extend(lines.map(str::to_owned));
    if let Ok(json) = serde_json::to_string(value) {
        let json = json.get(1..json.len() - 1).unwrap_or_default().to_owned();
        forms.extend([json.replace('/', "\\/"), ascii(&json), json]);
    }
    forms.push(html(value));
    // Programs differ in which characters they percent-encode.
    for unreserved in ["-._~", "-._*", "-._~!*'()", "-._~!*'();/?:@&=+$,#"] {
        let encoded = percent_encoded(value, unreserved);
        forms.extend([encoded.replace("%20", "+"), lower_escapes(&encoded), encoded]);
    }
    // Inside a longer base64 text the value can begin at any of three offsets.
    for lead in 0..3 {
        for alphabet in [STANDARD, URL_SAFE] {
            forms.push(base64_inside(value.as_bytes(), lead, alphabet));
        }
    }
    forms.retain(|it| it.len() >= shortest);
    forms
}

/// Escapes JSON so that it is ASCII only.
fn ascii(json: &str) -> String {
    let escaped = |it: char| -> String {
        it.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    };
    json.chars().map(|it| if it.is_ascii() { it.to_string() } else { escaped(it) }).collect()
}

fn html(value: &str) -> String {
    let named = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;")];
    named.into_iter().fold(value.to_owned(), |text, (it, name)| text.replace(it, name))
}

/// Lowercases percent escapes: `%2f` for `%2F`.
fn lower_escapes(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        text.push_str(&format!("%{}{rest}", digits.to_ascii_lowercase()));
    }
    text
}

fn percent_encoded(value: &str, unreserved: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || unreserved.as_bytes().contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the characters of base64 that depend on `bytes` alone, if `lead` bytes modulo three come before them.
fn base64_inside(bytes: &[u8], lead: usize, alphabet: &[u8; 64]) -> String {
    let first = (lead * 8).div_ceil(6);
    let end = (lead + bytes.len()) * 8 / 6;
    (first..end)
        .filter_map(|place| {
            let bit = place * 6 - lead * 8;
            let pair = [bytes.get(bit / 8), bytes.get(bit / 8 + 1)].map(|it| it.copied().unwrap_or(0));
            let six = u16::from_be_bytes(pair) >> (10 - bit % 8) & 63;
            alphabet.get(usize::from(six)).map(|it| char::from(*it))
        })
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secrets() -> Secrets {
        Secrets::collect(
            [
                ("OPENAI_API_KEY", "sk-proj-\"Ab/1+2=x"),
                ("GITHUB_TOKEN", "ghp_0123456789abcdef"),
                ("DATABASE_URL", "postgres://me:hunter2hunter2@db/x"),
                ("SSH_AUTH_SOCK", "/tmp/agent.1"),
                ("KEYBOARD", "dvorak-us-intl"),
                ("MAX_TOKENS", "128000000"),
                ("AUTH", "disabled"),
                ("MY_KEY", "short"),
                ("HOME", "/root"),
            ],
            [("vault".to_owned(), "ghp_0123456789abcdefXYZ".to_owned())],
        )
    }

    #[test]
    fn a_text_in_pieces_is_masked_as_the_whole_of_it_wherever_it_is_cut() {
        let secrets = Secrets::collect(
            [("A_KEY", "aabaabaab"), ("B_KEY", "aabaabaabcc"), ("C_KEY", "abxyzzy1ä!")],
            Vec::<(String, String)>::new(),
        );
        let text = "aabaabaab aabaabaabcc xaabaabaabxyzzy1ä! aabaabaabxyz aaba";
        let cuts: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        for first in &cuts {
            for second in cuts.iter().filter(|it| *it >= first) {
                let (mut kept, mut shown) = (String::new(), String::new());
                for piece in [&text[..*first], &text[*first..*second], &text[*second..]] {
                    kept.push_str(piece);
                    let rest = kept.split_off(kept.len() - secrets.unfinished(&kept));
                    shown.push_str(&secrets.mask(&kept));
                    kept = rest;
                }
                shown.push_str(&secrets.mask(&kept));
                assert_eq!(shown, secrets.mask(text), "cut at {first} and {second}");
            }
        }
        assert_eq!(secrets.unfinished("nothing of it"), 0);
        assert_eq!(Secrets::none().unfinished("aab"), 0);
    }

    #[test]
    fn hides_values_and_nothing_else() {
        let text = "a sk-proj-\"Ab/1+2=x b ghp_0123456789abcdef c hunter2hunter2@ /tmp/agent.1 dvorak-us-intl \
                    128000000 disabled short /root";
        assert_eq!(
            secrets().mask(text),
            "a [masked:OPENAI_API_KEY] b [masked:GITHUB_TOKEN] c [masked:DATABASE_URL]@ /tmp/agent.1 dvorak-us-intl \
             128000000 disabled short /root"
        );
    }

    #[test]
    fn takes_the_longest_of_values_that_begin_alike() {
        assert_eq!(secrets().mask("ghp_0123456789abcdefXYZ"), "[masked:vault]");
    }

    #[test]
    fn hides_a_value_in_json_in_a_url_and_in_base64() {
        let masked = secrets();
        assert_eq!(masked.mask(r#"{"k":"sk-proj-\"Ab/1+2=x"}"#), r#"{"k":"[masked:OPENAI_API_KEY]"}"#);
        assert_eq!(masked.mask("?k=sk-proj-%22Ab%2F1%2B2%3Dx&"), "?k=[masked:OPENAI_API_KEY]&");
        // base64 of `user:ghp_0123456789abcdef`
        let header = masked.mask("Basic dXNlcjpnaHBfMDEyMzQ1Njc4OWFiY2RlZg==").into_owned();
        assert!(header.contains("[masked:GITHUB_TOKEN]"), "{header}");
    }

    #[test]
    fn gives_the_text_itself_when_nothing_is_to_be_hidden() {
        assert!(matches!(secrets().mask("nothing here"), Cow::Borrowed(_)));
        assert!(matches!(Secrets::none().mask("ghp_0123456789abcdef"), Cow::Borrowed(_)));
    }

    #[test]
    fn knows_its_own_placeholders_only() {
        let known = secrets();
        assert_eq!(
            known.placeholder("x [masked:other] [masked:GITHUB_TOKEN]"),
            Some("[masked:GITHUB_TOKEN]")
        );
        assert_eq!(known.placeholder("[masked:other] [masked:"), None);
        assert_eq!(Secrets::none().placeholder("[masked:GITHUB_TOKEN]"), None);
    }

    #[test]
    fn hides_single_lines_of_a_key() {
        let key = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7\nq0h2v9Zt7PpQwErT\n-----END KEY-----";
        let masked = Secrets::collect([("TLS_KEY", key)], []);
        assert_eq!(masked.mask("tail: q0h2v9Zt7PpQwErT"), "tail: [masked:TLS_KEY]");
        assert_eq!(masked.mask("-----END KEY-----"), "-----END KEY-----");
    }

    proptest! {
        #[test]
        fn hides_base64_wherever_the_value_begins(before in proptest::collection::vec(any::<u8>(), 0..9),
                                                  after in proptest::collection::vec(any::<u8>(), 0..9)) {
            let value = "tok-9f8e7d6c5b4a";
            let all = [&before[..], value.as_bytes(), &after[..]].concat();
            let text = base64_inside(&all, 0, STANDARD);
            let masked = Secrets::collect([("T_TOKEN", value)], []);
            prop_assert!(masked.mask(&text).contains("[masked:T_TOKEN]"), "{}", text);
            let hit = masked.find(&text).first().cloned().unwrap();
            // All but the characters that it shares with its neighbours.
            prop_assert!(hit.len() >= value.len() * 8 / 6 - 2);
        }
    }
}
