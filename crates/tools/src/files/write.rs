//! `write`: creates a file.

use kit::{
    files::Before,
    prelude::*,
    text::{Content, Ending, Text},
};

use super::open::{self, Opened};

/// Create a file with this content and any missing folders. [?To change an existing file use `tool:edit`.?]
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Write {
    /// Its path.
    pub(crate) path: String,
    /// The whole content.
    pub(crate) content: String,
    /// Replace the file if it exists. Only after you have read the whole of it.
    #[serde(default)]
    pub(crate) overwrite: bool,
}

impl Tool for Write {
    const NAME: &str = "write";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::write(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.write(cx)).await
    }
}

impl Write {
    fn write(&self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, content, overwrite } = self;
        if !cx.files().exists(path)? {
            let content = Content::from(content.as_bytes());
            let saved = cx.files().save(path, Before::Absent, &content)?;
            let size = remember(cx, &saved.location, content);
            return Ok(Output::text(format!("Created {path} ({size})")));
        }
        let opened = open::text(cx, path)?;
        if !overwrite {
            let lines = opened.text.line_count();
            return Err(Fault::bad_args(format!(
                "`{path}` exists ({}); it was not replaced",
                counted(lines, "line")
            ))
            .hint(
                "Change parts of it with `tool:edit`[?, or pass `arg:write.overwrite`: true after reading the whole of it?]."
                    .to_owned(),
            ));
        }
        open::must_have_seen_whole(cx, path, &opened)?;
        let (bytes, kept) = in_the_manner_of(&opened, content)?;
        if bytes == *opened.loaded.bytes {
            return Ok(Output::text(format!("{path} has just this content already; nothing was written")));
        }
        let content = Content::from(bytes);
        let saved = cx.files().save(path, opened.before(), &content)?;
        let size = remember(cx, &saved.location, content);
        Ok(Output::text(format!("Replaced {path} ({size}{kept})")))
    }
}

/// Records that the model knows the text it wrote. Returns the size in lines and bytes.
pub(crate) fn remember(cx: &Cx, location: &kit::files::Location, content: Content) -> String {
    let bytes = content.len();
    let Ok(text) = Text::share(content) else { return format!("{bytes} bytes") };
    cx.views().wrote(&location.absolute(), &text);
    format!("{}, {}", counted(text.line_count(), "line"), counted(bytes, "byte"))
}

/// Encodes new content with the encoding and the line endings of the file that it replaces.
pub(crate) fn in_the_manner_of(opened: &Opened, content: &str) -> Result<(Vec<u8>, String), Fault> {
    let old = &opened.text;
    let rows = old.line_count();
    let all_crlf =
        rows > 0 && (0..rows).all(|row| old.ending(row) != Ending::Lf) && old.ending(0) == Ending::CrLf;
    let mut kept = Vec::new();
    let content = if all_crlf && !content.contains('\r') {
        kept.push("CRLF");
        content.replace('\n', "\r\n")
    } else {
        content.to_owned()
    };
    let encoding = old.encoding();
    if encoding != kit::text::Encoding::Utf8 {
        kept.push(encoding.name());
    }
    let mut bytes = Vec::with_capacity(content.len() + 3);
    if old.has_bom() && !content.starts_with('\u{feff}') {
        kept.push("BOM");
        bytes.extend_from_slice(&encoding.encode("\u{feff}").unwrap_or_default());
    }
    bytes.extend_from_slice(&encoding.encode(&content).or_fault(Kind::BadArgs, "nothing was written")?);
    let kept = if kept.is_empty() { String::new() } else { format!("; {} kept", kept.join(", ")) };
    Ok((bytes, kept))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use expect_test::expect;
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;
    use crate::files::read::Read;

    #[test]
    fn creates_a_file_and_the_folders_on_the_way() {
        let test_ws = TestWorkspace::empty();
        expect!["Created a/b/c.txt (2 lines, 4 bytes)"]
            .assert_eq(&test_ws.says::<Write>(&json!({"path": "a/b/c.txt", "content": "x\ny\n"})));
        assert_eq!(test_ws.bytes("a/b/c.txt"), b"x\ny\n");
        expect!["Created empty (0 lines, 0 bytes)"]
            .assert_eq(&test_ws.says::<Write>(&json!({"path": "empty", "content": ""})));
    }

    #[test]
    fn replaces_only_what_the_session_has_seen_the_whole_of_unchanged() {
        let test_ws = TestWorkspace::new("//- a\none\ntwo\nthree\n");
        let write = json!({"path": "a", "content": "new\n", "overwrite": true});
        expect![[r#"
            bad_args: `a` exists (3 lines); it was not replaced
            Change parts of it with `edit`, or pass `overwrite`: true after reading the whole of it."#]]
        .assert_eq(&test_ws.says::<Write>(&json!({"path": "a", "content": "new\n"})));
        expect![[r#"
            stale: `a` exists and this session has not read it; it was not replaced
            `read` {"path": "a"} to its end first, or change parts of it with `edit`."#]]
        .assert_eq(&test_ws.says::<Write>(&write));
        test_ws.says::<Read>(&json!({"path": "a", "limit": 1}));
        expect![[r#"
            stale: `a` exists and this session has seen 1 of its 3 lines in full; it was not replaced
            `read` {"path": "a"} to its end first, or change parts of it with `edit`."#]]
        .assert_eq(&test_ws.says::<Write>(&write));
        test_ws.says::<Read>(&json!({"path": "a", "offset": 2}));
        std::fs::write(test_ws.path().join("a"), "one\ntwo\nTHREE\n").unwrap();
        expect![[r#"
            stale: `a` exists and has changed since this session read it; it was not replaced
            `read` {"path": "a"} to its end first, or change parts of it with `edit`."#]]
        .assert_eq(&test_ws.says::<Write>(&write));
        test_ws.says::<Read>(&json!({"path": "a"}));
        expect!["Replaced a (1 line, 4 bytes)"].assert_eq(&test_ws.says::<Write>(&write));
        expect!["a has just this content already; nothing was written"]
            .assert_eq(&test_ws.says::<Write>(&write));
        assert_eq!(test_ws.bytes("a"), b"new\n");
    }

    #[test]
    fn a_replaced_file_keeps_encoding_mark_and_line_endings() {
        let test_ws = TestWorkspace::empty();
        std::fs::write(test_ws.path().join("a"), b"\xff\xfea\0\r\0\n\0").unwrap();
        test_ws.says::<Read>(&json!({"path": "a"}));
        let said = test_ws.says::<Write>(&json!({"path": "a", "content": "b\nc\n", "overwrite": true}));
        expect!["Replaced a (2 lines, 14 bytes; CRLF, UTF-16 LE, BOM kept)"].assert_eq(&said);
        assert_eq!(test_ws.bytes("a"), b"\xff\xfeb\0\r\0\n\0c\0\r\0\n\0");
    }
}
