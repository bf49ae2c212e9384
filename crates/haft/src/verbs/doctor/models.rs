//! Models and keys: which providers have a key and from where, which local servers answer, and which model is used.

use agent::model::{KeyFrom, choose, sources, usual};
use kit::Fault;
use serde_json::{Value, json};

use super::in_lines;
use crate::{Options, Place, agent_factory, keys::KeyFiles, verbs::models::local};

/// The models of the report. It contains no keys.
pub(super) struct Models {
    providers: Vec<Provider>,
    local: Vec<Local>,
    used: Option<Used>,
    /// Keys that are not used, a line each.
    unused: Vec<String>,
}

struct Provider {
    name: String,
    key: Option<String>,
}

/// A local server that answers.
struct Local {
    name: String,
    at: String,
    models: Vec<String>,
}

/// The model that `haft run` and `haft chat` use.
struct Used {
    name: String,
    why: String,
    /// The reason that it can't be used, such as a missing key.
    problem: Option<Fault>,
}

impl Models {
    /// Looks for keys, and asks local servers which models they have.
    ///
    /// # Errors
    /// When a configuration is not valid.
    pub(super) async fn find(options: &Options, place: &Place) -> Result<Self, Fault> {
        let (agents, unused) = options.agents(place)?;
        let choices = agents.choices(&place.variables);
        let files = KeyFiles::of(place);
        let from = |it: &KeyFrom| match it {
            KeyFrom::Variable(name) => format!("${name}"),
            KeyFrom::Login(name) => format!("{}, from `haft login`", files.path(name).display()),
        };
        let providers = sources(choices).into_iter().filter(|it| !it.is_open() || it.key().is_some());
        let providers = providers.map(|it| Provider { name: it.name().to_owned(), key: it.key().map(from) });
        let providers = providers.collect();
        let used = match agent_factory::configured(&agents, &place.variables) {
            Some(name) if agents.agent.model.as_ref() == Some(&name) => {
                Some((name, "`model` of `[agent]` in haft.toml".to_owned()))
            }
            Some(name) => Some((name, format!("${}", agent_factory::MODEL))),
            None => usual(choices).map(|(name, _)| (name, "the first provider with a key".to_owned())),
        };
        let used = used.map(|(name, why)| Used { problem: choose(&name, choices).err(), name, why });
        let local = local(&agents, place).await.into_iter().map(|(source, models)| Local {
            name: source.name().to_owned(),
            at: source.origin().unwrap_or_default(),
            models: models.into_iter().map(|it| it.name).collect(),
        });
        Ok(Self { providers, local: local.collect(), used, unused })
    }

    /// Returns whether there is a usable model, or a local one that could be used.
    pub(super) fn is_usable(&self) -> bool {
        self.used.is_some() || !self.local.is_empty()
    }

    /// Returns the remedy for a chosen model that can't be used.
    pub(super) fn remedy(&self) -> Option<String> {
        let problem = self.used.as_ref()?.problem.as_ref()?;
        Some(problem.next.clone().unwrap_or_else(|| problem.what.clone()))
    }

    /// Returns the local model to suggest if none is chosen.
    pub(super) fn suggested(&self) -> Option<&str> {
        let first = self.local.first().and_then(|it| it.models.first()).map(String::as_str);
        first.filter(|_| self.used.is_none())
    }

    /// Returns a line for each provider that has a key, one for the providers without a key, and one for each local server.
    pub(super) fn as_text(&self) -> String {
        let (with, without): (Vec<&Provider>, Vec<&Provider>) =
            self.providers.iter().partition(|it| it.key.is_some());
        let mut lines: Vec<(&str, String)> = Vec::new();
        lines.extend(
            with.iter().filter_map(|it| Some((it.name.as_str(), format!("key in {}", it.key.as_ref()?)))),
        );
        let names: Vec<&str> = without.iter().map(|it| it.name.as_str()).collect();
        lines.extend(
            in_lines(&names)
                .into_iter()
                .enumerate()
                .map(|(at, it)| (if at == 0 { "no key" } else { "" }, it)),
        );
        if self.local.is_empty() {
            lines.push(("local", "no server answers (Ollama: port 11434)".to_owned()));
        }
        lines.extend(self.local.iter().map(|it| {
            let models = if it.models.len() == 1 { "model" } else { "models" };
            let first = it.models.first().map(String::as_str).unwrap_or_default();
            (it.name.as_str(), format!("{} {models} at {}, such as {first}", it.models.len(), it.at))
        }));
        lines.push(match &self.used {
            Some(Used { name, why, problem: None }) => ("model", format!("{name} ({why})")),
            Some(Used { name, why, problem: Some(fault) }) => {
                ("model", format!("none: {name} ({why}) can't be used: {}", fault.what))
            }
            None => ("model", "none chosen: `--model` names one".to_owned()),
        });
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text: String = lines.iter().map(|(name, what)| format!("{name:width$}  {what}\n")).collect();
        self.unused.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        text
    }

    pub(super) fn as_json(&self) -> Value {
        let provider = |it: &Provider| json!({"name": it.name, "key": it.key});
        let local = |it: &Local| json!({"name": it.name, "url": it.at, "models": it.models});
        json!({
            "providers": self.providers.iter().map(provider).collect::<Vec<_>>(),
            "local": self.local.iter().map(local).collect::<Vec<_>>(),
            "used": self.used.as_ref().map(|it| {
                json!({"model": it.name, "why": it.why, "problem": it.problem.as_ref().map(Fault::as_text)})
            }),
            "unused": self.unused,
        })
    }
}
