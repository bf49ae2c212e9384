//! Inline script metadata (PEP 723).

use serde::Deserialize;

/// The metadata of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Script {
    /// Packages, as PEP 508 writes them.
    pub(crate) dependencies: Vec<String>,
    /// The required Python version.
    pub(crate) requires_python: Option<String>,
    /// The package indexes, each with whether it replaces the default one.
    pub(crate) indexes: Vec<(String, bool)>,
}

/// Parses the metadata block of a file; returns nothing if it has none.
///
/// # Errors
/// When there are several blocks, or one violates PEP 723.
pub(crate) fn wanted(source: &[u8]) -> Result<Option<Script>, String> {
    let text = String::from_utf8_lossy(source).replace("\r\n", "\n");
    let blocks: Vec<String> =
        blocks(&text).into_iter().filter(|it| it.0 == "script").map(|it| it.1).collect();
    let block = match blocks.as_slice() {
        [] => return Ok(None),
        [one] => one,
        several => {
            return Err(format!("the file has {} `# /// script` blocks; PEP 723 allows one", several.len()));
        }
    };
    let block: Block =
        toml::from_str(block).map_err(|error| format!("the `# /// script` block can't be read: {error}"))?;
    if let Some(one) =
        block.dependencies.iter().find(|it| it.trim_start().starts_with('-') || it.contains('\n'))
    {
        return Err(format!("`{one}` in the `# /// script` block is not a package"));
    }
    let uv = block.tool.uv;
    let named = uv.index.into_iter().map(|it| (it.url, it.default));
    let indexes = uv
        .index_url
        .map(|it| (it, true))
        .into_iter()
        .chain(uv.extra_index_url.into_iter().map(|it| (it, false)));
    Ok(Some(Script {
        dependencies: block.dependencies,
        requires_python: block.requires_python.filter(|it| !it.trim().is_empty()),
        indexes: indexes.chain(named).collect(),
    }))
}

#[derive(Deserialize)]
struct Block {
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(rename = "requires-python")]
    requires_python: Option<String>,
    #[serde(default)]
    tool: OfTools,
}

#[derive(Default, Deserialize)]
struct OfTools {
    #[serde(default)]
    uv: OfUv,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct OfUv {
    index_url: Option<String>,
    #[serde(default)]
    extra_index_url: Vec<String>,
    #[serde(default)]
    index: Vec<Index>,
}

#[derive(Deserialize)]
struct Index {
    url: String,
    #[serde(default)]
    default: bool,
}

/// Returns every block of comments with its type, as the reference implementation finds them: the last
/// closing line of a run counts.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut found = Vec::new();
    let mut rest = lines.as_slice();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let Some(kind) = first.strip_prefix("# /// ").filter(|it| is_type(it)) else { continue };
        let run = after.iter().take_while(|it| **it == "#" || it.starts_with("# ")).count();
        let (run, _) = after.split_at(run);
        let Some(end) = run.iter().rposition(|it| *it == "# ///").filter(|it| *it > 0) else { continue };
        let (content, left) = after.split_at(end);
        let content = content.iter().map(|it| format!("{}\n", it.get(2..).unwrap_or_default()));
        found.push((kind, content.collect()));
        rest = left.get(1..).unwrap_or_default();
    }
    found
}

fn is_type(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_block_is_found_as_the_reference_finds_it() {
        let source = "#!/usr/bin/env python3\n# /// other\n# dependencies = [\"no\"]\n# ///\n\n# /// script\r\n# requires-python = \">=3.9\"\r\n\
            # dependencies = [\n#   \"requests<3\",\n#\n#   'rich',\n# ]\n# [tool.uv]\n# index-url = \"https://a.example/simple\"\n\
            # [[tool.uv.index]]\n# name = 'b'\n# url = \"https://b.example/simple\"\n# ///\nimport x\n";
        let found = wanted(source.as_bytes()).unwrap().unwrap();
        assert_eq!(found.dependencies, ["requests<3", "rich"]);
        assert_eq!(found.requires_python.as_deref(), Some(">=3.9"));
        let indexes =
            [("https://a.example/simple".to_owned(), true), ("https://b.example/simple".to_owned(), false)];
        assert_eq!(found.indexes, indexes);
    }

    #[test]
    fn other_comments_are_not_a_block() {
        for source in [
            "import x",
            "# /// script\n# dependencies = []\n",
            "# /// script\n# ///\n",
            "# /// script\n#dependencies = []\n# ///\n",
            " # /// script\n # a = 1\n # ///\n",
            "# /// script \n# a = 1\n# ///\n",
            "# /// script\n# a = 1\n\n# ///\n",
        ] {
            assert_eq!(wanted(source.as_bytes()), Ok(None), "{source}");
        }
        // The last closing line of a run of comments counts.
        let text = wanted(b"# /// script\n# x = \"\"\"\n# ///\n# \"\"\"\n# ///\n");
        assert_eq!(text, Ok(Some(Script::default())));
    }

    #[test]
    fn errors_in_a_block_are_reported() {
        let one = "# /// script\n# dependencies = ['a']\n# ///\n";
        for (source, says) in [
            (format!("{one}\n{one}"), "2 `# /// script` blocks"),
            (one.replace("['a']", "'a'"), "can't be read"),
            (one.replace("['a']", "['-r x']"), "is not a package"),
        ] {
            assert!(wanted(source.as_bytes()).unwrap_err().contains(says), "{source}");
        }
    }
}
