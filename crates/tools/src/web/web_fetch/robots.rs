//! robots.txt (RFC 9309).

use kit::{
    Cx, Fault, Kind,
    net::{Request, Url},
};

/// haft's name for sites.
const NAME: &str = "haft";

/// Maximum bytes of the file.
const LONGEST: usize = 500 << 10;

/// Fetches the site's rules, and refuses what they forbid.
///
/// # Errors
/// [`Kind::Denied`] if the rules forbid it, or can't be fetched.
pub(super) async fn check(cx: &Cx, url: &Url) -> Result<(), Fault> {
    let mut at = url.clone();
    at.set_path("/robots.txt");
    at.set_query(None);
    at.set_fragment(None);
    let denied = |why: String| {
        Fault::denied(why)
            .next("With `robots: false`, the default, it is fetched all the same, as a person would.")
    };
    let mut answer = match cx.net().send(Request::get(at.clone())).await {
        Ok(answer) => answer,
        Err(fault) if fault.kind == Kind::Denied => return Err(fault),
        Err(fault) => {
            return Err(denied(format!(
                "robots.txt can't be fetched, so no page of the site may be: {}",
                fault.what
            )));
        }
    };
    match answer.status.as_u16() {
        200..=299 => {}
        500..=599 | 429 => {
            let status = answer.status.as_u16();
            return Err(denied(format!("{at} says {status}, so no robot may come for now")));
        }
        // Without rules, everything is allowed.
        _ => return Ok(()),
    }
    let (body, _) = answer.up_to(LONGEST).await?;
    let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    match forbidding(&String::from_utf8_lossy(&body), &path) {
        None => Ok(()),
        Some(rule) => Err(denied(format!("{at} forbids robots `{path}`, by `Disallow: {rule}`"))),
    }
}

/// Returns the rule that forbids this path.
fn forbidding(rules: &str, path: &str) -> Option<String> {
    let (mut ours, mut everybody_s) = (None::<Vec<(bool, &str)>>, Vec::new());
    // Whether the group names haft, and whether it is for everybody; an agent line after a rule begins a new group.
    let (mut for_us, mut for_all, mut in_rules) = (false, false, true);
    for line in rules.trim_start_matches('\u{feff}').lines() {
        let line = line.split('#').next().unwrap_or_default();
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        match key.as_str() {
            "user-agent" => {
                if std::mem::take(&mut in_rules) {
                    (for_us, for_all) = (false, false);
                }
                let token = value.split(['/', ' ']).next().unwrap_or_default();
                for_us |= token.eq_ignore_ascii_case(NAME);
                for_all |= token == "*";
                if for_us {
                    ours.get_or_insert_default();
                }
            }
            "allow" | "disallow" => {
                in_rules = true;
                let rule = (key == "allow", value);
                if for_us {
                    ours.get_or_insert_default().push(rule);
                }
                if for_all {
                    everybody_s.push(rule);
                }
            }
            _ => {}
        }
    }
    let rules = ours.unwrap_or(everybody_s);
    let path = decoded(path);
    let fits = rules.iter().filter(|(_, rule)| !rule.is_empty() && matches(&decoded(rule), &path));
    // The longest rule counts; of two equally long ones the one that allows.
    let (allows, rule) = fits.max_by_key(|(allows, rule)| (rule.len(), *allows))?;
    (!allows).then(|| (*rule).to_owned())
}

/// Matches a rule: `*` is anything, `$` at the end is the end.
fn matches(rule: &str, path: &str) -> bool {
    let (rule, whole) = rule.strip_suffix('$').map_or((rule, false), |it| (it, true));
    let mut parts = rule.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return !whole || rest.is_empty() };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    if whole { rest.ends_with(last) } else { rest.contains(last) }
}

/// Normalizes characters with two spellings: `%7E` and `~`.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let two = after.get(..2).and_then(|it| u8::from_str_radix(std::str::from_utf8(it).ok()?, 16).ok());
        match two {
            // Characters with a meaning in a rule or a path stay as they are.
            Some(code) if *first == b'%' && !matches!(code, b'/' | b'?' | b'*' | b'$' | b'%') => {
                out.push(code);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rule_of_the_right_group_counts() {
        let rules = "User-agent: *\nDisallow: /private/\nAllow: /private/open\nDisallow: /*.pdf$\n\n\
             User-agent: other\nUser-agent: HAFT/1.0\nDisallow: /ours # no\nDisallow:\n";
        for (path, expected) in [("/ours/x", Some("/ours")), ("/private/x", None), ("/", None)] {
            assert_eq!(forbidding(rules, path).as_deref(), expected, "{path}");
        }
        let rules = rules.replace("HAFT", "third");
        for (path, expected) in [
            ("/private/x", Some("/private/")),
            ("/private/open/y", None),
            ("/a/b.pdf", Some("/*.pdf$")),
            ("/a/b.pdf?x", None),
            ("/%70rivate/x", Some("/private/")),
            ("/ours", None),
        ] {
            assert_eq!(forbidding(&rules, path).as_deref(), expected, "{path}");
        }
        assert_eq!(forbidding("", "/"), None);
        assert_eq!(forbidding("User-agent: haft\n\nUser-agent: *\nDisallow: /", "/x"), Some("/".to_owned()));
        assert_eq!(forbidding("User-agent: *\nDisallow: /a\nAllow: /a", "/a"), None);
        assert_eq!(forbidding("User-agent: *\nDisallow: /*a*b*c", "/1a2b3"), None);
        assert_eq!(forbidding("User-agent: *\nDisallow: /*a*b*c", "/1a2b3c4").as_deref(), Some("/*a*b*c"));
    }
}
