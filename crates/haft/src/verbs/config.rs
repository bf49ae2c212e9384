//! `haft config`: the configuration in effect, and where each value comes from.

mod hidden;
mod reference;
mod text;
mod values;

use std::{path::Path, process::ExitCode};

use clap::Args;
use kit::{Fault, nearest::nearest};
use runtime::config::{Source, Why, keys};
use serde_json::{Value, json};

use self::{
    reference::Entry,
    values::{File, From, Setting, files, settings},
};
use crate::{Options, Place, print};

#[derive(Args)]
pub struct Config {
    /// Key or section to show and explain, such as `approve`, `net` or `models.local.url`
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// Print every key with its explanation and default, as a haft.toml to copy from
    #[arg(long, conflicts_with_all = ["key", "path", "json"])]
    example: bool,
    /// Print which files are read
    #[arg(long, conflicts_with = "key")]
    path: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Config {
    /// Prints the configuration.
    ///
    /// # Errors
    /// When a file is not a valid configuration, or there is no such key.
    pub fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        if self.example {
            print::out(&keys::reference());
            return Ok(ExitCode::SUCCESS);
        }
        let workspace = options.workspace()?;
        let files = files(options, place, &workspace);
        if self.path {
            match self.json {
                true => print::pretty_json(&json!({ "files": as_json(&files) })),
                false => print::out(&text::files(&files)),
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut settings = settings(options, place, &workspace)?;
        let mut explained = None;
        if let Some(key) = &self.key {
            let key = parse(key);
            let entry = reference::entry(&key);
            settings.retain(|it| it.key.starts_with(&key));
            if settings.is_empty() && entry.is_none() {
                return Err(unknown(&key));
            }
            explained = entry;
        }
        match self.json {
            true => print::pretty_json(&whole(&workspace, &files, &settings, explained.as_ref())),
            false if self.key.is_some() => print::out(&text::some(&settings, explained.as_ref())),
            false => {
                print::out(&text::all(&workspace, &files, &settings, &options.hooks_of(place, &workspace)));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Splits a key, as a person writes it, into its parts: `models."gpt-5.6".url`.
fn parse(key: &str) -> Vec<String> {
    let (mut parts, mut part, mut quote) = (Vec::new(), String::new(), None);
    for letter in key.trim().trim_matches(['[', ']']).chars() {
        match (letter, quote) {
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            ('.', None) => parts.push(std::mem::take(&mut part)),
            (letter, _) => part.push(letter),
        }
    }
    parts.push(part);
    parts
}

fn unknown(key: &[String]) -> Fault {
    let name = text::key(key);
    let entries = reference::entries();
    let known: Vec<String> = entries.iter().map(|it| it.key.join(".")).collect();
    let last = key.last().map_or("", String::as_str);
    let same = |it: &&String| it.rsplit('.').next() == Some(last);
    let same: Vec<&str> = known.iter().filter(same).map(String::as_str).take(3).collect();
    let near = nearest(&name, known.iter().map(String::as_str));
    let near = if same.is_empty() { near.as_deref().into_iter().collect() } else { same };
    let fault = Fault::bad_args(format!("there is no key `{name}`"));
    match near.as_slice() {
        [] => fault.next("`haft config --example` lists every key."),
        near => fault.next(format!(
            "Did you mean `{}`? `haft config --example` lists every key.",
            near.join("` or `")
        )),
    }
}

fn as_json(files: &[File]) -> Value {
    let file = |it: &File| match it.source {
        Source::User => json!({"file": "user", "path": it.path, "exists": it.exists}),
        Source::Workspace => {
            json!({"file": "workspace", "path": it.path, "exists": it.exists, "trusted": it.trusted})
        }
    };
    files.iter().map(file).collect()
}

fn whole(workspace: &Path, files: &[File], settings: &[Setting], explained: Option<&Entry>) -> Value {
    let source = |it: &From| match it {
        From::Default => json!("default"),
        From::File(Source::User) => json!("user"),
        From::File(Source::Workspace) => json!("workspace"),
        From::Variable(name) => json!(format!("${name}")),
        From::Option(name) => json!(name),
    };
    let why = |it: Why| match it {
        Why::NeedsTrust => "needs trust",
        Why::Overridden => "overridden",
        Why::Limited => "limited",
        Why::UserOnly => "only in your own file",
    };
    let setting = |it: &Setting| {
        let unused = it.unused.iter();
        let unused: Vec<Value> = unused
            .map(|it| json!({"source": source(&it.from), "value": it.value, "why": why(it.why)}))
            .collect();
        let mut setting = json!({
            "key": text::key(&it.key),
            "value": it.value,
            "sources": it.from.iter().map(source).collect::<Vec<_>>(),
        });
        if let Some(map) = setting.as_object_mut() {
            if let Some(words) = it.words {
                map.insert("default".to_owned(), json!(words));
            }
            if it.of_workspace {
                map.insert("of_workspace".to_owned(), json!(true));
            }
            if !unused.is_empty() {
                map.insert("unused".to_owned(), json!(unused));
            }
        }
        setting
    };
    let mut whole = json!({
        "workspace": workspace,
        "files": as_json(files),
        "settings": settings.iter().map(setting).collect::<Vec<_>>(),
    });
    if let (Some(it), Some(map)) = (explained, whole.as_object_mut()) {
        let about = it.about.replace('\n', " ");
        map.insert(
            "about".to_owned(),
            json!({"text": about, "type": it.kind, "default": it.default, "example": it.example}),
        );
    }
    whole
}
