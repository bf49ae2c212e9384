//! `haft prompt`: an agent's system prompt, and what it costs.

use std::{process::ExitCode, sync::Arc};

use clap::Args;
use kit::{Fault, Origin, Spec};
use runtime::Unattended;
use serde_json::{Map, Value, json};

use super::{close, report_ignored};
use crate::{Options, Place, agent_factory::AgentOptions, print};

#[derive(Args)]
pub struct Prompt {
    #[command(flatten)]
    agent: AgentOptions,
    /// Print its parts and their cost as JSON
    #[arg(long)]
    json: bool,
}

impl Prompt {
    /// # Errors
    /// When no runtime can be opened, or there is no such model.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let factory = self.agent.clone().open(options, place, Arc::new(Unattended)).await?;
        let model = factory.named().map(|name| factory.model(name)).transpose()?;
        let session = factory.opened.runtime.session(None, "prompt", Arc::new(Unattended));
        // A profile restricts the session's tools, so this needs an agent.
        let agent = factory.unasked(session.clone())?;
        let profile = match agent.crew().and_then(|crew| Some((crew.known(), crew.profile()?))) {
            Some((known, name)) => Some(known.find(&name)?),
            None => None,
        };
        let catalog = session.catalog();
        let specs: Vec<Spec> = catalog.listed().cloned().collect();
        let mut prompt = factory.prompt(&session, profile.as_deref());
        // Without a model, haft assumes one that has calls in its wire format.
        let mut declared = specs.as_slice();
        let of_provider: Vec<Spec>;
        if let Some(model) = &model {
            let text: Arc<str> = prompt.text().into();
            let told = model.system_prompt(&text, &specs);
            prompt = prompt.with_dialect(&told);
            // A dialect describes the tools in the prompt; then haft declares only the tools that the provider runs.
            if told != text || !model.abilities().calls {
                of_provider = specs.iter().filter(|it| it.origin == Origin::Provider).cloned().collect();
                declared = &of_provider;
            }
        }
        close(&factory.opened.runtime);
        let bill = prompt.bill(declared);
        if self.json {
            let sections = prompt.sections.iter().zip(&bill.sections).map(|(it, cost)| {
                json!({"name": it.name, "bytes": cost.bytes, "tokens": cost.tokens, "text": it.text})
            });
            let mut whole = Map::new();
            whole.insert("model".to_owned(), json!(model.as_ref().map(|it| it.name())));
            whole.insert("sections".to_owned(), sections.collect());
            whole.insert("tools".to_owned(), json!(bill.tools));
            whole.insert("total".to_owned(), json!({"bytes": bill.total.bytes, "tokens": bill.total.tokens}));
            print::pretty_json(&Value::Object(whole));
        } else {
            print::out(&format!("{}\n\n---\n{}", prompt.text(), bill.as_text()));
        }
        report_ignored(&factory.opened, false);
        factory.notes().for_each(|it| print::err(&format!("haft: {it}")));
        Ok(ExitCode::SUCCESS)
    }
}
