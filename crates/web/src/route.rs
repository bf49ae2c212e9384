//! A route: a method and a path, the role that it needs, and the function that answers.

use std::{future::Future, pin::Pin};

use http::Method;
use schemars::{Schema, SchemaGenerator};

use crate::{
    call::{Call, Done, decoded},
    role::Role,
};

/// A route.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Its path; `{name}` is one segment.
    pub(crate) path: &'static str,
    /// The role that it needs; `None` for whoever asks.
    pub(crate) needs: Option<Role>,
    /// One sentence.
    pub(crate) about: &'static str,
    /// The fields of its query.
    pub(crate) query: &'static [(&'static str, &'static str)],
    /// The schema of its JSON.
    pub(crate) body: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(crate) run: fn(Call) -> Pin<Box<dyn Future<Output = Done> + Send>>,
}

/// Returns the segments that a path names, if the pattern is its.
pub(crate) fn matches(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return Some(names),
            (Some(known), Some(given)) if known.starts_with('{') => {
                let name = decoded(given, false);
                if name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".." {
                    return None;
                }
                names.push(name);
            }
            (Some(known), Some(given)) if known == given => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_a_path_are_names() {
        assert_eq!(matches("/a/{x}/b", "/a/1%202/b"), Some(vec!["1 2".to_owned()]));
        for path in ["/a//b", "/a/../b", "/a/%2e%2e/b", "/a/x%2Fy/b", "/a/x/b/", "/a/x"] {
            assert_eq!(matches("/a/{x}/b", path), None, "{path}");
        }
    }
}
