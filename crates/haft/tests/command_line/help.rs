//! Help, completion scripts and man pages of the built program.

use std::{fs, process::Command};

use kit::needs;

use crate::support::{Ran, run};

/// Runs the program with an environment of `HOME` and `COLUMNS` only.
fn haft(arguments: &[&str]) -> Ran {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command.env_clear().env("HOME", home.path()).env("COLUMNS", "80").args(arguments);
    run(&mut command, "")
}

#[test]
fn help_groups_the_commands_and_shows_the_most_common_lines() {
    let ran = haft(&["--help"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for line in
        ["haft runs tools for LLM agents", "Usage: haft [OPTIONS] [COMMAND]", "\nAgent:\n  run ", "\nMCP:\n"]
    {
        assert!(ran.out.contains(line), "`{line}` is missing in:\n{}", ran.out);
    }
    assert!(ran.out.contains("\nExamples:\n  haft mcp install claude-code"), "{}", ran.out);
    assert_eq!(haft(&["help"]).out, ran.out);
    assert!(haft(&["-h"]).out.len() < ran.out.len());
}

#[test]
fn a_misspelt_command_is_told_the_near_one() {
    let ran = haft(&["grnats"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("did you mean") && ran.err.contains("haft grants`"), "{ran:?}");
}

#[test]
fn bash_completes_commands_and_options() {
    let script = haft(&["completions", "bash"]);
    assert_eq!((script.code, script.err.as_str()), (0, ""));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("haft.bash");
    fs::write(&file, &script.out).unwrap();
    let checked = run(Command::new("bash").arg("-n").arg(&file), "");
    assert_eq!((checked.code, checked.err.as_str()), (0, ""), "{checked:?}");
    for (words, expected) in [
        ("haft mcp ins", "install"),
        ("haft gra", "grants"),
        ("haft tools --co", "--cost"),
        ("haft --approve nev", "never"),
        ("haft completions fi", "fish"),
    ] {
        let complete = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _haft haft \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let completed = run(Command::new("bash").args(["--norc", "-c", &complete]), "");
        assert_eq!(completed.out.trim(), expected, "{words}: {completed:?}");
    }
}

#[test]
fn every_shell_has_a_script() {
    for (shell, mark) in [
        ("bash", "complete -F _haft"),
        ("zsh", "#compdef haft"),
        ("fish", "complete -c haft"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let ran = haft(&["completions", shell]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{shell}");
        assert!(ran.out.contains(mark) && ran.out.contains("reload-tools"), "{shell}: {}", ran.out);
    }
    assert_eq!(haft(&["completions", "tcsh"]).code, 2);
}

#[test]
fn man_pages_have_each_command_and_its_examples() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("share/man1");
    let ran = haft(&["man", "--dir", folder.to_str().unwrap()]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let names = crate::support::names(&folder);
    for name in
        ["haft.1", "haft-run.1", "haft-mcp.1", "haft-mcp-install.1", "haft-grants-add.1", "haft-man.1"]
    {
        assert!(names.iter().any(|it| it == name), "{name} is not among {names:?}");
    }
    for name in names {
        let page = fs::read_to_string(folder.join(&name)).unwrap();
        let command = name.trim_end_matches(".1");
        for part in
            [&format!(".TH {command} 1"), ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH EXAMPLES"]
        {
            assert!(page.contains(part), "{name} has no `{part}`:\n{page}");
        }
    }
    let whole = fs::read_to_string(folder.join("haft.1")).unwrap();
    for part in
        ["haft \\- runs tools for LLM agents", ".SH \"FILES\"", ".SH \"ENVIRONMENT\"", ".SH \"EXIT STATUS\""]
    {
        assert!(whole.contains(part), "`{part}`: {whole}");
    }
    assert_eq!(haft(&["man"]).out, whole);
}

#[test]
fn groff_formats_the_man_pages_without_a_warning() {
    needs!(Groff);
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(haft(&["man", "--dir", dir.path().to_str().unwrap()]).code, 0);
    for name in crate::support::names(dir.path()) {
        let mut groff = Command::new("groff");
        groff.args(["-man", "-Kutf8", "-Tutf8", "-ww", "-rLL=80n"]).arg(dir.path().join(&name));
        let formatted = run(&mut groff, "");
        assert_eq!((formatted.code, formatted.err.as_str()), (0, ""), "{name}");
        let text = formatted.out.split('\u{8}').collect::<String>();
        assert!(text.contains("haft "), "{name}: {text}");
    }
}
