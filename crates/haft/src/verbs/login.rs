//! `haft login` and `haft logout`: a provider's key from a hidden prompt, tested, and kept in a private file.

use std::{
    io::{self, IsTerminal, Read},
    process::ExitCode,
    time::Duration,
};

use agent::model::{KeyFrom, Source, source, source_to_log_in, sources};
use clap::Args;
use kit::{Fault, Kind};

use super::FAULT;
use crate::{
    Agents, Options, Place,
    keys::{KeyFiles, as_key},
    print,
    terminal::hidden,
};

/// How long the provider may take to answer the request that tests a key.
const WITHIN: Duration = Duration::from_secs(20);

/// Maximum size of a key on standard input, in bytes.
const LONGEST: u64 = 64 * 1024;

#[derive(Args)]
pub struct Login {
    /// Provider such as `anthropic`, or the NAME of a section `[models.NAME]` with a `url`; without it, list all
    #[arg(value_name = "PROVIDER")]
    provider: Option<String>,
    /// Keep the key without testing it
    #[arg(long, requires = "provider")]
    no_test: bool,
}

#[derive(Args)]
pub struct Logout {
    /// Provider, or section of haft.toml, whose key to remove
    #[arg(value_name = "PROVIDER")]
    provider: String,
}

impl Login {
    /// Returns the login of this provider, with a test of the key.
    pub(super) fn of(provider: String) -> Self {
        Self { provider: Some(provider), no_test: false }
    }

    /// Asks for the key, tests it and keeps it; without a provider, lists which ones have a key.
    ///
    /// # Errors
    /// When there is no such provider, the key is wrong, or it can't be kept.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let (agents, unused) = options.agents(place)?;
        unused.iter().for_each(|it| print::err(&format!("haft: {it}")));
        let Some(name) = &self.provider else {
            print::out(&list(&agents, place));
            return Ok(ExitCode::SUCCESS);
        };
        let source = source_to_log_in(name, agents.choices(&place.variables))?;
        let origin = source
            .origin()
            .ok_or_else(|| Fault::bad_args(format!("`{name}` has no address that a key could be for")))?;
        let Some(key) = asked(&source, &origin)? else {
            print::err("haft: no key was given; nothing was changed");
            return Ok(ExitCode::from(FAULT));
        };
        let source = source.with_key(&as_key(&key)?);
        source.check()?;
        let tested = if self.no_test { Tested::Not } else { test(&source, &origin).await? };
        if let Tested::Refused = tested {
            print::err("haft: the key was not kept");
            return Ok(ExitCode::from(FAULT));
        }
        let path = KeyFiles::of(place).keep(source.login(), &origin, key.trim())?;
        let how = match tested {
            Tested::Works(models) => format!("the key works ({models} models)"),
            Tested::Not | Tested::Refused => "the key was not tested".to_owned(),
        };
        print::out(&format!(
            "{}: {how} and is kept in {} (only you can read it)",
            source.name(),
            path.display()
        ));
        if let Some(variable) = source.variables().iter().find(|it| place.variable(it).is_some()) {
            print::err(&format!("haft: {variable} is set and takes precedence over this key"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Logout {
    /// Removes the key.
    ///
    /// # Errors
    /// When there is none of this name, or it can't be removed.
    pub fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let (agents, _) = options.agents(place)?;
        let source = source(&self.provider, agents.choices(&place.variables)).ok();
        // The key of a section that is gone from haft.toml can still be removed.
        let names = [source.as_ref().map(|it| it.login().to_owned()), Some(self.provider.clone())];
        let files = KeyFiles::of(place);
        let mut removed = false;
        for name in names.into_iter().flatten() {
            removed |= files.forget(&name)?;
        }
        if !removed {
            return Err(Fault::not_found(format!("no key of `{}` is kept", self.provider))
                .next("`haft login` lists the providers that have a key."));
        }
        print::out(&format!(
            "removed the key of {}; it stays valid at the provider until you revoke it there",
            self.provider
        ));
        let variables = source.as_ref().map_or(&[] as &[&str], Source::variables);
        if let Some(variable) = variables.iter().find(|it| place.variable(it).is_some()) {
            print::err(&format!("haft: {variable} is still set and is used"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The result of the request that tests a key.
enum Tested {
    /// The provider accepted it, and serves so many models.
    Works(usize),
    /// The key was not tested, and the person wants it kept.
    Not,
    /// The person does not want it kept.
    Refused,
}

/// Tests the key. If the test is not possible, the person decides.
async fn test(source: &Source, origin: &str) -> Result<Tested, Fault> {
    let fault = match source.models(WITHIN).await {
        Ok(models) => return Ok(Tested::Works(models.len())),
        Err(fault) => fault,
    };
    if fault.kind == Kind::Denied {
        let page = source.key_page().map_or(String::new(), |it| format!(" Keys are made at {it}."));
        let what = format!("{origin} rejected the key, so it was not kept: {}", fault.what);
        return Err(
            Fault::denied(what).next(format!("Run `haft login {}` with a valid key.{page}", source.name()))
        );
    }
    if !io::stdin().is_terminal() {
        let what = format!("the key could not be tested, so it was not kept: {}", fault.what);
        return Err(Fault::new(fault.kind, what).next("Try again, or keep it untested with `--no-test`."));
    }
    print::err(&format!("The key could not be tested: {}", fault.what));
    Ok(if agrees("Keep it untested? [y/N] ")? { Tested::Not } else { Tested::Refused })
}

fn agrees(question: &str) -> Result<bool, Fault> {
    use io::Write as _;
    let mut line = String::new();
    let read = io::stderr().write_all(question.as_bytes()).and_then(|()| io::stdin().read_line(&mut line));
    read.map_err(|error| unreadable(&error))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Returns the key: from a hidden prompt at a terminal, else from standard input; `None` if the person gave none.
fn asked(source: &Source, origin: &str) -> Result<Option<String>, Fault> {
    if !io::stdin().is_terminal() {
        let mut text = String::new();
        let read = io::stdin().lock().take(LONGEST).read_to_string(&mut text);
        read.map_err(|error| unreadable(&error))?;
        return Ok(Some(text));
    }
    let page = source.key_page().map_or(String::new(), |it| format!("\nMake one at {it}"));
    print::err(&format!("The key goes to {origin} alone.{page}"));
    let key =
        hidden::ask(&format!("{} key (not shown): ", source.name())).map_err(|error| unreadable(&error))?;
    Ok(key.filter(|it| !it.trim().is_empty()))
}

fn unreadable(error: &io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("the key can't be read: {error}"))
        .next("Give it on standard input: `haft login PROVIDER < FILE`.")
}

/// Returns every provider, with the source of its key.
fn list(agents: &Agents, place: &Place) -> String {
    let sources = sources(agents.choices(&place.variables));
    let width = sources.iter().map(|it| it.name().len()).max().unwrap_or(0).max("PROVIDER".len());
    let mut text = format!("{:width$}  KEY\n", "PROVIDER");
    for source in &sources {
        let files = KeyFiles::of(place);
        let other = agents.keys.origin_of(source.login());
        let key = match (source.key(), other) {
            (Some(KeyFrom::Variable(name)), None) => format!("{name} (environment)"),
            (Some(KeyFrom::Variable(name)), Some(_)) => {
                format!("{name} (environment; wins over the one of `haft login`)")
            }
            (Some(KeyFrom::Login(name)), _) => files.path(name).display().to_string(),
            (None, Some(other)) => format!("not used: the key of `haft login` is for {other}"),
            (None, None) if source.is_open() => "needs none".to_owned(),
            (None, None) => "-".to_owned(),
        };
        text.push_str(&format!("{:width$}  {key}\n", source.name()));
    }
    text.push_str("\n`haft login PROVIDER` asks for a key, tests it and keeps it; `haft models PROVIDER` lists its models.");
    text
}
