//! The languages whose code is highlighted: their comments, strings and keywords.

use crate::terminal::row::{Style, Tint};

/// The syntax of a language.
#[derive(Debug)]
pub(super) struct Language {
    /// Its names in an info string, in lower case.
    pub(super) names: &'static [&'static str],
    pub(super) family: Family,
    /// The marks that begin a comment to the end of the line.
    pub(super) comments: &'static [&'static str],
    /// The marks that begin and end a comment over several lines.
    pub(super) blocks: &'static [(&'static str, &'static str)],
    pub(super) quotes: &'static [Quote],
    /// Keywords, separated by blanks.
    keywords: &'static str,
    /// Constants and built-in types, separated by blanks.
    constants: &'static str,
    /// Keywords are case-insensitive.
    any_case: bool,
    /// `$name` is a variable.
    pub(super) dollars: bool,
    /// `@name` is a decorator.
    pub(super) decorators: bool,
    /// `'a` is a lifetime.
    pub(super) lifetimes: bool,
    /// Capitalised names are types.
    types: bool,
    /// A name followed by a bracket is a call.
    calls: bool,
    /// `[name]` begins a section.
    pub(super) sections: bool,
    /// The character between a key and its value.
    pub(super) divider: char,
}

/// How the lines of a language are parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// A programming language.
    Words,
    /// Keys and values.
    Keys,
    /// HTML and XML.
    Markup,
    Diff,
}

/// A form of string literal.
#[derive(Debug)]
pub(super) struct Quote {
    pub(super) mark: &'static str,
    /// A backslash escapes the next letter.
    pub(super) escapes: bool,
    /// It may span several lines.
    pub(super) lines: bool,
}

const DOUBLE: Quote = Quote { mark: "\"", escapes: true, lines: false };
const DOUBLE_LINES: Quote = Quote { mark: "\"", escapes: true, lines: true };
const SINGLE: Quote = Quote { mark: "'", escapes: true, lines: false };
const SINGLE_RAW: Quote = Quote { mark: "'", escapes: false, lines: false };
const SINGLE_RAW_LINES: Quote = Quote { mark: "'", escapes: false, lines: true };
const TICK_LINES: Quote = Quote { mark: "`", escapes: true, lines: true };
const THREE_DOUBLE: Quote = Quote { mark: "\"\"\"", escapes: true, lines: true };
const THREE_SINGLE: Quote = Quote { mark: "'''", escapes: true, lines: true };

const SLASHES: &[&str] = &["//"];
const HASH: &[&str] = &["#"];
const STARS: &[(&str, &str)] = &[("/*", "*/")];

const PLAIN: Language = Language {
    names: &[],
    family: Family::Words,
    comments: &[],
    blocks: &[],
    quotes: &[DOUBLE, SINGLE],
    keywords: "",
    constants: "",
    any_case: false,
    dollars: false,
    decorators: false,
    lifetimes: false,
    types: true,
    calls: true,
    sections: false,
    divider: ':',
};

/// C-like syntax: `//`, `/* */`, quotes of both kinds.
const BRACES: Language = Language { comments: SLASHES, blocks: STARS, ..PLAIN };

/// Script-like syntax: `#`.
const SCRIPT: Language = Language { comments: HASH, ..PLAIN };

pub(super) static ALL: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        quotes: &[DOUBLE_LINES, SINGLE],
        keywords: "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return static struct super trait type unsafe use where while union yield",
        constants: "true false self Self u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 bool char str",
        lifetimes: true,
        ..BRACES
    },
    Language {
        names: &["python", "py", "python3", "pyi", "starlark", "bzl"],
        quotes: &[THREE_DOUBLE, THREE_SINGLE, DOUBLE, SINGLE],
        keywords: "and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case nonlocal not or pass raise return try type while with yield",
        constants: "True False None self cls int str float bool list dict set tuple bytes",
        decorators: true,
        ..SCRIPT
    },
    Language {
        names: &["javascript", "js", "jsx", "mjs", "cjs", "typescript", "ts", "tsx", "mts"],
        quotes: &[DOUBLE, SINGLE, TICK_LINES],
        keywords: "abstract as async await break case catch class const continue debugger declare default delete do else enum export extends finally for from function get if implements import in infer instanceof interface is keyof let namespace new of private protected public readonly return satisfies set static super switch throw try type typeof var void while with yield",
        constants: "true false null undefined NaN Infinity this string number boolean any unknown never object bigint symbol",
        decorators: true,
        ..BRACES
    },
    Language {
        names: &["go", "golang"],
        quotes: &[DOUBLE, SINGLE, TICK_LINES],
        keywords: "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var",
        constants: "true false nil iota string int int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 uintptr byte rune bool error any float32 float64 complex64 complex128",
        ..BRACES
    },
    Language {
        names: &[
            "c", "h", "cpp", "c++", "cc", "cxx", "hpp", "hh", "objc", "arduino", "cuda", "glsl", "hlsl",
            "wgsl",
        ],
        keywords: "alignas alignof asm auto break case catch class concept const consteval constexpr constinit continue co_await co_return co_yield decltype default delete do else enum explicit export extern final for friend goto if inline mutable namespace new noexcept operator override private protected public register requires restrict return sizeof static static_assert static_cast struct switch template thread_local throw try typedef typename union using virtual volatile while",
        constants: "true false nullptr NULL this void bool char short int long float double signed unsigned size_t uint8_t uint16_t uint32_t uint64_t int8_t int16_t int32_t int64_t",
        ..BRACES
    },
    Language {
        names: &[
            "java", "kotlin", "kt", "kts", "scala", "groovy", "gradle", "csharp", "cs", "c#", "dart",
            "swift", "zig", "solidity", "sol", "proto", "protobuf",
        ],
        quotes: &[THREE_DOUBLE, DOUBLE, SINGLE],
        keywords: "abstract actor as assert async await base break by case catch class companion const constructor continue data def default defer delegate do each else enum event explicit export extends extension fallthrough final finally fn for foreach from fun func get given goto guard if implements implicit import in init inline inner instanceof interface internal is lateinit lazy let library local lock message match mixin module mut namespace native new object open operator out override package part partial private protected protocol pub public readonly record ref repeat repeated required rethrows return sealed select set static strictfp struct subscript super suspend switch synchronized syntax test throw throws trait try type typealias typeof using val var virtual void volatile when where while with yield",
        constants: "true false null nil this self int long short byte char float double boolean bool string object decimal u8 u16 u32 u64 usize i8 i16 i32 i64 f32 f64 undefined",
        decorators: true,
        ..BRACES
    },
    Language {
        names: &["php"],
        comments: &["//", "#"],
        keywords: "abstract and array as break callable case catch class clone const continue declare default do echo else elseif empty enddeclare endfor endforeach endif endswitch endwhile enum extends final finally fn for foreach function global goto if implements include include_once instanceof insteadof interface isset list match namespace new or print private protected public readonly require require_once return static switch throw trait try unset use var while xor yield",
        constants: "true false null self parent int string bool float mixed void",
        dollars: true,
        ..BRACES
    },
    Language {
        names: &["ruby", "rb", "crystal"],
        quotes: &[DOUBLE_LINES, SINGLE],
        keywords: "alias and begin break case class def defined do else elsif end ensure extend for if in include module next not or private protected public raise redo require require_relative rescue retry return super then undef unless until when while yield",
        constants: "true false nil self",
        ..SCRIPT
    },
    Language {
        names: &[
            "sh",
            "bash",
            "shell",
            "zsh",
            "fish",
            "console",
            "shell-session",
            "shellsession",
            "ksh",
            "dash",
        ],
        quotes: &[DOUBLE_LINES, SINGLE_RAW_LINES],
        keywords: "if then else elif fi for in do done while until case esac function select return break continue exit export local readonly declare set unset shift trap source eval exec alias",
        constants: "true false",
        dollars: true,
        types: false,
        calls: false,
        ..SCRIPT
    },
    Language {
        names: &["powershell", "ps1", "pwsh"],
        blocks: &[("<#", "#>")],
        keywords: "begin break catch class continue data do dynamicparam else elseif end enum exit filter finally for foreach from function if in param process return switch throw trap try until using while",
        any_case: true,
        dollars: true,
        ..SCRIPT
    },
    Language {
        names: &["dockerfile", "docker", "containerfile"],
        keywords: "FROM AS RUN CMD LABEL MAINTAINER EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG ONBUILD STOPSIGNAL HEALTHCHECK SHELL",
        dollars: true,
        types: false,
        calls: false,
        ..SCRIPT
    },
    Language {
        names: &["make", "makefile", "mk", "cmake", "just", "justfile"],
        keywords: "ifeq ifneq ifdef ifndef else endif include define endef export override if elseif endif foreach endforeach function endfunction macro endmacro set add_executable add_library project",
        dollars: true,
        types: false,
        calls: false,
        ..SCRIPT
    },
    Language {
        names: &["sql", "postgresql", "postgres", "psql", "mysql", "sqlite", "plsql"],
        comments: &["--"],
        blocks: STARS,
        quotes: &[DOUBLE, SINGLE_RAW_LINES],
        keywords: "add all alter analyze and as asc begin between by cascade case check column commit constraint create cross database default delete desc distinct drop else end except exists explain foreign from full function grant group having if in index inner insert intersect into is join key left like limit natural not offset on or order outer over partition primary procedure references replace returning revoke right rollback row rows select set table then to transaction trigger truncate union unique update using values view when where window with",
        constants: "true false null int integer bigint smallint text varchar char boolean real numeric decimal date time timestamp timestamptz interval json jsonb uuid serial blob",
        any_case: true,
        ..PLAIN
    },
    Language {
        names: &["lua"],
        comments: &["--"],
        blocks: &[("--[[", "]]")],
        keywords: "and break do else elseif end for function goto if in local not or repeat return then until while",
        constants: "true false nil self",
        ..PLAIN
    },
    Language {
        names: &["haskell", "hs", "elm", "purescript", "ada", "vhdl"],
        comments: &["--"],
        blocks: &[("{-", "-}")],
        quotes: &[DOUBLE],
        keywords: "case class data default deriving do else forall foreign if import in infix infixl infixr instance let module newtype of qualified then type where",
        constants: "True False",
        calls: false,
        ..PLAIN
    },
    Language {
        names: &["elixir", "ex", "exs"],
        quotes: &[THREE_DOUBLE, DOUBLE, SINGLE],
        keywords: "after alias and case catch cond def defimpl defmacro defmodule defp defprotocol defstruct do else end fn for if import in not or quote raise receive require rescue try unless unquote use when with",
        constants: "true false nil",
        decorators: true,
        ..SCRIPT
    },
    Language {
        names: &["perl", "pl", "r", "julia", "jl", "awk", "nim", "tcl"],
        quotes: &[THREE_DOUBLE, DOUBLE_LINES, SINGLE],
        keywords: "BEGIN END abstract and baremodule begin break catch const continue do else elseif elsif end export finally for foreach function if import in last let library local macro module mutable my next or our package print printf proc quote require return struct sub try type unless until use using var when where while",
        constants: "true false TRUE FALSE NULL NA Inf NaN nothing undef",
        ..SCRIPT
    },
    Language {
        names: &["lisp", "clojure", "clj", "cljs", "scheme", "racket", "elisp", "emacs-lisp"],
        comments: &[";"],
        quotes: &[DOUBLE_LINES],
        keywords: "and cond def defmacro defn defun defvar do else fn for if lambda let loop ns or progn quote recur require set setq when while",
        constants: "true false nil t",
        types: false,
        calls: false,
        ..PLAIN
    },
    Language {
        names: &["nix", "hcl", "terraform", "tf", "graphql", "gql", "prisma"],
        blocks: STARS,
        quotes: &[DOUBLE_LINES],
        keywords: "assert data else enum extend for fragment if implements in inherit input interface let locals module mutation on output provider query rec resource scalar schema subscription terraform then type union variable with",
        constants: "true false null",
        ..SCRIPT
    },
    Language {
        names: &["css", "scss", "less", "sass"],
        comments: &[],
        blocks: STARS,
        decorators: true,
        dollars: true,
        types: false,
        constants: "none auto inherit initial unset",
        ..BRACES
    },
    Language {
        names: &["openscad", "scad"],
        keywords: "module function if else for intersection_for let each include use",
        constants: "true false undef",
        dollars: true,
        ..BRACES
    },
    Language {
        names: &["json", "jsonc", "json5", "jsonl", "ndjson"],
        family: Family::Keys,
        quotes: &[DOUBLE],
        constants: "true false null",
        types: false,
        calls: false,
        ..BRACES
    },
    Language {
        names: &["yaml", "yml"],
        family: Family::Keys,
        constants: "true false null yes no on off",
        types: false,
        calls: false,
        ..SCRIPT
    },
    Language {
        names: &["toml", "ini", "cfg", "conf", "properties", "env", "dotenv", "desktop", "systemd"],
        family: Family::Keys,
        comments: &["#", ";"],
        quotes: &[THREE_DOUBLE, THREE_SINGLE, DOUBLE, SINGLE_RAW],
        constants: "true false",
        types: false,
        calls: false,
        sections: true,
        divider: '=',
        ..PLAIN
    },
    Language {
        names: &["html", "xml", "svg", "xhtml", "vue", "svelte", "plist", "rss"],
        family: Family::Markup,
        ..PLAIN
    },
    Language { names: &["diff", "patch"], family: Family::Diff, ..PLAIN },
];

/// Returns the language that an info string names. Text after the name is ignored.
pub(super) fn find(info: &str) -> Option<&'static Language> {
    let name = info.trim_start_matches(['{', '.', ' ']);
    let end = name.find([' ', ',', '{', '}', ':', '\t']).unwrap_or(name.len());
    let name = name.get(..end).unwrap_or_default().to_ascii_lowercase();
    ALL.iter().find(|it| it.names.contains(&name.as_str()))
}

impl Language {
    /// Returns the style of a word, given the text after it.
    pub(super) fn style_of(&self, word: &str, after: &str) -> Style {
        let lower = word.to_ascii_lowercase();
        let has = |list: &str| {
            list.split(' ').any(|it| it == word || self.any_case && it.eq_ignore_ascii_case(&lower))
        };
        let is_called = || {
            let after = after.strip_prefix('!').unwrap_or(after);
            after.starts_with('(') || after.starts_with("::<")
        };
        if has(self.keywords) {
            Style::tinted(Tint::Keyword)
        } else if has(self.constants) {
            Style::tinted(Tint::Number)
        } else if self.calls && is_called() {
            Style::tinted(Tint::Name)
        } else if self.types && word.starts_with(char::is_uppercase) {
            Style::tinted(Tint::Number)
        } else {
            Style::PLAIN
        }
    }
}
