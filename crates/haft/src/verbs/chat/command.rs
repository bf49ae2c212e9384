//! Chat commands, the same in every front end: each returns the text of its answer.

use agent::{Agent, Archived, ChangedBy, Crew, profiles::PLAN};
use kit::Fault;
use runtime::{Call, Session};
use serde_json::json;
use sessions::Event as Logged;
use store::changes::DiffLimits;
use tokio_util::sync::CancellationToken;

use super::{conversation::Conversation, front_end::Face, report};
use crate::{
    session_service::{self, Running, report as session_report},
    slash::All,
    terminal::{
        abbreviate,
        complete::{Own, Value},
        input_line::Entry,
        row::Style,
    },
    verbs::run::fault,
};

/// Maximum number of conversations in a list.
const LISTED: usize = 15;

impl<F: Face> Conversation<F> {
    /// Executes a command; returns the text of its answer.
    pub(super) async fn command(&mut self, name: &str, given: &str, all: &All) -> Result<String, Fault> {
        let takes_nothing = ["/help", "/jobs", "/context", "/cost", "/status", "/new", "/clear"]
            .contains(&name)
            && !given.is_empty();
        if takes_nothing {
            return Err(Fault::bad_args(format!(
                "`{name}` takes nothing, and was given `{}`",
                abbreviate::line(given, 40)
            )));
        }
        match name {
            "/help" => {
                self.face.page("help", &report::help(all, self.face.columns())).await;
                Ok(String::new())
            }
            "/model" => self.model(given),
            "/profile" => self.profile(given),
            "/plan" => self.plan(given).await,
            "/tools" => {
                let text = session_report::tools(self.agent.session(), given)?;
                self.face.page("tools", &text).await;
                Ok(String::new())
            }
            "/jobs" => self.by_tool("jobs", json!({})).await,
            "/undo" => self.undo(given).await,
            "/rewind" => self.rewind(given).await,
            "/compact" => self.compact(given).await,
            "/context" => Ok(session_report::context(&self.agent.context())),
            "/cost" => self.cost().await,
            "/status" => self.status().await,
            "/sessions" => self.sessions(given).await,
            "/rename" => self.rename(given),
            "/fork" => self.fork(given).await,
            "/resume" => self.resume(given).await,
            "/new" | "/clear" => self.go_on(None).await,
            "/copy" => self.copy(given),
            "/export" => self.export(given),
            other => Err(Fault::bug(format!("{other} is not done here"))),
        }
    }

    /// Offers what may be typed as the commands' completion.
    pub(super) fn offer(&mut self) {
        let all = All::read(&self.factory.opened);
        let own = all.own.iter().map(|it| Own {
            name: it.name().to_owned(),
            takes: it.takes().to_owned(),
            does: it.does(),
        });
        let value =
            |word: &str, about: &str| Value { word: word.to_owned(), about: abbreviate::line(about, 100) };
        let models =
            self.factory.model_names().into_iter().map(|(name, about)| value(&name, &about)).collect();
        let mut profiles = vec![value("none", "no profile")];
        if let Some(crew) = self.agent.crew() {
            profiles.extend(crew.known().profiles.iter().map(|it| value(&it.name, &it.description)));
        }
        let conversations =
            agent::conversations(&self.factory.opened.runtime, Archived::Hidden, LISTED).unwrap_or_default();
        let here = self.agent.session().name();
        let others = conversations.iter().filter(|it| it.session != here);
        let others = others.map(|it| value(&it.session, &it.title)).collect();
        let values = vec![("/model", models), ("/profile", profiles), ("/resume", others)];
        self.face.offer(own.collect(), values);
    }

    pub(super) fn model(&mut self, named: &str) -> Result<String, Fault> {
        if named.is_empty() {
            let now = self.agent.model();
            let mut lines = vec![format!("{} (in use)", now.name())];
            let others = self.factory.model_names();
            let others = others.iter().filter(|it| it.0 != now.name());
            lines.extend(others.map(|(name, about)| format!("{name}  {about}").trim_end().to_owned()));
            lines.push("/model NAME switches.".to_owned());
            return Ok(lines.join("\n"));
        }
        let model = self.factory.model(named)?;
        let doubt = agent::model::doubt(named, self.factory.choices()).map(|it| it + "\n");
        let said = format!("{}{} answers from now on.", doubt.unwrap_or_default(), model.name());
        self.agent.steering().set_model(model);
        self.factory.prefer(named);
        self.owner.log().add(Logged::Configured { model: Some(named.to_owned()), profile: None });
        Ok(said)
    }

    /// Switches to another profile, or to none; with none, a model that was chosen with `/model` stays.
    pub(super) fn profile(&mut self, named: &str) -> Result<String, Fault> {
        let crew = crew(&self.agent)?;
        if !named.is_empty() {
            let said = crew.begin(Some(named).filter(|it| *it != "none"), true)?;
            self.owner.log().add(Logged::Configured { model: None, profile: Some(named.to_owned()) });
            return Ok(said);
        }
        let (known, current) = (crew.known(), crew.profile());
        let lines = known.profiles.iter().map(|it| {
            let mark = if current.as_deref() == Some(it.name.as_str()) { " (in use)" } else { "" };
            (format!("{}{mark}", it.name), it.description.clone())
        });
        let mut text = report::columns(&lines.collect::<Vec<_>>(), self.face.columns());
        known.broken.iter().for_each(|it| text.push_str(&format!("! {it}\n")));
        text.push_str("/profile NAME switches, /profile none leaves it.");
        Ok(text)
    }

    /// Switches plan mode on or off; with a task, switches it on and works on the task.
    async fn plan(&mut self, task: &str) -> Result<String, Fault> {
        let crew = crew(&self.agent)?;
        let is_on = crew.profile().as_deref() == Some(PLAN);
        let on = !is_on || !task.is_empty();
        if on != is_on {
            crew.begin(on.then_some(PLAN), true)?;
            let profile = Some(if on { PLAN } else { "none" }.to_owned());
            self.owner.log().add(Logged::Configured { model: None, profile });
        }
        let says =
            if on { "Plan mode is on: nothing is changed. /plan ends it." } else { "Plan mode is off." };
        if task.is_empty() {
            return Ok(says.to_owned());
        }
        self.face.tell(says, Style::DIM);
        self.say(&Entry::new(task), None).await;
        Ok(String::new())
    }

    /// Calls a tool of the session, as if the model had called it.
    pub(super) async fn by_tool(
        &mut self,
        tool: &str,
        arguments: serde_json::Value,
    ) -> Result<String, Fault> {
        let session = self.agent.session().clone();
        if !session.catalog().has(tool) {
            return Err(Fault::not_found(format!("this session has no tool `{tool}`")));
        }
        let cancel = CancellationToken::new();
        let call = Call { cancel: cancel.child_token(), by_person: true, ..Call::new(tool, arguments) };
        let answer = self.face.attend(session.call(call), &cancel).await;
        let changes = session.runtime().changes(&answer.changes, DiffLimits::default());
        self.face.show_changes(&changes);
        let text = answer.as_text();
        if tool == "undo" && answer.result.is_ok() {
            self.owner.log().add(Logged::Undone { key: None, call: None, path: None, text: text.clone() });
        }
        match answer.result {
            // The diffs already name the restored files.
            Ok(_) if tool == "undo" && !changes.is_empty() => Ok(here(&without_restored(&text))),
            Ok(_) => Ok(here(&text)),
            Err(fault) => Err(fault),
        }
    }

    /// Undoes the newest file change; with `turn`, the changes of the turns that were rewound.
    async fn undo(&mut self, given: &str) -> Result<String, Fault> {
        match given {
            "" => self.by_tool("undo", json!({})).await,
            call if call.starts_with("c_") => self.by_tool("undo", json!({"call": call})).await,
            "turn" if self.taken_back.is_empty() => {
                Err(Fault::not_found("no turn was taken back just now that changed files")
                    .next("/rewind takes a turn back; /undo puts back the newest change."))
            }
            "turn" => {
                let mut lines = Vec::new();
                while let Some(change) = self.taken_back.first().cloned() {
                    lines.push(self.by_tool("undo", json!({"call": change.call})).await?);
                    self.taken_back.remove(0);
                }
                Ok(lines.join("\n"))
            }
            other => Err(Fault::bad_args(format!("`/undo {other}` is unknown")).next(
                "/undo puts back the newest change, /undo CALL that of a call, /undo turn those of the turn that was \
                 taken back.",
            )),
        }
    }

    /// Goes back to before one of the person's messages.
    async fn rewind(&mut self, given: &str) -> Result<String, Fault> {
        let turns = self.agent.turns();
        let back = match given {
            "" => 1,
            "list" => {
                let count = turns.len();
                let lines = turns
                    .iter()
                    .enumerate()
                    .map(|(at, it)| format!("{:>3}  {}", count - at, agent::title(it)));
                let lines: Vec<String> = lines.collect();
                return Ok(if lines.is_empty() {
                    "nothing was said yet".to_owned()
                } else {
                    lines.join("\n")
                });
            }
            number => number.parse::<usize>().ok().filter(|it| *it > 0).ok_or_else(|| {
                Fault::bad_args(format!("`/rewind {number}` needs a number of messages, from 1"))
                    .next("/rewind list shows them with their numbers.")
            })?,
        };
        let rewound = self.agent.rewind(back).await.map_err(fault)?;
        self.owner.log().add(Logged::Rewound { key: None, turns: rewound.turns, said: rewound.said.clone() });
        self.beside.clear();
        let messages =
            if rewound.turns == 1 { "message".to_owned() } else { format!("{} messages", rewound.turns) };
        let mut lines =
            vec![format!("Went back to before your last {messages}: the model no longer knows of it.")];
        let (elsewhere, here): (Vec<_>, Vec<_>) =
            rewound.changed.into_iter().partition(|it| it.elsewhere.is_some());
        if !here.is_empty() {
            lines.push(format!(
                "Files are as that turn left them: {}. /undo turn puts them back as they were before it.",
                files(&here)
            ));
        }
        if let [newest, ..] = elsewhere.as_slice() {
            lines.push(format!(
                "Changed before the fork, in the other session: {}. `haft undo --call {}` puts the newest change back.",
                files(&elsewhere),
                newest.call
            ));
        }
        self.taken_back = here;
        if !self.face.give_back(&Entry::new(rewound.said.clone())) {
            lines.push(format!("You had said: {}", abbreviate::line(&rewound.said, 200)));
        }
        Ok(lines.join("\n"))
    }

    /// Compacts the conversation now.
    async fn compact(&mut self, keep: &str) -> Result<String, Fault> {
        let cancel = CancellationToken::new();
        let keep = Some(keep).filter(|it| !it.is_empty());
        let done = self
            .face
            .attend(self.view.after(self.agent.compact(keep, &cancel)), &cancel)
            .await
            .map_err(fault)?;
        let (before, after, cost) = (done.before, done.after, done.cost);
        self.owner.log().add(Logged::Compacted { key: None, before, after, cost });
        Ok(report::compacted(before, after, cost))
    }

    async fn cost(&self) -> Result<String, Fault> {
        let rows = self.service.sessions.export(self.owner.session()).await?;
        Ok(session_report::cost(&rows))
    }

    async fn status(&self) -> Result<String, Fault> {
        let runtime = &self.factory.opened.runtime;
        let crew = self.agent.crew();
        let profile = crew.and_then(Crew::profile).unwrap_or_else(|| "none".to_owned());
        let used = self.agent.steering().context_used();
        let session = self.agent.session();
        let said = self.agent.turns();
        let policy = runtime.policy();
        let sandbox = if session.limits().read_only {
            "read-only (for now)".to_owned()
        } else {
            name_of(&policy.sandbox)
        };
        let messages = match said.len() {
            0 => "no messages yet".to_owned(),
            1 => "1 message".to_owned(),
            count => format!("{count} messages"),
        };
        let catalog = session.catalog();
        let (sent, all) = (catalog.listed().count(), catalog.specs().count());
        let tools = match all.saturating_sub(sent) {
            0 => sent.to_string(),
            more => format!("{sent}, and {more} found when needed"),
        };
        let mut lines = vec![
            ("model", self.agent.model().name().to_owned()),
            ("profile", profile),
            ("workspace", runtime.roots().workspace().display().to_string()),
        ];
        for (path, read_only) in runtime.roots().list().skip(1) {
            lines
                .push(("root", format!("{}{}", path.display(), if read_only { " (read-only)" } else { "" })));
        }
        lines.extend([
            ("sandbox", sandbox),
            ("approve", name_of(&policy.approve)),
            ("session", format!("{} ({messages})", session.name())),
            ("context", report::used(used)),
            ("cost", self.cost().await?),
            ("tools", tools),
        ]);
        let jobs = session.running_jobs();
        if !jobs.is_empty() {
            lines.push(("jobs", jobs.join(", ")));
        }
        Ok(lines.iter().map(|(name, it)| format!("{name:<10} {it}")).collect::<Vec<_>>().join("\n"))
    }

    /// Gives the conversation a title.
    fn rename(&mut self, title: &str) -> Result<String, Fault> {
        let title = agent::title(title);
        if title.is_empty() {
            return Err(Fault::bad_args("`/rename` needs a title").next("/rename Cache for the parser"));
        }
        let store = self.factory.opened.runtime.store();
        store.conversations().rename(self.owner.session(), &title)?;
        self.owner.log().add(Logged::Renamed { title: title.clone() });
        Ok(format!("This conversation is now: {title}"))
    }

    /// Goes on in a copy of the conversation, whole or up to one of the person's messages with its answer.
    async fn fork(&mut self, given: &str) -> Result<String, Fault> {
        let at = match given {
            "" => None,
            number => Some(number.parse::<u64>().map_err(|_| {
                Fault::bad_args(format!("`/fork {number}` needs the number of one of your messages, from 1"))
                    .next("`haft sessions show NAME` numbers them; the first one is 1.")
            })?),
        };
        let before = self.owner.session().to_owned();
        // The fork gets the session's state as it is now.
        self.agent.session().keep()?;
        let made = agent::fork(self.factory.opened.runtime.store(), &before, at, None)?;
        self.owner.log().add(Logged::Forked { key: None, into: made.session.clone() });
        self.go_on(Some(&made.session)).await?;
        Ok(format!("A fork of {before}; /resume {before} goes back to it."))
    }

    /// Has the person choose another conversation; where there is no list to choose from, lists them with the numbers by which
    /// they are resumed.
    async fn sessions(&mut self, query: &str) -> Result<String, Fault> {
        let runtime = &self.factory.opened.runtime;
        let found = if query.is_empty() {
            agent::conversations(runtime, Archived::Hidden, LISTED)?
        } else {
            agent::find_conversations(runtime, query, Archived::Hidden, LISTED)?
        };
        if found.is_empty() {
            let what = if query.is_empty() {
                "no conversation yet".to_owned()
            } else {
                format!("no conversation contains `{query}`")
            };
            return Ok(what);
        }
        let here = self.agent.session().name().to_owned();
        let transcripts = runtime.store().transcripts();
        let items = found.iter().map(|it| {
            let elsewhere = transcripts.holder(&it.session)?.filter(|_| it.session != here);
            let mut item = report::item(it, elsewhere.as_deref());
            if it.session == here {
                item.about = format!("this one · {}", item.about);
            }
            Ok(item)
        });
        let items = items.collect::<Result<Vec<_>, Fault>>()?;
        match self.face.pick("Conversations", items).await {
            Some(None) => return Ok(String::new()),
            Some(Some(at)) => {
                let chosen = found.get(at).map_or_else(|| here.clone(), |it| it.session.clone());
                if chosen == here {
                    return Ok("That is this conversation.".to_owned());
                }
                return self.go_on(Some(&chosen)).await;
            }
            None => {}
        }
        let mut lines: Vec<String> = found
            .iter()
            .enumerate()
            .map(|(at, it)| report::conversation(at + 1, it, it.session == here))
            .collect();
        lines.push("/resume NUMBER continues one.".to_owned());
        self.listed = found.into_iter().map(|it| it.session).collect();
        Ok(lines.join("\n"))
    }

    /// Resumes another conversation: the newest, the one with this number in the last list, or the one with this id.
    async fn resume(&mut self, given: &str) -> Result<String, Fault> {
        let runtime = &self.factory.opened.runtime;
        let here = self.agent.session().name().to_owned();
        let all = agent::conversations(runtime, Archived::Hidden, usize::MAX)?;
        let other = all.iter().find(|it| it.session != here).map(|it| it.session.clone());
        let number = given.parse::<usize>().ok().and_then(|it| it.checked_sub(1));
        let listed: Vec<String> = if self.listed.is_empty() {
            all.iter().take(LISTED).map(|it| it.session.clone()).collect()
        } else {
            self.listed.clone()
        };
        let name = match number {
            _ if given.is_empty() => {
                other.ok_or_else(|| Fault::not_found("this workspace has no other conversation"))?
            }
            Some(number) => listed.get(number).cloned().ok_or_else(|| {
                Fault::not_found(format!("there is no conversation {given} in the list"))
                    .next("/sessions lists them.")
            })?,
            // An archived conversation is found only by its exact name.
            None if runtime.store().conversations().about(given)?.is_some() => given.to_owned(),
            None => {
                return Err(Fault::not_found(format!("there is no conversation `{given}`"))
                    .next("/sessions lists them; /sessions WORD finds those about WORD."));
            }
        };
        if name == here {
            return Ok("That is this conversation.".to_owned());
        }
        self.go_on(Some(&name)).await
    }

    /// Resumes another conversation, or begins a new one.
    async fn go_on(&mut self, name: Option<&str>) -> Result<String, Fault> {
        let Running { agent, owner, view, notes: lines } =
            self.service.run(&self.factory, name, &self.person).await?;
        let owned = std::mem::replace(&mut self.owner, owner);
        self.view = view;
        session_service::close(owned, self.service.who()).await;
        let before = std::mem::replace(&mut self.agent, agent);
        // The session's state is saved and its jobs end, as at the end of the chat.
        end(before.session()).await?;
        (self.beside, self.taken_back, self.refused) = (Vec::new(), Vec::new(), None);
        lines.iter().for_each(|it| self.face.note(it));
        if self.begin() {
            return Ok("A new conversation. /resume continues the one before.".to_owned());
        }
        Ok(String::new())
    }
}

/// Returns the names of the files that these calls changed, each once.
fn files(changed: &[ChangedBy]) -> String {
    let mut files: Vec<&str> = changed.iter().flat_map(|it| it.files.iter().map(String::as_str)).collect();
    files.sort_unstable();
    files.dedup();
    files.join(", ")
}

/// Returns the text of an undo, without the lines of the restored and removed files.
fn without_restored(text: &str) -> String {
    let is_restored = |it: &&str| it.starts_with("restored ") || it.starts_with("removed ");
    text.lines().filter(|it| !is_restored(it)).collect::<Vec<_>>().join("\n")
}

/// Returns the answer of a tool in the words of the chat: the undo call that it names becomes a chat command.
pub(super) fn here(text: &str) -> String {
    let line = |line: &str| {
        let call = line.strip_prefix("To redo: undo the call ").and_then(|it| it.split(' ').next());
        call.map_or_else(|| line.to_owned(), |call| format!("To redo: /undo {call}"))
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

async fn end(session: &Session) -> Result<(), Fault> {
    session.end().await;
    session.keep()
}

/// Returns the crew, through which a person steers an agent.
fn crew(agent: &Agent) -> Result<&Crew, Fault> {
    agent.crew().ok_or_else(|| Fault::bug("an agent without profiles"))
}

/// Returns the name of a choice, as the configuration writes it.
fn name_of(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "unknown".to_owned(),
    }
}
