//! Path filters: globs and file types.

use std::{fmt, path::Path};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::types::{FileTypeDef, Types, TypesBuilder};
use kit::{
    files::{Location, check_glob},
    prelude::*,
};

/// A compiled glob for paths below the searched folder.
pub(crate) struct Names {
    set: GlobSet,
}

impl Names {
    /// Compiles a glob. Without `/` it matches at any depth, as in a `.gitignore`.
    pub(crate) fn new(pattern: &str) -> Result<Self, Fault> {
        if pattern.contains('/') {
            Self::anchored(pattern.strip_prefix("./").unwrap_or(pattern), pattern)
        } else {
            Self::anchored(&format!("**/{pattern}"), pattern)
        }
    }

    /// Compiles a glob relative to the searched folder; `written` is the model's text.
    pub(crate) fn anchored(glob: &str, written: &str) -> Result<Self, Fault> {
        if written.trim().is_empty() {
            return Err(Fault::bad_args("the glob is empty").next("`**` matches every file."));
        }
        check_glob(written)?;
        let broken = |error: &globset::Error| {
            Fault::bad_args(format!("`{written}` is not a glob: {}", error.kind()))
                .next("Known are `*`, `**`, `?`, `[ab]` and `{one,other}`; `[{]` is a `{` itself.")
        };
        // A set of one, because only sets use fast paths (by extension, by name).
        let glob = GlobBuilder::new(glob).literal_separator(true).build().map_err(|error| broken(&error))?;
        let set = GlobSetBuilder::new().add(glob).build().map_err(|error| broken(&error))?;
        Ok(Self { set })
    }

    /// Returns whether it matches this path.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        self.set.is_match(path)
    }
}

/// A filter of the files below a folder.
pub(crate) struct Filter {
    /// The glob, and whether its matches are wanted or unwanted.
    names: Option<(Names, bool)>,
    types: Option<Types>,
    /// The filter in the model's words.
    said: String,
}

impl Filter {
    /// Creates a filter of a glob, inverted by a leading `!`, and a type; a file has to match both.
    pub(crate) fn new(glob: Option<&str>, type_name: Option<&str>) -> Result<Self, Fault> {
        let (glob, type_name) = (glob.filter(|it| !it.is_empty()), type_name.filter(|it| !it.is_empty()));
        let names = match glob {
            Some(glob) => {
                let unwanted = glob.strip_prefix('!');
                Some((Names::new(unwanted.unwrap_or(glob))?, unwanted.is_none()))
            }
            None => None,
        };
        let said = [("glob", glob), ("type", type_name)];
        let said = said.iter().filter_map(|(name, it)| it.map(|it| format!("`{name}: {it}`")));
        let said = said.collect::<Vec<_>>().join(" and ");
        Ok(Self { names, types: type_name.map(types).transpose()?, said })
    }

    /// Returns whether it accepts everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Returns whether it accepts the file at this path below `base`.
    pub(crate) fn fits(&self, path: &Path, base: &Location) -> bool {
        let by_name = self.names.as_ref().is_none_or(|(names, wanted)| {
            // Models write globs relative to the searched folder, and to the workspace.
            let at = base.relative();
            let fits = names.matches(path) || (!at.as_os_str().is_empty() && names.matches(&at.join(path)));
            fits == *wanted
        });
        by_name && self.types.as_ref().is_none_or(|types| !types.matched(path, false).is_ignore())
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

fn types(name: &str) -> Result<Types, Fault> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name);
    builder.build().map_err(|error| {
        let near: Vec<String> = builder
            .definitions()
            .iter()
            .map(FileTypeDef::name)
            .filter(|known| known.starts_with(name.get(..2).unwrap_or(name)))
            .map(|known| format!("`{known}`"))
            .take(8)
            .collect();
        let next = match near.as_slice() {
            [] => "Use `arg:grep.glob` instead, such as `*.ext`.".to_owned(),
            near => format!("There is {}; or use `arg:grep.glob`, such as `*.ext`.", near.join(", ")),
        };
        Fault::bad_args(format!("`{name}` is not a file type that is known")).hint(next).caused_by(error)
    })
}

/// Splits off the literal folders of a glob, so that only the rest is walked: `src/a/**/*.rs` is `**/*.rs`
/// below `src/a`.
pub(crate) fn split(pattern: &str) -> (&str, &str) {
    let special = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let plain = pattern.get(..special).unwrap_or("");
    match plain.rfind('/') {
        None => ("", pattern),
        // The root itself must stay a path.
        Some(0) => pattern.split_at(1),
        Some(at) => (pattern.get(..at).unwrap_or(""), pattern.get(at + 1..).unwrap_or("")),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn folders_named_outright_are_split_off() {
        for (pattern, parts) in [
            ("*.rs", ("", "*.rs")),
            ("src/*.rs", ("src", "*.rs")),
            ("src/a/**/x", ("src/a", "**/x")),
            ("src/{a,b}/x", ("src", "{a,b}/x")),
            ("/srv/x/*.c", ("/srv/x", "*.c")),
            ("/*.c", ("/", "*.c")),
            ("../*.c", ("..", "*.c")),
            ("src/a.rs", ("src", "a.rs")),
        ] {
            assert_eq!(split(pattern), parts, "{pattern}");
        }
    }

    #[test]
    fn a_glob_that_would_be_compiled_by_a_deep_recursion_is_refused() {
        let deep = format!("{}{}", "{a,".repeat(100_000), "}".repeat(100_000));
        for glob in [&deep, &format!("src/{deep}"), &format!("!{deep}")] {
            let fault = Filter::new(Some(glob), None).map(drop).unwrap_err();
            assert!(fault.kind == Kind::BadArgs && fault.as_text().len() < 300, "{}", fault.what.len());
        }
    }

    #[test]
    fn a_glob_without_a_slash_matches_at_any_depth() {
        let matches = |glob: &str, path: &str| Names::new(glob).unwrap().matches(Path::new(path));
        assert!(matches("*.rs", "a.rs") && matches("*.rs", "a/b/c.rs"));
        assert!(matches("{a,b}.rs", "x/b.rs") && !matches("{a,b}.rs", "x/c.rs"));
        assert!(matches("src/*.rs", "src/a.rs") && !matches("src/*.rs", "src/b/a.rs"));
        assert!(matches("./*.rs", "a.rs") && !matches("./*.rs", "b/a.rs") && matches("**/b/*", "a/b/c"));
    }
}
