//! `[tool.NAME]`: permissions of tool files.

use std::path::PathBuf;

use super::{
    LONGEST,
    keys::{Fallback::*, declare::section},
};

section! {
    /// `[tool.NAME]`: the grants of a tool. They apply to the content that a person attested.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct ToolSection, merged whole {
        /// Permissions of one of your tool files, by the tool's name. In your own file this is a tool in your
        /// own folders; in a workspace's file, one of the workspace's tools. They apply to a tool after `haft
        /// trust NAME` (or `haft trust` for a whole workspace), until its file or the code beside it changes.
        "[tool.weather]" {
            /// Hosts that the tool may contact.
            net: Vec<String> {
                example: r#"["api.example.org"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Paths outside the workspace that it may read.
            read: Vec<PathBuf> {
                example: r#"["~/maps"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Paths outside the workspace that it may change.
            write: Vec<PathBuf> {
                example: r#"["~/.cache/weather"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Environment variables that it gets, by name.
            env: Vec<String> {
                example: r#"["WEATHER_KEY"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Whether a model has to read its manual first.
            manual_first: bool {
                example: "true",
                default: Words("what the tool says"),
                workspace: NeedsTrust,
            }
            /// Time limit of a call.
            timeout_seconds: Option<u64> {
                unit: "seconds",
                range: 1..=LONGEST,
                example: "30",
                default: Words("what the tool says, else deadline_seconds"),
                workspace: NeedsTrust,
            }
            /// Whether it replaces the built-in tool of its name. haft then never uses its own tool of that
            /// name, also while the file is not trusted.
            replaces_built_in: bool {
                example: "true",
                default: Words("false"),
                workspace: NeedsTrust,
            }
        }
    }
}
