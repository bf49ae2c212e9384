//! Keys of `[commands]` and `[[command]]`.

use policy::commands::Then;

use super::{Fallback::*, Key, Section, Workspace::*, merging::*};
pub(super) static COMMANDS: Section = Section {
    header: "[commands]",
    doc: "Rules about commands. Each line is the first words of a command. haft judges every part of a \
         command line, and the strictest rule wins; a part that it can't see, such as code passed to \
         an interpreter, needs approval. These rules don't look into files: a script may run what a \
         rule forbids. The OS sandbox is what confines commands; the rules only stop mistakes.",
    merge: None,
    keys: &[
        Key {
            name: "allow",
            doc: "Commands that run without approval where no sandbox confines them. Programs that \
                 start others (sh, python, env, xargs) match only with exactly these words.",
            example: r#"["git status", "cargo test"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: Some(|mine, theirs, gate| {
                append_trusted(&mut mine.commands.allow, &mut theirs.commands.allow, gate);
            }),
        },
        Key {
            name: "ask",
            doc: "Commands that need approval, in the sandbox too.",
            example: r#"["git push"]"#,
            default: Words("none"),
            workspace: Counts,
            merge: Some(|mine, theirs, _| append(&mut mine.commands.ask, &mut theirs.commands.ask)),
        },
        Key {
            name: "deny",
            doc: "Commands that haft refuses to run.",
            example: r#"["sudo"]"#,
            default: Words("none"),
            workspace: Counts,
            merge: Some(|mine, theirs, _| append(&mut mine.commands.deny, &mut theirs.commands.deny)),
        },
        Key {
            name: "only",
            doc: "Allowlist of commands; \"*\" stands for all.",
            example: r#"["git", "cargo test", "ls"]"#,
            default: Words("all"),
            workspace: Narrows,
            merge: Some(|mine, theirs, _| {
                let (own, given) = (mine.commands.only.take(), theirs.commands.only.take());
                mine.commands.only = match (own, given) {
                    (Some(own), Some(given)) => Some(on_both(&own, &given)),
                    (own, given) => own.or(given),
                };
            }),
        },
    ],
};

pub(super) static COMMAND: Section = Section {
    header: "[[command]]",
    doc: "A rule in the long form, with examples that haft checks when it reads this file: `prefix` \
         (the first words), `then` (\"ask\", \"deny\", or \"allow\", which needs trust), `match` and \
         `not_match` (command lines that the rule covers, and doesn't).",
    merge: Some(|mine, theirs, gate| {
        let rules = std::mem::take(&mut theirs.commands.rules);
        let (mut widening, mut narrowing) = rules.into_iter().partition(|it| it.then == Then::Allow);
        gate.label = "a `[[command]]` that allows".to_owned();
        append_trusted(&mut mine.commands.rules, &mut widening, gate);
        append(&mut mine.commands.rules, &mut narrowing);
    }),
    keys: &[
        Key {
            name: "prefix",
            doc: "",
            example: r#"["git", "push"]"#,
            default: Required,
            workspace: Counts,
            merge: None,
        },
        Key { name: "then", doc: "", example: r#""ask""#, default: Required, workspace: Counts, merge: None },
        Key {
            name: "match",
            doc: "",
            example: r#"["git push origin", "cd sub && git -C x push"]"#,
            default: Words("none"),
            workspace: Counts,
            merge: None,
        },
        Key {
            name: "not_match",
            doc: "",
            example: r#"["git pull"]"#,
            default: Words("none"),
            workspace: Counts,
            merge: None,
        },
    ],
};
