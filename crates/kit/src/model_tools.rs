//! Tool files that a model writes: their paths.

use crate::Fault;

/// The folder of a workspace's own tools, below the workspace.
pub const OWN: &str = ".haft/tools";

/// The file in a folder of tools that lists the tools which every profile and toolset gets.
pub const ENABLED: &str = "enabled.json";

/// Returns the files to write for the workspace's tool `name`, relative to the workspace: the tool, and the
/// list of enabled ones.
///
/// # Errors
/// [`Kind::BadArgs`](crate::Kind::BadArgs) when it can't be the name of a tool.
pub fn own_files(name: &str) -> Result<[String; 2], Fault> {
    let is_word = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    let good = (1..=64).contains(&name.len())
        && name.bytes().all(is_word)
        && !name.starts_with(|it: char| it == '_' || it.is_ascii_digit());
    if !good {
        return Err(Fault::bad_args(format!("`{name}` can't be the name of a tool")).next(
            "A name has 1 to 64 letters, digits and `_`, and begins with a letter: it is the name of a Python file.",
        ));
    }
    Ok([format!("{OWN}/{name}.py"), format!("{OWN}/{ENABLED}")])
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_name_is_that_of_one_python_file_in_the_folder() {
        assert_eq!(
            own_files("word_count").unwrap(),
            [".haft/tools/word_count.py", ".haft/tools/enabled.json"]
        );
        for name in ["", "_x", "1x", "a-b", "a.b", "../x", "a/b", "é", &"x".repeat(65)] {
            assert!(own_files(name).is_err(), "{name}");
        }
    }
}
