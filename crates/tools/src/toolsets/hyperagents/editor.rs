//! `editor` as HyperAgents has it: long results are clipped in their middle.

use kit::prelude::*;

use crate::files::editor::{self, Command};

/// View and change files by command. `view`: a file with line numbers, or a folder two levels deep;
/// `create`: a new file; `str_replace`: `old_str` must occur exactly once; `insert`: after line `insert_line`;
/// `undo_edit`: undoes the newest change of the file; repeat to go further back. Of more than 10,000 characters the
/// middle is left out, marked by `<response clipped>`: `view_range` shows it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Editor {
    /// The action.
    command: Command,
    /// File or folder, absolute or relative to the workspace.
    path: String,
    /// For `create`: the content.
    #[serde(default)]
    file_text: Option<String>,
    /// For `view`: first and last line, from 1; -1 is the end.
    #[serde(default)]
    view_range: Option<Vec<i64>>,
    /// For `str_replace`: the text to replace.
    #[serde(default)]
    old_str: Option<String>,
    /// For `str_replace` and `insert`: the new text.
    #[serde(default, alias = "insert_text")]
    new_str: Option<String>,
    /// For `insert`: the line to insert after; 0 is before the first.
    #[serde(default)]
    insert_line: Option<usize>,
}

impl Tool for Editor {
    const NAME: &str = "editor";
    const STANDS_FOR: &'static [StandsFor] = <editor::Editor as Tool>::STANDS_FOR;
    const AT_MOST: Kinds = <editor::Editor as Tool>::AT_MOST;

    fn touches(&self) -> Touches {
        editor::touches(self.command, &self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { command, path, file_text, view_range, old_str, new_str, insert_line } = self;
        let inner = editor::Editor {
            command,
            path,
            file_text,
            view_range,
            old_str,
            new_str,
            insert_line,
            clips: true,
        };
        inner.run(cx).await
    }
}

#[cfg(test)]
mod tests {
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::Editor;

    #[test]
    fn a_view_of_more_than_ten_thousand_characters_is_clipped_in_its_middle_with_right_numbers() {
        let line = |row: usize| format!("{row:04} {}", "é".repeat(44));
        let lines: Vec<String> = (1..=400).map(line).collect();
        let test_ws = TestWorkspace::new(&format!(
            "//- long\n{}\n//- short\n{}\n",
            lines.join("\n"),
            "x".repeat(9_999)
        ));
        let view = |arguments| test_ws.says::<Editor>(&arguments);
        let said = view(json!({"command": "view", "path": "long"}));
        // Half of it is 100 lines of 49 characters with their line breaks.
        let head = format!("\n   100\t{}\n<response clipped>\n   301\t{}\n", line(100), line(301));
        assert!(said.contains(&head) && said.ends_with(&format!("   400\t{}", line(400))), "{said}");
        assert_eq!(said.matches("<response clipped>").count(), 1);
        let said = view(json!({"command": "view", "path": "long", "view_range": [101, 300]}));
        assert!(!said.contains("clipped") && said.contains(&line(300)), "{said}");
        assert!(!view(json!({"command": "view", "path": "short"})).contains("clipped"));
    }

    #[test]
    fn one_long_line_is_clipped_too_and_a_change_of_it() {
        let test_ws = TestWorkspace::new(&format!("//- one\na{}b\n", "x".repeat(20_000)));
        let said = test_ws.says::<Editor>(&json!({"command": "view", "path": "one"}));
        let expected =
            format!(":\n     1\ta{}\n<response clipped>\n     1\t{}b", "x".repeat(4_999), "x".repeat(4_999));
        assert!(said.ends_with(&expected), "{said}");
        let said = test_ws.says::<Editor>(
            &json!({"command": "str_replace", "path": "one", "old_str": "ax", "new_str": "c"}),
        );
        assert!(said.len() < 10_500 && said.contains("\n<response clipped>\n"), "{said}");
    }

    #[test]
    fn a_list_of_files_is_clipped_at_five_thousand_characters() {
        let files: String = (0..300).map(|it| format!("//- {it:040}\nx\n")).collect();
        let test_ws = TestWorkspace::new(&files);
        let said = test_ws.says::<Editor>(&json!({"command": "view", "path": "."}));
        assert!(said.contains("\n<response clipped>\n") && said.len() < 5_200, "{said}");
        assert!(said.ends_with(&format!("{:040}", 299)), "{said}");
    }
}
