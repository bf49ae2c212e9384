//! Hidden elements, which a reader of the page does not see: their text is removed.

use std::collections::HashSet;

/// Maximum number of rules of the page's own style sheets.
const RULES: usize = 5_000;

/// The classes and ids that style sheets in the page hide. Loaded style sheets also hide what scripts show,
/// such as the tabs of an example, so they are ignored.
#[derive(Default)]
pub(super) struct Sheet<'a> {
    hidden: HashSet<&'a str>,
}

impl<'a> Sheet<'a> {
    /// Parses the style sheets in this page.
    pub(super) fn of(html: &'a str) -> Self {
        let mut sheet = Self::default();
        let mut rest = html;
        while let Some(at) = find_ignoring_case(rest, "<style") {
            let from = rest.get(at..).unwrap_or_default();
            let (_, body) = from.split_once('>').unwrap_or_default();
            let end = find_ignoring_case(body, "</style").unwrap_or(body.len());
            let (body, after) = body.split_at(end);
            sheet.add(body);
            rest = after;
        }
        sheet
    }

    fn add(&mut self, text: &'a str) {
        let mut rest = text;
        for _ in 0..RULES {
            let Some((selectors, after)) = rest.split_once('{') else { return };
            // Rules for some media are ignored.
            if selectors.trim_start().starts_with('@') {
                rest = past_block(after);
                continue;
            }
            let (body, after) = after.split_once('}').unwrap_or((after, ""));
            if hides(body) {
                let selectors = selectors.rsplit("*/").next().unwrap_or_default().split(',').map(str::trim);
                self.hidden.extend(selectors.filter(|it| is_simple(it)));
            }
            rest = after;
        }
    }

    fn hides(&self, attributes: &[(&str, &str)]) -> bool {
        if self.hidden.is_empty() {
            return false;
        }
        attributes.iter().any(|(name, value)| match name.to_ascii_lowercase().as_str() {
            "class" => value.split_ascii_whitespace().any(|it| self.names('.', it)),
            "id" => self.names('#', value.trim()),
            _ => false,
        })
    }

    fn names(&self, mark: char, name: &str) -> bool {
        self.hidden.contains(format!("{mark}{name}").as_str())
    }
}

/// Returns whether an element with these attributes is hidden.
pub(super) fn is_hidden(attributes: &[(&str, &str)], sheet: &Sheet<'_>) -> bool {
    let said = attributes.iter().any(|(name, value)| {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            // `until-found` text is meant to be read.
            "hidden" => !value.eq_ignore_ascii_case("until-found") && !value.eq_ignore_ascii_case("false"),
            "aria-hidden" => value.eq_ignore_ascii_case("true"),
            "type" => value.eq_ignore_ascii_case("hidden"),
            "style" => hides(value),
            _ => false,
        }
    });
    said || sheet.hides(attributes)
}

/// Returns whether it is only `.class` or `#id`.
fn is_simple(selector: &str) -> bool {
    selector.strip_prefix(['.', '#']).is_some_and(|it| {
        !it.is_empty() && it.chars().all(|it| it.is_alphanumeric() || matches!(it, '-' | '_'))
    })
}

/// Returns whether these declarations make text unreadable.
fn hides(declarations: &str) -> bool {
    let plain: String =
        declarations.chars().filter(|it| !it.is_whitespace()).collect::<String>().to_ascii_lowercase();
    let mut flat = (false, false);
    for (name, value) in plain.split(';').filter_map(|it| it.split_once(':')) {
        let value = value.trim_end_matches("!important");
        let hides = match name {
            "display" => value == "none",
            "visibility" => matches!(value, "hidden" | "collapse"),
            "content-visibility" => value == "hidden",
            "opacity" | "font-size" => is_nothing(value),
            "text-indent" | "left" | "top" | "margin-left" => {
                value.starts_with('-') && number(value) <= -999.0
            }
            "clip" => value.starts_with("rect(0") || value.starts_with("rect(1px,1px"),
            "clip-path" => value == "inset(50%)" || value == "inset(100%)",
            // Transparent letters over a clipped background are readable.
            "color" => value == "transparent" && !plain.contains("background-clip:text"),
            "height" | "max-height" => {
                flat.0 |= is_nothing(value);
                false
            }
            "width" | "max-width" => {
                flat.1 |= is_nothing(value);
                false
            }
            _ => false,
        };
        if hides {
            return true;
        }
    }
    // Without a height, overflowing text is visible, unless it is clipped.
    (flat.0 || flat.1) && plain.contains("overflow:hidden") || flat == (true, true)
}

/// Returns whether it is zero in any unit, or a single point.
fn is_nothing(value: &str) -> bool {
    let number = number(value).abs();
    number < 0.02 || (number <= 1.0 && value.ends_with("px"))
}

fn number(value: &str) -> f32 {
    let end = value.find(|it: char| !matches!(it, '0'..='9' | '.' | '-' | '+')).unwrap_or(value.len());
    value.get(..end).and_then(|it| it.parse().ok()).unwrap_or(f32::MAX)
}

/// Returns the text after an open block.
fn past_block(text: &str) -> &str {
    let mut depth = 1_usize;
    for (at, it) in text.char_indices() {
        match it {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(at + 1..).unwrap_or_default();
        }
    }
    ""
}

/// Finds this text, which starts with `<` and is in lower case otherwise, ignoring case.
fn find_ignoring_case(text: &str, what: &str) -> Option<usize> {
    text.match_indices('<')
        .map(|(at, _)| at)
        .find(|at| text.get(*at..*at + what.len()).is_some_and(|it| it.eq_ignore_ascii_case(what)))
}
