//! The person's hosts file: JSON, with one of three layouts.

use std::{collections::BTreeMap, fs, io::Read as _, path::Path};

use kit::{Fault, Kind, OrFault};
use serde::Deserialize;

use super::secret::{NOT_A_NAME, SecretName};

/// Maximum size of a hosts file.
const LONGEST: u64 = 1 << 20;

/// The hosts of the file, by their names.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    by_name: BTreeMap<String, Entry>,
}

/// The settings of one host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) host: String,
    pub(super) port: Option<u16>,
    pub(super) user: Option<String>,
    pub(super) identity: Option<String>,
    pub(super) jump: Option<String>,
    pub(super) password: Option<SecretName>,
    pub(super) passphrase: Option<SecretName>,
}

/// The file: an object with a host for each name, that or a list under `hosts`, or a list whose hosts have names.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected an object with a host to each name, or a list of hosts that have names"
)]
enum HostsFile {
    Below { hosts: Box<Self> },
    List(Vec<Long>),
    Object(BTreeMap<String, OneHost>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a host must be \"user@host:port\", or an object with `host`")]
enum OneHost {
    Short(String),
    Long(Long),
}

#[derive(Deserialize)]
struct Long {
    #[serde(alias = "alias")]
    name: Option<String>,
    #[serde(alias = "hostname", alias = "ip", alias = "address")]
    host: Option<String>,
    port: Option<u16>,
    #[serde(alias = "username")]
    user: Option<String>,
    #[serde(
        alias = "key",
        alias = "key_file",
        alias = "key_path",
        alias = "identity_file",
        alias = "private_key"
    )]
    identity: Option<String>,
    #[serde(alias = "proxy_jump")]
    jump: Option<String>,
    password: Option<String>,
    passphrase: Option<String>,
}

impl Hosts {
    /// Reads the hosts of this file.
    pub(super) fn read(file: &Path) -> Result<Self, Fault> {
        let shown = file.display();
        let cant = format!("the hosts file `{shown}` can't be read");
        let mut text = String::new();
        let open = fs::File::open(file).or_fault(Kind::Unavailable, &cant)?;
        open.take(LONGEST).read_to_string(&mut text).or_fault(Kind::Unavailable, &cant)?;
        Self::parse(&text).map_err(|why| {
            Fault::bad_args(format!("the hosts file `{shown}` is not understood: {why}")).next(
                "A person can mend it: {\"web1\": {\"host\": \"10.0.0.1\", \"port\": 22, \"user\": \"me\", \"identity\": \
                 \"~/.ssh/id_ed25519\"}}.",
            )
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        // The parser's message may contain a value of the file, so it is not shown.
        let written: HostsFile = serde_json::from_str(text)
            .map_err(|error| format!("line {} is not JSON, or no host as it is meant", error.line()))?;
        let mut by_name = BTreeMap::new();
        for (name, host) in written.flat()? {
            let entry = match host {
                OneHost::Short(text) => Entry { host: text, ..Entry::default() },
                OneHost::Long(long) => long.entry(&name)?,
            };
            by_name.insert(name, entry);
        }
        Ok(Self { by_name })
    }

    /// Returns the settings of this name.
    pub(super) fn of(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name)
    }

    /// Returns all names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}

impl HostsFile {
    fn flat(self) -> Result<Vec<(String, OneHost)>, String> {
        match self {
            Self::Below { hosts } => hosts.flat(),
            Self::Object(hosts) => Ok(hosts.into_iter().collect()),
            Self::List(hosts) => hosts
                .into_iter()
                .map(|mut host| {
                    let name = host.name.take().or_else(|| host.host.clone());
                    Ok((name.ok_or("a host of the list has no `name`")?, OneHost::Long(host)))
                })
                .collect(),
        }
    }
}

impl Long {
    fn entry(self, name: &str) -> Result<Entry, String> {
        let secret = |field: &str, value: Option<String>| {
            value
                .map(|it| {
                    SecretName::parse(&it).ok_or_else(|| format!("`{field}` of `{name}` is {NOT_A_NAME}"))
                })
                .transpose()
        };
        Ok(Entry {
            host: self.host.unwrap_or_else(|| name.to_owned()),
            port: self.port,
            user: self.user,
            identity: self.identity,
            jump: self.jump,
            password: secret("password", self.password)?,
            passphrase: secret("passphrase", self.passphrase)?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_usual_forms_are_understood() {
        let one = r#"{"a": "me@10.0.0.1:2222", "b": {"hostname": "b.org", "username": "me", "key_file": "~/.ssh/b", "tags": []}}"#;
        let hosts = Hosts::parse(one).unwrap();
        assert_eq!(hosts.of("a").unwrap().host, "me@10.0.0.1:2222");
        let b = hosts.of("b").unwrap();
        assert_eq!(
            (b.host.as_str(), b.user.as_deref(), b.identity.as_deref()),
            ("b.org", Some("me"), Some("~/.ssh/b"))
        );
        let list = r#"{"hosts": [{"name": "c", "host": "c.org", "port": 23, "password": "{{secret:c}}"}, {"host": "d.org"}]}"#;
        let hosts = Hosts::parse(list).unwrap();
        assert_eq!(hosts.names().collect::<Vec<_>>(), ["c", "d.org"]);
        assert_eq!(hosts.of("c").unwrap().password, SecretName::parse("{{secret:c}}"));
    }

    #[test]
    fn a_password_that_is_written_out_is_refused_and_not_repeated() {
        for text in [
            r#"{"a": {"host": "a.org", "password": "hunter2"}}"#,
            r#"{"a": {"host": "a.org", "passphrase": "hunter2"}}"#,
            r#"{"a": {"host": "a.org", "port": "hunter2"}}"#,
            "hunter2",
        ] {
            let why = Hosts::parse(text).unwrap_err();
            assert!(!why.contains("hunter2"), "{why}");
        }
    }
}
