//! `[commands]` and `[[command]]`: rules about command lines.

use std::path::Path;

use kit::Fault;
use policy::commands::{self, Commands, Rules, Then};

use super::{
    Config,
    keys::{Fallback::*, declare::section, merging::*},
};

section! {
    /// `[commands]`: rules for allowed commands, commands that need approval, and denied ones. Each line is
    /// the first words of a command.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct CommandsSection, merged by_key {
        /// Rules about commands. Each line is the first words of a command. haft judges every part of a
        /// command line, and the strictest rule wins; a part that it can't see, such as code passed to an
        /// interpreter, needs approval. These rules don't look into files: a script may run what a rule
        /// forbids. The OS sandbox is what confines commands; the rules only stop mistakes.
        "[commands]" {
            /// Commands that run without approval where no sandbox confines them. Programs that start others
            /// (sh, python, env, xargs) match only with exactly these words.
            allow: Vec<String> {
                example: r#"["git status", "cargo test"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
                merge: append_trusted,
            }
            /// Commands that need approval, in the sandbox too.
            ask: Vec<String> {
                example: r#"["git push"]"#,
                default: Words("none"),
                workspace: Counts,
                merge: append,
            }
            /// Commands that haft refuses to run.
            deny: Vec<String> {
                example: r#"["sudo"]"#,
                default: Words("none"),
                workspace: Counts,
                merge: append,
            }
            /// Allowlist of commands; "*" stands for all.
            only: Option<Vec<String>> {
                example: r#"["git", "cargo test", "ls"]"#,
                default: Words("all"),
                workspace: Narrows,
                merge: intersect_commands,
            }
        }
    }
}

section! {
    /// `[[command]]`: a rule about commands, with examples that are tried when it is read.
    #[derive(Eq)]
    pub struct CommandRule, merged whole {
        /// A rule in the long form, with examples that haft checks when it reads this file.
        "[[command]]" {
            /// First words of the commands that the rule covers.
            prefix: Vec<String> {
                example: r#"["git", "push"]"#,
                default: Required,
                workspace: Counts,
            }
            /// Treatment of these command lines; "allow" needs trust in a workspace's file.
            then: Then {
                example: r#""ask""#,
                default: Required,
                workspace: Counts,
            }
            /// Command lines that the rule covers.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            r#match: Vec<String> {
                example: r#"["git push origin", "cd sub && git -C x push"]"#,
                default: Words("none"),
                workspace: Counts,
            }
            /// Command lines that it does not cover.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            not_match: Vec<String> {
                example: r#"["git pull"]"#,
                default: Words("none"),
                workspace: Counts,
            }
        }
    }
}

impl Config {
    /// Returns the rules about commands, in this workspace.
    ///
    /// # Errors
    /// When one of them is not a rule, or one of its examples is wrong.
    pub fn rules(&self, workspace: &Path) -> Result<Rules, Fault> {
        let CommandsSection { allow, ask, deny, only } = self.commands.clone();
        let rules = self.command.iter().cloned().map(Into::into).collect();
        Rules::new(&Commands { allow, ask, deny, only, rules }, workspace)
    }
}

impl From<CommandRule> for commands::CommandRule {
    fn from(rule: CommandRule) -> Self {
        let CommandRule { prefix, then, r#match, not_match } = rule;
        Self { prefix, then, matches: r#match, not_matches: not_match }
    }
}
