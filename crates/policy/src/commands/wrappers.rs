//! Commands that only start others, such as `env` and `timeout`.

use super::{
    Part, Unparsed, Word,
    programs::{base, is_dangerous_variable, is_harmless_wrapper},
    read::hides_code,
    walk::{Input, Walk},
};

/// The syntax of a wrapper's own arguments before the command.
struct Shape {
    /// Options that take the next word as their value.
    with_value: &'static [&'static str],
    /// Number of its own words before the command, such as the time of `timeout`.
    own: usize,
    /// Whether it adds words to the command that are not visible here.
    adds: bool,
    /// Whether its options are not fully known: the word after one may begin the command.
    loose: bool,
}

const fn shape(with_value: &'static [&'static str], own: usize) -> Option<Shape> {
    Some(Shape { with_value, own, adds: false, loose: false })
}

const fn loose(own: usize) -> Option<Shape> {
    Some(Shape { with_value: &[], own, adds: false, loose: true })
}

fn shape_of(program: &str) -> Option<Shape> {
    match program {
        "nohup" | "command" | "builtin" | "unbuffer" | "busybox" | "toybox" => shape(&[], 0),
        "time" => shape(&["-f", "-o", "--format", "--output"], 0),
        "exec" => shape(&["-a"], 0),
        "nice" => shape(&["-n", "--adjustment"], 0),
        "stdbuf" => shape(&["-i", "-o", "-e", "--input", "--output", "--error"], 0),
        "timeout" | "gtimeout" => shape(&["-s", "-k", "--signal", "--kill-after"], 1),
        "chrt" | "taskset" | "flock" | "chroot" | "setarch" | "runcon" => loose(1),
        "setsid" | "ionice" | "sudo" | "doas" | "pkexec" | "runuser" | "setpriv" | "prlimit" | "numactl"
        | "unshare" | "nsenter" | "bwrap" | "firejail" | "systemd-run" | "strace" | "ltrace" | "valgrind"
        | "perf" | "rr" | "catchsegv" | "gdb" | "script" | "dbus-run-session" | "dbus-launch"
        | "fakeroot" | "proot" | "linux32" | "linux64" | "torsocks" | "chronic" | "ifne" | "tini"
        | "dumb-init" | "start-stop-daemon" | "daemonize" => loose(0),
        // `time -o x rm`, of which bash removes `time`.
        name if name.starts_with('-') => loose(1),
        name if is_loader(name) => loose(0),
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
            loose: false,
        }),
        "parallel" => Some(Shape { with_value: &[], own: 0, adds: true, loose: true }),
        "entr" => Some(Shape { with_value: &[], own: 0, adds: true, loose: false }),
        _ => None,
    }
}

/// Adds the command that `part` starts, and marks the part as a wrapper, or as one that runs invisible text.
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
                    &Shape { with_value: &["-n", "--interval"], own: 0, adds: false, loose: false },
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
            Some(shape) if shape.adds => {
                // `-I{}`: empty braces don't expand.
                let known = |it: &Word| match it {
                    Word::Open(text)
                        if text.starts_with('-') && text.ends_with("{}") && !text.contains(['$', '`']) =>
                    {
                        Word::Plain(text.clone())
                    }
                    word => word.clone(),
                };
                let arguments: Vec<Word> = arguments.iter().map(known).collect();
                start(walk, part, &arguments, &shape, input)
            }
            Some(shape) => start(walk, part, &arguments, &shape, input),
            None => Ok(()),
        },
    }
}

/// Returns whether it is the dynamic loader, which starts any program.
fn is_loader(name: &str) -> bool {
    ["ld-linux", "ld-musl", "ld.so", "ld64.so", "ld-2"].iter().any(|it| name.starts_with(it))
}

fn is_shell(name: &str) -> bool {
    matches!(
        name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.' || it == '-'),
        "sh" | "bash" | "rbash" | "zsh" | "dash" | "ash" | "ksh" | "mksh" | "yash" | "fish" | "csh" | "tcsh"
    )
}

/// Adds the words of `eval` and its like as one script.
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

/// Examines `sh -c SCRIPT`, `sh FILE`, or `sh` with a script on its input.
fn shell(walk: &mut Walk, part: &mut Part, arguments: &[Word], input: &Input) -> Result<(), Unparsed> {
    let mut rest = arguments.iter();
    let mut given = false;
    while let Some(word) = rest.next() {
        let Some(text) = word.plain() else {
            part.opaque = true;
            return Ok(());
        };
        match text {
            "--rcfile" | "--init-file" => {
                part.unclear = true;
                part.code.extend(rest.next().map(|it| it.text().to_owned()));
            }
            "-o" | "+o" | "-O" | "+O" => drop(rest.next()),
            "-" | "--" | "-s" => given |= text == "-s",
            _ if text.starts_with("--") => {}
            _ if text.starts_with(['-', '+']) && text.contains('c') => given = true,
            _ if text.starts_with(['-', '+']) => given |= text.contains('s'),
            // With `-c` it is the script, otherwise a file.
            text if given => {
                // Shells other than bash expand these differently.
                let plain = matches!(
                    part.program().map(base),
                    Some("sh" | "dash" | "ash" | "fish" | "csh" | "tcsh" | "zsh")
                );
                part.opaque |= plain && ["[[", "((", "&>", "$'", "{"].iter().any(|it| text.contains(it));
                return walk.script(text);
            }
            text if super::inline::is_brought(text) => break,
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
            super::launchers::variable(walk, &mut inner, name, &Word::Plain(value.to_owned()))?;
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
            _ if text.starts_with("-S") || text.starts_with("--split-string=") => {
                let own = text.strip_prefix("-S").or_else(|| text.strip_prefix("--split-string="));
                let mut words = vec![Word::Plain(own.unwrap_or_default().to_owned())];
                words.extend(rest.cloned());
                return script(walk, part, &words);
            }
            _ if (text.starts_with('-') && !text.starts_with("--") && text.contains('S')) => {
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

/// Adds the command after a wrapper's own arguments.
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
    // Whether the word before is an option whose value this one may be.
    let mut after_option = false;
    while let Some(word) = rest.next() {
        let here = || std::iter::once(word.clone()).chain(rest.clone().cloned()).collect::<Vec<_>>();
        let Some(text) = word.plain() else {
            if own > 0 {
                own -= 1;
                continue;
            }
            part.opaque = true;
            return Ok(());
        };
        if text == "--" {
            after_option = false;
        } else if shape.with_value.contains(&text) {
            plain &= matches!(text, "-n" | "-k" | "-s" | "-o" | "-e" | "-i");
            rest.next();
        } else if text.starts_with('-') {
            // `flock x -c 'rm y'`: its script is in an option.
            if text == "-c" && (!shape.loose || part.program().map(base) == Some("flock")) {
                return script(walk, part, rest.as_slice().get(..1).unwrap_or_default());
            }
            after_option = shape.loose && !text.contains('=');
        } else if text.contains('=')
            && !text.starts_with('/')
            && matches!(part.program().map(base), Some("sudo" | "doas"))
        {
            // `sudo A=1 rm`.
        } else if text.starts_with(":::") && part.program().map(base) == Some("parallel") {
            // The commands are in its input.
            part.unclear = true;
            return rest.try_for_each(|it| script(walk, part, std::slice::from_ref(it)));
        } else if shape.loose && (after_option || own > 0) {
            let words = here();
            command(walk, part, words, shape, input)?;
            own -= usize::from(!after_option);
            after_option = false;
        } else if own > 0 {
            own -= 1;
        } else {
            part.wraps = plain && part.program().is_some_and(is_harmless_wrapper);
            let words = here();
            return command(walk, part, words, shape, input);
        }
    }
    // Without a command, `xargs` runs `echo`, and `parallel` the lines of its input.
    part.opaque |= shape.adds && part.program().map(base) == Some("parallel");
    Ok(())
}

/// Adds the command that begins with these words.
fn command(
    walk: &mut Walk,
    part: &Part,
    mut words: Vec<Word>,
    shape: &Shape,
    input: &Input,
) -> Result<(), Unparsed> {
    // `watch 'rm x'` and `parallel 'rm {}'` pass one word to a shell.
    if matches!(part.program().map(base), Some("watch" | "parallel" | "entr"))
        && let Some(text) = words.first().and_then(Word::plain).filter(|it| it.contains(' '))
    {
        return walk.script(&text.replace("{}", "$_"));
    }
    if shape.adds {
        for word in &mut words {
            if replaced(part, word) {
                *word = Word::Open(word.text().to_owned());
            }
        }
        words.push(Word::Open("…".to_owned()));
    }
    walk.part(Part { words, ..Part::default() }, &if shape.adds { Input::Open } else { input.clone() })
}

/// Returns whether `xargs` or `parallel` inserts its input into this word.
fn replaced(part: &Part, word: &Word) -> bool {
    let text = word.text();
    let mut options = part.words.iter();
    text.contains("{}")
        || options.any(|it| {
            let mark = it.text().strip_prefix("-I").or_else(|| it.text().strip_prefix("--replace="));
            let mark = mark.or_else(|| it.text().strip_prefix("-i"));
            mark.is_some_and(|it| !it.is_empty() && text.contains(it))
        })
        || part.words.windows(2).any(|pair| {
            matches!(pair, [option, mark] if matches!(option.text(), "-I" | "--replace") && text.contains(mark.text()))
        })
}

/// Adds the commands after `-exec` and its like.
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
