//! `haft chat --attach`: a terminal on a session that another process runs. It shows what happens there, answers its questions,
//! and takes part in it. When that process ends, this one runs the session.

mod feed;

use std::{path::PathBuf, sync::Arc, time::Duration};

use agent::{Message, conversation, lines, profiles::PLAN};
use kit::{Fault, Kind, base64};
use runtime::Runtime;
use serde_json::Value;
use sessions::{Attachment, Event, Handle, Operation, Prompt, Watcher};
use tokio_util::sync::CancellationToken;

use super::{Chat, conversation::SHOWN, export, report};
use crate::{
    Options, Place,
    agent_factory::AgentFactory,
    attach, print,
    session_service::{Agents, Answers, Service, View},
    terminal::{
        abbreviate,
        asking::InChat,
        chat::{Front, Passes, PromptInput, Settings, seen::Seen},
        commands::{Meant, meant},
        input_line::Entry,
        row::Style,
        source::Source,
    },
    verbs::{close, sessions::resumes},
};
use feed::Shown;

/// The commands that work on a session that another process runs.
const COMMANDS: [(&str, &str); 15] = [
    ("/status", "show who runs the session, its model and profile"),
    ("/model NAME", "have another model answer"),
    ("/profile NAME", "go on under another profile; `none` leaves it"),
    ("/plan [TASK]", "plan mode, on or off: nothing is changed"),
    ("/compact [KEEP]", "summarize the conversation now, keeping KEEP"),
    ("/undo [CALL]", "undo the last file change, or CALL's"),
    ("/rewind [N]", "go back to before your last message, or the Nth last, and edit it"),
    ("/fork [N]", "a new session with the conversation up to your message N"),
    ("/rename TITLE", "give the session a title"),
    ("/export [FILE]", "write the conversation to a Markdown file"),
    ("/quit", "leave, as Ctrl-D does; the session goes on"),
    ("!command", "run a command yourself; the model sees its output"),
    ("Ctrl-O", "show the whole output of the last call"),
    ("Esc", "stop the turn that goes on"),
    ("Enter", "send; it is done after the turn that goes on"),
];

/// Maximum size of the pictures of one message, in bytes: they go through the owner's socket in one line.
const PICTURES: usize = 20 << 20;

/// How many times haft checks whether a session that this process took over has ended, and how long it waits in between.
const ENDS: usize = 300;
const LOOK: Duration = Duration::from_millis(10);

/// A terminal on the session of another process.
struct Attached {
    front: Front,
    handle: Handle,
    service: Service,
    factory: Arc<AgentFactory>,
    passes: Arc<Passes>,
}

/// Shows the session of this name, which another process runs, and takes part in it until the person leaves.
///
/// # Errors
/// When the terminal can't be used, or the session can't be reached.
pub(super) async fn run(
    chat: Chat,
    name: &str,
    options: &Options,
    place: &Place,
    hangup: CancellationToken,
) -> Result<(), Fault> {
    let (asks, asked) = InChat::new();
    let Chat { agent, words, .. } = chat;
    let factory = Arc::new(agent.open(options, place, Arc::new(asks)).await?);
    let runtime = factory.opened.runtime.clone();
    let service = Service::with_opener(&runtime, "chat", Some(Arc::new(Agents(factory.clone()))));
    let handle = service.sessions.attach(name, service.who()).await?;
    let (watcher, said) = earlier(&handle, &runtime).await?;
    let settings = Settings::of(place, &factory.opened, true);
    let (mut front, passes) = Front::new(settings, asked, &place.variables, hangup)
        .map_err(|error| Fault::new(Kind::Unavailable, format!("the terminal can't be used: {error}")))?;
    front.attach(Source::elsewhere(&runtime, name));
    let passes = Arc::new(passes);
    let mut attached = Attached { front, handle, service, factory, passes };
    attached.welcome().await;
    let left_out = said.len().saturating_sub(SHOWN);
    if left_out > 0 {
        attached.front.tell(&format!("({left_out} earlier messages)"), Style::DIM);
    }
    if !said.is_empty() {
        attached.front.show_messages(said.get(left_out..).unwrap_or_default());
    }
    attached.front.says_first(words.join(" "));
    let attending = attached.handle.attend();
    let who = attached.service.who().to_owned();
    let shown = Arc::new(Shown::new(&attached.passes, &who));
    let view = View::follow(watcher, shown, Answers::There(attached.handle.clone()), &who);
    attached.talk().await;
    let Attached { front, handle, .. } = attached;
    // haft restores the terminal before it prints anything else.
    drop((front, view, attending));
    left(&handle, &runtime, options).await;
    close(&runtime);
    Ok(())
}

/// Returns the earlier messages, and a watcher of the rows after them. A running turn is watched from its beginning.
async fn earlier(handle: &Handle, runtime: &Runtime) -> Result<(Watcher, Vec<Message>), Fault> {
    let mut watcher = handle.watch(0);
    let (mut begun, mut head) = (None, 0);
    while let Some(row) = watcher.try_next().await? {
        match row.event {
            Event::TurnBegan { messages, .. } => begun = Some((head, messages)),
            Event::TurnEnded(_) => begun = None,
            _ => {}
        }
        head = row.seq;
    }
    let said = lines(runtime, handle.session())?;
    let (after, messages) = begun.unwrap_or((head, u64::MAX));
    let said = said.into_iter().filter(|it| it.number <= messages).map(|it| it.message).collect();
    Ok((handle.watch(after), said))
}

/// Reports the state of the session after leaving it; ends it if this process took it over.
async fn left(handle: &Handle, runtime: &Runtime, options: &Options) {
    let Ok(state) = handle.state().await else { return };
    if state.pid != std::process::id() {
        print::err(&format!("haft: left; the session goes on in process {} ({})", state.pid, state.by));
        return;
    }
    let key = || runtime.store().call_id();
    if state.turn.is_some() {
        let _ = handle.act(&key(), Operation::Cancel { prompt: None }).await;
    }
    if let Err(fault) = handle.act(&key(), Operation::Close).await {
        print::fault(&fault);
    }
    // The loop of the session ends after it has answered.
    for _ in 0..ENDS {
        if handle.state().await.is_err() {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let goes_on = resumes(options, handle.session());
    print::err(&format!("haft: to continue: {goes_on}"));
}

impl Attached {
    async fn welcome(&mut self) {
        let name = self.handle.session().to_owned();
        let title =
            conversation(&self.factory.opened.runtime, &name).map_or_else(|_| String::new(), |it| it.title);
        let title = if title.is_empty() { name.clone() } else { format!("{title} ({name})") };
        let runs = match self.handle.state().await {
            Ok(state) if state.pid == std::process::id() => "this process runs it".to_owned(),
            Ok(state) => format!("process {} ({}) runs it, {} answers", state.pid, state.by, state.model),
            Err(_) => "its process can't be asked".to_owned(),
        };
        self.front.tell(&format!("attached to {title}"), Style::BOLD);
        self.front.tell(&format!("{runs} · /help for help · Ctrl-D leaves"), Style::DIM);
        self.front.part();
    }

    /// Handles input until the person leaves.
    async fn talk(&mut self) {
        loop {
            match self.front.prompt().await {
                PromptInput::End => return,
                PromptInput::Stop => self.act(Operation::Cancel { prompt: None }),
                PromptInput::Line(entry) => {
                    if !self.line(&entry).await {
                        return;
                    }
                    if meant(&entry.text, &[]) != Meant::Text(entry.text.trim()) {
                        self.front.part();
                    }
                }
            }
        }
    }

    /// Executes a line; returns false if the person leaves.
    async fn line(&mut self, entry: &Entry) -> bool {
        match meant(&entry.text, &[]) {
            Meant::Nothing if !entry.pictures.is_empty() => self.say("", entry),
            Meant::Nothing => {}
            Meant::Leave => return false,
            Meant::Text(text) => self.say(text, entry),
            Meant::Run(command) => self.act(Operation::Command { command: command.to_owned() }),
            Meant::Command(name, given) => {
                if let Err(fault) = self.command(name, given).await {
                    self.fails(&fault);
                }
            }
            Meant::Own(name, _) => self.fails(&unknown(name)),
            Meant::Unknown(name, _) => self.fails(&unknown(name)),
        }
        true
    }

    async fn command(&mut self, name: &str, given: &str) -> Result<(), Fault> {
        match name {
            "/help" => {
                let rows: Vec<(String, String)> =
                    COMMANDS.iter().map(|(name, does)| ((*name).to_owned(), (*does).to_owned())).collect();
                let text = report::columns(&rows, self.front.columns());
                self.front.page("help", &text).await;
            }
            "/status" => self.status().await?,
            "/model" if !given.is_empty() => {
                self.act(Operation::Model { name: given.to_owned() });
            }
            "/profile" if !given.is_empty() => {
                let name = Some(given.to_owned()).filter(|it| it != "none");
                self.act(Operation::Profile { name });
            }
            "/plan" => self.plan(given).await?,
            "/compact" => {
                let keep = Some(given.to_owned()).filter(|it| !it.is_empty());
                self.act(Operation::Compact { keep });
            }
            "/undo" if given.is_empty() || given.starts_with("c_") => {
                let call = Some(given.to_owned()).filter(|it| !it.is_empty());
                self.act(Operation::Undo { call });
            }
            "/rewind" => self.rewind(given)?,
            "/fork" => self.fork(given)?,
            "/rename" if !given.is_empty() => self.act(Operation::Rename { title: given.to_owned() }),
            "/export" => {
                let runtime = &self.factory.opened.runtime;
                let text = export::written(runtime, self.handle.session(), given)?;
                self.front.tell(&text, Style::DIM);
            }
            other => {
                let what = format!("{other} {given}");
                let what = format!("`{}` works only in the terminal that runs this session", what.trim_end());
                return Err(Fault::bad_args(what).next("/help lists what works here."));
            }
        }
        Ok(())
    }

    /// Sends a message with its pictures; if one can't be read, the message goes back to the prompt.
    fn say(&mut self, text: &str, entry: &Entry) {
        match attachments(&entry.pictures) {
            Ok(attachments) => self.act(Operation::Prompt(Prompt { text: text.to_owned(), attachments })),
            Err(fault) => {
                self.front.put(entry);
                self.fails(&fault);
            }
        }
    }

    /// Switches plan mode on or off; with a task, switches it on and works on the task.
    async fn plan(&mut self, task: &str) -> Result<(), Fault> {
        let is_on = self.handle.state().await?.profile.as_deref() == Some(PLAN);
        let on = !is_on || !task.is_empty();
        let profile = Operation::Profile { name: on.then(|| PLAN.to_owned()) };
        let task = Some(Prompt::new(task)).filter(|it| !it.is_empty()).map(Operation::Prompt);
        let profile = Some(profile).filter(|_| on != is_on);
        self.act_all(profile.into_iter().chain(task).collect(), |_| None);
        Ok(())
    }

    async fn status(&mut self) -> Result<(), Fault> {
        let state = self.handle.state().await?;
        let turn = state
            .turn
            .map_or_else(|| "none".to_owned(), |it| format!("{} (by {})", agent::title(&it.text), it.by));
        let rows = [
            ("session", state.session),
            ("process", format!("{} ({})", state.pid, state.by)),
            ("model", state.model),
            ("profile", state.profile.unwrap_or_else(|| "none".to_owned())),
            ("turn", turn),
            ("waiting", state.waiting.to_string()),
        ];
        let text: Vec<String> = rows.iter().map(|(name, it)| format!("{name:<10} {it}")).collect();
        self.front.tell(&text.join("\n"), Style::DIM);
        Ok(())
    }

    /// Takes messages back, and puts the first of them at the prompt, to be changed and sent again.
    fn rewind(&mut self, given: &str) -> Result<(), Fault> {
        let turns = match given {
            "" => 1,
            number => number.parse::<usize>().ok().filter(|it| *it > 0).ok_or_else(|| {
                Fault::bad_args(format!("`/rewind {number}` needs a number of messages, from 1"))
            })?,
        };
        self.act_then(Operation::Rewind { turns }, |rewound| {
            rewound.get("said").and_then(Value::as_str).map(|said| Seen::Typed(said.to_owned()))
        });
        Ok(())
    }

    fn fork(&mut self, given: &str) -> Result<(), Fault> {
        let runtime = self.factory.opened.runtime.clone();
        let at = match given {
            "" => None,
            number => Some(number.parse::<u64>().map_err(|_| {
                Fault::bad_args(format!("`/fork {number}` needs the number of one of your messages"))
            })?),
        };
        let made = agent::fork(runtime.store(), self.handle.session(), at, None)?;
        self.front.tell(&format!("{}: haft chat --attach {}", made.session, made.session), Style::DIM);
        Ok(())
    }

    /// Requests an operation. The person sees its effects as they happen.
    fn act(&self, operation: Operation) {
        self.act_then(operation, |_| None);
    }

    /// Requests an operation, and shows what `then` makes of its result.
    fn act_then(&self, operation: Operation, then: fn(Value) -> Option<Seen>) {
        self.act_all(vec![operation], then);
    }

    /// Requests operations one after the other, until one of them fails.
    fn act_all(&self, operations: Vec<Operation>, then: fn(Value) -> Option<Seen>) {
        let store = self.factory.opened.runtime.store();
        let operations: Vec<_> = operations.into_iter().map(|it| (store.call_id(), it)).collect();
        let (handle, passes) = (self.handle.clone(), self.passes.clone());
        tokio::spawn(async move {
            for (key, operation) in operations {
                match handle.act(&key, operation).await {
                    Ok(value) => then(value).into_iter().for_each(|it| passes.see(it)),
                    Err(fault) => return passes.see(Seen::Line(told(&fault), Style::BAD)),
                }
            }
        });
    }

    fn fails(&mut self, fault: &Fault) {
        self.front.tell(&told(fault), Style::BAD);
    }
}

/// Returns the pictures as attachments.
fn attachments(pictures: &[PathBuf]) -> Result<Vec<Attachment>, Fault> {
    let mut size = 0;
    let mut all = Vec::new();
    for path in pictures {
        let (name, bytes) = attach::picture(path)?;
        size += bytes.len();
        if size > PICTURES {
            let what = format!("the pictures of one message have {} together", abbreviate::size(size));
            return Err(Fault::new(Kind::TooBig, what)
                .next(format!("An attached terminal sends at most {}.", abbreviate::size(PICTURES))));
        }
        all.push(Attachment::Picture { name, data: base64::encoded(&bytes) });
    }
    Ok(all)
}

fn unknown(name: &str) -> Fault {
    Fault::bad_args(format!("unknown command {name}")).next("/help lists all.")
}

fn told(fault: &Fault) -> String {
    let next = fault.next.as_deref().map_or_else(String::new, |it| format!("\n{it}"));
    format!("{}{next}", fault.what)
}
