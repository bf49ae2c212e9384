//! `~/.ssh/config`.
//!
//! Supported are Host, Match (all, host, originalhost, user), Include, HostName, User, Port, IdentityFile,
//! IdentitiesOnly, IdentityAgent, ProxyJump, HostKeyAlias and ConnectTimeout. ProxyCommand is refused, as it
//! starts a program; all other keywords (forwarding, LocalCommand, RemoteCommand, SendEnv, …) are ignored.

use std::{
    collections::VecDeque,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use globset::GlobBuilder;

/// Maximum size of a configuration file.
const LONGEST: u64 = 1 << 20;

/// Maximum nesting of includes, and maximum number of lines in all.
const DEEPEST: usize = 16;
const MOST_LINES: usize = 20_000;

/// The lines of the files, in their order.
#[derive(Debug, Default)]
pub(super) struct Config {
    lines: Vec<Directive>,
}

#[derive(Debug)]
enum Directive {
    Host(Vec<String>),
    /// Its conditions; `None`: it never applies.
    Match(Option<Vec<(Condition, Vec<String>)>>),
    Set(String, Vec<String>),
    /// The beginning and the end of a file that is included in a block: it applies only within that block,
    /// and its own blocks end with it.
    Begin,
    End,
}

#[derive(Debug, Clone, Copy)]
enum Condition {
    All,
    Host,
    OriginalHost,
    User,
}

/// The settings of one host: of each the first value.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) host_name: Option<String>,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) identities: Vec<String>,
    pub(super) identities_only: Option<bool>,
    pub(super) agent: Option<String>,
    pub(super) jump: Option<String>,
    pub(super) key_alias: Option<String>,
    pub(super) connect_timeout: Option<u64>,
    /// A ProxyCommand that is not `none`.
    pub(super) proxy_command: Option<String>,
    /// Whether a Host names it, other than by `*`.
    pub(super) is_named: bool,
}

impl Config {
    /// Reads these files; a missing one is empty.
    pub(super) fn read(files: &[PathBuf], home: &Path) -> Self {
        let mut config = Self::default();
        for file in files {
            config.include(file, home, 0);
            // A block ends with its file.
            config.lines.push(Directive::Host(vec!["*".to_owned()]));
        }
        config
    }

    #[cfg(test)]
    fn of_text(text: &str) -> Self {
        let mut config = Self::default();
        config.take(text, Path::new("/nowhere"), DEEPEST);
        config
    }

    fn include(&mut self, file: &Path, home: &Path, depth: usize) {
        let mut text = Vec::new();
        let Ok(open) = fs::File::open(file) else { return };
        if !open.metadata().is_ok_and(|it| it.is_file()) || open.take(LONGEST).read_to_end(&mut text).is_err()
        {
            return;
        }
        self.take(&String::from_utf8_lossy(&text), home, depth);
    }

    fn take(&mut self, text: &str, home: &Path, depth: usize) {
        for line in text.lines() {
            if self.lines.len() > MOST_LINES {
                return;
            }
            let mut words = words(line);
            let Some(key) = words.pop_front().map(|it| it.to_ascii_lowercase()) else { continue };
            let words: Vec<String> = words.into();
            match key.as_str() {
                "host" => self.lines.push(Directive::Host(words)),
                "match" => self.lines.push(Directive::Match(conditions(&words))),
                "include" if depth < DEEPEST => {
                    for file in words.iter().flat_map(|it| files_of(it, home)) {
                        self.lines.push(Directive::Begin);
                        self.include(&file, home, depth + 1);
                        self.lines.push(Directive::End);
                    }
                }
                _ => self.lines.push(Directive::Set(key, words)),
            }
        }
    }

    /// Returns the settings of this name, with the requested user.
    pub(super) fn of(&self, alias: &str, user: Option<&str>) -> Section {
        let mut section = Section { user: user.map(str::to_owned), ..Section::default() };
        let mut holds = true;
        let mut outer: Vec<bool> = Vec::new();
        for line in &self.lines {
            let within = outer.last().copied().unwrap_or(true);
            match line {
                Directive::Begin => outer.push(holds),
                Directive::End => holds = outer.pop().unwrap_or(true),
                Directive::Host(patterns) => {
                    holds = within && fits(patterns, alias);
                    section.is_named |= holds && patterns.iter().any(|it| it != "*" && !it.starts_with('!'));
                }
                Directive::Match(conditions) => {
                    holds = within
                        && conditions.as_ref().is_some_and(|it| {
                            it.iter()
                                .all(|(condition, patterns)| fulfilled(*condition, patterns, alias, &section))
                        });
                }
                Directive::Set(key, words) if holds => section.set(key, words),
                Directive::Set(..) => {}
            }
        }
        section
    }
}

impl Section {
    fn set(&mut self, key: &str, words: &[String]) {
        let Some(value) = words.first() else { return };
        fn first<T>(slot: &mut Option<T>, value: Option<T>) {
            if slot.is_none() {
                *slot = value;
            }
        }
        match key {
            "hostname" => first(&mut self.host_name, Some(value.clone())),
            "user" => first(&mut self.user, Some(value.clone())),
            "port" => first(&mut self.port, value.parse().ok()),
            "identityfile" => self.identities.push(value.clone()),
            "identitiesonly" => first(&mut self.identities_only, Some(value.eq_ignore_ascii_case("yes"))),
            "identityagent" => first(&mut self.agent, Some(value.clone())),
            "hostkeyalias" => first(&mut self.key_alias, Some(value.clone())),
            "connecttimeout" => first(&mut self.connect_timeout, value.parse().ok()),
            // The first of the two excludes the other.
            "proxyjump" if self.proxy_command.is_none() => first(&mut self.jump, Some(value.clone())),
            "proxycommand" if self.jump.is_none() => first(&mut self.proxy_command, Some(words.join(" "))),
            _ => {}
        }
    }
}

/// Splits a line: `Key value`, `Key=value`, `Key "a value"`.
fn words(line: &str) -> VecDeque<String> {
    let mut words = VecDeque::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut letters = line.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if matches!(letters.peek(), Some('"' | '\\')) => {
                word.get_or_insert_default().extend(letters.next());
            }
            '#' if !quoted && word.is_none() => break,
            '=' if !quoted && words.is_empty() && word.is_some() => words.extend(word.take()),
            '=' if !quoted && words.len() == 1 && word.is_none() => {}
            it if it.is_whitespace() && !quoted => words.extend(word.take()),
            it => word.get_or_insert_default().push(it),
        }
    }
    words.extend(word);
    words
}

/// Parses the conditions of a Match; `None` if one is not supported (`exec` starts a program).
fn conditions(words: &[String]) -> Option<Vec<(Condition, Vec<String>)>> {
    let mut found = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let condition = match word.to_ascii_lowercase().as_str() {
            "all" => {
                found.push((Condition::All, Vec::new()));
                continue;
            }
            "host" => Condition::Host,
            "originalhost" => Condition::OriginalHost,
            "user" => Condition::User,
            _ => return None,
        };
        found.push((condition, words.next()?.split(',').map(str::to_owned).collect()));
    }
    (!found.is_empty()).then_some(found)
}

fn fulfilled(condition: Condition, patterns: &[String], alias: &str, section: &Section) -> bool {
    match condition {
        Condition::All => true,
        Condition::Host => fits(patterns, section.host_name.as_deref().unwrap_or(alias)),
        Condition::OriginalHost => fits(patterns, alias),
        Condition::User => section.user.as_deref().is_some_and(|user| fits(patterns, user)),
    }
}

/// Returns whether one of the patterns matches, and none of those that begin with `!`.
pub(super) fn fits(patterns: &[String], name: &str) -> bool {
    let mut fits = false;
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(not) if like(not, name) => return false,
            Some(_) => {}
            None => fits |= like(pattern, name),
        }
    }
    fits
}

/// Matches a pattern, ignoring case: `*` is any text, `?` one character.
fn like(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let (mut at, mut of) = (0, 0);
    // The position of the last `*`, and the end of its match.
    let mut star: Option<(usize, usize)> = None;
    while of < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(it) if *it == '?' || Some(it) == name.get(of) => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((place, reach)) = star else { return false };
                star = Some((place, reach + 1));
                at = place + 1;
                of = reach + 1;
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|it| *it == '*')
}

/// Returns the files of an Include: below `~/.ssh` if the path is not absolute, and sorted if it is a pattern.
fn files_of(word: &str, home: &Path) -> Vec<PathBuf> {
    let path = match word.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => home.join(".ssh").join(word),
    };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|it| it.to_str())) else {
        return Vec::new();
    };
    if !name.contains(['*', '?', '[']) {
        return vec![path];
    }
    let Ok(glob) = GlobBuilder::new(name).build() else { return Vec::new() };
    let glob = glob.compile_matcher();
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|it| glob.is_match(Path::new(&it.file_name())))
        .map(|it| it.path())
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_first_value_counts_and_keys_are_collected() {
        let config = Config::of_text(
            "User=me\nHost web1 \"web 2\" # a comment\n  HostName 10.0.0.1\n  Port = 2222\n  IdentityFile ~/.ssh/a\n\
             Host web*,x !web9\nHost web* !web9\n\tPort 1\n  IdentityFile \"~/my keys/b\"\nHost *\n  User other\n  Port 7\n",
        );
        let web = config.of("WEB1", None);
        assert_eq!(web.host_name.as_deref(), Some("10.0.0.1"));
        assert_eq!((web.port, web.user.as_deref()), (Some(2222), Some("me")));
        assert_eq!(web.identities, ["~/.ssh/a", "~/my keys/b"]);
        assert!(web.is_named);
        let other = config.of("web9", Some("you"));
        assert_eq!((other.port, other.user.as_deref(), other.is_named), (Some(7), Some("you"), false));
    }

    #[test]
    fn a_match_holds_only_where_all_of_it_is_understood_and_nothing_is_started() {
        let config = Config::of_text(
            "Host a\nHostName a.example.org\nMatch exec \"touch /tmp/x\"\nPort 1\nMatch host *.example.org user me\nPort 2\n\
             Match originalhost b\nPort 3\nMatch all\nUser last\nMatch final\nUser never\n",
        );
        assert_eq!(config.of("a", Some("me")).port, Some(2));
        assert_eq!(config.of("a", Some("you")).port, None);
        assert_eq!(config.of("b", None).port, Some(3));
        assert_eq!(config.of("b", None).user.as_deref(), Some("last"));
    }

    #[test]
    fn included_files_belong_to_their_block() {
        let home = tempfile::tempdir().unwrap();
        let ssh = home.path().join(".ssh");
        fs::create_dir_all(ssh.join("conf.d")).unwrap();
        fs::write(ssh.join("conf.d/1.conf"), "Port 1\nHost other\nPort 9\n").unwrap();
        fs::write(ssh.join("conf.d/2.conf"), "User second\nInclude config\n").unwrap();
        fs::write(
            ssh.join("config"),
            "Host a\nInclude conf.d/*.conf nowhere\nHostName a1\nHost b\nHostName b1\n",
        )
        .unwrap();
        let config = Config::read(&[ssh.join("config")], home.path());
        let a = config.of("a", None);
        assert_eq!(
            (a.port, a.user.as_deref(), a.host_name.as_deref()),
            (Some(1), Some("second"), Some("a1"))
        );
        assert_eq!(config.of("other", None), Section::default());
        assert_eq!(config.of("b", None).host_name.as_deref(), Some("b1"));
    }

    #[test]
    fn patterns_have_stars_question_marks_and_exceptions() {
        let fits = |patterns: &[&str], name: &str| {
            fits(&patterns.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>(), name)
        };
        for (patterns, name) in [
            (&["*"] as &[&str], "x"),
            (&["a*c"], "abbc"),
            (&["a*b*c"], "aXbYbc"),
            (&["?.example.org"], "A.example.org"),
            (&["*", "!b"], "a"),
        ] {
            assert!(fits(patterns, name), "{patterns:?} {name}");
        }
        for (patterns, name) in [
            (&["a?"] as &[&str], "a"),
            (&["*", "!b*"], "bb"),
            (&["!b"], "a"),
            (&["*.org"], "org"),
            (&[], "a"),
        ] {
            assert!(!fits(patterns, name), "{patterns:?} {name}");
        }
    }
}
