//! Options and variables by which a command starts others.

use super::{
    Part, Unparsed, Word,
    inline::is_brought,
    programs::{self, base, is_in_system_folder},
    read::hides_code,
    walk::{Input, Walk},
};

/// Variables whose value is a command, or options with one. `*` stands for any beginning or end.
const HOLDS_COMMANDS: &str = "
    PROMPT_COMMAND BASH_ENV ENV PS0 PS1 PS2 PS4 *PAGER *EDITOR VISUAL BROWSER LESSOPEN LESSCLOSE GIT_SSH
    GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_CONFIG* GIT_ASKPASS GIT_PROXY_COMMAND SSH_ASKPASS LD_PRELOAD
    LD_AUDIT TAR_OPTIONS RSYNC_RSH SHELL MAKEFLAGS BASH_FUNC* PERL5OPT RUBYOPT NODE_OPTIONS PYTHONSTARTUP
    EXINIT VIMINIT FZF_DEFAULT_COMMAND FCEDIT MANPAGER
";

/// Programs that only read their files and print something about them.
const READERS: &str = "
    ls file stat which whereis type test [ sha256sum sha1sum md5sum command readlink realpath basename
    dirname echo printf du ldd dpkg rpm strings nm objdump readelf wc
";

/// Sections and keys of git's configuration that start nothing.
const QUIET_GIT_KEYS: &str = "
    color.* column.* user.* author.* committer.* advice.* log.* status.* branch.* fetch.* gc.* push.*
    pull.* rebase.* safe.* commit.gpgsign tag.gpgsign init.defaultbranch merge.ff merge.conflictstyle
    core.quotepath core.autocrlf core.filemode core.abbrev core.longpaths core.ignorecase core.eol
    core.symlinks core.safecrlf core.commentchar core.precomposeunicode http.sslverify http.version
    http.postbuffer diff.algorithm diff.renames diff.noprefix diff.mnemonicprefix protocol.version
    protocol.file.allow feature.* index.* pack.* grep.* blame.* help.autocorrect
";

fn is_listed(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|it| match (it.strip_prefix('*'), it.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => it == name,
    })
}

/// Records the effect of a variable that is set to this value.
pub(super) fn variable(walk: &mut Walk, part: &mut Part, name: &str, value: &Word) -> Result<(), Unparsed> {
    if is_in_system_folder(value.text()) {
        part.takes.push(value.clone());
        part.odd = part.odd.or(Some("a variable is set to a program"));
    }
    if value.plain().is_some_and(hides_code) {
        part.code.push(value.text().to_owned());
        part.unclear |= ["[$(", "[`"].iter().any(|it| value.text().contains(it));
    }
    if !is_listed(HOLDS_COMMANDS, name) {
        if programs::is_dangerous_variable(name) && name != "PATH" {
            part.code.push(value.text().to_owned());
        }
        return Ok(());
    }
    part.code.push(value.text().to_owned());
    match value.plain() {
        Some(
            "" | "cat" | "true" | ":" | "false" | "less" | "more" | "vi" | "vim" | "nano" | "bash" | "sh"
            | "/bin/sh" | "/bin/bash",
        ) => Ok(()),
        _ => {
            part.unclear = true;
            match value.plain() {
                // It need not be a command: then its words are examined as they are.
                Some(text) => walk.script(text).or(Ok(())),
                None => Ok(()),
            }
        }
    }
}

/// Adds the commands that a command's options start, and marks what can't be parsed.
pub(super) fn look(walk: &mut Walk, part: &mut Part, input: &Input) -> Result<(), Unparsed> {
    let Some(program) = part.program().map(|it| base(it).to_owned()) else { return Ok(()) };
    let arguments: Vec<Word> = part.words.get(1..).unwrap_or_default().to_vec();
    sources(part, &program, &arguments);
    mark(part, &program, &arguments, input);
    match program.as_str() {
        "source" | "." => sourced(walk, part, &arguments, input),
        "mapfile" | "readarray" | "compgen" | "complete" => values(walk, part, &arguments, 'C', &[]),
        "let" | "declare" | "typeset" | "local" | "readonly" | "export" => {
            for word in &arguments {
                if let Some((name, value)) = word.text().split_once('=') {
                    variable(walk, part, name, &as_known(word, value))?;
                }
            }
            Ok(())
        }
        "script" => values(walk, part, &arguments, 'c', &["--command"]),
        "su" | "runuser" | "sg" | "newgrp" => {
            values(walk, part, &arguments, 'c', &["--command", "--session-command"])
        }
        "git" => git(walk, part, &arguments),
        "tar" | "gtar" | "bsdtar" => tar(walk, part, &arguments),
        "rsync" => values(walk, part, &arguments, 'e', &["--rsh", "--rsync-path"]),
        "zip" => values(walk, part, &arguments, '\0', &["--unzip-command", "-TT"]),
        "rg" => values(walk, part, &arguments, '\0', &["--pre", "--hostname-bin"]),
        "sort" | "gsort" => values(walk, part, &arguments, '\0', &["--compress-program"]),
        "man" => values(walk, part, &arguments, 'P', &["--pager"]),
        _ => Ok(()),
    }
}

/// Marks options whose value can't be split into commands.
fn mark(part: &mut Part, program: &str, arguments: &[Word], input: &Input) {
    let has = |options: &[&str]| {
        arguments.iter().any(|it| options.iter().any(|option| it.text().starts_with(option)))
    };
    match program {
        "hash" => unclear(part, has(&["-p"]), arguments),
        "enable" => unclear(part, has(&["-f"]), arguments),
        "alias" => unclear(part, arguments.iter().any(|it| it.text().contains('=')), arguments),
        "bind" => unclear(part, has(&["-x", "-f", "\"", "'"]), arguments),
        "fc" | "script" | "su" | "sg" | "newgrp" => unclear(part, true, arguments),
        "let" | "declare" | "typeset" | "local" | "readonly" | "export" | "unset" | "read" | "wait"
        | "getopts" | "mapfile" | "readarray" | "compgen" | "complete" => evaluated(part, arguments),
        "test" | "[" | "printf" if has(&["-v", "-eq", "-ne", "-lt", "-gt", "-le", "-ge"]) => {
            evaluated(part, arguments);
        }
        "crontab" if matches!(arguments, [only] if only.plain() == Some("-l")) => {}
        "at" | "batch" | "crontab" => {
            unclear(part, true, arguments);
            if let Input::Text(text) = input {
                part.code.push(text.clone());
            }
        }
        "man" => unclear(part, has(&["-P", "--pager", "-H", "--html"]), arguments),
        "ssh" | "scp" | "sftp" => {
            let reaches = |it: &Word| {
                let text = it.text().to_ascii_lowercase();
                text.contains("command")
                    && ["proxy", "local", "knownhosts"].iter().any(|at| text.contains(at))
            };
            let starts = arguments.iter().any(reaches) || (program != "ssh" && has(&["-S"]));
            unclear(part, starts, arguments);
            // The command for the other machine is examined as well.
            words(part, arguments);
        }
        "make" | "gmake" => make(part, arguments),
        "npx" | "bunx" => started(part, arguments),
        "uv" | "poetry" | "pipenv" | "hatch" | "rye" | "npm" | "pnpm" | "yarn" | "bundle"
            if matches!(arguments.first().map(Word::text), Some("exec" | "x" | "dlx"))
                || (arguments.first().map(Word::text) == Some("run")
                    && !matches!(program, "npm" | "pnpm" | "yarn")) =>
        {
            started(part, arguments.get(1..).unwrap_or_default());
        }
        _ => {}
    }
}

/// Adds the program that such a starter is given, with its arguments.
fn started(part: &mut Part, arguments: &[Word]) {
    let from = arguments.iter().position(|it| !it.text().starts_with('-')).unwrap_or_default();
    words(part, arguments.get(from..arguments.len().min(from + 2)).unwrap_or_default());
}

/// Examines a makefile, or a variable of one, on the command line.
fn make(part: &mut Part, arguments: &[Word]) {
    let from = arguments.windows(2).any(|pair| {
        matches!(pair, [option, file] if matches!(option.text(), "-f" | "--file" | "--makefile")
            && file.plain().is_none_or(is_brought))
    });
    let brings = |it: &Word| {
        let text = it.text();
        let file = ["--file=", "--makefile=", "-f"].iter().find_map(|at| text.strip_prefix(at));
        text.starts_with("--eval")
            || text.starts_with("-E")
            || text.starts_with("SHELL=")
            || file.is_some_and(|it| !it.is_empty() && is_brought(it))
            || (text.contains('=') && it.plain().is_some_and(|it| it.contains("$(") || it.contains(';')))
    };
    part.code.extend(arguments.iter().map(Word::text).filter(|it| it.contains('=')).map(str::to_owned));
    unclear(part, from || arguments.iter().any(brings), arguments);
}

/// Returns a piece of a word, known if the word is.
fn as_known(word: &Word, piece: &str) -> Word {
    match word {
        Word::Plain(_) => Word::Plain(piece.to_owned()),
        Word::Open(_) => Word::Open(piece.to_owned()),
    }
}

/// Marks the part as unclear if `is`, and its words as text to search.
fn unclear(part: &mut Part, is: bool, arguments: &[Word]) {
    if is {
        part.unclear = true;
        words(part, arguments);
    }
}

fn words(part: &mut Part, arguments: &[Word]) {
    let text: Vec<&str> = arguments.iter().map(Word::text).collect();
    part.code.push(text.join(" "));
}

/// Examines words that a builtin of the shell evaluates once more.
fn evaluated(part: &mut Part, arguments: &[Word]) {
    for word in arguments.iter().filter(|it| it.plain().is_some_and(hides_code)) {
        part.unclear = true;
        part.code.push(word.text().to_owned());
    }
}

/// Examines `. FILE`, whose file may come from the command line.
fn sourced(walk: &mut Walk, part: &mut Part, arguments: &[Word], input: &Input) -> Result<(), Unparsed> {
    let file = arguments.iter().find(|it| it.plain() != Some("--"));
    match (file.map(Word::plain), input) {
        (Some(Some(file)), Input::Text(text)) if is_brought(file) => walk.script(text),
        (Some(Some(file)), _) if !is_brought(file) => Ok(()),
        (None, _) => Ok(()),
        _ => {
            part.unclear = true;
            Ok(())
        }
    }
}

/// Adds the commands that are values of these options.
fn values(
    walk: &mut Walk,
    part: &mut Part,
    arguments: &[Word],
    letter: char,
    options: &[&str],
) -> Result<(), Unparsed> {
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let text = word.text();
        let long = options.iter().find_map(|it| text.strip_prefix(it));
        let short = || {
            let cluster = text.strip_prefix('-').filter(|it| !it.starts_with('-'))?;
            cluster.split_once(letter).map(|(_, value)| value)
        };
        let Some(value) = long.or_else(short) else { continue };
        let value = match value.strip_prefix('=').unwrap_or(value) {
            "" => rest.next().cloned(),
            value if word.plain().is_some() => Some(Word::Plain(value.to_owned())),
            value => Some(Word::Open(value.to_owned())),
        };
        brought(walk, part, value.as_ref())?;
    }
    Ok(())
}

/// Adds a command that is written in one word.
fn brought(walk: &mut Walk, part: &mut Part, value: Option<&Word>) -> Result<(), Unparsed> {
    match value.map(|it| (it, it.plain())) {
        Some((_, Some(text))) => walk.script(text),
        Some((word, None)) => {
            part.unclear = true;
            part.code.push(word.text().to_owned());
            Ok(())
        }
        None => Ok(()),
    }
}

fn tar(walk: &mut Walk, part: &mut Part, arguments: &[Word]) -> Result<(), Unparsed> {
    let mut rest = arguments.iter().enumerate();
    while let Some((at, word)) = rest.next() {
        let text = word.text();
        let long = ["--to-", "--use", "--info", "--new-v", "--rsh", "--rmt", "--checkpoint-"]
            .iter()
            .any(|it| text.starts_with(it));
        if long {
            let value = match text.split_once('=') {
                Some((_, value)) => Some(Word::Plain(value.to_owned()))
                    .filter(|_| word.plain().is_some())
                    .or_else(|| Some(word.clone())),
                None => rest.next().map(|(_, it)| it.clone()),
            };
            let Some(value) = value else { continue };
            if text.starts_with("--checkpoint-") {
                let Some(action) = value.text().strip_prefix("exec=") else {
                    part.unclear |= value.plain().is_none();
                    continue;
                };
                let action = if value.plain().is_some() {
                    Word::Plain(action.to_owned())
                } else {
                    Word::Open(action.to_owned())
                };
                brought(walk, part, Some(&action))?;
            } else {
                brought(walk, part, Some(&value))?;
            }
            continue;
        }
        let cluster = text.strip_prefix('-').filter(|it| !it.starts_with('-'));
        match cluster {
            Some(cluster) if cluster.contains(['I', 'F']) => {
                let (_, value) = cluster.split_once(['I', 'F']).unwrap_or_default();
                let value = if value.is_empty() {
                    rest.next().map(|(_, it)| it.clone())
                } else {
                    Some(Word::Plain(value.to_owned()))
                };
                brought(walk, part, value.as_ref())?;
            }
            // `tar xIf zstd a.tar`: the order of the values is ambiguous.
            None if at == 0 && text.contains(['I', 'F']) && !text.starts_with("--") => {
                unclear(part, true, arguments);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Examines git's settings on the command line, and its subcommands that start programs.
fn git(walk: &mut Walk, part: &mut Part, arguments: &[Word]) -> Result<(), Unparsed> {
    let mut rest = arguments.iter();
    let mut command = None;
    while let Some(word) = rest.next() {
        match word.text() {
            "-c" => match rest.next() {
                Some(setting) if setting.plain().is_some() => {
                    let (key, value) = setting.text().split_once('=').unwrap_or((setting.text(), ""));
                    setting_of(walk, part, key, value)?;
                }
                _ => part.unclear = true,
            },
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => drop(rest.next()),
            text if text.starts_with("--exec-path=") || text.starts_with("--config-env") => {
                unclear(part, true, arguments);
            }
            text if text.starts_with('-') => {}
            text => {
                command = Some(text);
                break;
            }
        }
    }
    let rest = rest.as_slice();
    match command {
        Some("config") => {
            let mut operands =
                rest.iter().filter(|it| it.text().contains('.') && !it.text().starts_with('-'));
            let Some(key) = operands.next() else { return Ok(()) };
            let value = rest.iter().skip_while(|it| *it != key).nth(1);
            match value {
                Some(value) => setting_of(walk, part, key.text(), value.text()),
                None => Ok(()),
            }
        }
        Some("bisect") if rest.first().and_then(Word::plain) == Some("run") => walk.part(
            Part { words: rest.get(1..).unwrap_or_default().to_vec(), ..Part::default() },
            &Input::Inherited,
        ),
        Some("submodule") if rest.iter().any(|it| it.text() == "foreach") => {
            unclear(part, true, rest);
            Ok(())
        }
        Some("filter-branch" | "for-each-repo") => {
            unclear(part, true, rest);
            Ok(())
        }
        Some("difftool" | "mergetool" | "rebase") => {
            let runs = |it: &Word| it.text().starts_with("-x") || it.text().starts_with("--ex");
            unclear(part, rest.iter().any(runs), rest);
            Ok(())
        }
        Some("clone" | "fetch" | "pull" | "push" | "ls-remote" | "archive" | "grep" | "send-email") => {
            let runs = |it: &Word| {
                ["ext::", "--upl", "--rece", "--exec", "-u", "--config", "-c", "--open", "-O"].iter().any(
                    |at| {
                        it.text().starts_with(at) && !(matches!(*at, "-u" | "-c") && command != Some("clone"))
                    },
                )
            };
            unclear(part, rest.iter().any(runs), rest);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn setting_of(walk: &mut Walk, part: &mut Part, key: &str, value: &str) -> Result<(), Unparsed> {
    let key = key.to_ascii_lowercase();
    if !key.contains('.') || is_listed(QUIET_GIT_KEYS, &key) || matches!(value, "" | "cat" | "true" | "false")
    {
        return Ok(());
    }
    part.unclear = true;
    part.code.push(value.to_owned());
    match (key.starts_with("alias."), value.strip_prefix('!')) {
        (_, Some(command)) => walk.script(command).or(Ok(())),
        (true, None) => walk.script(&format!("git {value}")).or(Ok(())),
        (false, None) => Ok(()),
    }
}

/// Records the programs that the command copies, links, or moves, so that they may get another name.
fn sources(part: &mut Part, program: &str, arguments: &[Word]) {
    let operands: Vec<&Word> = arguments.iter().filter(|it| !it.text().starts_with('-')).collect();
    let into = arguments.iter().any(|it| it.text().starts_with("-t") || it.text().starts_with("--target"));
    let copies = matches!(
        program,
        "cp" | "ln" | "install" | "mv" | "gcp" | "gln" | "ginstall" | "link" | "scp" | "rsync"
    );
    let takes: Vec<Word> = if copies {
        let own = if into || operands.len() < 2 { operands.len() } else { operands.len() - 1 };
        operands.into_iter().take(own).cloned().collect()
    } else if program == "cat" && !part.writes.is_empty() {
        operands.into_iter().cloned().collect()
    } else if program == "dd" {
        let file = |it: &Word| it.text().strip_prefix("if=").map(|it| Word::Plain(it.to_owned()));
        arguments.iter().filter_map(file).collect()
    } else if program == "hash" {
        arguments.iter().filter(|it| it.text().contains('/')).cloned().collect()
    } else {
        Vec::new()
    };
    // A copy of a shell or an interpreter is one under another name.
    part.unclear |= takes.iter().any(|it| {
        let program = [Word::Plain(base(it.text()).to_owned())];
        is_in_system_folder(it.text()) && (it.plain().is_none() || programs::runs_others(&program))
    });
    part.takes.extend(takes);
    if !READERS.split_whitespace().any(|it| it == program) {
        part.near.extend(arguments.iter().filter(|it| is_in_system_folder(it.text())).cloned());
    }
}
