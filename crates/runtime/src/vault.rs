//! Vault of named secrets: sends each only to its own hosts.

use std::{collections::BTreeMap, fs};

use kit::{Fault, Kind, net::HostPattern, services};

use crate::config::SecretSection;

/// Limit of a secret's file, in bytes.
const LONGEST: u64 = 64 * 1024;

/// Limit of a secret's length from below: a shorter value occurs by accident in any text, so it can't be
/// redacted.
const SHORTEST: usize = kit::redact::SHORTEST_NAMED;

/// The named secrets.
#[derive(Default)]
pub struct Vault {
    kept: BTreeMap<String, Secret>,
}

struct Secret {
    /// The value, or the reason why it is missing.
    value: Result<String, String>,
    hosts: Vec<HostPattern>,
}

impl Vault {
    /// Resolves the secrets of these sections now.
    pub fn open(
        sections: BTreeMap<String, SecretSection>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let kept = sections.into_iter().map(|(name, section)| {
            let hosts = section.hosts.iter().map(|it| HostPattern::parse(it)).collect();
            (name, Secret { value: value(&section, &variable), hosts })
        });
        Self { kept: kept.collect() }
    }

    /// Returns names and values, for redaction.
    pub fn values(&self) -> impl Iterator<Item = (String, String)> {
        self.kept.iter().filter_map(|(name, kept)| Some((name.clone(), kept.value.clone().ok()?)))
    }
}

fn value(section: &SecretSection, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let found = match (&section.env, &section.file) {
        (Some(name), None) => variable(name).ok_or_else(|| format!("the variable `{name}` is not set"))?,
        (None, Some(path)) => {
            let length = fs::metadata(path).map_err(|it| format!("`{}`: {it}", path.display()))?.len();
            if length > LONGEST {
                return Err(format!("`{}` has more than {LONGEST} bytes", path.display()));
            }
            fs::read_to_string(path).map_err(|it| format!("`{}`: {it}", path.display()))?
        }
        (None, None) | (Some(_), Some(_)) => {
            return Err("it names neither `env` nor `file`, or both".to_owned());
        }
    };
    let found = found.trim_end_matches(['\n', '\r']);
    if found.trim().len() < SHORTEST {
        return Err(format!("it has fewer than {SHORTEST} characters, and could not be hidden"));
    }
    Ok(found.to_owned())
}

impl services::Vault for Vault {
    fn reveal(&self, name: &str, host: &str, port: u16) -> Result<String, Fault> {
        let Some(kept) = self.kept.get(name) else {
            let names: Vec<&str> = self.kept.keys().map(String::as_str).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(Fault::not_found(format!("there is no secret `{name}`; there are: {there}"))
                .next(format!("A person can name one by `[secret.{name}]` in their own haft.toml.")));
        };
        if !kept.hosts.iter().any(|it| it.fits(host, port)) {
            return Err(Fault::denied(format!("the secret `{name}` is not for {host}:{port}"))
                .next(format!("A person can put that host into `hosts` of `[secret.{name}]`.")));
        }
        kept.value.clone().map_err(|why| {
            Fault::new(Kind::Unavailable, format!("the secret `{name}` is unavailable: {why}"))
        })
    }

    fn may_go_in_clear(&self, name: &str, host: &str, port: u16) -> bool {
        let exactly = |it: &HostPattern| it.has_port() && it.fits(host, port);
        self.kept.get(name).is_some_and(|kept| kept.hosts.iter().any(exactly))
    }
}
