//! Limits on the size of globs.

use crate::Fault;

/// A glob is at most as long as a path.
const LONGEST: usize = 4096;
/// Maximum nesting. Nobody writes deeper globs, and their compilers recurse.
const DEEPEST: usize = 16;

/// Checks a glob before it is compiled.
///
/// # Errors
/// If it is too long or its braces nest too deep; names the limit.
pub fn check_glob(glob: &str) -> Result<(), Fault> {
    if glob.len() > LONGEST {
        return Err(Fault::bad_args(format!(
            "the glob has {} bytes, and at most {LONGEST} are taken",
            glob.len()
        ))
        .next("Use a wider glob, such as `**/*.rs`, or several calls."));
    }
    let (mut depth, mut in_class, mut letters) = (0_usize, false, glob.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if !in_class => drop(letters.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '{' if !in_class => depth += 1,
            '}' if !in_class => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(Fault::bad_args(format!("the glob's braces nest deeper than {DEEPEST} levels"))
                .next("Write it flat, such as `{one,other}`, or use several calls."));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_is_refused_that_is_long_or_nests_deep() {
        let nested = |levels: usize| format!("{}{}", "{a,".repeat(levels), "}".repeat(levels));
        for taken in ["", "**/*.{rs,toml}", "[{]".repeat(100).as_str(), &"\\{".repeat(100), &nested(16)] {
            assert!(check_glob(taken).is_ok(), "{taken}");
        }
        for refused in [nested(17), nested(100_000), "a".repeat(LONGEST + 1), "{[}]".repeat(17)] {
            assert!(check_glob(&refused).is_err_and(|it| it.what.len() < 100), "{refused}");
        }
    }
}
