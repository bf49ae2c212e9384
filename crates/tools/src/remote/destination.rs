//! SSH destinations: resolves a name to address, jump hosts, user and keys.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use kit::{Fault, Preferences, net::plain};

use super::{
    config::{Config, Section},
    hosts::{Entry, Hosts},
    secret::SecretName,
};

/// Maximum number of machines of a route.
const LONGEST_WAY: usize = 8;

/// Default and maximum time for connecting to a machine and authenticating.
const TIMEOUT: Duration = Duration::from_secs(20);
const LONGEST_TIMEOUT: u64 = 120;

/// The default key files, as in OpenSSH.
const USUAL_KEYS: [&str; 3] = ["id_rsa", "id_ecdsa", "id_ed25519"];

/// The host, as the arguments of a call name it.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked<'a> {
    pub(super) host: &'a str,
    pub(super) user: Option<&'a str>,
    pub(super) port: Option<u16>,
    pub(super) identity: Option<&'a str>,
    pub(super) password: Option<SecretName>,
    pub(super) passphrase: Option<SecretName>,
}

/// The machines of a route; the last one is the requested host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Route {
    pub(super) hops: Vec<Hop>,
}

/// A machine, with the address and the credentials for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Hop {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    /// Files with keys, in the order in which they are tried.
    pub(super) identities: Vec<PathBuf>,
    /// Whether only those keys of the agent are used.
    pub(super) only_these: bool,
    pub(super) agent: Option<PathBuf>,
    /// The name in `known_hosts`, if it is not its own.
    pub(super) known_as: Option<String>,
    pub(super) password: Option<SecretName>,
    pub(super) passphrase: Option<SecretName>,
    pub(super) connect_timeout: Duration,
}

impl Hop {
    /// Returns `host:port`, as rules and people know it.
    pub(super) fn place(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl Route {
    /// Resolves a host by the person's present configuration.
    ///
    /// # Errors
    /// When the name is invalid, the route needs a program, or a configuration file can't be parsed.
    pub(super) fn resolve(asked: &Asked<'_>, preferences: &Preferences) -> Result<Self, Fault> {
        let book = Book::open(preferences)?;
        let mut hops = Vec::new();
        book.way(asked, &mut hops, 0)?;
        hops.reverse();
        Ok(Self { hops })
    }

    /// Returns the requested machine.
    pub(super) fn target(&self) -> Option<&Hop> {
        self.hops.last()
    }
}

/// The person's configuration files.
struct Book<'a> {
    hosts: Hosts,
    config: Config,
    home: PathBuf,
    preferences: &'a Preferences,
}

impl<'a> Book<'a> {
    fn open(preferences: &'a Preferences) -> Result<Self, Fault> {
        let home = preferences.home.clone().unwrap_or_else(|| PathBuf::from("/nonexistent"));
        let hosts = preferences.ssh.hosts_file.as_deref().map(Hosts::read).transpose()?.unwrap_or_default();
        let usual = [home.join(".ssh/config")];
        let files = if preferences.ssh.config.is_empty() { &usual } else { &*preferences.ssh.config };
        Ok(Self { config: Config::read(files, &home), hosts, home, preferences })
    }

    /// Adds the machine, and then its jump hosts.
    fn way(&self, asked: &Asked<'_>, hops: &mut Vec<Hop>, deep: usize) -> Result<(), Fault> {
        if deep >= LONGEST_WAY {
            return Err(Fault::bad_args(format!(
                "the way to `{}` has more than {LONGEST_WAY} machines",
                asked.host
            )));
        }
        let (user, alias, port) = split(asked.host)?;
        let (user, port) = (asked.user.or(user), asked.port.or(port));
        let entry = self.hosts.of(alias);
        let (of_entry, name) = match entry {
            Some(entry) => {
                let (user, host, port) = split(&entry.host)?;
                (Some((user.or(entry.user.as_deref()), port.or(entry.port))), host)
            }
            None => (None, alias),
        };
        let user = user.or(of_entry.and_then(|it| it.0));
        let section = self.config.of(name, user);
        if let Some(command) = &section.proxy_command
            && command != "none"
        {
            return Err(Fault::denied(format!(
                "`{alias}` is reached by a ProxyCommand of ~/.ssh/config, and no program is started for that"
            ))
            .next("A person can name the machine on the way as ProxyJump instead."));
        }
        let host = host_name(alias, name, &section, entry.is_some(), port.is_some(), &self.hosts)?;
        let port = port.or(of_entry.and_then(|it| it.1)).or(section.port).unwrap_or(22);
        let user = match user.or(section.user.as_deref()) {
            Some(user) => user.to_owned(),
            None => self.own_name()?,
        };
        check_user(&user)?;
        let hop = self.hop(asked, entry, &section, host, port, user)?;
        hops.push(hop);
        let jump = entry.and_then(|it| it.jump.as_deref()).or(section.jump.as_deref());
        self.jumps(jump.unwrap_or("none"), hops, deep)
    }

    /// Adds the machines of a ProxyJump, the nearest to the target first.
    fn jumps(&self, jump: &str, hops: &mut Vec<Hop>, deep: usize) -> Result<(), Fault> {
        if jump.eq_ignore_ascii_case("none") {
            return Ok(());
        }
        let names: Vec<&str> = jump.split(',').map(str::trim).collect();
        for (at, name) in names.iter().enumerate().rev() {
            let name = name.strip_prefix("ssh://").unwrap_or(name).trim_end_matches('/');
            let asked = Asked { host: name, ..Asked::default() };
            let mut way = Vec::new();
            self.way(&asked, &mut way, deep + 1)?;
            // The first one has a route of its own; the others are reached through it.
            let own = if at == 0 { way.len() } else { 1 };
            hops.extend(way.into_iter().take(own));
            if hops.len() > LONGEST_WAY {
                return Err(Fault::bad_args(format!(
                    "the way by `{jump}` has more than {LONGEST_WAY} machines"
                )));
            }
        }
        Ok(())
    }

    fn hop(
        &self,
        asked: &Asked<'_>,
        entry: Option<&Entry>,
        section: &Section,
        host: String,
        port: u16,
        user: String,
    ) -> Result<Hop, Fault> {
        let expand = |text: &str| self.expand(text, &host, port, &user);
        let of_files: Vec<PathBuf> = entry
            .and_then(|it| it.identity.as_deref())
            .into_iter()
            .chain(section.identities.iter().map(String::as_str))
            .filter(|it| !it.eq_ignore_ascii_case("none"))
            .filter_map(expand)
            .collect();
        let asked_for = asked.identity.map(|it| self.asked_identity(it, &of_files)).transpose()?;
        let only_these = asked_for.is_some() || section.identities_only == Some(true);
        let identities = match asked_for {
            Some(identity) => vec![identity],
            None if of_files.is_empty() => USUAL_KEYS
                .iter()
                .map(|it| self.home.join(".ssh").join(it))
                .filter(|it| it.is_file())
                .collect(),
            None => of_files,
        };
        let agent = match section.agent.as_deref() {
            Some("none") => None,
            Some(path) if !path.starts_with('$') && path != "SSH_AUTH_SOCK" => expand(path),
            _ => self.preferences.ssh_agent.clone(),
        };
        let secret = |asked: &Option<SecretName>, of: fn(&Entry) -> &Option<SecretName>| {
            asked.clone().or_else(|| entry.and_then(|it| of(it).clone()))
        };
        Ok(Hop {
            identities,
            only_these,
            agent,
            known_as: section.key_alias.clone(),
            password: secret(&asked.password, |it| &it.password),
            passphrase: secret(&asked.passphrase, |it| &it.passphrase),
            connect_timeout: section
                .connect_timeout
                .map_or(TIMEOUT, |it| Duration::from_secs(it.clamp(1, LONGEST_TIMEOUT))),
            host,
            port,
            user,
        })
    }

    /// Resolves a key that a model names: it has to be one of the person's keys for SSH; no other file is read.
    fn asked_identity(&self, text: &str, of_files: &[PathBuf]) -> Result<PathBuf, Fault> {
        let ssh = self.home.join(".ssh");
        let path = match text.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => ssh.join(text),
        };
        let goes_up = path.components().any(|it| matches!(it, Component::ParentDir));
        if (path.starts_with(&ssh) && !goes_up) || of_files.contains(&path) {
            return Ok(path);
        }
        Err(Fault::denied(format!("`{text}` is not a key in ~/.ssh")).next(
            "Name a file there (`id_ed25519`), or one that ~/.ssh/config has as IdentityFile of the host.",
        ))
    }

    /// Expands a path of ~/.ssh/config; `None` if it contains an unknown token.
    fn expand(&self, text: &str, host: &str, port: u16, user: &str) -> Option<PathBuf> {
        let mut whole = String::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '%' => match letters.next()? {
                    '%' => whole.push('%'),
                    'd' => whole.push_str(self.home.to_str()?),
                    'h' => whole.push_str(host),
                    'p' => whole.push_str(&port.to_string()),
                    'r' => whole.push_str(user),
                    'u' => whole.push_str(&self.own_name().ok()?),
                    _ => return None,
                },
                '$' => return None,
                letter => whole.push(letter),
            }
        }
        match whole.strip_prefix("~/") {
            Some(rest) => Some(self.home.join(rest)),
            None => Some(self.home.join(whole)),
        }
    }

    /// Returns the person's user name on this machine.
    fn own_name(&self) -> Result<String, Fault> {
        let own = rustix::process::getuid().as_raw().to_string();
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let name = passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)? == own).then(|| name.to_owned())
        });
        let of_home = || Some(self.home.file_name()?.to_str()?.to_owned());
        name.or_else(of_home).ok_or_else(|| Fault::bad_args("missing field `user`"))
    }
}

/// Returns the host name to look up.
fn host_name(
    alias: &str,
    name: &str,
    section: &Section,
    has_entry: bool,
    has_port: bool,
    hosts: &Hosts,
) -> Result<String, Fault> {
    let host = match &section.host_name {
        Some(host) => host.replace("%%", "\0").replace("%h", name).replace('\0', "%"),
        None => name.to_owned(),
    };
    check_host(&host)?;
    // A word that is in no file is more likely a misspelt alias than a local machine.
    let is_word = !host.contains(['.', ':']) && !host.eq_ignore_ascii_case("localhost");
    if is_word && !has_entry && !section.is_named && !has_port && section.host_name.is_none() {
        let names: Vec<&str> = hosts.names().take(20).collect();
        if !names.is_empty() {
            return Err(Fault::not_found(format!(
                "there is no host `{alias}`; the hosts file has {}",
                names.join(", ")
            ))
            .next("Name one of those, or `[user@]host:port`."));
        }
    }
    Ok(plain(&host))
}

/// Splits `[user@]host[:port]`.
fn split(text: &str) -> Result<(Option<&str>, &str, Option<u16>), Fault> {
    let (user, rest) = match text.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, text),
    };
    if let Some(user) = user {
        check_user(user)?;
    }
    let (host, port) = match rest.rsplit_once(':') {
        // The colons of an IPv6 address belong to the host.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port @ 1..) => (host, Some(port)),
            _ => return Err(Fault::bad_args(format!("`{port}` in `{}` is not a port", shown(text)))),
        },
        _ => (rest, None),
    };
    check_host(host)?;
    let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    Ok((user, host, port))
}

/// Checks that a host has only characters of names and addresses, so that no program takes it for an option
/// or a pattern.
fn check_host(host: &str) -> Result<(), Fault> {
    let inner = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    let letters = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_' | ':');
    if !inner.is_empty() && inner.len() <= 255 && !inner.starts_with(['-', '.']) && inner.chars().all(letters)
    {
        return Ok(());
    }
    Err(Fault::bad_args(format!("`{}` is not a host", shown(host)))
        .next("Name the host alone: an alias of ~/.ssh/config, `web1.example.org`, `me@10.0.0.1:2222`."))
}

fn check_user(user: &str) -> Result<(), Fault> {
    let letters = |it: char| it.is_alphanumeric() || matches!(it, '.' | '-' | '_' | '+' | '@' | '$' | '\\');
    if !user.is_empty() && user.len() <= 255 && !user.starts_with('-') && user.chars().all(letters) {
        return Ok(());
    }
    Err(Fault::bad_args(format!("`{}` is not a name of a user", shown(user))))
}

fn shown(text: &str) -> String {
    text.chars().take(100).collect::<String>().escape_debug().to_string()
}

/// Formats a path as a person writes it.
pub(super) fn shown_path(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::Ssh;

    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new(config: &str) -> Self {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir(home.path().join(".ssh")).unwrap();
            fs::write(home.path().join(".ssh/config"), config).unwrap();
            Self(home)
        }

        fn preferences(&self) -> Preferences {
            let hosts_file = Some(self.0.path().join("hosts.json")).filter(|it| it.exists());
            Preferences {
                home: Some(self.0.path().to_owned()),
                ssh: Ssh { hosts_file, ..Ssh::default() },
                ..Preferences::default()
            }
        }

        fn way(&self, host: &str) -> Result<Vec<String>, Fault> {
            let route = Route::resolve(&Asked { host, ..Asked::default() }, &self.preferences())?;
            Ok(route.hops.iter().map(|it| format!("{}@{}", it.user, it.place())).collect())
        }
    }

    #[test]
    fn a_name_leads_where_the_files_say() {
        let home = Home::new(
            "Host web\nHostName WEB.example.org\nUser me\nPort 2222\nHost *.corp\nHostName %h.example.org\nUser you\n",
        );
        assert_eq!(home.way("web").unwrap(), ["me@web.example.org:2222"]);
        assert_eq!(home.way("root@web:22").unwrap(), ["root@web.example.org:22"]);
        assert_eq!(home.way("a.corp").unwrap(), ["you@a.corp.example.org:22"]);
        assert_eq!(home.way("me@[::1]:2200").unwrap(), ["me@[::1]:2200"]);
        fs::write(
            home.0.path().join("hosts.json"),
            r#"{"db": {"host": "10.0.0.9", "user": "pg"}, "w": "web"}"#,
        )
        .unwrap();
        assert_eq!(home.way("db").unwrap(), ["pg@10.0.0.9:22"]);
        assert_eq!(home.way("w").unwrap(), ["me@web.example.org:2222"]);
        let fault = home.way("dbb").unwrap_err();
        assert!(fault.what.contains("db, w"), "{fault}");
    }

    #[test]
    fn jumps_are_machines_of_the_way_and_commands_are_refused() {
        let home = Home::new(
            "User me\nHost inner\nProxyJump a,you@b:23\nHost a\nHostName a.org\nProxyJump c\nHost c\nHostName c.org\n\
             Host b\nHostName b.org\nProxyJump c\nHost direct\nProxyJump none\nProxyCommand touch x\n\
             Host by\nProxyCommand nc %h %p\nHost loop\nProxyJump loop\nHost through\nProxyJump by\n",
        );
        assert_eq!(home.way("inner").unwrap(), ["me@c.org:22", "me@a.org:22", "you@b.org:23", "me@inner:22"]);
        assert_eq!(home.way("direct").unwrap(), ["me@direct:22"]);
        for host in ["by", "through"] {
            let fault = home.way(host).unwrap_err();
            assert!(fault.what.contains("ProxyCommand"), "{fault}");
        }
        assert!(home.way("loop").unwrap_err().what.contains("more than"));
    }

    #[test]
    fn nothing_that_could_be_an_option_or_a_pattern_is_a_host() {
        let home = Home::new("User me\nHost bad\nHostName -oProxyCommand=x\nHost worse\nHostName %n\n");
        for host in [
            "-oProxyCommand=touch x",
            "-oProxyCommand=x",
            "me@-oProxyCommand=x",
            "-l@host",
            "a b",
            "a\nb",
            "a\0b",
            "",
            "@a",
            "a;b",
            "$(x)",
            "`x`",
            "*",
            "a%b",
            "fe80::1%eth0",
            "a:0",
            "a:65536",
            "a:x",
            "a/b",
            ".",
            "bad",
            "worse",
        ] {
            let fault = home.way(host).unwrap_err();
            assert_eq!(fault.kind, kit::Kind::BadArgs, "{host}: {fault}");
        }
    }

    #[test]
    fn a_model_names_only_keys_that_are_kept_for_this() {
        let home = Home::new("User me\nHost web\nIdentityFile ~/keys/%h\n");
        let key = |host: &str, identity: &str| {
            let asked = Asked { host, identity: Some(identity), ..Asked::default() };
            Route::resolve(&asked, &home.preferences()).map(|it| {
                it.target()
                    .unwrap()
                    .identities
                    .first()
                    .unwrap()
                    .strip_prefix(home.0.path())
                    .unwrap()
                    .to_owned()
            })
        };
        assert_eq!(key("web", "id_work").unwrap(), Path::new(".ssh/id_work"));
        assert_eq!(key("web", "~/.ssh/sub/id").unwrap(), Path::new(".ssh/sub/id"));
        assert_eq!(key("web", "~/keys/web").unwrap(), Path::new("keys/web"));
        for it in ["/etc/shadow", "../x", "~/.ssh/../x", "~/x", "~/keys/other"] {
            assert!(key("web", it).is_err(), "{it}");
        }
    }
}
