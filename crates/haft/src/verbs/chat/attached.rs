//! `haft chat --attach`: a terminal, or a pipe, on a session that another process runs. It shows what happens there, answers its
//! questions, and takes part in it. When that process ends, this one runs the session.

mod feed;
mod lines;

use std::{path::PathBuf, sync::Arc, time::Duration};

use agent::{Message, conversation, lines as messages_of};
use kit::{Fault, Kind, base64};
use runtime::Runtime;
use serde_json::Value;
use sessions::{Attachment, Attending, Event, Handle, Operation, Prompt, Watcher};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    Chat,
    conversation::SHOWN,
    elsewhere::{self, Work},
    front_end::Face,
    report,
};
use crate::{
    Options, Place,
    agent_factory::{AgentFactory, AgentOptions},
    attach, print,
    session_service::{Agents, Answers, Service, View},
    terminal::{
        abbreviate,
        asking::InChat,
        chat::{Front, PromptInput, Settings, seen::Seen},
        commands::{Meant, meant},
        input_line::Entry,
        row::Style,
        source::Source,
    },
    verbs::{close, sessions::resumes},
};
use feed::{Screen, Shown};
pub(super) use lines::run as run_lines;

/// Keys and other lines of an attached terminal, besides the commands.
const KEYS: [(&str, &str); 5] = [
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

/// How often haft checks at the end of the input whether the session works.
const WORKS: Duration = Duration::from_millis(250);

/// A front end on the session of another process.
struct Attached<F> {
    front: F,
    handle: Handle,
    factory: Arc<AgentFactory>,
    screen: Arc<dyn Screen>,
    /// Shows the rows of the session.
    view: View,
    /// Ends the chat, where each line is done before the next one is read.
    in_turn: Option<CancellationToken>,
    _attending: Option<Attending>,
}

/// A session that is attached to, before a front end shows it.
struct Reached {
    handle: Handle,
    service: Service,
    factory: Arc<AgentFactory>,
    watcher: Watcher,
    said: Vec<Message>,
}

impl Reached {
    async fn new(
        agent: AgentOptions,
        name: &str,
        (options, place): (&Options, &Place),
        asks: Arc<dyn runtime::Approver>,
    ) -> Result<Self, Fault> {
        let factory = Arc::new(agent.open(options, place, asks).await?);
        let runtime = &factory.opened.runtime;
        let service = Service::with_opener(runtime, "chat", Some(Arc::new(Agents(factory.clone()))));
        let handle = service.sessions.attach(name, service.who()).await?;
        let (watcher, said) = earlier(&handle, runtime).await?;
        Ok(Self { handle, service, factory, watcher, said })
    }

    fn runtime(&self) -> Runtime {
        self.factory.opened.runtime.clone()
    }
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
    let reached = Reached::new(agent, name, (options, place), Arc::new(asks)).await?;
    let runtime = reached.runtime();
    let settings = Settings::of(place, &reached.factory.opened, true);
    let (mut front, passes) = Front::new(settings, asked, &place.variables, hangup)
        .map_err(|error| Fault::new(Kind::Unavailable, format!("the terminal can't be used: {error}")))?;
    front.attach(Source::elsewhere(&runtime, name));
    let runs = runs(&reached).await;
    front.tell(&format!("attached to {}", title(&reached)), Style::BOLD);
    front.tell(&format!("{runs} · /help for help · Ctrl-D leaves"), Style::DIM);
    front.part();
    front.says_first(words.join(" "));
    let mut attached = Attached::new(front, reached, Arc::new(passes), true, None);
    attached.talk().await;
    let Attached { front, handle, view, _attending, .. } = attached;
    // haft restores the terminal before it prints anything else.
    drop((front, view, _attending));
    left(&handle, &runtime, options).await;
    close(&runtime);
    Ok(())
}

/// Returns the title and the name of a session.
fn title(reached: &Reached) -> String {
    let name = reached.handle.session();
    let title = conversation(&reached.runtime(), name).map_or_else(|_| String::new(), |it| it.title);
    if title.is_empty() { name.to_owned() } else { format!("{title} ({name})") }
}

/// Returns who runs a session.
async fn runs(reached: &Reached) -> String {
    match reached.handle.state().await {
        Ok(state) if state.pid == std::process::id() => "this process runs it".to_owned(),
        Ok(state) => format!("process {} ({}) runs it, {} answers", state.pid, state.by, state.model),
        Err(_) => "its process can't be asked".to_owned(),
    }
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
    let said = messages_of(runtime, handle.session())?;
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

impl<F: Face> Attached<F> {
    /// Shows the earlier messages, and all that happens from now on. With `attends`, a person here answers questions.
    fn new(
        mut front: F,
        reached: Reached,
        screen: Arc<dyn Screen>,
        attends: bool,
        in_turn: Option<CancellationToken>,
    ) -> Self {
        let Reached { handle, service, factory, watcher, said } = reached;
        let left_out = said.len().saturating_sub(SHOWN);
        if left_out > 0 {
            front.tell(&format!("({left_out} earlier messages)"), Style::DIM);
        }
        if !said.is_empty() {
            front.show_before(said.get(left_out..).unwrap_or_default());
        }
        let who = service.who().to_owned();
        let shown = Arc::new(Shown::new(&screen, &who));
        let (answers, attending) = match attends {
            true => (Answers::There(handle.clone()), Some(handle.attend())),
            false => (Answers::Nowhere, None),
        };
        let view = View::follow(watcher, shown, answers, &who);
        Self { front, handle, factory, screen, view, in_turn, _attending: attending }
    }

    /// Handles input until the person leaves.
    async fn talk(&mut self) {
        loop {
            match self.front.prompt().await {
                PromptInput::End if self.front.waits_at_end() => return self.until_quiet().await,
                PromptInput::End => return,
                PromptInput::Stop => self.act(Operation::Cancel { prompt: None }).await,
                PromptInput::Line(entry) => {
                    if !self.line(&entry).await || self.front.is_over() {
                        return;
                    }
                    if meant(&entry.text, &[]) != Meant::Text(entry.text.trim()) {
                        self.front.is_answered();
                    }
                }
            }
        }
    }

    /// Executes a line; returns false if the person leaves.
    async fn line(&mut self, entry: &Entry) -> bool {
        match meant(&entry.text, &[]) {
            Meant::Nothing if !entry.pictures.is_empty() => self.say("", entry).await,
            Meant::Nothing => {}
            Meant::Leave => return false,
            Meant::Text(text) => self.say(text, entry).await,
            Meant::Run(command) => self.act(Operation::Command { command: command.to_owned() }).await,
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
        if name == "/help" {
            let own = elsewhere::COMMANDS.iter().map(|it| {
                let name = format!("{} {}", it.name, it.takes);
                (name.trim_end().to_owned(), it.does.to_owned())
            });
            let keys = KEYS.iter().map(|(name, does)| ((*name).to_owned(), (*does).to_owned()));
            let text = report::columns(&own.chain(keys).collect::<Vec<_>>(), self.front.columns());
            self.front.page("help", &text).await;
            return Ok(());
        }
        match elsewhere::work(&self.handle, &self.factory.opened.runtime, name, given).await? {
            Work::Text(text) => self.front.tell(&text, Style::DIM),
            Work::Operations(operations) => self.act_all(operations).await,
        }
        Ok(())
    }

    /// Sends a message with its pictures; if one can't be read, the message goes back to the prompt.
    async fn say(&mut self, text: &str, entry: &Entry) {
        match attachments(&entry.pictures) {
            Ok(attachments) => {
                self.act(Operation::Prompt(Prompt { text: text.to_owned(), attachments })).await;
            }
            Err(fault) => {
                self.front.give_back(entry);
                self.fails(&fault);
            }
        }
    }

    /// Requests an operation. The person sees its effects as they happen.
    async fn act(&self, operation: Operation) {
        self.act_all(vec![operation]).await;
    }

    /// Requests operations one after the other, until one of them fails. Line by line, it waits until they are done and shown.
    async fn act_all(&self, operations: Vec<Operation>) {
        let store = self.factory.opened.runtime.store();
        let operations: Vec<_> = operations.into_iter().map(|it| (store.call_id(), it)).collect();
        let (handle, screen) = (self.handle.clone(), self.screen.clone());
        let doing = async move {
            for (key, operation) in operations {
                match handle.act(&key, operation.clone()).await {
                    Ok(value) => show(&*screen, &operation, &value),
                    Err(fault) => return screen.see(Seen::Line(told(&fault), Style::BAD)),
                }
            }
        };
        let Some(stop) = &self.in_turn else {
            tokio::spawn(doing);
            return;
        };
        tokio::select! {
            () = doing => self.shown().await,
            () = stop.cancelled() => {}
        }
    }

    /// Waits until all that happened until now is shown.
    async fn shown(&self) {
        if let Ok(state) = self.handle.state().await {
            self.view.shown(state.head).await;
        }
    }

    /// Waits until nothing goes on in the session, and nothing waits there.
    async fn until_quiet(&self) {
        let stop = self.in_turn.clone().unwrap_or_default();
        while !stop.is_cancelled() {
            let Ok(state) = self.handle.state().await else { return };
            if state.turn.is_none() && state.waiting == 0 {
                return self.view.shown(state.head).await;
            }
            let mut watcher = self.handle.watch(state.head);
            let ended = async {
                while let Ok(row) = watcher.next().await {
                    if matches!(row.event, Event::TurnEnded(_)) {
                        return;
                    }
                }
            };
            tokio::select! {
                _ = timeout(WORKS, ended) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    fn fails(&mut self, fault: &Fault) {
        self.front.tell(&told(fault), Style::BAD);
        self.front.failed();
    }
}

/// Shows the person the result of an operation that no row shows.
fn show(screen: &dyn Screen, operation: &Operation, result: &Value) {
    if let Some(text) = elsewhere::reported(operation, result) {
        return screen.answer(text);
    }
    // The first of the removed messages is put at the prompt, to be changed and sent again.
    let said = result.get("said").and_then(Value::as_str);
    if let (Operation::Rewind { .. }, Some(said)) = (operation, said) {
        screen.see(Seen::Typed(said.to_owned()));
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
