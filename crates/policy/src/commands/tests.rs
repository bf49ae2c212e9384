//! Tests: a table of command lines and their verdicts.
//!
//! Each line of `verdicts.txt` has the verdict, a tab, and the command line, in which `\n`, `\r`, `\0`, `\t`
//! and `\u{…}` stand for those characters if the line begins with `!`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

use super::{Judged, Placement, Rules, Unparsed, parse};
use kit::effect::Effect;

use crate::commands::section::Commands;

/// Without a sandbox, so that every part must be allowed.
const BARE: Placement = Placement { contained: false, leaves: false };

/// In the sandbox, where only parts that match a rule need approval.
const CONTAINED: Placement = Placement { contained: true, leaves: false };

fn lines(words: &[&str]) -> Vec<String> {
    words.iter().map(|it| (*it).to_owned()).collect()
}

/// Returns the rules under which the table is evaluated.
fn rules() -> Rules {
    let commands = Commands {
        allow: lines(&[
            "git status",
            "git log",
            "cargo test",
            "cargo build",
            "ls",
            "cat",
            "grep",
            "head",
            "tail",
            "wc",
            "find",
            "sort",
            "sed",
            "tar",
            "make test",
            "python -m pytest",
            "./run.sh",
            "git commit",
            "rg",
        ]),
        ask: lines(&["git push", "npm publish"]),
        deny: lines(&["sudo", "rm", "git reset --hard"]),
        ..Commands::default()
    };
    Rules::new(&commands, Path::new("/ws")).unwrap()
}

fn verdict(judged: &Judged) -> String {
    match judged {
        Judged::Runs(_) => "runs".to_owned(),
        Judged::Ask(case) => format!("ask {}", case.name),
        Judged::Deny(case) => format!("deny {}", case.name),
    }
}

fn unescape(line: &str) -> String {
    let line = line.replace("\\n", "\n").replace("\\r", "\r").replace("\\0", "\0").replace("\\t", "\t");
    let mut parts = line.split("\\u{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_once('}').unwrap();
        text.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
        text.push_str(rest);
    }
    text
}

#[test]
fn every_command_line_of_the_table_has_its_verdict() {
    let rules = rules();
    let (mut count, mut wrong) = (0, Vec::new());
    let mut placement = BARE;
    for line in include_str!("verdicts.txt").lines() {
        match line {
            "# bare" => placement = BARE,
            "# contained" => placement = CONTAINED,
            "" => {}
            line if line.starts_with("# ") => {}
            line => {
                let (wanted, command) = line.split_once('\t').unwrap_or_else(|| panic!("{line}"));
                let (wanted, command) = match wanted.strip_prefix('!') {
                    Some(wanted) => (wanted, unescape(command)),
                    None => (wanted, command.to_owned()),
                };
                count += 1;
                let judged = verdict(&rules.judge(&command, placement, &[]));
                // `ask` stands for any rule that asks.
                if judged != wanted && !(wanted == "ask" && judged.starts_with("ask ")) {
                    wrong.push(format!(
                        "{command:?}\n    is {judged}, wanted {wanted}: {:?}",
                        parse(&command)
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 540, "only {count} lines");
}

#[test]
fn a_list_of_the_only_commands_holds_for_every_part() {
    let only = |list: &[&str]| {
        let commands = Commands { only: Some(lines(list)), ..Commands::default() };
        Rules::new(&commands, Path::new("/ws")).unwrap()
    };
    for (command, wanted) in [
        ("git status", "runs"),
        ("cd sub && git log | head", "runs"),
        ("/usr/bin/git log", "runs"),
        ("git push", "deny not_allowed"),
        ("curl x", "deny not_allowed"),
        ("git status; curl x", "deny not_allowed"),
        ("git status $(curl x)", "deny not_allowed"),
        ("git status <(curl x)", "deny not_allowed"),
        ("$X", "deny not_allowed"),
        ("env git status", "deny not_allowed"),
        ("PATH=/x git status", "deny not_allowed"),
        ("git() { :; }; git status", "deny not_allowed"),
        ("/tmp/git status", "deny not_allowed"),
        ("./git status", "deny not_allowed"),
        ("git status 'x", "deny not_allowed"),
        ("sh -c 'git status'", "deny not_allowed"),
    ] {
        for placement in [BARE, CONTAINED] {
            let judged = verdict(&only(&["git status", "git log", "head"]).judge(command, placement, &[]));
            // Without a sandbox even listed commands need approval.
            let wanted = if wanted == "runs" && placement == BARE { "ask run" } else { wanted };
            assert_eq!(judged, wanted, "{command}");
        }
        assert_eq!(verdict(&only(&["*"]).judge(command, CONTAINED, &[])), "runs", "{command}");
    }
    let Judged::Deny(case) = only(&["git", "ls"]).judge("curl x", CONTAINED, &[]) else { panic!() };
    assert_eq!(
        (case.about.as_str(), case.says.as_str()),
        ("curl x", "it is not on the list of commands: git, ls")
    );
}

#[test]
fn opaque_commands_are_asked_about_under_any_list() {
    let judge = |list: Commands, command: &str| {
        Rules::new(&list, Path::new("/ws")).unwrap().judge(command, CONTAINED, &[])
    };
    let deny = |words: &[&str]| Commands { deny: lines(words), ..Commands::default() };
    let ask = |words: &[&str]| Commands { ask: lines(words), ..Commands::default() };
    let only = |words: &[&str]| Commands { only: Some(lines(words)), ..Commands::default() };
    for (list, command, wanted) in [
        (deny(&["curl"]), "python3 -c 'import os; os.system(\"curl x\")'", "deny command_deny"),
        (deny(&["curl"]), "python3 -c 'print(1)'", "ask command_unclear"),
        (deny(&["curl"]), "cp /usr/bin/curl c", "deny command_deny"),
        (deny(&["curl"]), "rm x", "runs"),
        (ask(&["git push"]), "git -c alias.p=push p", "ask command_ask"),
        (ask(&["git push"]), "git -c alias.p=psuh p", "ask command_unclear"),
        (ask(&["git push"]), "perl -e 'x'", "ask command_unclear"),
        (ask(&["git push"]), "perl -e 'exec qw(git push)'", "ask command_ask"),
        (ask(&["git push"]), "ln -s /usr/bin/git g", "ask command_unclear"),
        (ask(&["git push"]), "sh -c \"$X\"", "ask command_unclear"),
        (only(&["python3", "sed"]), "python3 x.py", "runs"),
        (only(&["python3", "sed"]), "python3 -c 'x'", "ask command_unclear"),
        (only(&["python3 -c", "sed"]), "python3 -c 'x'", "runs"),
        (only(&["python3", "sed"]), "sed -n 1,5p x", "runs"),
        (only(&["python3", "sed"]), "sed '1e x' x", "ask command_unclear"),
        (Commands::default(), "python3 -c 'x'; sed 1e x; hash -p /bin/rm k", "runs"),
    ] {
        let judged = judge(list, command);
        assert_eq!(verdict(&judged), wanted, "{command}");
        if let Judged::Ask(case) = judged
            && case.name == "command_unclear"
        {
            assert!(case.firm, "{command}");
        }
    }
}

#[test]
fn without_rules_sandboxed_commands_run_without_parsing() {
    for command in ["rm -rf /", "'unterminated", "\0"] {
        assert_eq!(Rules::default().judge(command, CONTAINED, &[]), Judged::Runs(Vec::new()));
        assert!(matches!(Rules::default().judge(command, BARE, &[]), Judged::Ask(_)));
    }
}

#[test]
fn a_grant_covers_its_command_and_no_other() {
    let rules = rules();
    let judge = |command: &str, placement: Placement, grants: &[&str]| {
        let grants: Vec<Effect> = grants.iter().map(|it| crate::grants::parse(it).unwrap()).collect();
        verdict(&rules.judge(command, placement, &grants.iter().collect::<Vec<_>>()))
    };
    let leaves = Placement { contained: false, leaves: true };
    for (command, placement, grant, wanted) in [
        ("npm test -- x", BARE, "run npm test", "runs"),
        ("cd sub && CI=1 npm test | tail", BARE, "run npm test", "runs"),
        ("npm install", BARE, "run npm test", "ask run"),
        ("npm test && npm install", BARE, "run npm test", "ask run"),
        ("npm test > package.json", BARE, "run npm test", "ask run"),
        ("git push origin", CONTAINED, "run git push", "runs"),
        ("git -C x push origin", CONTAINED, "run git push", "ask command_ask"),
        ("rm x", BARE, "run rm", "deny command_deny"),
        ("sudo ls", BARE, "run sudo ls", "deny command_deny"),
        ("python x.py", BARE, "run python x.py", "runs"),
        ("python x.py -v", BARE, "run python x.py", "ask run"),
        ("python y.py", BARE, "run python x.py", "ask run"),
        ("a $X | b", BARE, "run a $X | b", "runs"),
        ("$X", BARE, "run $X", "runs"),
        ("npm test", leaves, "run npm test", "ask unconfined"),
        ("npm test", leaves, "unconfined npm test", "runs"),
        ("npm test", BARE, "unconfined npm test", "runs"),
        ("python x.py", leaves, "run python x.py", "ask unconfined"),
        ("python x.py", leaves, "unconfined python x.py", "runs"),
        ("npm test", BARE, "net *", "ask run"),
    ] {
        assert_eq!(judge(command, placement, &[grant]), wanted, "{command} with {grant}");
    }
    assert_eq!(judge("npm test && npm install x", BARE, &["run npm test", "run npm install"]), "runs");
}

#[test]
fn offers_name_the_subcommand_or_else_the_exact_line() {
    for (command, wanted) in [
        ("cargo run --release", &["run cargo run"][..]),
        (
            "cd sub && FOO=1 npm run build 2>&1 | less",
            &["run-exactly cd sub && FOO=1 npm run build 2>&1 | less"],
        ),
        ("npm run build && jq . x", &["run npm run build", "run jq"]),
        ("mv a b", &["run-exactly mv a b"]),
        ("bash x.sh", &["run-exactly bash x.sh"]),
        ("npm ci > log", &["run-exactly npm ci > log"]),
        ("./x.sh", &["run-exactly ./x.sh"]),
        ("git -C x fetch", &["run-exactly git -C x fetch"]),
        ("git --no-pager fetch", &["run git fetch"]),
    ] {
        let Judged::Ask(case) = rules().judge(command, BARE, &[]) else { panic!("{command}") };
        let offers: Vec<String> = case.offers.iter().map(ToString::to_string).collect();
        assert_eq!(offers, wanted, "{command}");
    }
}

#[test]
fn no_text_crashes_the_parser() {
    let nested =
        |open: &str, close: &str, depth: usize| format!("{}a{}", open.repeat(depth), close.repeat(depth));
    let mut texts: Vec<String> = [
        "(",
        "$(",
        "((",
        "$((",
        "{ ",
        "if ",
        "${a[",
        "${a:-",
        "<(",
        "`",
        "[[ ",
        "\"$(",
        "case a in b) ",
        "f() { ",
        "@(",
        "! ",
        "time ",
        "case a in (b) ",
        "( a; ",
        "((a) ",
        "'",
        "\\",
        "$[",
        "a[",
        "<<a\n",
        ";",
        "&&",
        "while ",
    ]
    .iter()
    .flat_map(|open| {
        [
            nested(open, "", 1_000_000 / open.len()),
            nested(open, "", 900),
            nested(open, ")", 900),
            nested(open, "", 60_000 / open.len()),
        ]
    })
    .collect();
    for (open, close) in [
        ("(", ")"),
        ("$(", ")"),
        ("\"$(", ")\""),
        ("{ ", ";}"),
        ("${a:-", "}"),
        ("if ", ";then b;fi"),
        ("${a[", "]}"),
        ("$((", "))"),
    ] {
        texts.extend([4, 10, 100, 900].map(|depth| nested(open, close, depth)));
    }
    texts.push("1".repeat(40) + ">x");
    texts.push("9223372036854775808>x".to_owned());
    texts.push("{1..99999999999999999999}".to_owned());
    texts.push("a ".repeat(32_000));
    texts.push("a;".repeat(32_000));
    texts.push(format!("cat <<X\n{}X\n", "line of text\n".repeat(4_000)));
    for text in &texts {
        // Parsed or not: it returns, and leaves no running thread.
        if let Err(Unparsed(why)) = parse(text) {
            assert!(!why.contains("no end"), "{}…", text.chars().take(40).collect::<String>());
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]
    #[test]
    fn denied_commands_are_never_run_however_they_are_wrapped(
        before in "(true|cd x|ls -l|A=1|echo 'a b'|git status)",
        between in "( && | \\|\\| |; |\n| & | \\| )",
        open in "(\\( |\\{ |\\$\\(|`|if |! |\"\\$\\(|<\\(|)",
    ) {
        let close = match open.trim() { "(" | "$(" | "<(" => ")", "{" => "; }", "`" => "`", "if" => "; then true; fi", "\"$(" => ")\"", _ => "" };
        let word = if open.starts_with(['$', '`', '"', '<']) { "echo " } else { "" };
        let command = format!("{before}{between}{word}{open}rm -rf x{close}");
        for placement in [BARE, CONTAINED] {
            let judged = verdict(&rules().judge(&command, placement, &[]));
            // `a | ! b` is not a command of bash.
            proptest::prop_assert!(["deny command_deny", "ask unparsed"].contains(&&*judged), "{} {}", judged, command);
        }
    }

    #[test]
    fn any_text_is_parsed_without_a_panic(text in "[a-z$(){}\\[\\]<>|&;'\"`\\\\ \n#=!*?~:-]{0,60}") {
        let _ = parse(&text);
    }
}
