//! Programs known by name: those that start others, those that only read.

use super::{Part, Word};

/// Programs that run code or other programs: shells, interpreters, wrappers, builtins. No prefix of such a
/// command says what it does. Versions such as `python3.12` are recognized by their stem.
const RUNS_OTHERS: &str = "
    sh bash rbash zsh dash ash ksh mksh yash fish csh tcsh nu elvish xonsh pwsh powershell cmd busybox
    toybox python pypy ipython perl ruby irb node nodejs deno bun php lua luajit awk gawk mawk nawk
    tclsh wish expect osascript R Rscript julia octave guile racket sbcl clisp emacs erl elixir iex ghci
    runghc runhaskell groovy scala kotlin java jshell swift tcc gdb lldb sqlite3 psql mysql mongosh
    redis-cli dc m4 ed ex vi vim nvim view nano pico less more most man info env xargs sudo doas su
    pkexec runuser nohup timeout nice ionice chrt taskset numactl setsid stdbuf unbuffer time watch
    parallel entr watchexec script strace ltrace perf valgrind rr flock chroot unshare nsenter bwrap
    firejail setpriv capsh prlimit systemd-run at batch crontab ssh scp sftp mosh docker podman nerdctl
    kubectl oc lxc machinectl vagrant ansible tmux screen dtach nc ncat netcat socat npx bunx uvx pipx
    ld.so ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 xdg-open open start-stop-daemon daemonize haft eval
    source . exec command builtin trap alias unalias enable hash bind complete compgen shopt mapfile
    readarray read fc coproc let declare typeset local readonly export getopts unset wait
";

/// Wrappers without an effect of their own: they are allowed if the command that they start is.
const HARMLESS_WRAPPERS: &str = "
    timeout nice nohup time command stdbuf
";

/// Programs for which a person should approve every whole command, rather than a prefix.
const DESTROYS: &str = "
    rm rmdir mv dd shred truncate chmod chown chgrp ln kill pkill killall mkfs mount umount tee install
    cp reboot shutdown systemctl
";

/// Programs with subcommands, so that a prefix means two words.
const HAS_COMMANDS: &str = "
    git cargo npm pnpm yarn go pip pip3 uv poetry make just gh rustup brew apt apt-get dotnet mvn gradle
    bundle composer helm terraform jj hg svn mix
";

/// Variables that influence which programs run. Whole names, or with `*` for any beginning or end.
const DANGEROUS_VARIABLES: &str = "
    PATH LD_* DYLD_* GIT_* BASH* ENV SHELL SHELLOPTS IFS PS0 PS1 PS4 PROMPT_COMMAND CDPATH FPATH ZDOTDIR
    HOME HISTFILE INPUTRC TERMINFO* TERMCAP PAGER *PAGER EDITOR *EDITOR VISUAL BROWSER LESS* LS_COLORS
    PYTHON* PERL* RUBY* NODE_* npm_* NPM_* YARN_* DENO_* BUN_* PHP* LUA_* JAVA* _JAVA* JDK_* CLASSPATH
    MAVEN_* GRADLE_* GO* CGO_* CC CXX CPP LD AR AS NM RANLIB CFLAGS CXXFLAGS CPPFLAGS LDFLAGS MAKE*
    MFLAGS RUSTC* RUSTDOC* RUSTFLAGS RUSTUP_* CARGO CARGO_HOME CARGO_BUILD_* CARGO_TARGET_*
    CARGO_ENCODED_* CARGO_ALIAS_* CARGO_REGISTR* CARGO_NET_* CMAKE_* PKG_CONFIG* TAR_OPTIONS GZIP
    RSYNC_* SSH_* SUDO_* GPG_* GNUPGHOME CURL_HOME WGETRC XDG_* TMPDIR PIP_* UV_* VIRTUAL_ENV CONDA_*
    EXINIT VIM* MYVIMRC GEM_* BUNDLE_* R_* JULIA_* DOCKER_* KUBECONFIG AWS_* DBUS_* DISPLAY http_proxy
    https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY OPENSSL_* SSL_* GCONV_PATH LOCPATH NLSPATH
    HOSTALIASES RES_OPTIONS MALLOC_* GLIBC_* ASAN_OPTIONS FZF_* RIPGREP_CONFIG_PATH BAT_* HAFT_* OPTARG
    OPTIND
";

/// Folders whose programs a bare name refers to.
const SYSTEM_FOLDERS: &str = "
    /bin/ /usr/bin/ /usr/local/bin/ /sbin/ /usr/sbin/ /opt/homebrew/bin/
";

/// Returns the name without its folder.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the program as a list names it: without a system folder.
pub(super) fn known_as(program: &str) -> &str {
    let bare = SYSTEM_FOLDERS.split_whitespace().find_map(|folder| program.strip_prefix(folder));
    bare.filter(|name| !name.contains('/')).unwrap_or(program)
}

/// Returns whether this is the path of a system program.
pub(super) fn is_in_system_folder(path: &str) -> bool {
    path.starts_with('/') && path.rsplit_once('/').is_some_and(|(folder, _)| folder.ends_with("bin"))
}

/// Returns the name without a version at its end: `python` for `python3.12`.
pub(super) fn stem(name: &str) -> &str {
    name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.' || it == '-')
}

fn is_one_of(names: &str, program: &str) -> bool {
    let name = base(program);
    names.split_whitespace().any(|it| {
        it.eq_ignore_ascii_case(name) || (!stem(name).is_empty() && it.eq_ignore_ascii_case(stem(name)))
    })
}

/// Returns whether a command of this program runs code or other programs, so that no prefix says what it does.
pub(super) fn runs_others(words: &[Word]) -> bool {
    let Some(program) = words.first().and_then(Word::plain) else { return true };
    is_one_of(RUNS_OTHERS, program) || has_dangerous_option(base(program), words.get(1..).unwrap_or_default())
}

/// Returns whether a grant should be offered for the whole command only.
pub(super) fn destroys(program: &str) -> bool {
    is_one_of(DESTROYS, program)
}

/// Returns whether it has subcommands.
pub(super) fn has_commands(program: &str) -> bool {
    HAS_COMMANDS.split_whitespace().any(|it| it == base(program))
}

/// Returns whether it only starts another command.
pub(super) fn is_harmless_wrapper(program: &str) -> bool {
    HARMLESS_WRAPPERS.split_whitespace().any(|it| it == known_as(program))
}

/// Returns whether the variable influences which programs run.
pub(super) fn is_dangerous_variable(name: &str) -> bool {
    DANGEROUS_VARIABLES.split_whitespace().any(|it| match (it.strip_prefix('*'), it.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => it == name,
    }) && !is_known_harmless(name)
}

/// Returns whether it is an exception to the patterns above.
fn is_known_harmless(name: &str) -> bool {
    name.starts_with("GIT_AUTHOR_")
        || name.starts_with("GIT_COMMITTER_")
        || matches!(name, "NODE_ENV" | "GIT_TERMINAL_PROMPT" | "PYTHONUNBUFFERED" | "PYTHONDONTWRITEBYTECODE")
}

/// Returns whether arithmetic sets a dangerous variable.
pub(super) fn sets_dangerous(arithmetic: &str) -> bool {
    let letter = |it: char| it.is_ascii_alphanumeric() || it == '_';
    arithmetic.split(|it: char| !letter(it)).any(is_dangerous_variable)
}

/// Returns whether an otherwise harmless program has an option that starts another one, or loads code. A word
/// that is not literal could be one.
fn has_dangerous_option(program: &str, arguments: &[Word]) -> bool {
    let any = |is: &dyn Fn(&str) -> bool| {
        arguments.iter().any(|word| match word {
            Word::Plain(text) => is(text),
            Word::Open(raw) => {
                raw.contains(['$', '`'])
                    || !raw.starts_with(|it: char| it.is_alphanumeric() || "./*".contains(it))
            }
        })
    };
    let begins = |text: &str, options: &[&str]| options.iter().any(|it| text.starts_with(it));
    // A letter in a cluster of short options, `-xvIf`.
    let short = |text: &str, letter: char| {
        text.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.contains(letter))
    };
    let is_command = |names: &[&str]| {
        let command = arguments.iter().find(|it| !it.text().starts_with('-'));
        command.is_some_and(|it| it.plain().is_none_or(|it| names.contains(&it)))
    };
    match program {
        "git" => {
            git_runs_others(arguments)
                || any(&|it| {
                    begins(
                        it,
                        &[
                            "--exe", "--upl", "--rece", "--out", "--conf", "--ext-", "--op", "-O", "ext::",
                            "--tem", "--textc",
                        ],
                    )
                })
        }
        "find" | "gfind" | "bfs" => any(&|it| begins(it, &["-exec", "-ok", "-delete", "-fprint", "-fls"])),
        "fd" | "fdfind" => any(&|it| begins(it, &["--exec"]) || short(it, 'x') || short(it, 'X')),
        "tar" | "gtar" | "bsdtar" => {
            arguments
                .first()
                .is_some_and(|it| it.plain().is_none_or(|it| !it.starts_with('-') && it.contains(['I', 'F'])))
                || any(&|it| {
                    begins(it, &["--to-", "--check", "--use", "--info", "--new", "--rsh", "--rmt"])
                        || short(it, 'I')
                        || short(it, 'F')
                })
        }
        "rsync" => any(&|it| begins(it, &["--rsh", "--rsync-path", "--daemon"]) || short(it, 'e')),
        "sed" | "gsed" => sed_runs_others(arguments),
        "sort" | "gsort" => any(&|it| begins(it, &["--comp"])),
        "rg" => any(&|it| begins(it, &["--pre", "--hostname-bin", "--search-zip"]) || short(it, 'z')),
        "make" | "gmake" => any(&|it| {
            it.contains('=')
                || begins(it, &["--eval", "--file", "--makefile", "--include", "--dir"])
                || short(it, 'f')
                || short(it, 'C')
                || short(it, 'I')
                || short(it, 'E')
        }),
        "just" => any(&|it| {
            begins(it, &["--shell", "--justfile", "--working", "--set", "--command", "--chooser"])
                || short(it, 'f')
                || short(it, 'd')
                || short(it, 'c')
        }),
        "cargo" => any(&|it| it.starts_with('+') || begins(it, &["--config", "--manifest-path", "-Z", "-C"])),
        "npm" | "pnpm" | "yarn" => {
            is_command(&["exec", "x", "dlx", "explore", "config", "set"])
                || any(&|it| {
                    begins(it, &["--script-shell", "--prefix", "--node-options", "--userconfig", "-C"])
                })
        }
        "go" => any(&|it| begins(it, &["-exec", "-toolexec", "-C", "-vettool", "--exec", "--toolexec"])),
        "uv" | "poetry" | "pipenv" | "conda" | "bundle" | "nix" | "rye" | "hatch" => {
            is_command(&["run", "exec", "shell", "develop", "tool", "x"])
        }
        "zip" => any(&|it| short(it, 'T') || begins(it, &["--unzip", "-TT"])),
        "curl" => any(&|it| {
            begins(it, &["--config", "--output", "--remote", "--netrc", "--unix"])
                || short(it, 'K')
                || short(it, 'o')
                || short(it, 'O')
        }),
        "wget" => any(&|it| {
            begins(it, &["--use-askpass", "--execute", "--config", "--output"])
                || short(it, 'e')
                || short(it, 'O')
        }),
        "pip" | "pip3" => {
            any(&|it| begins(it, &["--python", "--editable", "--index", "--extra"]) || it == "config")
        }
        _ => false,
    }
}

/// Returns whether a git command starts programs, by its global options or its subcommand.
fn git_runs_others(arguments: &[Word]) -> bool {
    let mut arguments = arguments.iter().filter(|it| !is_quiet_git_option(it));
    let Some(command) = arguments.next() else { return false };
    let Some(command) = command.plain() else { return true };
    let rest: Vec<&str> = arguments.map(Word::text).collect();
    command.starts_with('-')
        || matches!(
            command,
            "config"
                | "bisect"
                | "filter-branch"
                | "difftool"
                | "mergetool"
                | "hook"
                | "daemon"
                | "shell"
                | "send-email"
                | "for-each-repo"
                | "instaweb"
                | "web--browse"
                | "upload-archive"
                | "fast-import"
                | "archive"
        )
        || (command == "submodule" && rest.contains(&"foreach"))
        || (matches!(command, "rebase" | "clone" | "worktree")
            && rest.iter().any(|it| {
                it.starts_with("-x")
                    || it.starts_with("-c")
                    || it.starts_with("-u")
                    || it.starts_with("-i")
                    || it.starts_with("--inter")
            }))
}

/// Returns whether it is an option without influence on what git does.
pub(super) fn is_quiet_git_option(word: &Word) -> bool {
    matches!(word.plain(), Some("--no-pager" | "-P" | "--no-optional-locks"))
}

/// Returns whether `sed` does anything but print lines by their numbers.
fn sed_runs_others(arguments: &[Word]) -> bool {
    let mut options = arguments.iter().take_while(|it| it.plain() == Some("-n") || it.plain() == Some("-E"));
    let prints = options.by_ref().count();
    let script = arguments.get(prints).and_then(Word::plain);
    let by_number = script.is_some_and(|it| {
        it.strip_suffix('p')
            .is_some_and(|it| !it.is_empty() && it.chars().all(|it| it.is_ascii_digit() || ",$".contains(it)))
    });
    let more = arguments.get(prints + 1..).unwrap_or_default();
    !by_number || more.iter().any(|it| it.plain().is_none_or(|it| it.starts_with('-')))
}

/// Returns whether a list never needs to name this command: it prints, tests, or changes the folder within
/// the workspace.
pub(super) fn is_neutral(part: &Part, moves: Moves, below: &dyn Fn(&str) -> bool) -> bool {
    if !part.writes.is_empty() || part.odd.is_some() || part.opaque {
        return false;
    }
    let Some(program) = part.program() else { return part.words.is_empty() };
    let arguments = part.words.get(1..).unwrap_or_default();
    let plain = || arguments.iter().all(|it| it.plain().is_some_and(|it| !super::read::hides_code(it)));
    match program {
        "echo" | "true" | "false" | ":" | "pwd" | "sleep" => true,
        "printf" => arguments.first().is_none_or(|it| it.plain().is_some_and(|it| !it.starts_with('-'))),
        "test" | "[" => plain() && !arguments.iter().any(|it| it.plain() == Some("-v")),
        "set" => arguments.iter().all(|it| {
            matches!(
                it.plain(),
                Some(
                    "-e" | "-u"
                        | "-x"
                        | "-eu"
                        | "-ex"
                        | "-eux"
                        | "-euo"
                        | "-o"
                        | "-euxo"
                        | "pipefail"
                        | "+e"
                        | "+x"
                        | "+u"
                )
            )
        }),
        "exit" | "return" | "break" | "continue" | "shift" => plain(),
        "cd" => match (moves, arguments) {
            (Moves::Anywhere, _) => true,
            (Moves::Inside, [to]) => to.plain().is_some_and(below),
            (Moves::Inside, _) => false,
        },
        "export" => arguments.iter().all(|it| {
            it.plain().is_some_and(|it| {
                let (name, value) = it.split_once('=').unwrap_or((it, ""));
                !it.starts_with('-')
                    && !name.contains('[')
                    && !is_dangerous_variable(name)
                    && !super::read::hides_code(value)
            })
        }),
        _ => false,
    }
}

/// Whether changing to another folder is harmless wherever it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    Anywhere,
    Inside,
}
