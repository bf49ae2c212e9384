//! `haft chat`: a person and an agent, at a terminal.

mod command;
mod lines;

use std::{io::IsTerminal, process::ExitCode, sync::Arc};

use agent::{Agent, Ended, Event, Host, Message, model::Usage};
use clap::Args;
use kit::{Fault, Kind};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::finish;
use crate::{
    Options, Place,
    agency::{Agency, AgentOptions},
    print,
    terminal::{
        asking::InChat,
        commands::{Meant, meant},
        front::{Front, Passes, Said, Settings},
        input::restore,
        interrupt::{self, STOPPED},
        row::{Row, Style},
        view::said_before,
    },
};

/// So many messages of a conversation are shown when it goes on.
const SHOWN: usize = 12;

#[derive(Default, Args)]
pub struct Chat {
    #[command(flatten)]
    agent: AgentOptions,
    /// First words, as if you had typed them in the chat
    #[arg(value_name = "WORDS")]
    words: Vec<String>,
    /// Go on with the newest conversation of this workspace, or that of `--session`.
    #[arg(long)]
    resume: bool,
}

impl Chat {
    /// # Errors
    /// When there is no agent to be had.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let variable =
            |name: &str| place.variables.iter().find(|it| it.0 == name).map_or("", |it| it.1.as_str());
        let is_dumb = matches!(variable("TERM"), "" | "dumb");
        if is_dumb || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return lines::run(self, options, place).await;
        }
        let hangup = CancellationToken::new();
        interrupt::watch(hangup.clone(), restore).map_err(|error| {
            Fault::new(
                Kind::Unavailable,
                format!("signals can't be heard, so nothing could be stopped: {error}"),
            )
        })?;
        let (asks, asked) = InChat::new();
        let agency = self.agent.open(options, place, Arc::new(asks.clone())).await?;
        let name = agency.earlier(self.resume, options.session.as_deref())?;
        let session = agency.session(name.as_deref(), "chat", Arc::new(asks.clone()));
        let settings = Settings {
            history: place.state.join("chat_history"),
            workspace: agency.opened.runtime.roots().workspace().to_owned(),
            colours: variable("NO_COLOR").is_empty(),
            prompt: true,
        };
        let words = self.words.join(" ");
        let (mut front, passes) = Front::new(settings, asked, &place.variables, hangup.clone())
            .map_err(|error| Fault::new(Kind::Unavailable, format!("the terminal can't be used: {error}")))?;
        let host = Arc::new(Bill { passes, taken: Mutex::default() });
        let (agent, lines) = agency.agent(session, host.clone(), Arc::new(asks.clone()))?;
        let lines = agency.opened.aside.iter().chain(&lines);
        let aside: Vec<Row> = lines.map(|it| Row::new(format!("haft: {it}"), Style::DIM)).collect();
        front.show(&aside);
        let mut talk = Talk { front, agent, agency, host, asks, hangup };
        talk.begin();
        talk.front.says_first(words);
        let done = talk.talk().await;
        let Talk { front, agent, hangup, .. } = talk;
        // The terminal is put back before anything else is said.
        drop(front);
        finish(agent.session()).await;
        if !matches!(agent.transcript().messages(), Ok(said) if said.is_empty()) {
            let goes_on = format!("haft: `{}` goes on", Agency::goes_on("chat", options, &agent));
            print::err(&runtime::visible(&goes_on).0);
        }
        done.map(|()| if hangup.is_cancelled() { ExitCode::from(STOPPED) } else { ExitCode::SUCCESS })
    }
}

/// A conversation at a terminal.
struct Talk {
    front: Front,
    agent: Agent,
    agency: Agency,
    host: Arc<Bill>,
    asks: InChat,
    hangup: CancellationToken,
}

/// Passes on what happens, and adds up what it takes.
struct Bill {
    passes: Passes,
    taken: Mutex<Taken>,
}

/// What a conversation took since this process began.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    answers: usize,
    usage: Usage,
    cost: f64,
    /// The price of some answer was not known.
    unpriced: bool,
}

impl Host for Bill {
    fn hear(&self, event: Event) {
        if let Event::Used { usage, cost } = &event {
            let mut taken = self.taken.lock();
            taken.answers += 1;
            taken.usage += *usage;
            taken.cost += cost.unwrap_or(0.0);
            taken.unpriced |= cost.is_none();
        }
        self.passes.hear(event);
    }
}

impl Talk {
    /// Says what there is here, and what was said before.
    fn begin(&mut self) {
        self.front.follow(self.agent.session());
        let said = self.agent.transcript().messages().unwrap_or_default();
        if said.is_empty() {
            self.front.tell("Say what to do. /help shows what else can be typed.", Style::DIM);
            return;
        }
        let columns = self.front.columns();
        let left_out = said.len().saturating_sub(SHOWN);
        let mut rows = Vec::new();
        if left_out > 0 {
            rows.push(Row::new(format!("({left_out} earlier)"), Style::DIM));
        }
        let mut tools = false;
        for message in said.iter().skip(left_out) {
            let is_tool = matches!(message, Message::Tool { .. });
            // Calls stand together.
            if !(rows.is_empty() || tools && is_tool) {
                rows.push(Row::default());
            }
            tools = is_tool;
            rows.extend(said_before(message, columns));
        }
        rows.push(Row::default());
        self.front.show(&rows);
    }

    /// Until the person goes.
    async fn talk(&mut self) -> Result<(), Fault> {
        loop {
            let line = match self.front.prompt().await {
                Said::Line(line) => line,
                Said::End => return Ok(()),
            };
            match meant(&line) {
                Meant::Nothing => {}
                Meant::Said(text) => self.turn(text.to_owned()).await,
                Meant::Command("/exit", _) => return Ok(()),
                Meant::Command(name, given) => match self.command(name, given).await {
                    Ok(text) => self.front.tell(&text, Style::DIM),
                    Err(fault) => self.front.tell(&fault.as_text(), Style::BAD),
                },
                Meant::Unknown(typed, nearest) => {
                    self.front.tell(
                        &format!("there is no {typed}; did you mean {nearest}? /help shows all"),
                        Style::BAD,
                    );
                }
            }
            if let Err(fault) = self.agency.keep(&self.agent) {
                self.front.tell(&fault.as_text(), Style::BAD);
            }
            if self.hangup.is_cancelled() {
                return Ok(());
            }
        }
    }

    async fn turn(&mut self, text: String) {
        let cancel = CancellationToken::new();
        let turn = self.agent.turn(Some(text), &cancel);
        let outcome = self.front.attend(turn, &cancel).await;
        match outcome {
            Ok(outcome) => match outcome.ended {
                Ended::Done => self.front.show(&[Row::default()]),
                Ended::Cancelled => self.front.tell("stopped; say how to go on", Style::ASKS),
                Ended::Limit => self.front.tell("stopped at its limit; say something to go on", Style::ASKS),
                Ended::Refused => self.front.tell("the provider refused to go on", Style::BAD),
            },
            Err(error) => self.front.tell(&super::run::fault(error).as_text(), Style::BAD),
        }
    }
}
