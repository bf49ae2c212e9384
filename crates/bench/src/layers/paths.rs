//! Paths in Rust code: the names of its own crate that a file uses, read from tokens, so that macros count,
//! and comments and strings don't.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    str::FromStr as _,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Returns the top-level names of the crate that the code of this module uses, by `crate::` and `super::`.
/// Test modules are left out.
pub(super) fn named(text: &str, module: &[String]) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    walk(&tokens(text)?, module, &mut found);
    Ok(found)
}

/// Returns the names that a root file exports or imports, and the module from which each comes.
pub(super) fn exported(root: &str) -> io::Result<BTreeMap<String, String>> {
    let tokens = tokens(root)?;
    let modules: BTreeSet<String> = tokens
        .windows(2)
        .filter(|it| matches!(it, [TokenTree::Ident(word), TokenTree::Ident(_)] if *word == "mod"))
        .filter_map(|it| ident(it.get(1)?))
        .collect();
    let mut found = BTreeMap::new();
    for (at, token) in tokens.iter().enumerate() {
        if ident(token).as_deref() != Some("use") {
            continue;
        }
        let statement: Vec<TokenTree> =
            tokens.iter().skip(at + 1).take_while(|it| !is_punct(it, ';')).cloned().collect();
        let Some(module) = statement.first().and_then(ident).filter(|it| modules.contains(it)) else {
            continue;
        };
        leaves(&statement, &mut |name| drop(found.insert(name, module.clone())));
    }
    Ok(found)
}

fn tokens(text: &str) -> io::Result<Vec<TokenTree>> {
    let stream = TokenStream::from_str(text).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(stream.into_iter().collect())
}

fn ident(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(it) => Some(it.to_string()),
        _ => None,
    }
}

fn is_punct(token: &TokenTree, letter: char) -> bool {
    matches!(token, TokenTree::Punct(it) if it.as_char() == letter)
}

/// Passes on the names that a `use` introduces: the last of each path, or what it is renamed to.
fn leaves(tree: &[TokenTree], give: &mut impl FnMut(String)) {
    for part in tree.split(|it| is_punct(it, ',')) {
        match part.last() {
            Some(TokenTree::Group(group)) => {
                leaves(&group.stream().into_iter().collect::<Vec<_>>(), give);
            }
            Some(token) => ident(token).into_iter().for_each(&mut *give),
            None => {}
        }
    }
}

fn walk(tokens: &[TokenTree], module: &[String], found: &mut BTreeSet<String>) {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let rest = tokens.get(at + 1..).unwrap_or_default();
        match token {
            TokenTree::Punct(it) if it.as_char() == '#' && is_for_tests(rest) => {
                // The item after the attribute, to the end of its braces or its semicolon.
                let ends = |it: &TokenTree| {
                    is_punct(it, ';')
                        || matches!(it, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
                };
                at += 2 + rest.iter().position(ends).unwrap_or(rest.len());
                continue;
            }
            TokenTree::Ident(it) if *it == "mod" => {
                if let [TokenTree::Ident(name), TokenTree::Group(body), ..] = rest {
                    let inner = [module, &[name.to_string()]].concat();
                    walk(&body.stream().into_iter().collect::<Vec<_>>(), &inner, found);
                    at += 3;
                    continue;
                }
            }
            TokenTree::Ident(it) if *it == "crate" => below(rest, &[], found),
            TokenTree::Ident(it)
                if *it == "super" && !tokens.get(at.wrapping_sub(1)).is_some_and(|it| is_punct(it, ':')) =>
            {
                let (mut up, mut after) = (1, rest);
                while let [one, two, TokenTree::Ident(next), more @ ..] = after
                    && is_punct(one, ':')
                    && is_punct(two, ':')
                    && *next == "super"
                {
                    (up, after) = (up + 1, more);
                }
                if let Some(base) = module.len().checked_sub(up).and_then(|it| module.get(..it)) {
                    below(after, base, found);
                }
            }
            TokenTree::Group(group) => {
                walk(&group.stream().into_iter().collect::<Vec<_>>(), module, found);
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns whether this is the rest of an attribute that compiles its item for tests alone.
fn is_for_tests(rest: &[TokenTree]) -> bool {
    let Some(TokenTree::Group(group)) = rest.first() else { return false };
    let attribute = group.stream().to_string().replace(' ', "");
    attribute == "cfg(test)" || attribute.starts_with("cfg(all(test,")
}

/// Adds the continuation of a path after a module: a name, or several in braces.
fn below(rest: &[TokenTree], base: &[String], found: &mut BTreeSet<String>) {
    let [one, two, next, ..] = rest else { return };
    if !is_punct(one, ':') || !is_punct(two, ':') {
        return;
    }
    if let Some(first) = base.first() {
        found.insert(first.clone());
        return;
    }
    match next {
        TokenTree::Ident(name) => drop(found.insert(name.to_string())),
        TokenTree::Group(group) => {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            for part in inside.split(|it| is_punct(it, ',')) {
                found.extend(part.first().and_then(ident).filter(|it| it != "self"));
            }
        }
        _ => {}
    }
}
