//! `haft group send`, `pause`, `resume` and `stop`: from any process, each with an idempotency key.

use std::{io::IsTerminal as _, process::ExitCode};

use clap::Args;
use groups::service::control::{Request, request};
use kit::{Fault, Kind};
use runtime::Runtime;
use serde_json::json;
use store::{NewMessage, Refused, Source, groups::GroupRecord};

use super::Named;
use crate::{Options, Place, print, session_service::Service, verbs::close};

/// Options of every request.
#[derive(Args)]
struct Asked {
    /// Idempotency key: a request of the same key is done once
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Send {
    #[command(flatten)]
    group: Named,
    /// Agent: its name or id
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Text
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
    #[command(flatten)]
    asked: Asked,
}

/// The arguments of `pause` and of `resume`.
#[derive(Args)]
pub(super) struct OneOrAll {
    #[command(flatten)]
    group: Named,
    /// Agent: its name or id [default: all]
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Args)]
pub(super) struct Stop {
    #[command(flatten)]
    group: Named,
    /// Agent: its name or id [default: the whole group]
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
    /// Mark the agent as killed
    #[arg(long, requires = "agent")]
    kill: bool,
    #[command(flatten)]
    asked: Asked,
}

impl Send {
    pub(super) async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let done = self.post(&opened.runtime).await;
        close(&opened.runtime);
        done.map(|()| ExitCode::SUCCESS)
    }

    async fn post(&self, runtime: &Runtime) -> Result<(), Fault> {
        let group = self.group.find(runtime)?;
        let session = member(runtime, &group, &self.agent)?;
        let service = Service::new(runtime, "group");
        // Only words that a person types at a terminal are a person's. A program that runs this command is a program.
        let is_typed = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let (source, sender) =
            if is_typed { (Source::Person, service.who()) } else { (Source::Direct, "haft group send") };
        let message = NewMessage {
            key: self.asked.key.as_ref().map(|it| format!("group send {it}")),
            ..NewMessage::new(&session, source, sender, self.text.join(" "))
        };
        let posted = match runtime.store().inbox().post_to_member(message).await? {
            Ok(posted) => posted,
            Err(refused) => return Err(refusal(&group.name, &self.agent, &refused)),
        };
        service.sessions.tell_of_message(&session, &session).await;
        if self.asked.json {
            print::json(
                &json!({"delivered": true, "to": session, "message_id": posted.message, "new": posted.is_new}),
            );
        } else {
            let what = if posted.is_new { "delivered" } else { "it had a message of this key before" };
            print::out(&format!("{} to {}: {what}\n", posted.message, self.agent));
        }
        Ok(())
    }
}

fn refusal(group: &str, agent: &str, refused: &Refused) -> Fault {
    match refused {
        Refused::Unknown => Fault::not_found(format!("`{agent}` left the group `{group}`")),
        Refused::Stopped => Fault::new(Kind::Unavailable, format!("`{agent}` is stopped"))
            .next(format!("`haft group resume {group} {agent}` starts it again.")),
        Refused::Full(_) => Fault::new(Kind::Unavailable, format!("the inbox of `{agent}` is full")),
    }
}

/// Returns the session of a member.
fn member(runtime: &Runtime, group: &GroupRecord, agent: &str) -> Result<String, Fault> {
    let members = runtime.store().groups().shape(&group.name)?.members;
    let exact = members.iter().find(|it| it.id == agent);
    let named: Vec<_> = members.iter().filter(|it| it.name == agent).collect();
    match (exact, named.as_slice()) {
        (Some(it), _) => Ok(it.session.clone()),
        (None, [it]) => Ok(it.session.clone()),
        (None, []) => {
            let names: Vec<&str> = members.iter().map(|it| it.name.as_str()).collect();
            Err(Fault::not_found(format!("the group `{}` has no agent `{agent}`", group.name))
                .next(format!("There are: {}.", names.join(", "))))
        }
        (None, several) => {
            let ids: Vec<&str> = several.iter().map(|it| it.id.as_str()).collect();
            Err(Fault::new(Kind::Ambiguous, format!("several agents are called `{agent}`"))
                .next(format!("Name the id: {}.", ids.join(", "))))
        }
    }
}

impl OneOrAll {
    pub(super) async fn pause(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let request = Request::GroupPause { member: self.agent };
        ask(options, place, &self.group, &self.asked, request).await
    }

    pub(super) async fn resume(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let request = Request::GroupResume { member: self.agent };
        ask(options, place, &self.group, &self.asked, request).await
    }
}

impl Stop {
    pub(super) async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let request = Request::GroupStop { member: self.agent, kill: self.kill };
        ask(options, place, &self.group, &self.asked, request).await
    }
}

async fn ask(
    options: &Options,
    place: &Place,
    group: &Named,
    asked: &Asked,
    wanted: Request,
) -> Result<ExitCode, Fault> {
    let opened = options.open(place)?;
    let runtime = &opened.runtime;
    let done = async {
        let group = group.find(runtime)?;
        let key = asked.key.clone().unwrap_or_else(|| runtime.store().call_id());
        let sessions = Service::new(runtime, "group").sessions;
        request(runtime.store(), &sessions, &group.name, &key, "haft group", &wanted).await
    };
    let done = done.await;
    close(runtime);
    let value = done?;
    if asked.json {
        print::json(&value);
    } else {
        let fields = value.as_object().into_iter().flatten();
        let text: String = fields.map(|(verb, what)| format!("{verb}: {}\n", plain(what))).collect();
        print::out(&text);
    }
    Ok(ExitCode::SUCCESS)
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
