//! Ids of triggers, and the secrets that haft generates for them.

use kit::Fault;

/// Maximum length of a name, in bytes.
const LONGEST: usize = 64;

/// Checks a name that somebody chose.
///
/// # Errors
/// When it is not one word of letters, digits, `_`, `-` and `.`.
pub(crate) fn checked(name: &str) -> Result<String, Fault> {
    let name = name.trim();
    let is_plain = name.chars().all(|it| it.is_ascii_alphanumeric() || "_-.".contains(it));
    if name.is_empty() || name.len() > LONGEST || !is_plain || name.starts_with('-') {
        return Err(Fault::bad_args(format!("`{name}` is not a name of a trigger"))
            .next("A name is one word of letters, digits, `_`, `-` and `.`, at most 64 characters: `nightly-build`."));
    }
    Ok(name.to_owned())
}

/// Creates an id: `trigger_1f0e2d3c`.
///
/// # Errors
/// When the system has no random bytes.
pub(crate) fn generated() -> Result<String, Fault> {
    let bytes = random::<4>()?;
    Ok(format!("trigger_{}", hex(&bytes)))
}

/// Creates a secret of 32 random bytes, in hexadecimal.
///
/// # Errors
/// When the system has no random bytes.
pub(crate) fn secret() -> Result<String, Fault> {
    Ok(hex(&random::<32>()?))
}

fn random<const N: usize>() -> Result<[u8; N], Fault> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Fault::bug(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
