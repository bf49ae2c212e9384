//! `haft mcp install`: adds haft to the configuration of an MCP client, or removes it.

mod clients;
mod file;
mod found;
mod json;
mod toml;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use kit::{Fault, Kind};
use runtime::mcp_client::{check_address, serves_haft};
use serde_json::{Value, json};

use super::{ToolArgs, http};
use crate::{Options, Place, print};
pub(in crate::verbs) use clients::Format;
use clients::{ClientName, Reach, Scope};
use file::File;
pub(crate) use found::{Client, clients};

/// The name of haft in a client's configuration.
pub(in crate::verbs) const NAME: &str = "haft";

/// The keys that haft writes into an entry; all other keys belong to the person.
const WRITTEN: [&str; 9] = [
    "args",
    "bearer_token_env_var",
    "command",
    "headers",
    "httpUrl",
    "oauth",
    "tool_timeout_sec",
    "type",
    "url",
];

#[derive(Args)]
pub(super) struct Install {
    /// MCP client
    #[arg(value_enum)]
    client: ClientName,
    /// Write to the workspace's configuration of this client, for everybody who works on it [default: to your own]
    #[arg(long)]
    project: bool,
    /// Connect to a `haft mcp --http` that runs already: http://127.0.0.1:8722/mcp [default: the client starts haft]
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// Environment variable in which the client finds that server's token
    #[arg(long, value_name = "NAME", default_value = http::VARIABLE, requires = "http")]
    token_env: String,
    /// Remove haft from the client's configuration
    #[arg(long)]
    remove: bool,
    /// Replace another server named haft
    #[arg(long)]
    force: bool,
    /// Print the change as a diff, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the entry to add by hand, and write nothing
    #[arg(long, conflicts_with_all = ["remove", "dry_run"])]
    print: bool,
}

/// The planned change of the file.
enum Change {
    /// No change: the file is already correct.
    None,
    To(String),
}

/// The entry of haft in the configuration of a program that starts it.
pub(in crate::verbs) struct Entry<'a> {
    pub(in crate::verbs) format: Format,
    /// The key that holds the entries.
    pub(in crate::verbs) key: &'a str,
    /// Whether the entry is removed, and not added.
    pub(in crate::verbs) remove: bool,
    /// Whether it replaces another entry with this name.
    pub(in crate::verbs) force: bool,
    /// Returns whether haft wrote the existing entry.
    pub(in crate::verbs) is_ours: &'a dyn Fn(&Value, &Value) -> bool,
}

impl Entry<'_> {
    /// Adds or removes the entry, keeps a copy of the file, and prints the result; with `dry_run` only prints the diff.
    ///
    /// # Errors
    /// When the file can't be read, parsed, edited or written, or another entry has the name.
    pub(in crate::verbs) fn settle(
        &self,
        path: &Path,
        entry: &Value,
        dry_run: bool,
        place: &Place,
        next: impl FnOnce() -> String,
    ) -> Result<(), Fault> {
        let file = File::read(path)?;
        let shown = path.display();
        match self.change(path, file.text(), entry)? {
            Change::None if self.remove => {
                print::out(&format!("`{NAME}` is not in {shown}; nothing to do."));
            }
            Change::None => print::out(&format!("`{NAME}` is already in {shown}; nothing to do.")),
            Change::To(text) if dry_run => {
                let diff = similar::TextDiff::from_lines(file.text(), &text);
                let (old, new) = (format!("{shown}"), format!("{shown} (not written)"));
                print::out(&diff.unified_diff().header(&old, &new).to_string());
            }
            Change::To(text) => {
                let kept = file.keep(&place.state.join("clients"), &kept_name(path))?;
                file.write(&text)?;
                let before = kept
                    .map(|kept| format!(" The old version is in {}.", kept.display()))
                    .unwrap_or_default();
                let did = if self.remove {
                    format!("Removed `{NAME}` from {shown}.")
                } else {
                    format!("Added `{NAME}` to {shown}.")
                };
                print::out(&format!("{did}{before}\n{}", next()));
            }
        }
        Ok(())
    }

    /// Returns the change of the file, if it may be changed.
    fn change(&self, path: &Path, text: &str, entry: &Value) -> Result<Change, Fault> {
        let (format, key) = (self.format, self.key);
        let not_ours = |why: &str| {
            Fault::new(Kind::Unavailable, format!("`{}` was not changed: {why}", path.display()))
                .next("Edit it by hand; `--print` prints the entry to add.")
        };
        let was = format.read(text).map_err(|why| not_ours(&why))?;
        let there = was.get(key).and_then(|servers| servers.get(NAME));
        let updated =
            there.filter(|it| !self.force && (self.is_ours)(it, entry)).map(|it| with_theirs(it, entry));
        let is_ours = updated.is_some();
        let entry = updated.as_ref().unwrap_or(entry);
        let (new, meant) = match (there, self.remove) {
            (None, true) => return Ok(Change::None),
            (Some(_), true) => (format.without(text, key), without(&was, key)),
            (Some(there), false) if has_all_of(there, entry) => return Ok(Change::None),
            (Some(there), false) if !self.force && !is_ours => {
                let what = format!("`{}` already has another server `{NAME}`: {there}", path.display());
                return Err(Fault::new(Kind::Denied, what).next(format!("`--force` replaces it by {entry}.")));
            }
            (_, false) => (format.with(text, key, entry), with(&was, key, entry)),
        };
        // Whatever its layout, the new text must mean the same as the old one, except for this entry.
        let wrong = || not_ours(&format!("haft can't safely edit the way `{key}` is written"));
        let (new, meant) = new.zip(meant).ok_or_else(wrong)?;
        if format.read(&new).ok().map(|it| settled(it, key)) != Some(settled(meant, key)) {
            return Err(wrong());
        }
        Ok(Change::To(new))
    }
}

impl Install {
    /// # Errors
    /// When the client can't be configured that way, or its configuration can't be read, edited or written.
    pub(super) fn run(&self, options: &Options, tools: ToolArgs, place: &Place) -> Result<ExitCode, Fault> {
        let workspace = options.workspace()?;
        let scope = if self.project { Scope::Project(&workspace) } else { Scope::User };
        let entry = self.client.entry(&self.reach(options, tools, &workspace, place)?)?;
        let path = self.client.file(scope, place)?;
        if self.print {
            print::err(&format!("haft: for {}", path.display()));
            print::out(&self.block(&entry)?);
            return Ok(ExitCode::SUCCESS);
        }
        if self.client == ClientName::ClaudeDesktop && options.dir.is_none() && !self.remove {
            let what = "Claude Desktop has no workspace: it starts its servers outside your folders";
            return Err(Fault::bad_args(what)
                .next("Name the folder to work in: `haft --dir PATH mcp install claude-desktop`."));
        }
        if self.project {
            stays_within(&workspace, &path)?;
        }
        let entry_of = Entry {
            format: self.client.format(),
            key: self.client.key(),
            remove: self.remove,
            force: self.force,
            is_ours: &is_ours,
        };
        let next = || {
            if self.remove {
                "Running servers stop with their client.".to_owned()
            } else {
                self.next(scope, place)
            }
        };
        entry_of.settle(&path, &entry, self.dry_run, place, next)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns how the client reaches haft: it starts this program with the options given here, or connects to the address.
    fn reach(
        &self,
        options: &Options,
        tools: ToolArgs,
        workspace: &Path,
        place: &Place,
    ) -> Result<Reach, Fault> {
        if options.trust {
            return Err(Fault::bad_args("`--trust` is for one run, and an installed server runs many times")
                .next("Leave it out, and run `haft trust` in each workspace that you trust."));
        }
        if let Some(url) = &self.http {
            if !url.starts_with("http://") && !url.starts_with("https://") {
                return Err(Fault::bad_args(format!("`{url}` is not a server's address"))
                    .next("An address looks like http://127.0.0.1:8722/mcp."));
            }
            check_address(NAME, url).map_err(|fault| Fault { kind: Kind::BadArgs, ..fault })?;
            let mut lost = options.as_arguments();
            lost.extend(options.dir.is_some().then(|| "--dir".to_owned()).filter(|_| !self.project));
            lost.extend(tools.as_arguments());
            if !lost.is_empty() {
                let what =
                    format!("`{}` has no effect on a server that runs already, at {url}", lost.join(" "));
                return Err(Fault::bad_args(what).next("Start that server with it, and leave it out here."));
            }
            return Ok(Reach::Http { url: url.clone(), token: self.token_env.clone() });
        }
        let mut arguments = Vec::new();
        if !self.project && options.dir.is_some() {
            arguments.extend(["--dir".to_owned(), workspace.display().to_string()]);
        }
        arguments.extend(options.as_arguments());
        arguments.push("mcp".to_owned());
        arguments.extend(tools.as_arguments());
        // Other people have the program at another path.
        let command = if self.project { NAME.to_owned() } else { this_program(place)? };
        Ok(Reach::Start { command, arguments })
    }

    /// Returns the next step for the person.
    fn next(&self, scope: Scope<'_>, place: &Place) -> String {
        let next = self.client.next(scope);
        if self.http.is_some() {
            let (variable, kept) = (&self.token_env, place.state.join(http::FILE));
            return format!(
                "Start {} with {variable} set to that server's token; `haft mcp --http` keeps the token it creates in {}.\n{next}",
                self.client.title(),
                kept.display()
            );
        }
        if self.project && place.on_path(&[NAME]).is_none() {
            return format!("The client will start `{NAME}`, which is not on your PATH.\n{next}");
        }
        next.to_owned()
    }

    fn block(&self, entry: &Value) -> Result<String, Fault> {
        let key = self.client.key();
        match self.client.format() {
            Format::Json => serde_json::to_string_pretty(&json!({key: {NAME: entry}})).ok(),
            Format::Toml => toml::block(key, NAME, entry),
        }
        .ok_or_else(|| Fault::bug("the entry can't be written"))
    }
}

impl Format {
    fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Json => json::read(text),
            Self::Toml => toml::read(text),
        }
    }

    fn with(self, text: &str, key: &str, entry: &Value) -> Option<String> {
        match self {
            Self::Json => json::with(text, key, NAME, entry),
            Self::Toml => toml::with(text, key, NAME, entry),
        }
    }

    fn without(self, text: &str, key: &str) -> Option<String> {
        match self {
            Self::Json => json::without(text, key, NAME),
            Self::Toml => toml::without(text, key, NAME),
        }
    }
}

/// Returns the parsed configuration with the entry.
fn with(was: &Value, key: &str, entry: &Value) -> Option<Value> {
    let mut whole = was.as_object()?.clone();
    let servers = whole.entry(key).or_insert_with(|| json!({}));
    servers.as_object_mut()?.insert(NAME.to_owned(), entry.clone());
    Some(Value::Object(whole))
}

/// Returns the parsed configuration without the entry.
fn without(was: &Value, key: &str) -> Option<Value> {
    let mut whole = was.as_object()?.clone();
    let servers = whole.get_mut(key)?.as_object_mut()?;
    servers.shift_remove(NAME);
    Some(Value::Object(whole))
}

/// Treats an empty list of servers as no list: in TOML it may disappear with its last table.
fn settled(mut whole: Value, key: &str) -> Value {
    if let Some(map) = whole.as_object_mut()
        && map.get(key).is_some_and(|it| *it == json!({}))
    {
        map.shift_remove(key);
    }
    whole
}

/// Returns whether the file already has all that haft would write. Keys that a person added don't matter.
fn has_all_of(there: &Value, entry: &Value) -> bool {
    entry.as_object().is_some_and(|entry| entry.iter().all(|(key, value)| there.get(key) == Some(value)))
}

/// Returns whether haft wrote the existing entry, perhaps with other options.
fn is_ours(there: &Value, entry: &Value) -> bool {
    let is_same = |key: &str| entry.get(key).is_some_and(|it| there.get(key) == Some(it));
    // An entry that haft writes for HTTP names the variable of its token.
    let has_token = || there.to_string().contains(http::VARIABLE);
    starts_haft(there) || is_same("url") || is_same("httpUrl") || has_token()
}

/// Returns whether this entry of a client starts haft as a server.
fn starts_haft(entry: &Value) -> bool {
    let of = |key: &str| match entry.get(key) {
        Some(Value::String(word)) => vec![word.clone()],
        Some(Value::Array(words)) => words.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    let words = [of("command"), of("args")].concat();
    words.split_first().is_some_and(|(command, rest)| serves_haft(command, rest))
}

/// Returns the entry, with the keys that a person added to the existing one.
fn with_theirs(there: &Value, entry: &Value) -> Value {
    let mut whole = entry.clone();
    let (Some(there), Some(map)) = (there.as_object(), whole.as_object_mut()) else { return whole };
    for (key, value) in there.iter().filter(|(key, _)| !WRITTEN.contains(&key.as_str())) {
        map.entry(key.clone()).or_insert_with(|| value.clone());
    }
    whole
}

/// Refuses a path that a symlink leads out of the workspace: the symlink may have come with the workspace.
pub(in crate::verbs) fn stays_within(workspace: &Path, path: &Path) -> Result<(), Fault> {
    let there = path.ancestors().find(|it| it.exists() || it.is_symlink()).unwrap_or(path);
    if there.canonicalize().is_ok_and(|real| real.starts_with(workspace)) {
        return Ok(());
    }
    Err(Fault::new(
        Kind::Denied,
        format!("`{}` is a symlink that leads out of the workspace", there.display()),
    )
    .next("Remove the symlink, or edit the file by hand; `--print` prints the entry to add."))
}

/// Returns the name of the copy of a file, made from its path and the time.
fn kept_name(path: &Path) -> String {
    let flat: String = path
        .to_string_lossy()
        .trim_start_matches('/')
        .chars()
        .map(|it| if it == '/' { '%' } else { it })
        .collect();
    // A file name has at most 255 bytes; the end of the path says most.
    let end: String = flat.chars().rev().take(100).collect::<Vec<_>>().into_iter().rev().collect();
    format!("{}-{end}", jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%.3f"))
}

/// Returns the absolute path that starts this program: graphical clients do not have a shell's PATH. A path found through
/// PATH is preferred, because it stays valid after an update.
pub(in crate::verbs) fn this_program(place: &Place) -> Result<String, Fault> {
    let program = std::env::current_exe().map_err(|error| {
        Fault::new(Kind::Unavailable, format!("this program's own path is not known: {error}"))
    })?;
    let real = program.canonicalize().ok();
    let program = place.on_path(&[NAME]).filter(|it| it.canonicalize().ok() == real).unwrap_or(program);
    program.into_os_string().into_string().map_err(|path| {
        Fault::bad_args(format!("this program's path is not text: {}", PathBuf::from(path).display()))
    })
}
