//! JSON files: loaded, and changed without touching the rest.

use jsonc_parser::{ParseOptions, cst::CstRootNode};
use kit::{Cx, Fault, Kind, text::Text};

use super::open::{Opened, not_text};

/// Maximum nesting, as in `serde_json`. The parsers recurse, so this limits their stack.
pub(super) const DEEPEST: usize = 128;

/// JSON as in editors' configurations: with comments and trailing commas, but without other extensions.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A JSON document with all its white space and comments.
pub(crate) struct Document {
    pub(crate) root: CstRootNode,
}

impl Document {
    /// Parses JSON, with optional comments and trailing commas.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] with line and column, [`Kind::TooBig`] when it is nested too deep.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, Fault> {
        if depth(text) > DEEPEST {
            return Err(Fault::new(
                Kind::TooBig,
                format!("`{path}` is nested more than {DEEPEST} levels deep"),
            ));
        }
        let root = CstRootNode::parse(text, &OPTIONS)
            .map_err(|error| Fault::bad_args(format!("`{path}` is not JSON: {error}")))?;
        Ok(Self { root })
    }
}

/// Loads a JSON file of at most `most` bytes: parsed it takes many times that.
///
/// # Errors
/// Those of [`Files::load`](kit::Files::load), and [`Kind::BadArgs`] when it is not text.
pub(crate) fn load(cx: &Cx, path: &str, most: u64, instead: Option<&'static str>) -> Result<Opened, Fault> {
    let loaded = cx.files().load(path, most).map_err(|fault| match instead {
        Some(instead) if fault.kind == Kind::TooBig => fault.hint(instead),
        _ => fault,
    })?;
    let text = Text::share(loaded.bytes.clone()).map_err(|error| not_text(path, &loaded.bytes, error))?;
    Ok(Opened { loaded, text })
}

/// Returns the maximum nesting of brackets, outside strings and comments.
pub(super) fn depth(text: &str) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                now += 1;
                most = most.max(now);
            }
            b']' | b'}' => now = now.saturating_sub(1),
            b'"' => {
                while let Some(inside) = bytes.next() {
                    match inside {
                        b'\\' => drop(bytes.next()),
                        b'"' | b'\n' => break,
                        _ => {}
                    }
                }
            }
            b'/' if bytes.peek() == Some(&b'/') => while bytes.next_if(|it| *it != b'\n').is_some() {},
            _ => {}
        }
    }
    most
}
