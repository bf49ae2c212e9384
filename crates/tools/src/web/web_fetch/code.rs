//! Code blocks in Markdown.

use dom_query::NodeRef;

use super::markdown::clean;

/// Class names that are not languages.
const NO_LANGUAGE: &[&str] =
    &["none", "default", "nohighlight", "plain", "plaintext", "txt", "container", "wrapper", "box", "block"];

/// Formats the code of this element with fences; `None`, if there is none.
pub(super) fn block(node: &NodeRef<'_>) -> Option<String> {
    let mut text = String::new();
    gather(node, &mut text);
    let text = clean(&text.replace("\r\n", "\n").replace('\u{a0}', " "));
    let text = text.trim_matches('\n').trim_end();
    if text.trim().is_empty() {
        return None;
    }
    let longest = text.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    Some(format!("{fence}{}\n{text}\n{fence}", language(node).unwrap_or_default()))
}

fn gather(node: &NodeRef<'_>, text: &mut String) {
    for child in node.children_it(false) {
        if child.is_text() {
            text.push_str(&child.text());
        } else if child.has_name("br") {
            text.push('\n');
        } else if child.is_element() && !is_gutter(&child) {
            let begins = text.len();
            gather(&child, text);
            // Each line in an element of its own.
            let is_line = ["div", "p", "li", "tr"].iter().any(|it| child.has_name(it));
            if is_line && text.len() > begins && !text.ends_with('\n') {
                text.push('\n');
            }
        }
    }
}

/// Returns whether it holds line numbers or buttons.
fn is_gutter(node: &NodeRef<'_>) -> bool {
    let class = node.attr_or("class", "");
    let is_named = class.split_ascii_whitespace().any(|it| {
        matches!(
            it,
            "lineno"
                | "linenos"
                | "linenodiv"
                | "line-number"
                | "line-numbers"
                | "line-numbers-rows"
                | "gutter"
                | "ln"
                | "lnt"
                | "blob-num"
                | "copy-button"
                | "copybtn"
        )
    });
    is_named || node.has_name("button")
}

/// Returns the language that the element, its content or its parent declares.
fn language(node: &NodeRef<'_>) -> Option<String> {
    let inner = node.first_element_child().filter(|it| it.has_name("code"));
    let around = node.ancestors_it(Some(3));
    [Some(*node), inner].into_iter().flatten().chain(around).find_map(|it| language_of(&it))
}

fn language_of(node: &NodeRef<'_>) -> Option<String> {
    let named = ["data-lang", "data-language"].iter().find_map(|it| node.attr(it)).map(|it| it.to_string());
    let class = node.attr_or("class", "");
    let mut words = class.split_ascii_whitespace().peekable();
    let mut found = named;
    while let (None, Some(word)) = (&found, words.next()) {
        let prefixes = ["language-", "lang-", "highlight-source-", "highlight-", "brush:"];
        found = match prefixes.iter().find_map(|it| word.strip_prefix(it)) {
            // `brush: python`.
            Some("") => words.peek().map(|it| (*it).to_owned()),
            Some(name) => Some(name.to_owned()),
            None if matches!(word, "sourceCode" | "hljs") => words.peek().map(|it| (*it).to_owned()),
            None => None,
        };
    }
    let name = found?.trim_end_matches([';', ',']).to_ascii_lowercase();
    let is_name = !name.is_empty()
        && name.len() <= 20
        && name.chars().all(|it| it.is_ascii_alphanumeric() || "+#-_.".contains(it));
    (is_name && !NO_LANGUAGE.contains(&name.as_str())).then_some(name)
}
