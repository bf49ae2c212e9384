//! `haft run` at a terminal: the view of the chat, without a prompt.

use std::{fs::OpenOptions, io::IsTerminal, process::ExitCode, sync::Arc};

use agent::Input;
use kit::{Fault, Kind};
use tokio_util::sync::CancellationToken;

use super::{
    Running, Stays, close, of_owner, others, tell,
    watch::{To, Watch},
};
use crate::{
    Place,
    agent_factory::AgentFactory,
    session_service::{self, Person, Running as Shared, Service},
    terminal::{
        asking::InChat,
        chat::{Front, Settings},
        row::{Row, Style},
    },
};

/// Returns whether there is a terminal to draw on, with a person at it. The view goes to standard output; if one of the
/// streams is redirected, the person wants lines, and a background process may not take the keyboard.
pub(super) fn is_possible(place: &Place) -> bool {
    let is_dumb = matches!(place.variable("TERM"), None | Some("dumb"));
    !is_dumb && std::io::stdout().is_terminal() && std::io::stderr().is_terminal() && is_in_foreground()
}

/// Returns whether haft runs in the foreground process group of the terminal, which receives the keys.
fn is_in_foreground() -> bool {
    let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

impl Running<'_> {
    pub(super) async fn on_screen(self, hangup: CancellationToken) -> Result<ExitCode, Fault> {
        let Self { options, place, agent, task, resume, no_wait, wait, strict, .. } = self;
        let (asks, asked) = InChat::new();
        let stays = Stays { waits: wait, begins: task.is_some() || resume };
        let factory = Arc::new(agent.open(options, place, Arc::new(asks)).await?);
        strict.require(&factory.opened, place).await?;
        let name = factory.earlier(resume, options.session.as_deref())?;
        let settings = Settings::of(place, &factory.opened, false);
        let (mut front, passes) = Front::new(settings, asked, &place.variables, hangup)
            .map_err(|error| Fault::new(Kind::Unavailable, format!("the terminal can't be used: {error}")))?;
        let watch = Arc::new(Watch::new(To::View(passes)));
        let person = Arc::new(Person { viewer: watch.clone(), is_there: true, shows_texts: false });
        let service = Service::new(&factory.opened.runtime, "run");
        let Shared { mut agent, mut owner, view, notes: lines } =
            service.run(&factory, name.as_deref(), &person).await?;
        front.follow(&agent);
        let cancel = CancellationToken::new();
        let (input, for_one_turn) = match task {
            Some(task) => {
                task.input(&factory, &agent, &cancel).await.map(|(input, turn)| (Some(input), turn))?
            }
            None => (None, None),
        };
        let attached = input.iter().flat_map(Input::attached).map(|it| format!("[{it}]"));
        let lines = factory.opened.aside.iter().chain(&lines).map(|it| format!("haft: {it}"));
        let rows: Vec<Row> = lines.chain(attached).map(|it| Row::new(it, Style::DIM)).collect();
        front.show(&rows);
        let mut driver = factory.driver(no_wait);
        let work = of_owner(&owner, &service, &mut driver, &mut agent, input, (None, stays), &cancel);
        let done = front.attend(view.after(work), &cancel).await;
        for_one_turn.map_or(Ok(()), |it| it.end(&agent))?;
        if done.is_ok() && !cancel.is_cancelled() {
            watch.leaves_to_others();
            let work = others(&factory, &mut owner, &mut agent, &mut driver, &view, &cancel);
            front.attend(work, &cancel).await?;
        }
        drop(view);
        // The running lines are removed, and the summary is set apart.
        front.show(&[Row::default()]);
        // haft restores the terminal before it prints anything else.
        drop(front);
        session_service::close(owner, service.who()).await;
        close(&factory, &agent, &done).await?;
        let goes_on = AgentFactory::goes_on("run", options, &agent);
        tell(&watch, &agent, done, &factory.bounds(), &goes_on)
    }
}
