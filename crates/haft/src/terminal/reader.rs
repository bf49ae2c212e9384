//! A reader outside a chat: shows a text in the pager if it is longer than the screen, and prints it otherwise.

use std::io::{self, IsTerminal};

use tokio_util::sync::CancellationToken;

use super::{
    input::{Input, InputEvent, restore},
    interrupt,
    pager::{Paged, Pager},
    row::Row,
    screen::Screen,
};
use crate::print;

/// Shows rows at the terminal. Returns once they were read.
///
/// # Errors
/// If the terminal can't be read key by key.
pub(crate) async fn read(title: &str, rows: Vec<Row>, colours: bool) -> io::Result<()> {
    let mut screen = Screen::new(colours);
    if rows.len() < screen.lines() || !io::stdin().is_terminal() {
        print::drawn(&rows.iter().map(|it| it.painted(colours) + "\n").collect::<String>());
        return Ok(());
    }
    let hangup = CancellationToken::new();
    interrupt::watch(hangup.clone(), restore)?;
    let mut input = Input::start()?;
    let mut pager = Pager::new(title, rows, "");
    while !screen.is_gone() {
        let rows = pager.rows(screen.columns(), screen.lines());
        screen.draw_full(rows);
        let event = tokio::select! {
            () = hangup.cancelled() => break,
            event = input.next() => event,
        };
        match event {
            InputEvent::Key(key) if pager.key(key) == Paged::Leaves => break,
            InputEvent::Key(_) => {}
            InputEvent::Paste(text) => pager.paste(&text),
            InputEvent::Resized(columns, lines) => screen.resized(columns, lines),
            InputEvent::End => break,
        }
    }
    screen.leave_full();
    Ok(())
}
