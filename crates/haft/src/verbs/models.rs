//! `haft models`: the models that providers serve, with what haft knows of them.

use std::{process::ExitCode, time::Duration};

use agent::model::{AS_OF, KeyFrom, Offered, Price, Source, models, source, sources};
use clap::Args;
use futures_util::future::join_all;
use kit::{Fault, Kind};
use serde_json::{Value, json};

use super::FAULT;
use crate::{Agents, Options, Place, print, terminal::abbreviate};

/// How long a provider may take to answer.
const WITHIN: Duration = Duration::from_secs(20);

/// How long a local server may take to answer: haft contacts it without being asked to.
const LOCAL: Duration = Duration::from_secs(1);

#[derive(Args)]
pub struct Models {
    /// Provider, or NAME of a section `[models.NAME]`; without it, all that have a key, and local servers
    #[arg(value_name = "PROVIDER", conflicts_with = "known")]
    provider: Option<String>,
    /// List the models that haft knows without asking anybody
    #[arg(long)]
    known: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The answer of a source.
struct Answer {
    source: Source,
    models: Result<Vec<Offered>, Fault>,
}

impl Models {
    /// Requests the models of the providers and prints them.
    ///
    /// # Errors
    /// When there is no such provider, or none has a key.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        if self.known {
            match self.json {
                true => print::json(&known_as_json()),
                false => print::out(&known()),
            }
            return Ok(ExitCode::SUCCESS);
        }
        let (agents, unused) = options.agents(place)?;
        unused.iter().for_each(|it| print::err(&format!("haft: {it}")));
        let answers = match &self.provider {
            Some(name) => vec![ask(source(name, agents.choices(&place.variables))?, WITHIN).await],
            None => all(&agents, place).await,
        };
        if answers.is_empty() {
            return Err(Fault::new(Kind::Unavailable, "no provider has a key, and no local model server answers").next(
                "Run `haft login PROVIDER`, or start a local server such as `ollama serve`. `haft models --known` lists the \
                 names that haft knows.",
            ));
        }
        let failed = answers.iter().any(|it| it.models.is_err());
        if self.json {
            print::json(&as_json(&answers));
        } else {
            let listed = answers.iter().filter_map(|it| Some((&it.source, it.models.as_ref().ok()?)));
            let text: Vec<String> = listed.map(|(source, models)| table(source, models)).collect();
            if !text.is_empty() {
                print::out(&text.join("\n"));
            }
            for Answer { source, models } in &answers {
                if let Err(fault) = models {
                    print::err(&line(source.name(), fault));
                }
            }
        }
        Ok(if failed { ExitCode::from(FAULT) } else { ExitCode::SUCCESS })
    }
}

/// Returns a fault of a provider in one line.
fn line(provider: &str, fault: &Fault) -> String {
    let is_named = fault.what.starts_with(&format!("`{provider}`"));
    let provider = if is_named { String::new() } else { format!("{provider}: ") };
    let next = fault.next.as_deref().map_or(String::new(), |it| format!(" {it}"));
    format!("haft: {provider}{}.{next}", fault.what.trim_end_matches('.')).replace('\n', " ")
}

/// Returns the local servers that answer and serve models, each with its models.
pub(super) async fn local(agents: &Agents, place: &Place) -> Vec<(Source, Vec<Offered>)> {
    let local = sources(agents.choices(&place.variables)).into_iter().filter(Source::is_local);
    let answers = join_all(local.map(|it| ask(it, LOCAL))).await;
    let serving = answers.into_iter().filter_map(|it| Some((it.source, it.models.ok()?)));
    serving.filter(|(_, models)| !models.is_empty()).collect()
}

/// Requests the models of every source with a key, the sections of haft.toml, and the local servers that answer.
async fn all(agents: &Agents, place: &Place) -> Vec<Answer> {
    let worth = |it: &Source| it.key().is_some() || it.is_open();
    let sources = sources(agents.choices(&place.variables)).into_iter().filter(worth);
    let answers = join_all(sources.map(|it| {
        let within = if it.is_local() { LOCAL } else { WITHIN };
        ask(it, within)
    }));
    let counts = |it: &Answer| it.models.is_ok() || !it.source.is_local() || it.source.key().is_some();
    answers.await.into_iter().filter(counts).collect()
}

async fn ask(source: Source, within: Duration) -> Answer {
    let models = source.models(within).await;
    Answer { source, models }
}

/// Returns the models of a source in columns.
fn table(source: &Source, models: &[Offered]) -> String {
    let at = source.origin().unwrap_or_default();
    let key = source.key().map_or(String::new(), |it| format!(", key of {}", key(it)));
    let mut text = format!("{} at {at}{key}\n", source.name());
    if models.is_empty() {
        text.push_str("  no models\n");
    }
    let rows = models.iter().map(|it| {
        [
            it.name.clone(),
            it.window.map_or("-".to_owned(), abbreviate::count),
            it.longest.map_or("-".to_owned(), abbreviate::count),
            it.price.map_or("-".to_owned(), |it| dollars(it.input)),
            it.price.map_or("-".to_owned(), |it| dollars(it.output)),
        ]
    });
    text.push_str(&columns(rows.collect()));
    text
}

/// Formats rows under their headings: the name on the left, numbers on the right.
fn columns(rows: Vec<[String; 5]>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = ["MODEL", "WINDOW", "ANSWER", "$/M IN", "$/M OUT"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
    let widest =
        |at: usize| rows.iter().filter_map(|it| Some(it.get(at)?.chars().count())).max().unwrap_or(0);
    let (name, window, answer, input, output) = (widest(0), widest(1), widest(2), widest(3), widest(4));
    let line = |[a, b, c, d, e]: &[String; 5]| {
        format!("  {a:name$}  {b:>window$}  {c:>answer$}  {d:>input$}  {e:>output$}\n")
    };
    rows.iter().map(line).collect()
}

fn dollars(price: f64) -> String {
    let text = format!("{price:.3}");
    let short = text.trim_end_matches('0');
    // A price has at least two decimals, and more only if they are not zero.
    if short.len() < text.len() - 1 { format!("{price:.2}") } else { short.to_owned() }
}

fn key(from: &KeyFrom) -> String {
    match from {
        KeyFrom::Variable(name) => name.clone(),
        KeyFrom::Login(name) => format!("`haft login {name}`"),
    }
}

/// Returns the list of the models that haft knows.
fn known() -> String {
    let row = |it: &agent::model::KnownModel| {
        let price = |of: fn(&Price) -> f64| {
            it.known.and_then(|it| it.price).map_or("-".to_owned(), |it| dollars(of(&it)))
        };
        [
            format!("{}:{}", it.provider, it.name),
            it.known.map_or("-".to_owned(), |it| abbreviate::count(it.window)),
            it.known.map_or("-".to_owned(), |it| abbreviate::count(it.longest)),
            price(|it| it.input),
            price(|it| it.output),
        ]
    };
    format!(
        "Models that haft knows, {AS_OF}. It suggests the first of each provider.\n{}",
        columns(models().map(row).collect())
    )
}

fn known_as_json() -> Value {
    let row = |it: &agent::model::KnownModel| {
        json!({
            "name": format!("{}:{}", it.provider, it.name),
            "window": it.known.map(|it| it.window),
            "longest": it.known.map(|it| it.longest),
            "images": it.known.map(|it| it.images),
            "price": it.known.and_then(|it| it.price),
        })
    };
    json!({ "as_of": AS_OF, "models": models().map(row).collect::<Vec<_>>() })
}

fn as_json(answers: &[Answer]) -> Value {
    let one = |Answer { source, models }: &Answer| {
        let error =
            models.as_ref().err().map(|it| json!({ "kind": it.kind, "what": it.what, "next": it.next }));
        json!({
            "provider": source.name(),
            "url": source.origin(),
            "key": source.key().map(ToString::to_string),
            "models": models.as_ref().ok(),
            "error": error,
        })
    };
    json!({ "providers": answers.iter().map(one).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_dollars_with_as_many_digits_as_they_need() {
        for (price, text) in
            [(2.0, "2.00"), (0.5, "0.50"), (0.05, "0.05"), (0.625, "0.625"), (180.0, "180.00")]
        {
            assert_eq!(dollars(price), text);
        }
    }

    #[test]
    fn the_known_models_are_listed_in_columns_that_fit_80() {
        let text = known();
        assert!(text.contains("anthropic:claude-sonnet-5-5") && text.contains("1,000,000"), "{text}");
        assert!(text.lines().all(|it| it.chars().count() <= 80), "{text}");
    }
}
