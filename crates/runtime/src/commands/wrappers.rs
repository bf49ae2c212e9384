//! What does a command start that only starts others?

use super::{
    Part, Unparsed, Word,
    programs::{base, is_dangerous_variable, is_harmless_wrapper},
    read::hides_code,
    walk::{Input, Walk},
};

/// How a wrapper's own arguments end and what it starts begins.
struct Shape {
    /// Options that take the next word as their value.
    with_value: &'static [&'static str],
    /// Words of its own before the command, such as the time of `timeout`.
    own: usize,
    /// Whether it adds words to the command that are not seen here.
    adds: bool,
}

const fn shape(with_value: &'static [&'static str], own: usize) -> Option<Shape> {
    Some(Shape { with_value, own, adds: false })
}

fn shape_of(program: &str) -> Option<Shape> {
    match program {
        "nohup" | "setsid" | "command" | "builtin" | "unbuffer" | "doas-" => shape(&[], 0),
        "time" => shape(&["-f", "-o", "--format", "--output"], 0),
        "exec" => shape(&["-a"], 0),
        "nice" => shape(&["-n", "--adjustment"], 0),
        "ionice" => shape(&["-c", "-n", "--class", "--classdata"], 0),
        "stdbuf" => shape(&["-i", "-o", "-e", "--input", "--output", "--error"], 0),
        "timeout" | "gtimeout" => shape(&["-s", "-k", "--signal", "--kill-after"], 1),
        "chrt" | "taskset" => shape(&["-p", "-c", "-T", "-P", "-D"], 1),
        "flock" => shape(&["-w", "-E", "--timeout", "--wait", "--conflict-exit-code"], 1),
        "chroot" => shape(&["--userspec", "--groups"], 1),
        "sudo" => shape(
            &[
                "-u", "-g", "-p", "-C", "-h", "-r", "-t", "-T", "-U", "-D", "-R", "--user", "--group",
                "--prompt", "--chdir", "--chroot", "--host", "--role", "--type",
            ],
            0,
        ),
        "doas" => shape(&["-u", "-C"], 0),
        "pkexec" => shape(&["--user"], 0),
        "runuser" | "setpriv" | "prlimit" | "numactl" | "unshare" | "nsenter" | "bwrap" | "firejail"
        | "systemd-run" | "strace" | "ltrace" | "valgrind" | "perf" | "rr" | "catchsegv" => {
            shape(&["-u", "-g", "-o", "-e", "-p", "-s", "-t", "-S", "-G", "--user", "--reuid", "--regid"], 0)
        }
        "xargs" | "gxargs" => Some(Shape {
            with_value: &[
                "-I",
                "-n",
                "-P",
                "-L",
                "-d",
                "-E",
                "-a",
                "-s",
                "--max-args",
                "--max-procs",
                "--delimiter",
                "--arg-file",
                "--replace",
                "--max-lines",
                "--max-chars",
            ],
            own: 0,
            adds: true,
        }),
        "parallel" => Some(Shape {
            with_value: &[
                "-j",
                "-n",
                "-N",
                "-I",
                "-a",
                "--jobs",
                "--delay",
                "--joblog",
                "--results",
                "--timeout",
                "--retries",
                "--colsep",
            ],
            own: 0,
            adds: true,
        }),
        "entr" => Some(Shape { with_value: &[], own: 0, adds: true }),
        _ => None,
    }
}

/// Adds what `part` starts, and marks it as one that starts others, or as one that runs
/// what can't be seen.
pub(super) fn look_through(walk: &mut Walk, part: &mut Part, input: &Input) -> Result<(), Unparsed> {
    let Some(program) = part.program().map(|it| base(it).to_owned()) else { return Ok(()) };
    let arguments: Vec<Word> = part.words.get(1..).unwrap_or_default().to_vec();
    match program.as_str() {
        "eval" => script(walk, part, &arguments),
        "trap" => {
            let handler = arguments.iter().find(|it| !it.text().starts_with('-'));
            script(walk, part, handler.map(std::slice::from_ref).unwrap_or_default())
        }
        "alias" => {
            for word in &arguments {
                match word.plain().map(|it| it.split_once('=')) {
                    Some(Some((_, value))) => walk.script(value)?,
                    Some(None) => {}
                    None => part.opaque = true,
                }
            }
            Ok(())
        }
        "env" => env(walk, part, &arguments, input),
        "su" => match arguments.iter().position(|it| matches!(it.plain(), Some("-c" | "--command"))) {
            Some(at) => {
                script(walk, part, arguments.get(at + 1).map(std::slice::from_ref).unwrap_or_default())
            }
            None => Ok(()),
        },
        "ssh" | "watch" => {
            part.opaque |= arguments.iter().any(|it| it.plain().is_none());
            match program.as_str() {
                "watch" => start(
                    walk,
                    part,
                    &arguments,
                    &Shape { with_value: &["-n", "--interval"], own: 0, adds: false },
                    input,
                ),
                _ => Ok(()),
            }
        }
        "find" | "gfind" | "bfs" | "fd" | "fdfind" => found(walk, &arguments),
        "command" if matches!(arguments.first().and_then(Word::plain), Some("-v" | "-V")) => {
            part.wraps = true;
            Ok(())
        }
        name if is_shell(name) => shell(walk, part, &arguments, input),
        name => match shape_of(name) {
            Some(shape) => start(walk, part, &arguments, &shape, input),
            None => Ok(()),
        },
    }
}

fn is_shell(name: &str) -> bool {
    matches!(
        name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.' || it == '-'),
        "sh" | "bash" | "rbash" | "zsh" | "dash" | "ash" | "ksh" | "mksh" | "yash" | "fish" | "csh" | "tcsh"
    )
}

/// Words that together are a script, as those of `eval`.
fn script(walk: &mut Walk, part: &mut Part, words: &[Word]) -> Result<(), Unparsed> {
    let plain: Option<Vec<&str>> = words.iter().map(Word::plain).collect();
    match plain {
        Some(words) => walk.script(&words.join(" ")),
        None => {
            part.opaque = true;
            Ok(())
        }
    }
}

/// `sh -c SCRIPT`, `sh FILE`, or `sh` that reads its script from its input.
fn shell(walk: &mut Walk, part: &mut Part, arguments: &[Word], input: &Input) -> Result<(), Unparsed> {
    let mut rest = arguments.iter();
    let mut given = false;
    while let Some(word) = rest.next() {
        let Some(text) = word.plain() else {
            part.opaque = true;
            return Ok(());
        };
        match text {
            "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file" => drop(rest.next()),
            "-" | "--" | "-s" => given |= text == "-s",
            _ if text.starts_with("--") => {}
            _ if text.starts_with(['-', '+']) && text.contains('c') => given = true,
            _ if text.starts_with(['-', '+']) => given |= text.contains('s'),
            // With `-c` it is the script, otherwise a file.
            text if given => {
                // Another shell than bash reads these otherwise.
                let plain = matches!(
                    part.program().map(base),
                    Some("sh" | "dash" | "ash" | "fish" | "csh" | "tcsh" | "zsh")
                );
                part.opaque |= plain && ["[[", "((", "&>", "$'", "{"].iter().any(|it| text.contains(it));
                return walk.script(text);
            }
            _ => return Ok(()),
        }
    }
    match input {
        Input::Text(text) => walk.script(text),
        Input::Inherited | Input::Open => {
            part.opaque = true;
            Ok(())
        }
    }
}

fn env(walk: &mut Walk, part: &mut Part, arguments: &[Word], input: &Input) -> Result<(), Unparsed> {
    let mut inner = Part::default();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let Some(text) = word.plain() else {
            part.opaque = true;
            return Ok(());
        };
        if let Some((name, value)) = text.split_once('=')
            && !text.starts_with('-')
        {
            if is_dangerous_variable(name) || hides_code(value) {
                inner.odd = Some("a variable that other programs obey is set");
            }
            continue;
        }
        match text {
            "-u" | "--unset" | "-C" | "--chdir" => {
                inner.odd = Some("its environment or folder is changed");
                rest.next();
            }
            "-S" | "--split-string" => return script(walk, part, rest.as_slice()),
            _ if text.starts_with("-S")
                || text.starts_with("--split-string=")
                || (text.starts_with('-') && !text.starts_with("--") && text.contains('S')) =>
            {
                part.opaque = true;
                return Ok(());
            }
            _ if text.starts_with('-') => inner.odd = Some("its environment or folder is changed"),
            _ => {
                inner.words.push(word.clone());
                inner.words.extend(rest.cloned());
                return walk.part(inner, input);
            }
        }
    }
    Ok(())
}

/// The command after a wrapper's own arguments.
fn start(
    walk: &mut Walk,
    part: &mut Part,
    arguments: &[Word],
    shape: &Shape,
    input: &Input,
) -> Result<(), Unparsed> {
    let mut rest = arguments.iter();
    let mut own = shape.own;
    let mut plain = true;
    while let Some(word) = rest.next() {
        let Some(text) = word.plain() else {
            if own > 0 {
                own -= 1;
                continue;
            }
            part.opaque = true;
            return Ok(());
        };
        if text == "--" {
            continue;
        }
        if shape.with_value.contains(&text) {
            plain &= matches!(text, "-n" | "-k" | "-s" | "-o" | "-e" | "-i");
            rest.next();
        } else if text.starts_with('-') {
            // `flock x -c 'rm y'`, `parallel --pipe`: its script is in an option.
            if text == "-c" {
                return script(walk, part, rest.as_slice().get(..1).unwrap_or_default());
            }
        } else if text.contains('=')
            && !text.starts_with('/')
            && matches!(part.program().map(base), Some("sudo" | "doas"))
        {
            // `sudo A=1 rm`.
        } else if own > 0 {
            own -= 1;
        } else {
            let mut words: Vec<Word> = std::iter::once(word.clone()).chain(rest.cloned()).collect();
            if shape.adds {
                words.push(Word::Open("…".to_owned()));
            }
            part.wraps = plain && part.program().is_some_and(is_harmless_wrapper);
            // `watch 'rm x'` and `parallel 'rm {}'` give one word to a shell.
            if matches!(part.program().map(base), Some("watch" | "parallel" | "entr"))
                && words.first().and_then(Word::plain).is_some_and(|it| it.contains(' '))
            {
                let Some(text) = words.first().and_then(Word::plain).map(str::to_owned) else {
                    return Ok(());
                };
                return walk.script(&text);
            }
            return walk.part(
                Part { words, ..Part::default() },
                &if shape.adds { Input::Open } else { input.clone() },
            );
        }
    }
    // `xargs` and `parallel` alone run `echo`, or what they read.
    part.opaque |= shape.adds && part.program().map(base) == Some("parallel");
    Ok(())
}

/// The commands after `-exec` and its like.
fn found(walk: &mut Walk, arguments: &[Word]) -> Result<(), Unparsed> {
    let starts = |it: &Word| {
        matches!(
            it.plain(),
            Some("-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch")
        )
    };
    let mut rest = arguments;
    while let Some(at) = rest.iter().position(starts) {
        rest = rest.get(at + 1..).unwrap_or_default();
        let end = rest.iter().position(|it| matches!(it.plain(), Some(";" | "+"))).unwrap_or(rest.len());
        let words = rest.get(..end).unwrap_or_default().iter().map(|word| match word.plain() {
            Some(text) if text.contains("{}") => Word::Open(text.to_owned()),
            _ => word.clone(),
        });
        let words: Vec<Word> = words.collect();
        if !words.is_empty() {
            walk.part(Part { words, ..Part::default() }, &Input::Inherited)?;
        }
        rest = rest.get(end..).unwrap_or_default();
    }
    Ok(())
}
