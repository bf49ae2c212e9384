//! Inline code in commands, such as `python -c`.
//!
//! The lists can't parse another language. They search it for a denied program's name; without one the
//! command stays unclear. A script in a file is not read.

use super::{
    Part, Word,
    programs::{base, stem},
    walk::Input,
};

/// The options with which an interpreter takes code on its command line.
struct Speaks {
    /// Letters of short options whose value is code, also at the end of a cluster.
    letters: &'static str,
    /// Long options, or first words, whose value is code.
    options: &'static [&'static str],
    /// Letters of short options that take a value, which ends a cluster.
    with_value: &'static str,
    /// Whether it reads code from its input if it is given no file.
    reads: bool,
}

const fn speaks(
    letters: &'static str,
    options: &'static [&'static str],
    with_value: &'static str,
) -> Option<Speaks> {
    Some(Speaks { letters, options, with_value, reads: true })
}

fn speaks_of(program: &str) -> Option<Speaks> {
    match program {
        "python" | "pypy" | "ipython" => speaks("c", &[], "mWX"),
        "perl" => speaks("eE", &[], "IMmDFixCV"),
        "ruby" | "irb" => speaks("e", &[], "IrCEFKTWx0"),
        "node" | "nodejs" => speaks("ep", &["--eval", "--print", "--import"], "rC"),
        "deno" => speaks("", &["eval", "repl"], "c"),
        "bun" => speaks("ep", &["--eval", "--print"], "rc"),
        "php" => speaks("rBRE", &["--run", "--process-begin", "--process-code", "--process-end"], "cdzSt"),
        "lua" | "luajit" => speaks("e", &[], "lj"),
        "R" | "Rscript" => speaks("e", &["--eval"], "fg"),
        "julia" => speaks("eE", &["--eval", "--print"], "JLptCH"),
        "octave" => speaks("", &["--eval"], "p"),
        "guile" => speaks("c", &[], "Lelsx"),
        "racket" => speaks("e", &["--eval"], "tlfS"),
        "sbcl" | "clisp" => speaks("x", &["--eval"], ""),
        "emacs" => speaks("", &["--eval", "-eval", "--execute", "-execute"], "Lfl"),
        "erl" => speaks("", &["-eval", "-s", "-run"], ""),
        "elixir" | "iex" | "groovy" | "scala" | "swift" | "osascript" => {
            speaks("e", &["--eval", "--rpc-eval"], "r")
        }
        "tclsh" | "wish" | "ghci" | "jshell" | "tcc" | "dc" | "bc" | "m4" => {
            speaks("e", &["--expression"], "")
        }
        "expect" => speaks("c", &[], ""),
        "pwsh" | "powershell" => speaks("c", &["-Command", "-command", "-EncodedCommand", "-enc"], ""),
        "nu" | "xonsh" | "elvish" => speaks("c", &["--commands"], ""),
        _ => None,
    }
}

/// Marks a part that runs inline code.
pub(super) fn look(part: &mut Part, input: &Input) {
    let Some(program) = part.program().map(|it| base(it).to_owned()) else { return };
    let arguments: Vec<Word> = part.words.get(1..).unwrap_or_default().to_vec();
    let unclear = match program.as_str() {
        "sed" | "gsed" => sed(&arguments),
        "awk" | "gawk" | "mawk" | "nawk" => awk(&arguments),
        "gdb" | "lldb" | "ed" | "ex" => !only_prints_help(&arguments),
        "vi" | "vim" | "nvim" | "view" | "gvim" => arguments.iter().any(|it| {
            it.plain().is_none_or(|it| {
                it.starts_with('+') && it.len() > 1
                    || ["-c", "--cmd", "-S", "-s", "-e", "-u"].iter().any(|at| it.starts_with(at))
            })
        }),
        "less" | "more" | "most" | "view-less" => arguments.iter().any(|it| {
            it.plain().is_some_and(|it| {
                it.strip_prefix('+')
                    .is_some_and(|it| !it.chars().all(|it| it.is_ascii_digit() || "FGg+".contains(it)))
            })
        }),
        "sqlite" | "sqlite3" | "psql" | "mysql" => arguments.iter().any(|it| {
            it.plain().is_some_and(|it| {
                [".shell", ".system", "\\!", ".load", "PROGRAM", "program", "system "]
                    .iter()
                    .any(|at| it.contains(at))
            })
        }),
        name => match speaks_of(name).or_else(|| speaks_of(stem(name))) {
            Some(speaks) => interpreter(&speaks, &arguments),
            None => return,
        },
    };
    if unclear {
        part.unclear = true;
        part.code.extend(arguments.iter().map(|it| it.text().to_owned()));
        if let Input::Text(text) = input {
            part.code.push(text.clone());
        }
    }
}

/// Returns whether a command only prints its version or help.
fn only_prints_help(arguments: &[Word]) -> bool {
    !arguments.is_empty()
        && arguments
            .iter()
            .all(|it| matches!(it.plain(), Some("--version" | "-V" | "-v" | "--help" | "-h" | "-VV")))
}

/// Returns whether this file stands for something on the command line, such as standard input.
pub(super) fn is_brought(file: &str) -> bool {
    file == "-"
        || file.starts_with("/dev/fd/")
        || file == "/dev/stdin"
        || (file.starts_with("/proc/") && file.contains("/fd/"))
}

fn interpreter(speaks: &Speaks, arguments: &[Word]) -> bool {
    if only_prints_help(arguments) {
        return false;
    }
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let Some(text) = word.plain() else { return true };
        if speaks
            .options
            .iter()
            .any(|it| text == *it || text.strip_prefix(it).is_some_and(|it| it.starts_with('=')))
        {
            return true;
        }
        if text == "--" {
            continue;
        }
        if text.starts_with("--") {
            continue;
        }
        let Some(cluster) = text.strip_prefix('-').filter(|it| !it.is_empty()) else {
            return is_brought(text);
        };
        // Python's modules that run other programs.
        if let Some(module) = cluster.strip_prefix('m').filter(|_| speaks.with_value.starts_with('m')) {
            let module = if module.is_empty() { rest.next().map_or("", Word::text) } else { module };
            return matches!(module, "timeit" | "code" | "pdb" | "trace" | "cProfile" | "profile");
        }
        for (at, letter) in cluster.char_indices() {
            if speaks.letters.contains(letter) {
                return true;
            }
            if speaks.with_value.contains(letter) {
                // `-Mstrict;code` and `-i.bak` have their value in the same word.
                let value = cluster.get(at + letter.len_utf8()..).unwrap_or_default();
                if value.contains([';', '(', ' ', '{']) {
                    return true;
                }
                if value.is_empty() && !"ix0l".contains(letter) {
                    rest.next();
                }
                break;
            }
        }
    }
    speaks.reads
}

/// Returns whether a `sed` script has a command that runs or writes something.
fn sed(arguments: &[Word]) -> bool {
    let mut rest = arguments.iter();
    let mut first = None;
    let mut given = false;
    while let Some(word) = rest.next() {
        let text = word.text();
        let value = match text {
            "-e" | "--expression" | "-f" | "--file" => rest.next(),
            _ if text.starts_with("--expression=") || text.starts_with("--file=") => None,
            "-l" | "--line-length" => {
                rest.next();
                continue;
            }
            _ if text.starts_with('-') && !text.starts_with("--") && text.len() > 1 => {
                // `-ne SCRIPT`, `-esSCRIPT`; the text after `-i` is a suffix.
                let cluster = text.get(1..).unwrap_or_default();
                match cluster.find(['e', 'f', 'i']) {
                    Some(at) if !cluster.get(at..).unwrap_or_default().starts_with('i') => {
                        given = true;
                        let file = cluster.get(at..).unwrap_or_default().starts_with('f');
                        let value = cluster.get(at + 1..).unwrap_or_default();
                        let word = if value.is_empty() {
                            rest.next().cloned()
                        } else {
                            Some(Word::Plain(value.to_owned()))
                        };
                        if word.is_some_and(|it| sed_text(&it, file)) {
                            return true;
                        }
                    }
                    _ => {}
                }
                continue;
            }
            _ if text.starts_with("--") => continue,
            _ => {
                first = first.or(Some(word));
                continue;
            }
        };
        given = true;
        let inside = text.split_once('=').map(|(_, value)| Word::Plain(value.to_owned()));
        let file = text.starts_with("-f") || text.starts_with("--file");
        if value.cloned().or(inside).is_some_and(|it| sed_text(&it, file)) {
            return true;
        }
    }
    !given && first.is_some_and(|it| sed_text(it, false))
}

fn sed_text(word: &Word, file: bool) -> bool {
    let text = word.text();
    if word.plain().is_none() && (text.contains(['$', '`']) || file) {
        return true;
    }
    if file { is_brought(text) } else { sed_runs(text).unwrap_or(true) }
}

/// Returns whether the script has such a command; `None` if it can't be parsed.
fn sed_runs(script: &str) -> Option<bool> {
    let mut rest = script.chars().peekable();
    // The text up to a delimiter.
    let until = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>, end: char| {
        let mut bracket = false;
        while let Some(letter) = rest.next() {
            match letter {
                '\\' => drop(rest.next()),
                '[' if !bracket && end != '[' => bracket = rest.clone().any(|it| it == ']'),
                ']' => bracket = false,
                it if it == end && !bracket => return Some(()),
                _ => {}
            }
        }
        None
    };
    while let Some(letter) = rest.next() {
        match letter {
            ' ' | '\t' | '\n' | ';' | '{' | '}' | '!' | ',' | '~' | '+' | '$' | '0'..='9' => {}
            '/' => {
                until(&mut rest, '/')?;
                while rest.next_if(|it| matches!(it, 'I' | 'M')).is_some() {}
            }
            '\\' => {
                let end = rest.next()?;
                until(&mut rest, end)?;
            }
            'e' | 'w' | 'W' => return Some(true),
            's' | 'y' => {
                let end = rest.next()?;
                until(&mut rest, end)?;
                until(&mut rest, end)?;
                while let Some(flag) = rest.next_if(|it| !matches!(it, ';' | '\n' | '}' | ' ')) {
                    if letter == 's' && matches!(flag, 'e' | 'w') {
                        return Some(true);
                    }
                }
            }
            // Text or a file name, up to the end of the line.
            'a' | 'i' | 'c' | 'r' | 'R' | '#' => while rest.next_if(|it| *it != '\n').is_some() {},
            ':' | 'b' | 't' | 'T' | 'q' | 'Q' | 'l' | 'L' => {
                while rest.next_if(|it| !matches!(it, ';' | '\n' | '}')).is_some() {}
            }
            'p' | 'P' | 'd' | 'D' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'z' | 'F' => {}
            _ => return None,
        }
    }
    Some(false)
}

/// Returns whether an `awk` program starts another.
fn awk(arguments: &[Word]) -> bool {
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let Some(text) = word.plain() else { return true };
        match text {
            "-F" | "-v" | "--field-separator" | "--assign" => drop(rest.next()),
            "-f" | "--file" => return rest.next().and_then(Word::plain).is_none_or(is_brought),
            "-e" | "--source" | "-l" | "--load" | "-E" | "--exec" | "-i" | "--include" => return true,
            "--" => {}
            _ if text.starts_with('-') && text.len() > 1 => {
                if ["-e", "-l", "-E", "-i", "--so", "--l", "--e", "--inc"]
                    .iter()
                    .any(|it| text.starts_with(it))
                {
                    return true;
                }
            }
            _ => return awk_runs(text),
        }
    }
    false
}

fn awk_runs(program: &str) -> bool {
    let mut rest = program.chars().peekable();
    let (mut before, mut name) = (' ', String::new());
    while let Some(letter) = rest.next() {
        if letter.is_alphanumeric() || letter == '_' {
            name.push(letter);
            before = letter;
            continue;
        }
        if matches!(name.as_str(), "system" | "getline") {
            return true;
        }
        name.clear();
        match letter {
            '"' | '/' if letter == '"' || !(before.is_alphanumeric() || "_)]$".contains(before)) => {
                while let Some(inner) = rest.next() {
                    match inner {
                        '\\' => drop(rest.next()),
                        it if it == letter => break,
                        _ => {}
                    }
                }
                before = '"';
                continue;
            }
            '|' if rest.next_if_eq(&'|').is_none() => return true,
            '@' => return true,
            _ => {}
        }
        if !letter.is_whitespace() {
            before = letter;
        }
    }
    matches!(name.as_str(), "system" | "getline")
}
