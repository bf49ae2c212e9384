//! How much does a well-known model take in, and what does it cost?
//!
//! As the providers' pages said in November 2026. What is longer than some 200,000 tokens costs more with some of them;
//! that is left out. `[models.NAME]` in haft.toml says it better.

use super::Price;

/// What is known of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Known {
    pub(super) window: u64,
    pub(super) longest: u64,
    pub(super) images: bool,
    pub(super) price: Option<Price>,
}

/// What is taken for true of a model that nobody knows. A picture that it can't look at would be refused, and the whole
/// request with it.
const UNKNOWN: Known = Known { window: 128_000, longest: 16_384, images: false, price: None };

const fn dollars(input: f64, cached: f64, kept: f64, output: f64) -> Option<Price> {
    Some(Price { input, cached, kept, output })
}

const M: u64 = 1_000_000;

/// Beginnings of names, with `-` for `.`: window, longest answer, pictures, and the price.
const TABLE: &[(&str, u64, u64, bool, Option<Price>)] = &[
    ("claude", 200_000, 32_000, true, None),
    ("claude-3-5-haiku", 200_000, 8_192, true, dollars(0.8, 0.08, 1.0, 4.0)),
    ("claude-3-7-sonnet", 200_000, 64_000, true, dollars(3.0, 0.3, 3.75, 15.0)),
    ("claude-fable-5", M, 128_000, true, dollars(10.0, 1.0, 12.5, 50.0)),
    ("claude-fable-5-1", M, 128_000, true, dollars(10.0, 0.25, 12.5, 50.0)),
    ("claude-haiku-4-5", 200_000, 64_000, true, dollars(1.0, 0.1, 1.25, 5.0)),
    // A fifth of it for requests of up to 100,000 tokens.
    ("claude-haiku-5-5", M, 128_000, true, dollars(0.5, 0.05, 0.625, 2.5)),
    ("claude-opus-4", 200_000, 32_000, true, dollars(15.0, 1.5, 18.75, 75.0)),
    ("claude-opus-4-1", 200_000, 32_000, true, dollars(15.0, 1.5, 18.75, 75.0)),
    ("claude-opus-4-5", 200_000, 64_000, true, dollars(5.0, 0.5, 6.25, 25.0)),
    ("claude-opus-4-6", 200_000, 128_000, true, dollars(5.0, 0.5, 6.25, 25.0)),
    ("claude-opus-4-7", M, 128_000, true, dollars(5.0, 0.5, 6.25, 25.0)),
    ("claude-opus-4-8", M, 128_000, true, dollars(5.0, 0.5, 6.25, 25.0)),
    ("claude-opus-5", M, 128_000, true, dollars(5.0, 0.5, 6.25, 25.0)),
    ("claude-opus-5-5", M, 128_000, true, dollars(4.0, 0.2, 5.0, 20.0)),
    ("claude-sonnet-4", 200_000, 64_000, true, dollars(3.0, 0.3, 3.75, 15.0)),
    ("claude-sonnet-4-5", 200_000, 64_000, true, dollars(3.0, 0.3, 3.75, 15.0)),
    ("claude-sonnet-4-6", 200_000, 64_000, true, dollars(3.0, 0.3, 3.75, 15.0)),
    ("claude-sonnet-5", M, 128_000, true, dollars(2.0, 0.2, 2.5, 10.0)),
    ("claude-sonnet-5-5", M, 128_000, true, dollars(2.0, 0.1, 2.5, 10.0)),
    ("gemini", 1_048_576, 65_536, true, None),
    ("gemini-2-5-flash", 1_048_576, 65_536, true, dollars(0.3, 0.03, 0.3, 2.5)),
    ("gemini-2-5-pro", 1_048_576, 65_536, true, dollars(1.25, 0.125, 1.25, 10.0)),
    ("gemini-3-1-pro", 1_048_576, 65_536, true, dollars(2.0, 0.2, 2.0, 12.0)),
    ("gemini-3-5-flash", 1_048_576, 65_536, true, dollars(1.5, 0.15, 1.5, 9.0)),
    ("gemini-3-5-flash-lite", 1_048_576, 65_536, true, dollars(0.3, 0.03, 0.3, 2.5)),
    // Half of it until the end of 2026.
    ("gemini-3-6-flash", 1_048_576, 65_536, true, dollars(1.5, 0.15, 1.5, 7.5)),
    ("gemini-3-7-flash", 1_048_576, 65_536, true, dollars(1.5, 0.15, 1.5, 7.5)),
    ("gemini-3-8-flash", 1_048_576, 65_536, true, dollars(1.5, 0.15, 1.5, 7.5)),
    ("gpt", 128_000, 16_384, true, None),
    ("gpt-4-1", 1_047_576, 32_768, true, dollars(2.0, 0.5, 2.0, 8.0)),
    ("gpt-4-1-mini", 1_047_576, 32_768, true, dollars(0.4, 0.1, 0.4, 1.6)),
    ("gpt-4-1-nano", 1_047_576, 32_768, true, dollars(0.1, 0.025, 0.1, 0.4)),
    ("gpt-4o", 128_000, 16_384, true, dollars(2.5, 1.25, 2.5, 10.0)),
    ("gpt-4o-mini", 128_000, 16_384, true, dollars(0.15, 0.075, 0.15, 0.6)),
    ("gpt-5", 400_000, 128_000, true, dollars(1.25, 0.125, 1.25, 10.0)),
    ("gpt-5-mini", 400_000, 128_000, true, dollars(0.25, 0.025, 0.25, 2.0)),
    ("gpt-5-nano", 400_000, 128_000, true, dollars(0.05, 0.005, 0.05, 0.4)),
    ("gpt-5-pro", 400_000, 128_000, true, None),
    ("gpt-5-1", 400_000, 128_000, true, dollars(1.25, 0.125, 1.25, 10.0)),
    ("gpt-5-2", 400_000, 128_000, true, dollars(1.75, 0.175, 1.75, 14.0)),
    ("gpt-5-2-pro", 400_000, 128_000, true, None),
    ("gpt-5-3", 400_000, 128_000, true, dollars(1.75, 0.175, 1.75, 14.0)),
    ("gpt-5-4", 1_050_000, 128_000, true, dollars(2.5, 0.25, 2.5, 15.0)),
    ("gpt-5-4-mini", 400_000, 128_000, true, dollars(0.75, 0.075, 0.75, 4.5)),
    ("gpt-5-4-nano", 400_000, 128_000, true, dollars(0.2, 0.02, 0.2, 1.25)),
    ("gpt-5-4-pro", 1_050_000, 128_000, true, dollars(30.0, 30.0, 30.0, 180.0)),
    ("gpt-5-5", 1_050_000, 128_000, true, dollars(5.0, 0.5, 5.0, 30.0)),
    ("gpt-5-5-pro", 1_050_000, 128_000, true, dollars(30.0, 30.0, 30.0, 180.0)),
    ("gpt-5-6", 1_050_000, 128_000, true, None),
    ("gpt-5-6-luna", 1_050_000, 128_000, true, dollars(0.2, 0.02, 0.25, 1.2)),
    ("gpt-5-6-terra", 1_050_000, 128_000, true, dollars(2.0, 0.2, 2.5, 12.0)),
    ("gpt-oss", 131_072, 32_768, false, None),
    ("o3", 200_000, 100_000, true, dollars(2.0, 0.5, 2.0, 8.0)),
    ("o3-mini", 200_000, 100_000, false, dollars(1.1, 0.55, 1.1, 4.4)),
    ("o3-pro", 200_000, 100_000, true, dollars(20.0, 20.0, 20.0, 80.0)),
    ("o4-mini", 200_000, 100_000, true, dollars(1.1, 0.275, 1.1, 4.4)),
];

/// What is known of the model of this name, also where a provider writes another's before it: `anthropic/claude-…`.
pub(super) fn known(model: &str) -> Known {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase().replace('.', "-");
    let rows =
        TABLE.iter().filter(|(start, ..)| name.strip_prefix(start).is_some_and(|rest| goes_on(start, rest)));
    let row = rows.max_by_key(|(start, ..)| start.len());
    row.map_or(UNKNOWN, |(_, window, longest, images, price)| Known {
        window: *window,
        longest: *longest,
        images: *images,
        price: *price,
    })
}

/// Is it still the same model after this beginning? A date or a kind may come, but not another version: what
/// `gpt-5` costs says nothing about `gpt-5.9`. A beginning without a version stands for all of them.
fn goes_on(start: &str, rest: &str) -> bool {
    if rest.is_empty() {
        return true;
    }
    let Some(rest) = rest.strip_prefix(['-', ':', '@']) else { return false };
    let first = rest.split(|it: char| !it.is_ascii_alphanumeric()).next().unwrap_or_default();
    let version = first.len() <= 2 && first.bytes().all(|it| it.is_ascii_digit());
    !version || !start.contains(|it: char| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn input(model: &str) -> Option<f64> {
        known(model).price.map(|it| it.input)
    }

    #[test]
    fn a_model_is_known_by_the_beginning_of_its_name() {
        assert_eq!(input("claude-sonnet-4-5-20250929"), Some(3.0));
        assert_eq!(input("anthropic/claude-opus-4.6"), Some(5.0));
        assert_eq!(input("claude-opus-4-20250514"), Some(15.0));
        assert_eq!(input("gpt-5-mini-2025-08-07"), Some(0.25));
        assert_eq!(input("gpt-5.4-mini"), Some(0.75));
        assert_eq!(input("gpt-5.3-codex"), Some(1.75));
        assert_eq!(input("gemini-2.5-pro-preview-06-05"), Some(1.25));
        assert_eq!(known("claude-opus-5-5").window, 1_000_000);
    }

    #[test]
    fn a_version_that_came_later_has_no_price_of_an_older_one() {
        for later in ["gpt-5.9", "gpt-6", "claude-opus-4-9", "claude-opus-6", "gemini-4.0-pro", "o3x"] {
            assert_eq!(input(later), None, "{later}");
        }
        assert_eq!(known("claude-opus-6").window, 200_000);
        assert!(known("gpt-6").images);
    }

    #[test]
    fn what_nobody_knows_is_taken_for_little() {
        assert_eq!(known("qwen3:32b"), UNKNOWN);
        assert_eq!(known(""), UNKNOWN);
    }

    #[test]
    fn the_table_is_in_order_and_plausible() {
        let mut seen = std::collections::HashSet::new();
        for (start, window, longest, _, price) in TABLE {
            assert!(seen.insert(start) && !start.contains('.'), "{start}");
            assert!(longest < window, "{start}");
            let Some(price) = price else { continue };
            assert!(price.cached <= price.input && price.input < price.output, "{start}");
        }
        let unwritten = known("gpt-oss-120b");
        assert_eq!((unwritten.images, unwritten.price), (false, None));
        known("claude-fable-5-1").price.unwrap();
    }
}
